//! Going on with a session and ending it: judged, and taken in.

use countersign_verifier::{hash::sha256, key::IdentityId, leaf::Millis, operation::Operation};
use serde_json::{Map, Value, json};

use super::{Checkout, Ended, Heartbeat, Session, parse_id, when};
use crate::{
    code::Code,
    state::{
        At, Caller, Decided, State,
        lease::{self, End},
        settings::Ttl,
        verb::{Verb, arguments, malformed, map, settle},
    },
};

/// The tools that took any text for a session before there were sessions; a text that is no id of one is still a label there.
const BEFORE_SESSIONS: [&str; 10] = [
    "head_submit",
    "head_track",
    "identity_enroll",
    "identity_revoke",
    "identity_rotate",
    "log_close",
    "receipt_policy",
    "refusals_folded",
    "token_new",
    "token_revoke",
];

/// `ars_session_heartbeat`.
pub const HEARTBEAT: Verb = Verb {
    tool: "ars_session_heartbeat",
    decide: |state, caller, operation, at| settle(decide_heartbeat(state, caller, operation, at)),
    apply: apply_heartbeat,
    resource: |_| String::new(),
};

/// `ars_session_checkout`.
pub const CHECKOUT: Verb = Verb {
    tool: "ars_session_checkout",
    decide: |state, caller, operation, at| settle(decide_checkout(state, caller, operation, at)),
    apply: apply_checkout,
    resource: |_| String::new(),
};

/// Why an operation may not name the session that it names; before any tool is asked.
#[must_use]
pub fn check(state: &State, caller: &Caller<'_>, operation: &Operation) -> Option<Decided> {
    let named = operation.session.as_deref()?;
    if parse_id(named).is_none() && BEFORE_SESSIONS.contains(&operation.tool.as_str()) {
        return None;
    }
    own(state, caller, named).err()
}

/// What is said of a session that has ended; `None` while it lives.
#[must_use]
pub fn gone(session: &Session) -> Option<Decided> {
    let ended = session.ended.as_ref()?;
    let how = match &ended.outcome {
        Some(outcome) => format!("checked out ({outcome})"),
        None => "expired".into(),
    };
    let why = format!(
        "the session {how} at {}; check in again, with `resume`",
        when(ended.at)
    );
    let refused = Decided::refuse(Code::SessionExpired, why);
    Some(
        refused
            .with("session_id", session.id())
            .with("ended_at", when(ended.at))
            .with("ended_index", ended.index),
    )
}

/// The live session of this id, if it is the caller's.
fn own<'s>(state: &'s State, caller: &Caller<'_>, named: &str) -> Result<&'s Session, Decided> {
    let session = known(state, caller, named)?;
    match gone(session) {
        None => Ok(session),
        Some(gone) => Err(gone),
    }
}

/// The session of this id, live or ended, if it is the caller's.
pub(super) fn known<'s>(
    state: &'s State,
    caller: &Caller<'_>,
    named: &str,
) -> Result<&'s Session, Decided> {
    let session = parse_id(named).and_then(|index| state.sessions.get(index));
    let Some(session) = session else {
        let why = "no such session; of those that ended only the last are remembered";
        return Err(Decided::refuse(Code::NotFound, why));
    };
    if session.identity != caller.identity.id {
        let why = "the session is another identity's";
        return Err(Decided::refuse(Code::NotYours, why).with("session_id", session.id()));
    }
    Ok(session)
}

/// The session that the operation is part of: the one it names, else the caller's only live one.
pub(in crate::state) fn own_live<'s>(
    state: &'s State,
    caller: &Caller<'_>,
    operation: &Operation,
) -> Result<&'s Session, Decided> {
    if let Some(named) = operation.session.as_deref() {
        return own(state, caller, named);
    }
    let mut live = state.sessions.of(&caller.identity.id);
    match (live.next(), live.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => {
            let why = "check in first (ars_session_checkin): you have no live session";
            Err(Decided::refuse(Code::SessionRequired, why))
        }
        _ => {
            let why = "you have several live sessions: say which (session_id)";
            let live = state.sessions.of(&caller.identity.id);
            let some: Vec<String> = live.take(8).map(Session::id).collect();
            Err(Decided::refuse(Code::SessionRequired, why).with("sessions", some))
        }
    }
}

