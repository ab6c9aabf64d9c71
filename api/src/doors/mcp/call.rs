//! `tools/call`: a call of a tool, and what it says while it takes long.

use std::{pin::Pin, sync::Arc, time::Duration};

use axum::response::Response;
use bytes::Bytes;
use serde_json::Value;

use super::{
    answers::{self, Answers},
    host::{Asked, Called, Host},
    message::{Fault, Message, PARAMS},
};
use crate::{
    doors::stream::{self, Events},
    error::Problem,
};

/// A call that takes longer says so this often.
const PROGRESS: Duration = Duration::from_secs(1);

/// Runs a call. `held` is its body's memory and its turn: kept for as long as it goes on.
pub(super) async fn run<H: Host>(
    host: &Arc<H>,
    caller: H::Caller,
    message: &Message<'_>,
    answers: Answers,
    held: H::Held,
) -> Result<Response, Problem> {
    let name = message.tool().unwrap_or("");
    let asked = Asked {
        name,
        arguments: message.arguments(),
        held,
    };
    let mut work = match host.call(caller, asked)? {
        Called::Work(work) => work,
        Called::Unknown(hint) => {
            let shown: String = name.chars().take(64).collect();
            let why = format!("Unknown tool: {shown}{hint}");
            return Ok(answers.fault(&Fault::new(PARAMS, why)));
        }
    };
    let token = message.params.meta("progressToken");
    let token = token.filter(|token| token.is_string() || token.is_number());
    let Some(token) = token.filter(|_| answers.accepts.events) else {
        return Ok(answers.result(work.await));
    };
    if let Ok(result) = tokio::time::timeout(PROGRESS, &mut work).await {
        return Ok(answers.result(result));
    }
    let (events, answer) = stream::open();
    tokio::spawn(go_on(work, answers, (token.clone(), events)));
    Ok(answer)
}

/// Says that a call goes on until it ends, and then how.
async fn go_on(
    mut work: Pin<Box<dyn Future<Output = Value> + Send>>,
    answers: Answers,
    (token, events): (Value, Events),
) {
    let mut seconds = 0;
    let result = loop {
        seconds += 1;
        tokio::select! {
            result = &mut work => break result,
            // Who has gone away waits for nothing; the write stands.
            () = events.closed() => return,
            said = say(&events, answers::progress(&token, seconds)) => if !said { return },
        }
    };
    // A client that has gone away since is told nothing.
    let _ = events.send(stream::message(&answers.text(result))).await;
}

/// Says something, and then nothing for a while; `false` once nobody listens.
async fn say(events: &Events, what: Bytes) -> bool {
    let said = events.send(what).await.is_ok();
    tokio::time::sleep(PROGRESS).await;
    said
}
