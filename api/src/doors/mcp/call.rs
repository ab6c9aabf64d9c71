//! `tools/call`: a call of a tool, and what it says while it takes long.

use std::{
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::response::Response;
use bytes::Bytes;
use serde_json::Value;

use super::{
    Caller,
    answers::{self, Answers},
    message::{Fault, Message, PARAMS},
    no_token,
};
use crate::{
    app::App,
    doors::{
        call::{self, Call},
        http::Held,
        stream::{self, Events},
    },
    error::Problem,
    tools::{Tool, tool_hint},
};

/// A call that takes longer says so this often.
const PROGRESS: Duration = Duration::from_secs(1);

/// Runs a call. `held` is its body's memory and its turn: kept for as long as it goes on.
pub(super) async fn run(
    app: &Arc<App>,
    caller: Caller,
    (message, tool): (&Message<'_>, Option<&'static Tool>),
    answers: Answers,
    held: Held,
) -> Result<Response, Problem> {
    let members = message.arguments();
    // Who signs needs no token: the signature says who asks.
    let is_signed = members
        .as_ref()
        .is_ok_and(|m| m.get("signed").is_some_and(Value::is_object));
    if caller.bearer.is_none() && !is_signed {
        return Err(no_token());
    }
    let Some(tool) = tool else {
        let named = message.params.name.as_ref().and_then(Value::as_str);
        let shown: String = named.unwrap_or("").chars().take(64).collect();
        let why = format!("Unknown tool: {shown}{}", tool_hint(&shown));
        return Ok(answers.fault(&Fault::new(PARAMS, why)));
    };
    let members = match members {
        Ok(members) => members,
        Err(problem) => return Ok(answers.result(answers::called(Err(problem.to_json())))),
    };
    let call = Call {
        tool,
        members,
        idempotency_key: None,
        account: caller.account,
    };
    let (work_app, bearer) = (app.clone(), caller.bearer);
    let work = async move {
        let _held = held;
        let begun = Instant::now();
        let answer = call::run(&work_app, bearer.as_ref(), call).await;
        work_app.metrics.wrote(begun.elapsed().as_secs_f64());
        answers::called(
            answer
                .map(|(_, value)| value)
                .map_err(|problem| problem.to_json()),
        )
    };
    let token = message.params.meta("progressToken");
    let token = token.filter(|token| token.is_string() || token.is_number());
    let Some(token) = token.filter(|_| answers.accepts.events) else {
        return Ok(answers.result(work.await));
    };
    let mut work = Box::pin(work);
    if let Ok(result) = tokio::time::timeout(PROGRESS, &mut work).await {
        return Ok(answers.result(result));
    }
    let (events, answer) = stream::open();
    tokio::spawn(go_on(work, answers, (token.clone(), events)));
    Ok(answer)
}

/// Says that a call goes on until it ends, and then how.
async fn go_on(
    mut work: Pin<Box<impl Future<Output = Value>>>,
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
