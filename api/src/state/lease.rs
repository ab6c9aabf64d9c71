//! Leases: who may touch what, until when. One order: acquiring is a leaf, and the fence follows from its index.

use std::{ops::Bound, sync::Arc};

use countersign_verifier::key::IdentityId;
use imbl::{OrdMap, OrdSet};
use serde::{Deserialize, Serialize};

mod asked;
mod due;
mod fence;
mod glob;
mod resource;
mod room;
mod verbs;
mod way;

pub use asked::{Acquire, Release, Renew};
pub(super) use due::NOUN;
pub use fence::{check_fence, holder_of};
pub use glob::{Steps, TooMuch};
pub use resource::{RESOURCE_BYTES_MAX, Resource};
pub use verbs::{ACQUIRE, RELEASE, RENEW};
pub use way::{Way, way};

use super::{rows, session::remove};

/// So many leases that ended are remembered: a holder who returns late is told what became of it.
const ENDED_MAX: usize = 10_000;
/// So many steps are taken to find the leases that have something in common with a resource: a lease that begins otherwise is one, and
/// so is each place of two globs that are compared. Everybody waits while they are taken, some milliseconds at most; every auditor
/// takes as many, so that this is a rule of decisions. More than there may be leases.
pub const LOOK_STEPS_MAX: usize = 200_000;

/// How a lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Its holder gave it back.
    Released,
    /// Its time was over.
    Expired,
    /// Its session ended.
    Session,
}

impl End {
    /// As answers and details write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            End::Released => "released",
            End::Expired => "expired",
            End::Session => "session_ended",
        }
    }
}

/// The end of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// The leaf that says so.
    pub index: u64,
    /// Its log time, in milliseconds since 1970.
    pub at: u64,
    /// How.
    pub how: End,
}

/// One lease.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lease {
    /// The leaf that acquired it.
    pub index: u64,
    /// epoch × 2^40 + index: rises with every lease, and goes on rising in a successor log.
    pub fence: u64,
    /// What.
    pub resource: String,
    /// Nobody else may hold any of it; else whoever shares it may.
    pub exclusive: bool,
    /// Whose it is.
    #[serde(with = "rows::text")]
    pub identity: IdentityId,
    /// The role of the session that holds it.
    pub role: String,
    /// The session that holds it.
    pub session: u64,
    /// Log time of its beginning, in milliseconds since 1970.
    pub acquired: u64,
    /// Log time at which it was last renewed.
    pub renewed: u64,
    /// How long it lasts without being renewed, in milliseconds.
    pub ttl_ms: u64,
    /// Log time at which it ends by itself, if its session lasts so long.
    pub expires: u64,
    /// Why, in its holder's words.
    pub reason: Option<String>,
    /// That it is over.
    pub ended: Option<Ended>,
}

impl Lease {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> String {
        id(self.index)
    }

    /// `exclusive` or `shared`.
    #[must_use]
    pub fn mode(&self) -> &'static str {
        if self.exclusive {
            "exclusive"
        } else {
            "shared"
        }
    }

    /// When its holder had better renew it: at a third of its time, from now on, in milliseconds.
    #[must_use]
    pub fn renew_after_ms(&self, now_ms: u64) -> u64 {
        (self.renewed + self.ttl_ms / 3).saturating_sub(now_ms)
    }
}

/// The id of the lease that leaf `index` acquired.
#[must_use]
pub fn id(index: u64) -> String {
    format!("l_{index}")
}

/// The leaf that acquired the lease of this id; `None` for a text that is no such id.
#[must_use]
pub fn parse_id(text: &str) -> Option<u64> {
    let index: u64 = text.strip_prefix("l_")?.parse().ok()?;
    (id(index) == text).then_some(index)
}

/// A live lease, and its resource as it was read.
#[derive(Clone, Debug, PartialEq)]
struct Live {
    lease: Lease,
    resource: Resource,
}

