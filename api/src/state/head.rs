//! Heads of other logs: which logs an account tracks, and what it has seen of them.
//!
//! A head counts by the signature of the log that it is of, whoever brings it. What is kept of each log is bounded: the last proved
//! head, and the newest ones beside it, against which a fork at one size shows.

use std::sync::Arc;

use countersign_verifier::{hash::Hash, vkey::VerifierKey};
use imbl::OrdMap;
use serde::{Deserialize, Serialize};

mod forked;
mod verbs;

pub use verbs::{SUBMIT, Submit, TRACK, Track};

/// An account tracks at most so many logs: each is a row of every snapshot.
pub const TRACKED_MAX: usize = 1_000;
/// Heads that are kept of each log, the newest by leaf, and the last proved one in any case. With one more the oldest is forgotten:
/// its leaf stands for ever, and another root of its size is then no longer found out here.
pub const KEPT_MAX: usize = 64;

/// What became of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The first, or proved to continue the last proved one.
    Consistent,
    /// Larger than the last proved one, and nothing shows that it continues it.
    Unproven,
    /// Smaller than the last proved one: no fault.
    Stale,
    /// Another root than a head of the same size: the log has two histories.
    Fork,
}

impl Outcome {
    /// As effects and answers write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Consistent => "consistent",
            Outcome::Unproven => "unproven",
            Outcome::Stale => "stale",
            Outcome::Fork => "fork",
        }
    }

    fn from_name(name: &str) -> Option<Outcome> {
        [
            Outcome::Consistent,
            Outcome::Unproven,
            Outcome::Stale,
            Outcome::Fork,
        ]
        .into_iter()
        .find(|outcome| outcome.name() == name)
    }
}

/// A head that was submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Leaves.
    pub size: u64,
    /// Root.
    pub root: Hash,
    /// SHA-256 of the note, as it came.
    pub note: Hash,
    /// What became of it.
    pub outcome: Outcome,
    /// The leaf that records it.
    pub index: u64,
    /// The log time of that leaf, in milliseconds since 1970.
    pub at: u64,
}

/// A log that is tracked.
#[derive(Clone, Debug, PartialEq)]
pub struct Tracked {
    /// The origin in its checkpoints.
    pub origin: String,
    /// The key that signs them.
    pub key: VerifierKey,
    /// The leaf that says so.
    pub index: u64,
    /// The last head that is proved.
    pub proved: Option<Seen>,
    /// Since when heads come that nothing proves: the log time of the first after the last proved one.
    pub unproven_since: Option<u64>,
    /// The two leaves that show a fork, the first one that was found; twice the same where one leaf holds evidence of it.
    pub fork: Option<(u64, u64)>,
    /// The newest heads, by leaf.
    kept: OrdMap<u64, Seen>,
}

impl Tracked {
    /// The head of this very note, if it is among those that are kept.
    #[must_use]
    pub fn seen(&self, note: &Hash) -> Option<&Seen> {
        self.kept.values().find(|seen| seen.note == *note)
    }

    /// A head of this size with another root.
    fn contradicts(&self, size: u64, root: &Hash) -> Option<&Seen> {
        let all = self.proved.iter().chain(self.kept.values());
        all.into_iter()
            .find(|seen| seen.size == size && seen.root != *root)
    }

    /// How many heads are kept.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Says in an effect which head gives way to the one that it takes in.
    fn forgets(&self, effect: &mut serde_json::Map<String, serde_json::Value>) {
        if self.kept.len() >= KEPT_MAX
            && let Some((index, _)) = self.kept.get_min()
        {
            effect.insert("forgets".into(), (*index).into());
        }
    }

