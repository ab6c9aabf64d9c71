//! Whether a write may touch what is leased, checked in the same step as the write.

use super::{
    Lease, Resource,
    verbs::{holder, own_session},
};
use crate::{
    code::Code,
    state::{Caller, Decided, State, session::when},
};

/// The live lease on a resource: the exclusive one, or the first of those that share it.
#[must_use]
pub fn holder_of<'s>(state: &'s State, resource: &Resource) -> Option<&'s Lease> {
    let mut first = None;
    for lease in state.leases.on(resource) {
        if lease.exclusive {
            return state.leases.get(lease.index);
        }
        first = first.or_else(|| state.leases.get(lease.index));
    }
    first
}

/// Whether a write by `caller`, in the session that it names, may touch `resource`. With a fence that must be the one of a live
/// lease of the caller's on it; without one nobody else may hold it: another session of the caller's is somebody else.
///
/// # Errors
/// The refusal: `StaleFence`, or `LeaseRequired`, with the holder where there is one.
pub fn check_fence(
    state: &State,
    caller: &Caller<'_>,
    session: Option<&str>,
    resource: &Resource,
    fence: Option<u64>,
) -> Result<(), Decided> {
    let own = own_session(state, caller, session);
    let mut live = state.leases.on(resource);
    if let Some(fence) = fence {
        let mine = |lease: &Lease| {
            let same = session.is_none() || own == Some(lease.session);
            lease.fence == fence && lease.identity == caller.identity.id && same
        };
        if live.any(mine) {
            return Ok(());
        }
        let why = "the fence is of no live lease of yours on this: it has ended, or was never";
        return Err(with_holder(
            state,
            Decided::refuse(Code::StaleFence, why),
            holder_of(state, resource),
        ));
    }
    match live.find(|lease| own != Some(lease.session)) {
        None => Ok(()),
        Some(lease) => {
            let why = "somebody else holds a lease on this";
            Err(with_holder(
                state,
                Decided::refuse(Code::LeaseRequired, why),
                Some(lease),
            ))
        }
    }
}

fn with_holder(state: &State, refused: Decided, lease: Option<&Lease>) -> Decided {
    let Some(lease) = lease else {
        return refused;
    };
    refused
        .with("resource", lease.resource.as_str())
        .with("lease_id", lease.id())
        .with("holder", holder(lease))
        .with("fence", lease.fence)
        .with("expires_at", when(state.lease_ends(lease)))
}
