//! The end of a session that is not heard of any more, and of its leases with it.

use serde_json::{Map, Value, json};

use super::{Ended, id, parse_id};
use crate::state::{
    State,
    due::Noun,
    lease::{self, End},
    verb::map,
};

/// One event names so many leases: each is at most 19 bytes with quotes and comma, of the 4,096 of an event.
const LEASES_EACH: usize = 128;

/// `session_expired`.
pub(in crate::state) const NOUN: Noun = Noun {
    kind: "session_expired",
    next: |state| state.sessions.next().map(|(at, index)| (at, id(index))),
    event,
    apply,
    extend: |state, by_ms| state.sessions.extend(by_ms),
};

/// What it says: which, the leases that end with it, and how many of them are left to the events after this one.
fn event(state: &State, session: &str) -> Map<String, Value> {
    let index = parse_id(session).unwrap_or_default();
    let mut leases: Vec<String> = state.leases.of(index).map(|lease| lease.id()).collect();
    let remaining = leases.len().saturating_sub(LEASES_EACH);
    leases.truncate(LEASES_EACH);
    let mut event = map(json!({"session": session, "leases": leases}));
    if remaining > 0 {
        event.insert("remaining".into(), remaining.into());
    }
    event
}

fn apply(state: &mut State, event: &Map<String, Value>, index: u64) -> Result<(), String> {
    let session = event.get("session").and_then(Value::as_str);
    let session = session.and_then(parse_id).ok_or("no session")?;
    if state
        .sessions
        .get(session)
        .is_none_or(|s| s.ended.is_some())
    {
        return Err("a session that is not live".into());
    }
    let at = state.at;
    let leases = event.get("leases").and_then(Value::as_array);
    let mut released = Vec::new();
    for lease in leases.ok_or("no leases")? {
        let lease = lease.as_str().and_then(lease::parse_id);
        let lease = lease.ok_or("a lease that is none")?;
        let how = End::Session;
        state.leases.end(lease, lease::Ended { index, at, how });
        released.push(lease);
    }
    // The events that follow end the rest of its leases, and the last one the session.
    if !event.contains_key("remaining") {
        let ended = Ended {
            index,
            at,
            outcome: None,
            released,
        };
        state.sessions.end(session, ended);
    }
    Ok(())
}