    /// Takes in a head, and forgets the oldest where there are too many.
    fn take(&mut self, seen: Seen, against: u64) {
        match seen.outcome {
            Outcome::Consistent => {
                self.proved = Some(seen.clone());
                self.unproven_since = None;
            }
            Outcome::Unproven => {
                self.unproven_since.get_or_insert(seen.at);
            }
            Outcome::Stale => {}
            Outcome::Fork => {
                self.fork.get_or_insert((against, seen.index));
            }
        }
        self.kept.insert(seen.index, seen);
        while self.kept.len() > KEPT_MAX {
            let oldest = self.kept.get_min().map(|(index, _)| *index);
            if let Some(oldest) = oldest {
                self.kept.remove(&oldest);
            }
        }
    }
}

/// The logs that an account tracks, by origin.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Heads(OrdMap<String, Arc<Tracked>>);

impl Heads {
    /// The log of this origin.
    #[must_use]
    pub fn get(&self, origin: &str) -> Option<&Tracked> {
        self.0.get(origin).map(|tracked| &**tracked)
    }

    /// Every log, in order of origin.
    pub fn iter(&self) -> impl Iterator<Item = &Tracked> {
        self.0.values().map(|tracked| &**tracked)
    }

    /// Up to `limit` logs after `after`, in order of origin.
    pub fn page(&self, after: Option<&str>, limit: usize) -> impl Iterator<Item = &Tracked> {
        use std::ops::Bound;
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.0
            .range::<(Bound<&str>, Bound<&str>), str>((start, Bound::Unbounded))
            .take(limit)
            .map(|(_, tracked)| &**tracked)
    }

    fn insert(&mut self, tracked: Tracked) {
        self.0.insert(tracked.origin.clone(), Arc::new(tracked));
    }
}

/// A log as a snapshot holds it.
#[derive(Serialize, Deserialize)]
pub(super) struct Row {
    origin: String,
    vkey: String,
    index: u64,
    proved: Option<SeenRow>,
    unproven_since: Option<u64>,
    fork: Option<(u64, u64)>,
    kept: Vec<SeenRow>,
}

#[derive(Serialize, Deserialize)]
struct SeenRow {
    size: u64,
    root: String,
    note: String,
    outcome: Outcome,
    index: u64,
    at: u64,
}

impl From<&Seen> for SeenRow {
    fn from(seen: &Seen) -> SeenRow {
        SeenRow {
            size: seen.size,
            root: seen.root.to_hex(),
            note: seen.note.to_hex(),
            outcome: seen.outcome,
            index: seen.index,
            at: seen.at,
        }
    }
}

impl SeenRow {
    fn read(self) -> Option<Seen> {
        Some(Seen {
            size: self.size,
            root: Hash::from_hex(&self.root).ok()?,
            note: Hash::from_hex(&self.note).ok()?,
            outcome: self.outcome,
            index: self.index,
            at: self.at,
        })
    }
}

impl Heads {
    pub(super) fn to_rows(&self) -> Vec<Row> {
        let row = |tracked: &Tracked| Row {
            origin: tracked.origin.clone(),
            vkey: tracked.key.to_string(),
            index: tracked.index,
            proved: tracked.proved.as_ref().map(SeenRow::from),
            unproven_since: tracked.unproven_since,
            fork: tracked.fork,
            kept: tracked.kept.values().map(SeenRow::from).collect(),
        };
        self.iter().map(row).collect()
    }

    pub(super) fn from_rows(rows: Vec<Row>) -> Option<Heads> {
        let mut heads = Heads::default();
        for row in rows {
            let kept = row.kept.into_iter().map(SeenRow::read);
            heads.insert(Tracked {
                origin: row.origin,
                key: VerifierKey::parse(&row.vkey).ok()?,
                index: row.index,
                proved: match row.proved {
                    Some(row) => Some(row.read()?),
                    None => None,
                },
                unproven_since: row.unproven_since,
                fork: row.fork,
                kept: kept
                    .map(|seen| seen.map(|seen| (seen.index, seen)))
                    .collect::<Option<_>>()?,
            });
        }
        Some(heads)
    }
}

#[cfg(test)]
mod tests;
