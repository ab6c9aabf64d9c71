//! A call that is more than one operation: cut, signed part by part with the seat's key, and answered by the last.

use countersign_verifier::{hash::sha256, json::canonical};
use serde_json::{Value, json};

use super::call::{Answered, Seat, Seen, Unsigned, read_answer};
use crate::{
    error::Problem,
    submit::{Wait, Wanted},
    tools::define::{Answer, Cut, Sum},
};

/// Runs it. A part that was written stays, whatever becomes of those after it: the same call again goes on where it stopped.
///
/// # Errors
/// The first part's that is refused, with `parts_written`.
pub(super) async fn run(
    seat: &Seat<'_>,
    call: Unsigned,
    wanted: Wanted,
    (cut, write, sum): (Cut, Answer, Sum),
) -> Result<Answered, Problem> {
    let parts = plan(seat, &call, cut)?;
    let Some(last) = parts.len().checked_sub(1) else {
        // Nothing to do is nothing to write: it is answered as the read that showed so.
        let seen = Seen::of(seat.app, seat.account);
        let view = seen.view(Some(&seat.identity), call.session.as_deref());
        let (status, mut body) = read_answer(seat.app, &view, seat.account, &json!({}), |_, _| {
            Ok(Value::Null)
        })?;
        body["result"] = sum(&[]);
        return Ok((status, body));
    };
    let mut results = Vec::with_capacity(parts.len());
    for (at, arguments) in parts.into_iter().enumerate() {
        // The key is of the part and not of its place: a repeat that finds less to do than the first time is no other request.
        let key = format!("{} {}", call.nonce, canonical(&arguments));
        let part = Unsigned {
            tool: call.tool,
            arguments,
            session: call.session.clone(),
            nonce: sha256(key.as_bytes()).to_hex(),
        };
        let wanted = match at == last {
            true => wanted,
            // The last one waits for all: what is before it in the log is under every head that it is under.
            false => Wanted {
                wait: Wait::Sequenced,
                proof: false,
                ..wanted
            },
        };
        let written = seat.write(part, wanted, write).await;
        let (status, mut body) =
            written.map_err(|problem| problem.with("parts_written", at as u64))?;
        results.push(body["result"].take());
        if at == last {
            body["result"] = sum(&results);
            return Ok((status, body));
        }
    }
    // OK because the last part returns.
    unreachable!("cut::run")
}

fn plan(seat: &Seat<'_>, call: &Unsigned, cut: Cut) -> Result<Vec<Value>, Problem> {
    let seen = Seen::of(seat.app, seat.account);
    let view = seen.view(Some(&seat.identity), call.session.as_deref());
    tokio::task::block_in_place(|| cut(&view, &call.arguments))
}
