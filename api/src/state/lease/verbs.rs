//! What can be done with leases: judged, and taken in.

use countersign_verifier::{key::IdentityId, operation::Operation};
use serde_json::{Map, Value, json};

use super::{
    Acquire, End, Ended, Lease, Release, Renew, Resource, holder_of, id, parse_id,
    room::room,
    way::{again, in_the_way},
};
use crate::{
    code::Code,
    state::{
        At, Caller, Decided, State,
        session::{self, Session, note, own_live, time, ttl_ms, when},
        verb::{Verb, arguments, malformed, map, member, settle},
    },
};

/// The longest wait in line, in milliseconds.
const WAIT_MS_MAX: u64 = 50_000;

/// `ars_lease_acquire`.
pub const ACQUIRE: Verb = Verb {
    tool: "ars_lease_acquire",
    decide: |state, caller, operation, at| settle(decide_acquire(state, caller, operation, at)),
    apply: apply_acquire,
    resource: |arguments| member(arguments, "resource"),
};

/// `ars_lease_renew`.
pub const RENEW: Verb = Verb {
    tool: "ars_lease_renew",
    decide: |state, caller, operation, at| settle(decide_renew(state, caller, operation, at)),
    apply: apply_renew,
    resource: |arguments| member(arguments, "lease_id"),
};

/// `ars_lease_release`.
pub const RELEASE: Verb = Verb {
    tool: "ars_lease_release",
    decide: |state, caller, operation, at| settle(decide_release(state, caller, operation, at)),
    apply: apply_release,
    resource: |arguments| member(arguments, "lease_id"),
};

/// Who holds a lease, as refusals and answers show it.
#[must_use]
pub fn holder(lease: &Lease) -> Value {
    json!({
        "identity": lease.identity.to_string(),
        "role": lease.role,
        "session_id": session::id(lease.session),
    })
}

/// The session in which a caller acts: the one named, or his only live one.
pub(super) fn own_session(state: &State, caller: &Caller<'_>, named: Option<&str>) -> Option<u64> {
    if let Some(named) = named {
        return session::parse_id(named);
    }
    let only = state.sessions.only_live_of(&caller.identity.id);
    only.map(|session| session.index)
}

fn decide_acquire(
    state: &State,
    caller: &Caller<'_>,
    operation: &Operation,
    at: At,
) -> Result<Decided, Decided> {
    let asked: Acquire = arguments(&operation.arguments).map_err(malformed)?;
    let resource = Resource::parse(&asked.resource)
        .map_err(|why| Decided::refuse(Code::ResourceMalformed, why))?;
    let exclusive = exclusive(asked.mode.as_deref())?;
    let expires = at.at + ttl_ms(asked.ttl_s, state.settings.lease_ttl())?;
    if asked.wait_ms.is_some_and(|ms| ms > WAIT_MS_MAX) {
        return Err(malformed(format!("wait_ms: at most {WAIT_MS_MAX}")));
    }
    note(asked.reason.as_deref()).map_err(|why| malformed(why.replace("note", "reason")))?;
    let session = own_live(state, caller, operation)?;
    if let Some(own) = again(state, session, &resource, exclusive) {
        return Ok(granted(own.index, own.fence, expires, session).with("renewed", true));
    }
    // Not before: what is held already goes on.
    resource
        .may_be_held()
        .map_err(|why| Decided::refuse(Code::ResourceMalformed, why))?;
    if let Some(other) = in_the_way(state, session, &resource, exclusive)? {
        return Err(conflict(state, other));
    }
    room(state, session)?;
    Ok(granted(at.index, fence(state, at.index), expires, session))
}

fn exclusive(mode: Option<&str>) -> Result<bool, Decided> {
    match mode {
        None | Some("exclusive") => Ok(true),
        Some("shared") => Ok(false),
        Some(_) => Err(malformed("mode: exclusive or shared".into())),
    }
}

/// Rises with every leaf, and across a successor log.
fn fence(state: &State, index: u64) -> u64 {
    let epoch = state.opened.as_ref().map_or(0, |opened| opened.epoch);
    (u64::from(epoch) << 40) + index
}

fn conflict(state: &State, lease: &Lease) -> Decided {
    let why = format!(
        "`{}` is held since {} by another session",
        lease.resource,
        when(lease.acquired)
    );
    Decided::refuse(Code::LeaseConflict, why)
        .with("resource", lease.resource.as_str())
        .with("lease_id", lease.id())
        .with("holder", holder(lease))
        .with("mode", lease.mode())
        .with("fence", lease.fence)
        .with("acquired_at", when(lease.acquired))
        .with("expires_at", when(state.lease_ends(lease)))
}

fn granted(lease: u64, fence: u64, expires: u64, session: &Session) -> Decided {
    Decided::Applied(map(json!({
        "lease": id(lease),
        "fence": fence,
        "expires_at": when(expires),
        "session": session.id(),
    })))
}