/// The live leases of an account, and those that ended last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Leases {
    live: OrdMap<u64, Arc<Live>>,
    ended: OrdMap<(u64, u64), Arc<Lease>>,
    /// Where each of `ended` stands there: the leaf that ended it.
    ends: OrdMap<u64, u64>,
    by_expiry: OrdSet<(u64, u64)>,
    by_session: OrdMap<u64, OrdSet<u64>>,
    /// By [`Resource::place`].
    by_place: OrdMap<String, OrdSet<u64>>,
}

impl Leases {
    /// The lease that leaf `index` acquired, live or one of those that ended last.
    #[must_use]
    pub fn get(&self, index: u64) -> Option<&Lease> {
        if let Some(live) = self.live.get(&index) {
            return Some(&live.lease);
        }
        let ended = self.ends.get(&index)?;
        self.ended.get(&(*ended, index)).map(|lease| &**lease)
    }

    /// The live leases of a session, in order.
    pub fn of(&self, session: u64) -> impl Iterator<Item = &Lease> {
        let indexes = self.by_session.get(&session).into_iter().flatten();
        indexes.filter_map(|index| self.live.get(index).map(|live| &live.lease))
    }

    /// How many live leases a session has.
    #[must_use]
    pub fn count_of(&self, session: u64) -> u64 {
        self.by_session
            .get(&session)
            .map_or(0, |own| own.len() as u64)
    }

