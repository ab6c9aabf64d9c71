//! What a session has of a resource already, and what keeps it from having it.

use countersign_verifier::operation::Operation;
use serde_json::Value;

use super::{Lease, Resource, fence::too_much};
use crate::state::{
    Caller, Decided, State,
    board::names::nfc,
    session::{Session, own_live},
};

/// Whether a lease is of this very resource, however that is spelled.
fn is_same(lease: &Lease, resource: &Resource) -> bool {
    let (own, other) = (&lease.resource, &resource.text);
    // Of ASCII there is one spelling, and a session may have a thousand leases to compare with.
    own == other || (!(own.is_ascii() && other.is_ascii()) && nfc(own) == nfc(other))
}

/// The lease that this session has on the very same.
pub(super) fn again<'s>(
    state: &'s State,
    session: &Session,
    resource: &Resource,
    exclusive: bool,
) -> Option<&'s Lease> {
    let same = |lease: &&Lease| lease.exclusive == exclusive && is_same(lease, resource);
    state.leases.of(session.index).find(same)
}

/// The first lease that keeps this one from being had. What the session itself holds does not, but the same in another mode.
pub(super) fn in_the_way<'s>(
    state: &'s State,
    session: &Session,
    resource: &'s Resource,
    exclusive: bool,
) -> Result<Option<&'s Lease>, Decided> {
    let mut on = state.leases.on(resource).map_err(too_much)?;
    Ok(on.find(|lease| {
        let others = lease.session != session.index && (exclusive || lease.exclusive);
        let itself = lease.session == session.index && is_same(lease, resource);
        others || itself
    }))
}

/// Where somebody stands who waits for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Nobody holds any of it.
    Free,
    /// This live lease is in the way.
    Taken(u64),
    /// There is nothing to wait for any more: the session is over, or it will be refused.
    Over,
}

/// Where a caller stands with `operation`, an acquisition of `resource`. Whatever was in the way before is looked at first: as long as
/// it is there, nothing else is.
#[must_use]
pub fn way(
    state: &State,
    caller: &Caller<'_>,
    operation: &Operation,
    (resource, before): (&Resource, Way),
) -> Way {
    let Ok(session) = own_live(state, caller, operation) else {
        return Way::Over;
    };
    if let Way::Taken(index) = before
        && state.leases.is_live(index)
    {
        return before;
    }
    let mode = operation.arguments.get("mode").and_then(Value::as_str);
    match in_the_way(state, session, resource, mode != Some("shared")) {
        Ok(None) => Way::Free,
        Ok(Some(lease)) => Way::Taken(lease.index),
        Err(_) => Way::Over,
    }
}
