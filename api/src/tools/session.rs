//! Sessions: the tools.

mod look;

use countersign_verifier::leaf::Millis;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

pub(super) use look::row_at;
pub use look::{GET, LIST};
use look::{Row, row};

use super::{
    Done, Handler, Hints, Tool, View, attestation,
    define::schema,
    lease::{self, Held},
};
use crate::{
    error::Problem,
    seat::OWNER_SEAT,
    state::{
        Identity, State,
        session::{Checkin, Checkout, Heartbeat, Session, parse_id},
        verb::arguments,
    },
};

/// What waits for whoever is at work.
#[derive(Serialize, JsonSchema)]
struct Pending {
    /// Approvals that wait for a decision of yours.
    approvals: Vec<String>,
    /// Board items that you hold a lease on.
    items: Vec<String>,
}

/// A session that has begun or was renewed.
#[derive(Serialize, JsonSchema)]
pub(super) struct Begun {
    /// To be named in every call of this session.
    session_id: String,
    /// Whose it is.
    identity: String,
    /// As what.
    role: String,
    /// Where the key lives that signs in it: `agent_key`, `session_key`, `seat_key` or `service_key`.
    class: String,
    /// A claim that any peer can have checked (`ars_attestation_verify`); no credential.
    attestation: String,
    /// When it ends unless it is heard of.
    expires_at: String,
    /// In how many milliseconds.
    expires_in_ms: u64,
    /// Send a heartbeat so often, in seconds.
    heartbeat_every_s: u64,
    /// Your clock minus that of the log, in milliseconds.
    clock_skew_ms: i64,
    /// The leases that the session holds.
    leases: Vec<Held>,
    /// What waits for you.
    pending: Pending,
}

/// `ars_session_checkin`.
pub const CHECKIN: Tool = Tool {
    name: "ars_session_checkin",
    summary: "Begins a session: you, at work in a role, until you check out or are not heard of for `ttl_s`. Leases belong to it and end with it.",
    arguments: schema::<Checkin>,
    result: schema::<Begun>,
    example: r#"{"role":"agent","harness":{"name":"example-agent","version":"1.0"},"clock":"2026-11-29T13:00:00.000Z"}"#,
    hints: Hints::WRITES,
    handler: Handler::Write(|done| {
        let begun = begun(done).and_then(|begun| serde_json::to_value(begun).ok());
        begun.unwrap_or(Value::Null)
    }),
};

/// A session that goes on.
#[derive(Serialize, JsonSchema)]
struct Going {
    /// Which.
    session_id: String,
    /// When it ends unless it is heard of.
    expires_at: String,
    /// In how many milliseconds.
    expires_in_ms: u64,
    /// The leases that it holds.
    leases: Vec<Held>,
    /// What waits for you.
    pending: Pending,
    /// Whether this heartbeat is in the log and renewed it: one that comes early and says nothing is not needed there.
    logged: bool,
}

/// `ars_session_heartbeat`.
pub const HEARTBEAT: Tool = Tool {
    name: "ars_session_heartbeat",
    summary: "Says that a session (`session_id`) is still at work, and renews it and its leases. Sent before a third of the time has passed, with neither note nor progress, it is answered and not logged.",
    arguments: schema::<Heartbeat>,
    result: schema::<Going>,
    example: r#"{"note":"tests pass, writing the docs","progress":80}"#,
    hints: Hints::WRITES,
    handler: Handler::Either {
        writes: is_needed,
        write: |done| {
            let named = done.effect.get("session").and_then(Value::as_str);
            let session = named.and_then(parse_id);
            let session = session.and_then(|index| done.view.state.sessions.get(index));
            session.map_or(Value::Null, |session| going(&done.view, session, true))
        },
        read: |view, _| {
            let session = own(view).ok_or_else(|| Problem::internal(&"a heartbeat of nobody"))?;
            Ok(going(view, session, false))
        },
    },
};

/// A session that has ended.
#[derive(Serialize, JsonSchema)]
struct Out {
    /// Ids of the leases that ended with it; of very many the first few.
    leases_released: Vec<String>,
    /// As it ended; absent where that is long ago.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<Row>,
}

/// `ars_session_checkout`.
pub const CHECKOUT: Tool = Tool {
    name: "ars_session_checkout",
    summary: "Ends a session (`session_id`) and says what came of it; its leases end with it.",
    arguments: schema::<Checkout>,
    result: schema::<Out>,
    example: r#"{"outcome":"delivered","note":"the parser is done"}"#,
    hints: Hints::WRITES,
    handler: Handler::Write(|done| out(done).unwrap_or(Value::Null)),
};

fn spell(ms: u64) -> String {
    Millis(ms).to_string()
}

