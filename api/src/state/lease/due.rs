//! The end of a lease whose time is over.

use serde_json::{Value, json};

use super::{End, Ended, id, parse_id};
use crate::state::{due::Noun, verb::map};

/// `lease_expired`.
pub(in crate::state) const NOUN: Noun = Noun {
    kind: "lease_expired",
    next: |state| state.leases.next().map(|(at, index)| (at, id(index))),
    event: |state, lease| {
        let found = parse_id(lease).and_then(|index| state.leases.get(index));
        let resource = found.map(|lease| lease.resource.as_str());
        let holder = found.map(|lease| super::super::session::id(lease.session));
        map(json!({"lease_id": lease, "resource": resource, "session": holder}))
    },
    apply: |state, event, index| {
        let lease = event.get("lease_id").and_then(Value::as_str);
        let lease = lease.and_then(parse_id).ok_or("no lease")?;
        if state.leases.get(lease).is_none_or(|l| l.ended.is_some()) {
            return Err("a lease that is not live".into());
        }
        let (at, how) = (state.at, End::Expired);
        state.leases.end(lease, Ended { index, at, how });
        Ok(())
    },
    extend: |state, by_ms| state.leases.extend(by_ms),
};