    /// The live leases that have something in common with a resource, in order. Of whatever is no path all are found: there cannot be
    /// as many as there may be steps.
    ///
    /// # Errors
    /// [`TooMuch`] where finding out takes more than [`LOOK_STEPS_MAX`].
    pub fn on(
        &self,
        resource: &Resource,
    ) -> Result<impl Iterator<Item = &Lease> + use<'_>, TooMuch> {
        let found = self.look(resource, &mut Steps::new(LOOK_STEPS_MAX))?;
        Ok(found.into_iter())
    }

    fn look(&self, resource: &Resource, left: &mut Steps) -> Result<Vec<&Lease>, TooMuch> {
        let mut found = Vec::new();
        for live in self.near(resource) {
            if live.resource.overlaps(resource, left)? {
                found.push(&live.lease);
            }
        }
        found.sort_unstable_by_key(|lease| lease.index);
        Ok(found)
    }

    /// The live leases whose place is within that of a resource, or the other way round: two that have a path in common both begin
    /// with what is spelled out of either.
    fn near<'s, 'r>(
        &'s self,
        resource: &'r Resource,
    ) -> impl Iterator<Item = &'s Live> + use<'s, 'r> {
        let above = resource
            .places()
            .filter_map(|place| self.by_place.get(place));
        let deeper = resource.is_folder().then(|| {
            let place = &*resource.place;
            let after = (Bound::Excluded(place), Bound::Unbounded);
            self.by_place
                .range::<(Bound<&str>, Bound<&str>), str>(after)
                .take_while(move |(other, _)| other.starts_with(place))
                .map(|(_, indexes)| indexes)
        });
        let indexes = above.chain(deeper.into_iter().flatten()).flatten();
        indexes.filter_map(|index| self.live.get(index).map(|live| &**live))
    }

    /// Whether anybody holds the item of this id, in NFC.
    #[must_use]
    pub fn holds_item(&self, id: &str) -> bool {
        self.by_place.contains_key(&*format!("item:{id}"))
    }

    /// Whether the lease that leaf `index` acquired is live.
    #[must_use]
    pub fn is_live(&self, index: u64) -> bool {
        self.live.contains_key(&index)
    }

    /// How many are live.
    #[must_use]
    pub fn live_count(&self) -> usize {
        self.live.len()
    }

    /// The live leases after `after`, in order of beginning.
    pub fn live_after(&self, after: Option<u64>) -> impl Iterator<Item = &Lease> {
        let start = after.map_or(0, |after| after.saturating_add(1));
        self.live.range(start..).map(|(_, live)| &live.lease)
    }

    /// Those that ended, after `after`, in order of beginning.
    pub fn ended_after(&self, after: Option<u64>) -> impl Iterator<Item = &Lease> {
        let start = after.map_or(0, |after| after.saturating_add(1));
        let ends = self.ends.range(start..);
        ends.filter_map(|(index, ended)| self.ended.get(&(*ended, *index)).map(|l| &**l))
    }

    /// Puts a live lease in, or in the place of what it was before.
    ///
    /// # Errors
    /// Its resource cannot be read.
    pub(super) fn put(&mut self, lease: Lease) -> Result<(), String> {
        let resource = match self.take_out(lease.index) {
            Some(before) => before.resource.clone(),
            None => Resource::parse(&lease.resource)?,
        };
        let index = lease.index;
        self.by_expiry.insert((lease.expires, index));
        let own = self.by_session.entry(lease.session).or_default();
        own.insert(index);
        let beside = self.by_place.entry(resource.place.clone()).or_default();
        beside.insert(index);
        self.live.insert(index, Arc::new(Live { lease, resource }));
        Ok(())
    }

    /// Ends a live lease.
    pub(super) fn end(&mut self, index: u64, ended: Ended) {
        if let Some(live) = self.take_out(index) {
            self.keep(Lease {
                ended: Some(ended),
                ..live.lease.clone()
            });
        }
    }

    /// Keeps one that ended, and forgets the one that ended first where they are too many.
    fn keep(&mut self, lease: Lease) {
        let Some(ended) = lease.ended else { return };
        self.ends.insert(lease.index, ended.index);
        self.ended
            .insert((ended.index, lease.index), Arc::new(lease));
        if self.ended.len() > ENDED_MAX
            && let Some((oldest, _)) = self.ended.get_min().cloned()
        {
            self.ended.remove(&oldest);
            self.ends.remove(&oldest.1);
        }
    }

    fn take_out(&mut self, index: u64) -> Option<Arc<Live>> {
        let live = self.live.remove(&index)?;
        self.by_expiry.remove(&(live.lease.expires, index));
        remove(&mut self.by_session, &live.lease.session, index);
        remove(&mut self.by_place, &live.resource.place, index);
        Some(live)
    }

    /// The live one whose time is over first.
    pub(super) fn next(&self) -> Option<(u64, u64)> {
        self.by_expiry.get_min().copied()
    }

    /// Renews every lease of a session, each for as long as it was asked for.
    pub(super) fn renew_all(&mut self, session: u64, at: u64) {
        let own: Vec<u64> = self.of(session).map(|lease| lease.index).collect();
        for index in own {
            self.change(index, |lease| {
                lease.renewed = at;
                lease.expires = lease.expires.max(at + lease.ttl_ms);
            });
        }
    }

    pub(super) fn extend(&mut self, by_ms: u64) {
        let running: Vec<u64> = self.live.keys().copied().collect();
        for index in running {
            self.change(index, |lease| {
                lease.expires = lease.expires.saturating_add(by_ms);
            });
        }
    }

    fn change(&mut self, index: u64, with: impl Fn(&mut Lease)) {
        let Some(live) = self.live.get_mut(&index) else {
            return;
        };
        let live = Arc::make_mut(live);
        self.by_expiry.remove(&(live.lease.expires, index));
        with(&mut live.lease);
        self.by_expiry.insert((live.lease.expires, index));
    }

    pub(super) fn to_rows(&self) -> Vec<Lease> {
        let live = self.live.values().map(|live| live.lease.clone());
        live.chain(self.ended.values().map(|lease| (**lease).clone()))
            .collect()
    }

    pub(super) fn from_rows(rows: Vec<Lease>) -> Option<Leases> {
        let mut leases = Leases::default();
        for row in rows {
            match row.ended {
                None => leases.put(row).ok()?,
                Some(_) => leases.keep(row),
            }
        }
        Some(leases)
    }
}

#[cfg(test)]
mod tests;