fn apply_acquire(
    state: &mut State,
    by: IdentityId,
    operation: &Operation,
    effect: &Map<String, Value>,
    index: u64,
) -> Result<(), String> {
    let asked: Acquire = arguments(&operation.arguments)?;
    let (recorded, expires) = (recorded(effect)?, time(effect, "expires_at")?);
    let at = state.at;
    let ttl_ms = expires.saturating_sub(at);
    if effect.contains_key("renewed") {
        return renewed(state, recorded, expires);
    }
    let session = effect.get("session").and_then(Value::as_str);
    let session = session.and_then(session::parse_id);
    let session = session.and_then(|index| state.sessions.get(index));
    let session = session.ok_or("effect without a session")?;
    let lease = Lease {
        index,
        fence: effect
            .get("fence")
            .and_then(Value::as_u64)
            .ok_or("effect without a fence")?,
        resource: asked.resource,
        exclusive: asked.mode.as_deref() != Some("shared"),
        identity: by,
        role: session.role.clone(),
        session: session.index,
        acquired: at,
        renewed: at,
        ttl_ms,
        expires,
        reason: asked.reason,
        ended: None,
    };
    if recorded != index {
        return Err("a lease of another leaf".into());
    }
    state.leases.put(lease)
}

/// The lease that an effect names.
fn recorded(effect: &Map<String, Value>) -> Result<u64, String> {
    let lease = effect.get("lease").and_then(Value::as_str);
    lease
        .and_then(parse_id)
        .ok_or_else(|| "effect without a lease".into())
}

fn renewed(state: &mut State, lease: u64, expires: u64) -> Result<(), String> {
    let at = state.at;
    let known = state.leases.get(lease).filter(|l| l.ended.is_none());
    let lease = Lease {
        renewed: at,
        ttl_ms: expires.saturating_sub(at),
        expires,
        ..known.ok_or("the effect names no live lease")?.clone()
    };
    state.leases.put(lease)
}

/// The live lease of this id and fence, if it is the caller's; who comes too late is told who holds it now.
fn held<'s>(
    state: &'s State,
    caller: &Caller<'_>,
    operation: &Operation,
    (lease_id, fence): (&str, u64),
) -> Result<&'s Lease, Decided> {
    let lease = parse_id(lease_id).and_then(|index| state.leases.get(index));
    let Some(lease) = lease else {
        let why = "no such lease; of those that ended only the last are remembered";
        return Err(Decided::refuse(Code::NotFound, why));
    };
    let named = operation.session.as_deref().and_then(session::parse_id);
    if lease.identity != caller.identity.id || named.is_some_and(|named| named != lease.session) {
        let why = "the lease is another identity's, or of another session";
        return Err(Decided::refuse(Code::NotHolder, why)
            .with("lease_id", lease.id())
            .with("holder", holder(lease)));
    }
    if let Some(ended) = lease.ended {
        let now = Resource::parse(&lease.resource).ok();
        // Where it takes too long to find out, it is not said that there is none.
        let now = now.map_or(Ok(None), |resource| holder_of(state, &resource));
        let current = now.map(|now| match now {
            None => Value::Null,
            Some(lease) => {
                let mut current = holder(lease);
                current["lease_id"] = lease.id().into();
                current["fence"] = lease.fence.into();
                current
            }
        });
        let why = format!(
            "the lease has ended ({}) at {}",
            ended.how.name(),
            when(ended.at)
        );
        let refused = Decided::refuse(Code::LeaseExpired, why)
            .with("lease_id", lease.id())
            .with("resource", lease.resource.as_str())
            .with("how", ended.how.name())
            .with("ended_at", when(ended.at))
            .with("ended_index", ended.index);
        return Err(match current {
            Ok(current) => refused.with("current", current),
            Err(_) => refused,
        });
    }
    if lease.fence != fence {
        let why = "that is not the fence of this lease";
        return Err(Decided::refuse(Code::StaleFence, why).with("lease_id", lease.id()));
    }
    Ok(lease)
}

fn decide_renew(
    state: &State,
    caller: &Caller<'_>,
    operation: &Operation,
    at: At,
) -> Result<Decided, Decided> {
    let asked: Renew = arguments(&operation.arguments).map_err(malformed)?;
    // Before anything is looked up: what cannot be read is no leaf.
    let asked_ms = match asked.ttl_s {
        Some(_) => Some(ttl_ms(asked.ttl_s, state.settings.lease_ttl())?),
        None => None,
    };
    let lease = held(state, caller, operation, (&asked.lease_id, asked.fence))?;
    let expires = at.at + asked_ms.unwrap_or(lease.ttl_ms);
    Ok(Decided::Applied(map(json!({
        "lease": lease.id(),
        "fence": lease.fence,
        "expires_at": when(expires),
    }))))
}

fn apply_renew(
    state: &mut State,
    _by: IdentityId,
    _operation: &Operation,
    effect: &Map<String, Value>,
    _index: u64,
) -> Result<(), String> {
    let (lease, expires) = (recorded(effect)?, time(effect, "expires_at")?);
    renewed(state, lease, expires)
}

fn decide_release(
    state: &State,
    caller: &Caller<'_>,
    operation: &Operation,
    _at: At,
) -> Result<Decided, Decided> {
    let asked: Release = arguments(&operation.arguments).map_err(malformed)?;
    let lease = held(state, caller, operation, (&asked.lease_id, asked.fence))?;
    Ok(Decided::Applied(map(
        json!({"lease": lease.id(), "resource": lease.resource}),
    )))
}

fn apply_release(
    state: &mut State,
    _by: IdentityId,
    _operation: &Operation,
    effect: &Map<String, Value>,
    index: u64,
) -> Result<(), String> {
    let (lease, at) = (recorded(effect)?, state.at);
    let how = End::Released;
    state.leases.end(lease, Ended { index, at, how });
    Ok(())
}
