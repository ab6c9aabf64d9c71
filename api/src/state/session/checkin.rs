//! Beginning a session: judged, and taken in.

use countersign_verifier::{
    base64,
    key::IdentityId,
    leaf::{Class, Millis},
    operation::{Operation, binding_message},
};
use serde_json::{Map, Value, json};

use super::{
    Bound, Checkin, STARTER_ROLES, Session, id, parse_id,
    verbs::{known, time, ttl_ms},
    when,
};
use crate::{
    code::Code,
    state::{
        At, Caller, Decided, State,
        opened::spki,
        verb::{Verb, arguments, malformed, map, member, settle},
    },
};

/// `ars_session_checkin`.
pub const CHECKIN: Verb = Verb {
    tool: "ars_session_checkin",
    decide: |state, caller, operation, at| settle(decide_checkin(state, caller, operation, at)),
    apply: apply_checkin,
    resource: |arguments| member(arguments, "role"),
};

fn decide_checkin(
    state: &State,
    caller: &Caller<'_>,
    operation: &Operation,
    at: At,
) -> Result<Decided, Decided> {
    let asked: Checkin = arguments(&operation.arguments).map_err(malformed)?;
    asked.check().map_err(malformed)?;
    let clock: Result<Millis, _> = asked.clock.parse();
    clock.map_err(|_| malformed("clock: a time like 2026-11-29T13:00:00.000Z".into()))?;
    check_class(&asked)?;
    check_role(state, caller, &asked.role)?;
    let before = match asked.resume.as_deref() {
        Some(named) => Some(known(state, caller, named)?),
        None => None,
    };
    let renewed = before.filter(|session| session.ended.is_none());
    let ttl = state.settings.session_ttl();
    let ttl = renewed.map_or(ttl, |session| ttl.usually(session.ttl_ms / 1_000));
    let expires = at.at + ttl_ms(asked.ttl_s, ttl)?;
    if let Some(renewed) = renewed
        && renewed.role != asked.role
    {
        let why = format!("the session's role is `{}`; it stays so", renewed.role);
        return Err(Decided::refuse(Code::NotAllowed, why));
    }
    // So that whoever checks a signature of that key finds its binding in the leaf that the session is named after.
    if renewed.is_some() && asked.session_public_key.is_some() {
        let why = "a session keeps its key; check out, and begin another with `resume`";
        return Err(Decided::refuse(Code::NotAllowed, why));
    }
    // A key that was bound to one session opens no other: its binding says as what, and until when.
    if caller.class == Class::SessionKey && renewed.is_none() {
        let why =
            "the key of a session renews that session; another one needs the identity's own key";
        return Err(Decided::refuse(Code::AttributionTooLow, why));
    }
    free_seat(state, &asked, renewed)?;
    if renewed.is_none() {
        room(state, caller)?;
    }
    let bound = bind(state, caller, &asked, at)?;
    let class = match bound || renewed.is_some_and(|session| session.key.is_some()) {
        true => Class::SessionKey,
        false => caller.class,
    };
    let mut effect = map(json!({
        "session": renewed.map_or_else(|| id(at.index), Session::id),
        "class": class.name(),
        "expires_at": when(expires),
    }));
    if let Some(before) = before.filter(|session| session.ended.is_some()) {
        effect.insert("resumed".into(), before.id().into());
    }
    Ok(Decided::Applied(effect))
}

fn check_class(asked: &Checkin) -> Result<(), Decided> {
    match asked.class.as_deref() {
        None | Some("seat") if asked.dispatch.is_some() => {
            Err(malformed("dispatch: only with class `run`".into()))
        }
        None | Some("seat") => Ok(()),
        Some("run") => {
            let why = "class `run` is for what a dispatch began; nothing is dispatched here";
            Err(Decided::refuse(Code::ClassNotAllowed, why))
        }
        Some(_) => Err(malformed("class: seat or run".into())),
    }
}

/// The role is one that the account knows, and the caller's.
fn check_role(state: &State, caller: &Caller<'_>, role: &str) -> Result<(), Decided> {
    let has = |roles: &[String], role: &str| roles.iter().any(|r| r == role);
    let roles = &caller.identity.roles;
    if has(roles, role) {
        return Ok(());
    }
    let mut others = state.identities.iter().filter(|i| i.revoked.is_none());
    if !STARTER_ROLES.contains(&role) && !others.any(|i| has(&i.roles, role)) {
        let shown: String = role.chars().take(64).collect();
        let why = format!("nobody here has a role {shown:?}");
        return Err(Decided::refuse(Code::RoleUnknown, why).with("yours", roles.clone()));
    }
    if has(roles, "owner") {
        return Ok(());
    }
    let why = format!("`{role}` is none of your roles");
    Err(Decided::refuse(Code::NotAllowed, why).with("yours", roles.clone()))
}

/// Whether the role is to be had: alone, or beside those who have it.
fn free_seat(state: &State, asked: &Checkin, renewed: Option<&Session>) -> Result<(), Decided> {
    let alone = asked
        .exclusive
        .unwrap_or_else(|| renewed.is_some_and(|session| session.exclusive));
    let mut others = state
        .sessions
        .in_role(&asked.role)
        .filter(|session| renewed.is_none_or(|renewed| renewed.index != session.index));
    // The first speaks for all: whoever has a role alone is the only one who has it, and a role can have thousands.
    let Some(holder) = others.next().filter(|first| alone || first.exclusive) else {
        return Ok(());
    };
    let why = match holder.exclusive {
        true => format!("`{}` is taken by somebody alone", asked.role),
        false => format!("`{}` is taken: it cannot be had alone", asked.role),
    };
    let refused = Decided::refuse(Code::SeatTaken, why);
    Err(refused
        .with("holder", holder_json(holder))
        .with("exclusive", holder.exclusive)
        .with("expires_at", when(holder.expires)))
}