/// How long something is asked to last, in milliseconds.
pub(in crate::state) fn ttl_ms(asked: Option<u64>, ttl: Ttl) -> Result<u64, Decided> {
    let ttl_s = asked.unwrap_or(ttl.usual_s);
    if (ttl.min_s..=ttl.max_s).contains(&ttl_s) {
        return Ok(ttl_s * 1_000);
    }
    let why = format!("ttl_s: {} to {}", ttl.min_s, ttl.max_s);
    let refused = Decided::refuse(Code::TtlOutOfRange, why);
    Err(refused.with("min", ttl.min_s).with("max", ttl.max_s))
}

/// A recorded time.
pub(in crate::state) fn time(effect: &Map<String, Value>, name: &str) -> Result<u64, String> {
    let text = effect.get(name).and_then(Value::as_str);
    let time = text.and_then(|text| text.parse::<Millis>().ok());
    Ok(time.ok_or_else(|| format!("effect without {name}"))?.0)
}

fn decide_heartbeat(
    state: &State,
    caller: &Caller<'_>,
    operation: &Operation,
    at: At,
) -> Result<Decided, Decided> {
    let asked: Heartbeat = arguments(&operation.arguments).map_err(malformed)?;
    asked.check().map_err(malformed)?;
    let session = own_live(state, caller, operation)?;
    // Never sooner than it was promised.
    let expires = session.expires.max(at.at + session.ttl_ms);
    let mut effect = map(json!({"session": session.id(), "expires_at": when(expires)}));
    if asked.renew_leases.unwrap_or(true) {
        let leases = state.leases.count_of(session.index);
        effect.insert("leases".into(), leases.into());
    }
    Ok(Decided::Applied(effect))
}

fn apply_heartbeat(
    state: &mut State,
    _by: IdentityId,
    operation: &Operation,
    effect: &Map<String, Value>,
    _index: u64,
) -> Result<(), String> {
    let asked: Heartbeat = arguments(&operation.arguments)?;
    let mut session = recorded(state, effect)?;
    session.seen = state.at;
    session.expires = time(effect, "expires_at")?;
    session.note = asked.note.or(session.note);
    session.progress = asked.progress.or(session.progress);
    if effect.contains_key("leases") {
        state.leases.renew_all(session.index, state.at);
    }
    state.sessions.put(session);
    Ok(())
}

/// The live session that an effect names, to be changed and put back.
fn recorded(state: &State, effect: &Map<String, Value>) -> Result<Session, String> {
    let named = effect.get("session").and_then(Value::as_str);
    let session = named.and_then(parse_id).and_then(|i| state.sessions.get(i));
    let live = session.filter(|session| session.ended.is_none());
    Ok(live.ok_or("the effect names no live session")?.clone())
}

fn decide_checkout(
    state: &State,
    caller: &Caller<'_>,
    operation: &Operation,
    _at: At,
) -> Result<Decided, Decided> {
    let asked: Checkout = arguments(&operation.arguments).map_err(malformed)?;
    asked.check().map_err(malformed)?;
    let session = own_live(state, caller, operation)?;
    let mut effect = map(json!({"session": session.id()}));
    if asked.release_leases.unwrap_or(true) {
        let leases: Vec<String> = state.leases.of(session.index).map(|l| l.id()).collect();
        effect.insert("leases".into(), listed(&leases));
    }
    Ok(Decided::Applied(effect))
}

/// A list as effects carry it: how many, the first few, and a digest of all where that is not all of them.
fn listed(ids: &[String]) -> Value {
    const FIRST: usize = 8;
    let mut listed = json!({"count": ids.len(), "first": &ids[..ids.len().min(FIRST)]});
    if ids.len() > FIRST {
        listed["sha256"] = sha256(ids.join("\n").as_bytes()).to_hex().into();
    }
    listed
}

fn apply_checkout(
    state: &mut State,
    _by: IdentityId,
    operation: &Operation,
    effect: &Map<String, Value>,
    index: u64,
) -> Result<(), String> {
    let asked: Checkout = arguments(&operation.arguments)?;
    let mut session = recorded(state, effect)?;
    let at = state.at;
    let mut released = Vec::new();
    if effect.contains_key("leases") {
        released = state.leases.of(session.index).map(|l| l.index).collect();
        for lease in &released {
            let how = End::Session;
            state.leases.end(*lease, lease::Ended { index, at, how });
        }
    }
    session.note = asked.note.or(session.note);
    let of = session.index;
    state.sessions.put(session);
    let ended = Ended {
        index,
        at,
        outcome: Some(asked.outcome),
        released,
    };
    state.sessions.end(of, ended);
    Ok(())
}
