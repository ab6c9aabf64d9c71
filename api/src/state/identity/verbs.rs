//! What can be done to identities: judged, and taken in.

use countersign_verifier::{
    base64,
    key::{IdentityId, PublicKey},
    leaf::Class,
    operation::{Operation, possession_message},
};
use serde_json::{Map, Value, json};

use super::{
    Change, IDENTITIES_MAX, Identity, Possession, ROTATIONS_MAX,
    asked::{Enroll, Revoke, Rotate},
};
use crate::{
    code::Code,
    state::{
        At, Caller, Decided, State, opened,
        verb::{Verb, arguments, malformed, map, member, settle},
    },
};

const REASON_BYTES_MAX: usize = 256;

/// `identity_enroll`.
pub const ENROLL: Verb = Verb {
    tool: "identity_enroll",
    decide: |state, caller, operation, at| settle(decide_enroll(state, caller, operation, at)),
    apply: apply_enroll,
    resource: |arguments| member(arguments, "name"),
};

/// `identity_rotate`.
pub const ROTATE: Verb = Verb {
    tool: "identity_rotate",
    decide: |state, caller, operation, at| settle(decide_rotate(state, caller, operation, at)),
    apply: apply_rotate,
    resource: |arguments| member(arguments, "identity"),
};

/// `identity_revoke`.
pub const REVOKE: Verb = Verb {
    tool: "identity_revoke",
    decide: |state, caller, operation, at| settle(decide_revoke(state, caller, operation, at)),
    apply: apply_revoke,
    resource: |arguments| member(arguments, "identity"),
};

fn decide_enroll(
    state: &State,
    caller: &Caller<'_>,
    operation: &Operation,
    _at: At,
) -> Result<Decided, Decided> {
    let asked: Enroll = arguments(&operation.arguments).map_err(malformed)?;
    owner_only(state, caller)?;
    asked.check_name().map_err(malformed)?;
    let roles = asked.roles().map_err(malformed)?;
    let class = match asked.class.as_deref() {
        None | Some("agent_key") => Class::AgentKey,
        Some("seat_key") => Class::SeatKey,
        Some(other) => {
            let shown: String = other.chars().take(32).collect();
            let why = format!("class `{shown}`: a key is enrolled as agent_key or seat_key");
            return Err(Decided::refuse(Code::ClassNotAllowed, why));
        }
    };
    let key = opened::spki(&asked.public_key).map_err(malformed)?;
    free_key(state, &key)?;
    if let Some(taken) = state.identities.named(&asked.name) {
        let refused = Decided::refuse(
            Code::NameTaken,
            format!("`{}` is another identity's name", taken.name),
        );
        return Err(refused.with("identity", taken.id.to_string()));
    }
    let id = key.identity();
    let possession = prove(state, &key, id, class, asked.possession.as_deref())?;
    if class == Class::SeatKey && possession == Possession::Stated {
        let why = "a seat's key must prove itself: the service, which holds it, gives the proof (seat_get)";
        return Err(Decided::refuse(Code::PossessionRequired, why));
    }
    room(
        state.identities.count(),
        IDENTITIES_MAX,
        "identities in an account",
    )?;
    let mut effect = map(json!({
        "identity": id.to_string(),
        "class": class.name(),
        "possession": possession.name(),
    }));
    // Only where it was asked for: an enrolment without roles is recorded as it always was.
    if asked.roles.is_some() {
        effect.insert("roles".into(), roles.into());
    }
    Ok(Decided::Applied(effect))
}

fn decide_rotate(
    state: &State,
    caller: &Caller<'_>,
    operation: &Operation,
    _at: At,
) -> Result<Decided, Decided> {
    let asked: Rotate = arguments(&operation.arguments).map_err(malformed)?;
    let target = target(state, caller, &asked.identity)?;
    if target.class == Class::ServiceKey {
        return Err(Decided::refuse(
            Code::NotAllowed,
            "the service identity keeps its key; a successor log has a new one",
        ));
    }
    let key = opened::spki(&asked.public_key).map_err(malformed)?;
    let proves_itself = key == target.key.public
        && target.possession == Possession::Stated
        && asked.possession.is_some();
    if !proves_itself {
        free_key(state, &key)?;
    }
    let possession = prove(
        state,
        &key,
        target.id,
        target.class,
        asked.possession.as_deref(),
    )?;
    if Some(target.id) == state.owner() && possession == Possession::Stated {
        let why = "the owner's new key must prove itself: one that cannot sign would lock the account for good";
        return Err(Decided::refuse(Code::PossessionRequired, why));
    }
    room(
        target.rotations.len(),
        ROTATIONS_MAX,
        "rotations of an identity",
    )?;
    Ok(Decided::Applied(map(
        json!({"identity": target.id.to_string(), "possession": possession.name()}),
    )))
}

/// Whether there may be one more.
fn room(count: usize, most: usize, of_what: &str) -> Result<(), Decided> {
    if count < most {
        return Ok(());
    }
    let why = format!("at most {most} {of_what}");
    Err(Decided::refuse(Code::LimitReached, why).with("limit", most))
}

