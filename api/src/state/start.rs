//! `ars_start`: check in, and hold the first item that can be begun; as one leaf.
//!
//! It is judged as its parts would be one after the other, each on what the one before it makes of the state, and recorded with the
//! effect of each: so nothing is decided here that the parts do not decide, and nobody stands between them.

use countersign_verifier::{key::IdentityId, operation::Operation};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    At, Caller, Decided, State, lease, session,
    session::Checkin,
    verb::{Verb, arguments, malformed, settle},
};

mod first;

/// Which items may be begun.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// Exactly this one, if it is ready.
    pub id: Option<String>,
    /// With this tag.
    pub tag: Option<String>,
    /// This owner's.
    pub owner: Option<String>,
    /// Of this strand of work.
    pub workstream: Option<String>,
}

/// Arguments of `ars_start`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// As for `ars_session_checkin`; absent where the call names a session of yours (`session_id`), which then goes on.
    pub checkin: Option<Checkin>,
    /// Only items that fit all of it; any that is ready if absent.
    pub filter: Option<Wanted>,
    /// The lease ends by itself after so many seconds without renewal: 10 to 86,400; 900 if absent.
    pub ttl_s: Option<u64>,
}

/// `ars_start`.
pub const START: Verb = Verb {
    tool: "ars_start",
    decide: |state, caller, operation, at| settle(decide(state, caller, operation, at)),
    apply,
    resource: |arguments| {
        let role = &arguments["checkin"]["role"];
        role.as_str().unwrap_or_default().into()
    },
};

/// The operation that this part of a start would be by itself.
#[must_use]
pub fn part(whole: &Operation, tool: &str, arguments: Value, session: Option<&str>) -> Operation {
    Operation {
        tool: tool.into(),
        arguments,
        session: session.map(str::to_owned),
        ..whole.clone()
    }
}

fn checkin(operation: &Operation) -> Option<Operation> {
    let asked = operation.arguments.get("checkin")?;
    let tool = session::CHECKIN.tool;
    asked
        .is_object()
        .then(|| part(operation, tool, asked.clone(), None))
}

fn acquire(operation: &Operation, item: &str, session: &str) -> Operation {
    let mut asked = json!({"resource": format!("item:{item}")});
    if let Some(ttl) = operation
        .arguments
        .get("ttl_s")
        .filter(|ttl| !ttl.is_null())
    {
        asked["ttl_s"] = ttl.clone();
    }
    part(operation, lease::ACQUIRE.tool, asked, Some(session))
}

fn decide(
    state: &State,
    caller: &Caller<'_>,
    operation: &Operation,
    at: At,
) -> Result<Decided, Decided> {
    let asked: Start = arguments(&operation.arguments).map_err(malformed)?;
    let mut effect = Map::new();
    let mut next = state.clone();
    next.at = at.at;
    let session = match (operation.session.as_deref(), checkin(operation)) {
        (Some(named), None) => named.to_owned(),
        (None, Some(part)) => {
            let begun = applied(next.judged(caller, &session::CHECKIN, &part, at))?;
            let id = caller.identity.id;
            (session::CHECKIN.apply)(&mut next, id, &part, &begun, at.index).map_err(malformed)?;
            let session = text(&begun, "session").map_err(malformed)?.to_owned();
            effect.insert("checkin".into(), begun.into());
            session
        }
        _ => {
            let why = "checkin: to begin a session; or session_id: to go on in one of yours";
            return Err(malformed(why.into()));
        }
    };
    effect.insert("session".into(), session.as_str().into());
    let wanted = asked.filter.unwrap_or_default();
    if let Some(item) = first::first(&next, &wanted)? {
        let part = acquire(operation, &item.id, &session);
        let lease = applied(next.judged(caller, &lease::ACQUIRE, &part, at))?;
        effect.insert("item".into(), (*item.id).into());
        effect.insert("lease".into(), lease.into());
    }
    Ok(Decided::Applied(effect))
}

fn applied(decided: Decided) -> Result<Map<String, Value>, Decided> {
    match decided {
        Decided::Applied(effect) => Ok(effect),
        refused => Err(refused),
    }
}

fn text<'e>(effect: &'e Map<String, Value>, name: &str) -> Result<&'e str, String> {
    let text = effect.get(name).and_then(Value::as_str);
    text.ok_or_else(|| format!("effect without `{name}`"))
}

fn apply(
    state: &mut State,
    by: IdentityId,
    operation: &Operation,
    effect: &Map<String, Value>,
    index: u64,
) -> Result<(), String> {
    let of = |name: &str| effect.get(name).and_then(Value::as_object);
    if let Some(begun) = of("checkin") {
        let part = checkin(operation).ok_or("a check-in that was not asked for")?;
        (session::CHECKIN.apply)(state, by, &part, begun, index)?;
    }
    if let Some(lease) = of("lease") {
        let part = acquire(operation, text(effect, "item")?, text(effect, "session")?);
        (lease::ACQUIRE.apply)(state, by, &part, lease, index)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
