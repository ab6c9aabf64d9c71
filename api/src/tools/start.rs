//! `ars_start`: one call instead of four.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{
    Done, Handler, Hints, Tool,
    board::{ItemRow, row},
    define::schema,
    lease::{self, Grant},
    session::{self, Begun},
};
use crate::state::start::{START as VERB, Start, part};

/// A beginning.
#[derive(Serialize, JsonSchema)]
struct Started {
    /// The session that the work is part of; to be named in every call.
    session_id: String,
    /// The session that has begun; absent where one goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<Begun>,
    /// What to do; null: nothing that fits is ready.
    item: Option<ItemRow>,
    /// The lease of it, whose fence goes with every write of the item; null where there is none.
    lease: Option<Grant>,
    /// The other items that you hold.
    pending: Vec<String>,
}

/// `ars_start`.
pub const START: Tool = Tool {
    name: "ars_start",
    summary: "Checks in, and takes a lease of the first item that is ready and fits, in one step that nobody comes between. With `session_id` it takes the next item in that session.",
    arguments: schema::<Start>,
    result: schema::<Started>,
    example: r#"{"checkin":{"role":"agent","harness":{"name":"example-agent","version":"1.0"},"clock":"2026-11-29T13:00:00.000Z"},"filter":{"tag":"docs"},"ttl_s":600}"#,
    hints: Hints::WRITES,
    handler: Handler::Write(|done| {
        // OK because a result is a struct of texts, numbers and lists.
        serde_json::to_value(started(done)).expect("tools::start")
    }),
};

fn started(done: &Done<'_>) -> Started {
    let text = |name: &str| done.effect.get(name).and_then(Value::as_str);
    let of = |name: &str| done.effect.get(name).and_then(Value::as_object);
    let asked = |name: &str| done.operation.arguments[name].clone();
    let item = text("item").and_then(|id| done.view.state.board.get(id));
    let mut pending = session::items(&done.view, done.by);
    pending.retain(|id| item.is_none_or(|item| *id != *item.id));
    Started {
        session_id: text("session").unwrap_or_default().into(),
        session: of("checkin")
            .and_then(|effect| sub(done, asked("checkin"), effect, session::begun)),
        lease: of("lease").and_then(|effect| sub(done, Value::Null, effect, lease::grant)),
        item: item.map(|item| row(done.view.state, item)),
        pending,
    }
}

/// What a part of the operation is answered with, as if it had been asked by itself.
fn sub<T>(
    done: &Done<'_>,
    arguments: Value,
    effect: &Map<String, Value>,
    answer: fn(&Done<'_>) -> Option<T>,
) -> Option<T> {
    let operation = part(done.operation, VERB.tool, arguments, None);
    answer(&Done {
        view: done.view.clone(),
        operation: &operation,
        effect,
        ..*done
    })
}