fn decide_revoke(
    state: &State,
    caller: &Caller<'_>,
    operation: &Operation,
    _at: At,
) -> Result<Decided, Decided> {
    let asked: Revoke = arguments(&operation.arguments).map_err(malformed)?;
    if asked
        .reason
        .as_ref()
        .is_some_and(|r| r.len() > REASON_BYTES_MAX)
    {
        return Err(malformed(format!(
            "reason: more than {REASON_BYTES_MAX} bytes"
        )));
    }
    let target = target(state, caller, &asked.identity)?;
    if target.enrolled.is_none() {
        let why = format!(
            "the {} stands in leaf 0 and cannot be revoked; a successor log has another one",
            target.name
        );
        return Err(Decided::refuse(Code::NotAllowed, why));
    }
    Ok(Decided::Applied(map(
        json!({"identity": target.id.to_string()}),
    )))
}

/// The identity to change: there, not revoked, the caller's own or the caller is the owner.
pub(in crate::state) fn target<'a>(
    state: &'a State,
    caller: &Caller<'_>,
    id: &str,
) -> Result<&'a Identity, Decided> {
    let id: IdentityId = id
        .parse()
        .map_err(|e| malformed(format!("identity: {e}")))?;
    if id != caller.identity.id {
        owner_only(state, caller)?;
    }
    let target = state
        .identities
        .get(&id)
        .ok_or_else(|| Decided::refuse(Code::NotFound, "no such identity in this account"))?;
    match target.revoked {
        None => Ok(target),
        Some(index) => Err(
            Decided::refuse(Code::IdentityRevoked, "the identity is revoked")
                .with("revoked_index", index),
        ),
    }
}

/// One key is one identity, for ever: also one that was retired or revoked.
fn free_key(state: &State, key: &PublicKey) -> Result<(), Decided> {
    let Some(taken) = state.identities.of_key(key) else {
        return Ok(());
    };
    let refused = Decided::refuse(Code::KeyEnrolled, "one key is one identity, for ever");
    Err(refused
        .with("identity", taken.id.to_string())
        .with("name", taken.name.as_str()))
}

fn owner_only(state: &State, caller: &Caller<'_>) -> Result<(), Decided> {
    if state.owner() == Some(caller.identity.id) {
        return Ok(());
    }
    Err(Decided::refuse(
        Code::NotAllowed,
        "only the account's owner may do this",
    ))
}

fn prove(
    state: &State,
    key: &PublicKey,
    id: IdentityId,
    class: Class,
    proof: Option<&str>,
) -> Result<Possession, Decided> {
    let Some(proof) = proof else {
        return Ok(Possession::Stated);
    };
    let signature = base64::decode(proof).map_err(|e| malformed(format!("possession: {e}")))?;
    if key.verify(&possession_message(state.origin(), id, class), &signature) {
        return Ok(Possession::Proved);
    }
    let why = "the proof of possession is not this key's signature over this log's origin, this identity and this class";
    Err(Decided::refuse(Code::PossessionInvalid, why))
}

fn apply_enroll(
    state: &mut State,
    by: IdentityId,
    operation: &Operation,
    effect: &Map<String, Value>,
    index: u64,
) -> Result<(), String> {
    let asked: Enroll = arguments(&operation.arguments)?;
    let (id, possession) = recorded(effect)?;
    let class = effect
        .get("class")
        .and_then(Value::as_str)
        .and_then(Class::from_name)
        .ok_or("effect without a class")?;
    let key = opened::spki(&asked.public_key)?;
    if key.identity() != id {
        return Err(format!(
            "the effect names {id}, the key is {}",
            key.identity()
        ));
    }
    let roles = asked.roles()?;
    state.identities.insert(Identity {
        id,
        name: asked.name,
        class,
        roles,
        key: key.into(),
        retired: Vec::new(),
        possession,
        enrolled: Some(Change { index, by }),
        rotations: Vec::new(),
        revoked: None,
    });
    Ok(())
}

fn apply_rotate(
    state: &mut State,
    by: IdentityId,
    operation: &Operation,
    effect: &Map<String, Value>,
    index: u64,
) -> Result<(), String> {
    let asked: Rotate = arguments(&operation.arguments)?;
    let (id, possession) = recorded(effect)?;
    let mut identity = known(state, &id)?;
    let new = opened::spki(&asked.public_key)?.into();
    // The same key again is one that has come to prove itself.
    if identity.key != new {
        let old = std::mem::replace(&mut identity.key, new);
        identity.retired.push(old);
    }
    identity.possession = possession;
    identity.rotations.push(Change { index, by });
    state.identities.insert(identity);
    Ok(())
}

fn apply_revoke(
    state: &mut State,
    _by: IdentityId,
    _operation: &Operation,
    effect: &Map<String, Value>,
    index: u64,
) -> Result<(), String> {
    let id = recorded_id(effect)?;
    let mut identity = known(state, &id)?;
    identity.revoked = Some(index);
    state.sessions.end_all_of(&id, state.at);
    state.identities.insert(identity);
    Ok(())
}

/// The identity that an effect names, to be changed and put back.
fn known(state: &State, id: &IdentityId) -> Result<Identity, String> {
    let identity = state.identities.get(id);
    Ok(identity.ok_or("the effect names nobody")?.clone())
}

fn recorded(effect: &Map<String, Value>) -> Result<(IdentityId, Possession), String> {
    let possession = effect
        .get("possession")
        .and_then(Value::as_str)
        .and_then(Possession::from_name);
    Ok((
        recorded_id(effect)?,
        possession.ok_or("effect without possession")?,
    ))
}

fn recorded_id(effect: &Map<String, Value>) -> Result<IdentityId, String> {
    let id = effect
        .get("identity")
        .and_then(Value::as_str)
        .ok_or("effect without an identity")?;
    id.parse().map_err(|e| format!("effect: {e}"))
}
