//! Whether a write may touch what is leased, checked in the same step as the write.

use super::{
    LOOK_STEPS_MAX, Lease, Resource, TooMuch,
    verbs::{holder, own_session},
};
use crate::{
    code::Code,
    state::{Caller, Decided, State, session::when},
};

/// The live lease on a resource: the exclusive one, or the first of those that share it.
///
/// # Errors
/// [`TooMuch`], of paths only.
pub fn holder_of<'s>(state: &'s State, resource: &Resource) -> Result<Option<&'s Lease>, TooMuch> {
    let mut first = None;
    for lease in state.leases.on(resource)? {
        if lease.exclusive {
            return Ok(Some(lease));
        }
        first = first.or(Some(lease));
    }
    Ok(first)
}

/// The refusal of what would be compared with too much.
pub(super) fn too_much(TooMuch: TooMuch) -> Decided {
    let why = "too many leases with wildcards begin like this one to be compared with it: name the paths more exactly";
    Decided::refuse(Code::LimitReached, why).with("limit", LOOK_STEPS_MAX)
}

/// Whether a write by `caller`, in the session that it names, may touch `resource`. With a fence that must be the one of a live
/// lease of the caller's on it; without one nobody else may hold it: another session of the caller's is somebody else.
///
/// # Errors
/// The refusal: `StaleFence`, or `LeaseRequired`, with the holder where there is one; `LimitReached`, of paths only.
pub fn check_fence(
    state: &State,
    caller: &Caller<'_>,
    session: Option<&str>,
    resource: &Resource,
    fence: Option<u64>,
) -> Result<(), Decided> {
    let own = own_session(state, caller, session);
    let mut live = state.leases.on(resource).map_err(too_much)?;
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
            holder_of(state, resource).map_err(too_much)?,
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