/// Who holds something, as refusals and answers show it.
#[must_use]
fn holder_json(session: &Session) -> Value {
    json!({"identity": session.identity.to_string(), "role": session.role, "session_id": session.id()})
}

fn room(state: &State, caller: &Caller<'_>) -> Result<(), Decided> {
    let settings = &state.settings;
    let own = state.sessions.count_of(&caller.identity.id) as u64;
    let (limit, whose) = match own < settings.sessions_per_identity_max {
        false => (settings.sessions_per_identity_max, "an identity"),
        true if (state.sessions.live_count() as u64) < settings.sessions_max => return Ok(()),
        true => (settings.sessions_max, "an account"),
    };
    let why = format!("{whose} has at most {limit} live sessions");
    Err(Decided::refuse(Code::LimitReached, why).with("limit", limit))
}

/// Whether a key is bound to the session, and so that it may be.
/// Seven days, and the ten minutes by which the clock of whoever binds may be ahead.
const BINDING_MS_MAX: u64 = (7 * 24 * 60 + 10) * 60_000;

fn bind(state: &State, caller: &Caller<'_>, asked: &Checkin, at: At) -> Result<bool, Decided> {
    let (key, binding) = match (&asked.session_public_key, &asked.binding) {
        (None, None) => return Ok(false),
        (Some(key), Some(binding)) => (key, binding),
        _ => {
            let why = "session_public_key and binding: both or neither";
            return Err(malformed(why.into()));
        }
    };
    let public = spki(key).map_err(malformed)?;
    let expires: Millis = binding
        .expires_at
        .parse()
        .map_err(|_| malformed("binding.expires_at: a time in milliseconds".into()))?;
    let signature = base64::decode(&binding.signature)
        .map_err(|e| malformed(format!("binding.signature: {e}")))?;
    if caller.class != Class::AgentKey {
        let why = "a key is bound by an agent_key: one that the service does not hold";
        return Err(Decided::refuse(Code::AttributionTooLow, why));
    }
    if let Some(taken) = state.identities.of_key(&public) {
        let why = "one key is one identity: a session's key is another one than any of them";
        let refused = Decided::refuse(Code::KeyEnrolled, why);
        return Err(refused.with("identity", taken.id.to_string()));
    }
    // As it is spelled in the arguments: what was signed is what stands in the leaf.
    let message = binding_message(state.origin(), key, &asked.role, expires);
    if !caller.identity.key.public.verify(&message, &signature) {
        let why = "the binding is not your signature over this log's origin, this key, this role and this end";
        return Err(Decided::refuse(Code::BindingInvalid, why));
    }
    if expires.0 <= at.at {
        let why = "the binding has ended";
        return Err(Decided::refuse(Code::BindingInvalid, why)
            .with("binding_expired_at", expires.to_string()));
    }
    if expires.0 > at.at + BINDING_MS_MAX {
        let why = "a session's key is bound for seven days at most";
        return Err(Decided::refuse(Code::BindingInvalid, why)
            .with("binding_expires_at", expires.to_string()));
    }
    Ok(true)
}

fn apply_checkin(
    state: &mut State,
    by: IdentityId,
    operation: &Operation,
    effect: &Map<String, Value>,
    index: u64,
) -> Result<(), String> {
    let asked: Checkin = arguments(&operation.arguments)?;
    let text = |name: &str| effect.get(name).and_then(Value::as_str);
    let recorded = text("session").and_then(parse_id);
    let recorded = recorded.ok_or("effect without a session")?;
    let class = text("class").and_then(Class::from_name);
    let expires = time(effect, "expires_at")?;
    let at = state.at;
    let before = state.sessions.get(recorded);
    let key = match (&asked.session_public_key, &asked.binding) {
        (Some(key), Some(binding)) => {
            let ends: Millis = binding.expires_at.parse().map_err(|_| "binding: no time")?;
            Some(Bound {
                named: spki(key)?.into(),
                expires: ends.0,
            })
        }
        _ => before.and_then(|before| before.key.clone()),
    };
    let session = Session {
        index: recorded,
        identity: by,
        role: asked.role,
        class: class.ok_or("effect without a class")?,
        exclusive: asked
            .exclusive
            .unwrap_or_else(|| before.is_some_and(|before| before.exclusive)),
        harness: asked.harness,
        model: asked.model,
        client: asked.client,
        ttl_ms: expires.saturating_sub(at),
        started: before.map_or(at, |before| before.started),
        seen: at,
        expires,
        resumed: match text("resumed") {
            Some(resumed) => parse_id(resumed),
            None => before.and_then(|before| before.resumed),
        },
        key,
        note: before.and_then(|before| before.note.clone()),
        progress: before.and_then(|before| before.progress),
        ended: None,
    };
    if before.is_some_and(|before| before.ended.is_some())
        || (before.is_none() && recorded != index)
    {
        return Err("a session that is not live".into());
    }
    state.sessions.put(session);
    Ok(())
}
