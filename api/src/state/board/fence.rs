//! Who holds an item, and whether a write may touch it.

use super::names;
use crate::state::{
    Caller, Decided, State,
    lease::{Lease, Resource, check_fence, holder_of},
};

/// The resource that a lease of this item is of. Every id can be one; `None` only keeps that no promise.
fn resource(id: &str) -> Option<Resource> {
    Resource::parse(&format!("item:{}", names::nfc(id))).ok()
}

/// The live lease of this item, if somebody holds one.
#[must_use]
pub fn holder<'s>(state: &'s State, id: &str) -> Option<&'s Lease> {
    // Never too much: it is no path.
    holder_of(state, &resource(id)?).ok().flatten()
}

/// Whether somebody else than the caller, in the session that it names, holds this item.
#[must_use]
pub fn held_by_other(state: &State, caller: &Caller<'_>, session: Option<&str>, id: &str) -> bool {
    check(state, caller, session, id, None).is_err()
}

/// Whether the caller may change an item now: nobody else holds it, and a fence that comes along is the present one.
///
/// # Errors
/// `StaleFence`, `LeaseRequired`.
pub(super) fn check(
    state: &State,
    caller: &Caller<'_>,
    session: Option<&str>,
    id: &str,
    fence: Option<u64>,
) -> Result<(), Decided> {
    match resource(id) {
        Some(resource) => check_fence(state, caller, session, &resource, fence),
        None => Ok(()),
    }
}