/// What is told of a session that has begun, from what its leaf records.
pub(super) fn begun(done: &Done<'_>) -> Option<Begun> {
    let text = |name: &str| done.effect.get(name).and_then(Value::as_str);
    let expires: Millis = text("expires_at")?.parse().ok()?;
    let asked: Checkin = arguments(&done.operation.arguments).ok()?;
    let clock: Millis = asked.clock.parse().ok()?;
    let (session_id, class) = (text("session")?, text("class")?);
    let claim = attestation::Claim {
        account: done.view.state.origin().into(),
        session: session_id.into(),
        identity: done.by.to_string(),
        role: asked.role.clone(),
        class: class.into(),
        index: done.index,
        expires_at: expires.to_string(),
    };
    let session = done.view.state.sessions.get(parse_id(session_id)?);
    Some(Begun {
        session_id: session_id.into(),
        identity: done.by.to_string(),
        role: asked.role,
        class: class.into(),
        attestation: claim.to_token(done.view.seats),
        expires_at: expires.to_string(),
        expires_in_ms: expires.0.saturating_sub(done.view.now_ms),
        heartbeat_every_s: (expires.0.saturating_sub(done.at) / 3_000).max(1),
        clock_skew_ms: signed(clock.0) - signed(done.at),
        leases: session.map_or_else(Vec::new, |session| {
            held(done.view.state, done.view.now_ms, session)
        }),
        pending: pending(&done.view, Some(done.by)),
    })
}

/// Milliseconds since 1970 of any time that can be spelled fit.
fn signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

fn held(state: &State, now_ms: u64, session: &Session) -> Vec<Held> {
    let leases = state.leases.of(session.index);
    leases
        .map(|lease| lease::row(state, now_ms, lease))
        .collect()
}

/// The board items that an identity holds a lease on.
pub(super) fn items(
    view: &View<'_>,
    identity: countersign_verifier::key::IdentityId,
) -> Vec<String> {
    pending(view, Some(identity)).items
}

fn pending(view: &View<'_>, identity: Option<countersign_verifier::key::IdentityId>) -> Pending {
    let sessions = identity.iter().flat_map(|id| view.state.sessions.of(id));
    let leases = sessions.flat_map(|session| view.state.leases.of(session.index));
    let items = leases.filter_map(|lease| lease.resource.strip_prefix("item:"));
    Pending {
        approvals: Vec::new(),
        items: items.map(str::to_owned).collect(),
    }
}

/// Whoever calls: of the owner's token its seat, where that is enrolled.
fn caller<'a>(view: &View<'a>) -> Option<&'a Identity> {
    view.caller
        .or_else(|| view.state.identities.named(OWNER_SEAT))
}

/// The live session that a call is part of, as it can be seen outside the writer.
fn own<'a>(view: &View<'a>) -> Option<&'a Session> {
    let caller = caller(view)?;
    let named = match view.session {
        Some(named) => view.state.sessions.get(parse_id(named)?),
        None => {
            let mut live = view.state.sessions.of(&caller.id);
            live.next().filter(|_| live.next().is_none())
        }
    };
    named.filter(|session| session.identity == caller.id && session.ended.is_none())
}

/// Whether a heartbeat must be in the log; whatever is wrong with it is said there too.
fn is_needed(view: &View<'_>, asked: &Value) -> bool {
    let (Some(session), Ok(asked)) = (own(view), arguments::<Heartbeat>(asked)) else {
        return true;
    };
    let early = |seen: u64, ttl_ms: u64| view.now_ms < seen + ttl_ms / 3;
    let leases_wait = !asked.renew_leases.unwrap_or(true)
        || view
            .state
            .leases
            .of(session.index)
            .all(|lease| early(lease.renewed, lease.ttl_ms));
    let can_wait = early(session.seen, session.ttl_ms) && leases_wait;
    asked.says_something() || !can_wait
}

fn going(view: &View<'_>, session: &Session, logged: bool) -> Value {
    let going = Going {
        session_id: session.id(),
        expires_at: spell(session.expires),
        expires_in_ms: session.expires.saturating_sub(view.now_ms),
        leases: held(view.state, view.now_ms, session),
        pending: pending(view, Some(session.identity)),
        logged,
    };
    // OK because a struct of texts and numbers has no key that is not a text.
    serde_json::to_value(going).expect("session::going")
}

fn out(done: &Done<'_>) -> Option<Value> {
    let named = done.effect.get("session").and_then(Value::as_str);
    let session = done.view.state.sessions.get(named.and_then(parse_id)?);
    let ended = session.and_then(|session| session.ended.as_ref());
    let first = |effect: &Value| {
        let first = effect["first"].as_array().into_iter().flatten();
        first.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let leases_released = match (ended, done.effect.get("leases")) {
        (Some(ended), _) => {
            let released = ended.released.iter();
            released
                .map(|index| crate::state::lease::id(*index))
                .collect()
        }
        (None, Some(effect)) => first(effect),
        (None, None) => Vec::new(),
    };
    let out = Out {
        leases_released,
        session: session.map(|session| row(&done.view, session)),
    };
    serde_json::to_value(out).ok()
}
