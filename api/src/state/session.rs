//! Sessions: an identity at work in a role, for as long as it says so.

use std::sync::Arc;

use countersign_verifier::{
    key::IdentityId,
    leaf::{Class, Millis},
};
use imbl::{OrdMap, OrdSet};
use serde::{Deserialize, Serialize};

mod asked;
mod checkin;
mod due;
mod verbs;

pub use asked::{Binding, Checkin, Checkout, EvidenceOf, Harness, Heartbeat};
pub(super) use asked::{is_hidden, note};
pub use checkin::CHECKIN;
pub(super) use due::NOUN;
pub use verbs::{CHECKOUT, HEARTBEAT, check, gone};
pub(super) use verbs::{own_live, time, ttl_ms};

use super::{identity::Named, rows};

/// Roles that an account knows from the beginning.
pub const STARTER_ROLES: [&str; 6] = [
    "owner", "operator", "agent", "reviewer", "auditor", "reader",
];

/// So many sessions that ended are remembered: who comes back with one of them is told what became of it.
const ENDED_MAX: usize = 10_000;

/// The key of a session, which signs in the name of whoever bound it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// The key.
    #[serde(with = "rows::key")]
    pub named: Named,
    /// Log time at which the binding ends, in milliseconds since 1970.
    pub expires: u64,
}

/// How a session ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// The leaf that says so.
    pub index: u64,
    /// Its log time, in milliseconds since 1970.
    pub at: u64,
    /// What came of it, by whoever checked out; `None`: it expired.
    pub outcome: Option<String>,
    /// The leases that ended with it.
    pub released: Vec<u64>,
}

/// One session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// The leaf that began it.
    pub index: u64,
    /// Whose it is.
    #[serde(with = "rows::text")]
    pub identity: IdentityId,
    /// As what.
    pub role: String,
    /// Where the key lives that signs in it.
    #[serde(with = "rows::class")]
    pub class: Class,
    /// Nobody else may have the role beside it.
    pub exclusive: bool,
    /// The program that runs the agent.
    pub harness: Harness,
    /// The model, as the agent calls it.
    pub model: Option<String>,
    /// The client that carries the calls, as it calls itself.
    pub client: Option<Harness>,
    /// How long it lasts without a word, in milliseconds.
    pub ttl_ms: u64,
    /// Log time of its beginning, in milliseconds since 1970.
    pub started: u64,
    /// Log time of the last word from it that is in the log.
    pub seen: u64,
    /// Log time at which it ends by itself.
    pub expires: u64,
    /// The session before it that it goes on from.
    pub resumed: Option<u64>,
    /// A key that signs in it.
    pub key: Option<Bound>,
    /// Its last note.
    pub note: Option<String>,
    /// How far it says that it is, in per cent.
    pub progress: Option<u8>,
    /// That it is over.
    pub ended: Option<Ended>,
}

impl Session {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> String {
        id(self.index)
    }

    /// `live` or `ended`.
    #[must_use]
    pub fn state(&self) -> &'static str {
        if self.ended.is_none() {
            "live"
        } else {
            "ended"
        }
    }

    /// How often it should be heard of, in milliseconds: thrice within its time.
    #[must_use]
    pub fn beat_ms(&self) -> u64 {
        self.ttl_ms / 3
    }
}

/// The id of the session that began with leaf `index`.
#[must_use]
pub fn id(index: u64) -> String {
    format!("s_{index}")
}

/// The leaf that began the session of this id; `None` for a text that is no such id.
#[must_use]
pub fn parse_id(text: &str) -> Option<u64> {
    let index: u64 = text.strip_prefix("s_")?.parse().ok()?;
    (id(index) == text).then_some(index)
}

/// When a session that ended stood in the log, for people.
#[must_use]
pub(super) fn when(at: u64) -> String {
    Millis(at).to_string()
}

/// The live sessions of an account, and those that ended last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sessions {
    live: OrdMap<u64, Arc<Session>>,
    ended: OrdMap<u64, Arc<Session>>,
    /// The leaf that ended each of `ended`.
    ends: OrdMap<u64, u64>,
    by_expiry: OrdSet<(u64, u64)>,
    by_identity: OrdMap<IdentityId, OrdSet<u64>>,
    by_role: OrdMap<String, OrdSet<u64>>,
}

impl Sessions {
    /// The session that began with leaf `index`, live or one of those that ended last.
    #[must_use]
    pub fn get(&self, index: u64) -> Option<&Session> {
        let found = self.live.get(&index).or_else(|| self.ended.get(&index));
        found.map(|session| &**session)
    }

    /// The live sessions of an identity, in order.
    pub fn of(&self, identity: &IdentityId) -> impl Iterator<Item = &Session> {
        let indexes = self.by_identity.get(identity).into_iter().flatten();
        indexes.filter_map(|index| self.live.get(index).map(|s| &**s))
    }

    /// The live session of an identity that has one and no other.
    #[must_use]
    pub fn only_live_of(&self, identity: &IdentityId) -> Option<&Session> {
        let mut live = self.of(identity);
        live.next().filter(|_| live.next().is_none())
    }

    /// How many are live of an identity.
    #[must_use]
    pub fn count_of(&self, identity: &IdentityId) -> usize {
        self.by_identity.get(identity).map_or(0, OrdSet::len)
    }

    /// The live sessions in a role, in order.
    pub fn in_role(&self, role: &str) -> impl Iterator<Item = &Session> {
        let indexes = self.by_role.get(role).into_iter().flatten();
        indexes.filter_map(|index| self.live.get(index).map(|s| &**s))
    }

    /// How many are live.
    #[must_use]
    pub fn live_count(&self) -> usize {
        self.live.len()
    }

    /// Sessions after `after`, live and ended ones, in order of beginning.
    pub fn after(&self, after: Option<u64>) -> impl Iterator<Item = &Session> {
        let start = after.map_or(0, |after| after.saturating_add(1));
        let mut live = self.live.range(start..).map(|(_, s)| &**s).peekable();
        let mut ended = self.ended.range(start..).map(|(_, s)| &**s).peekable();
        std::iter::from_fn(move || match (live.peek(), ended.peek()) {
            (Some(l), Some(e)) if l.index < e.index => live.next(),
            (Some(_), None) => live.next(),
            _ => ended.next(),
        })
    }

    /// Puts a live session in, or in the place of what it was before.
    pub(super) fn put(&mut self, session: Session) {
        self.take_out(session.index);
        let index = session.index;
        self.by_expiry.insert((session.expires, index));
        let own = self.by_identity.entry(session.identity).or_default();
        own.insert(index);
        let beside = self.by_role.entry(session.role.clone()).or_default();
        beside.insert(index);
        self.live.insert(index, Arc::new(session));
    }

    /// Ends a live session.
    pub(super) fn end(&mut self, index: u64, ended: Ended) {
        let Some(session) = self.take_out(index) else {
            return;
        };
        self.keep(Session {
            ended: Some(ended),
            ..(*session).clone()
        });
    }

    /// Keeps one that ended, and forgets the one that ended first where they are too many.
    fn keep(&mut self, session: Session) {
        let Some(ended) = &session.ended else {
            return;
        };
        self.ends.insert(ended.index, session.index);
        self.ended.insert(session.index, Arc::new(session));
        if self.ended.len() > ENDED_MAX
            && let Some((oldest, index)) = self.ends.get_min().copied()
        {
            self.ends.remove(&oldest);
            self.ended.remove(&index);
        }
    }

    fn take_out(&mut self, index: u64) -> Option<Arc<Session>> {
        let session = self.live.remove(&index)?;
        self.by_expiry.remove(&(session.expires, index));
        remove(&mut self.by_identity, &session.identity, index);
        remove(&mut self.by_role, &session.role, index);
        Some(session)
    }

    /// Of an identity that was revoked: its sessions end with the next leaf.
    pub(super) fn end_all_of(&mut self, identity: &IdentityId, at: u64) {
        let own: Vec<Session> = self.of(identity).cloned().collect();
        for session in own {
            self.put(Session {
                expires: at,
                ..session
            });
        }
    }

    /// The live one that ends first.
    pub(super) fn next(&self) -> Option<(u64, u64)> {
        self.by_expiry.get_min().copied()
    }

    pub(super) fn extend(&mut self, by_ms: u64) {
        let running: Vec<Session> = self.live.values().map(|s| (**s).clone()).collect();
        for session in running {
            let expires = session.expires.saturating_add(by_ms);
            self.put(Session { expires, ..session });
        }
    }

    pub(super) fn to_rows(&self) -> Vec<Session> {
        let all = self.live.values().chain(self.ended.values());
        all.map(|session| (**session).clone()).collect()
    }

    pub(super) fn from_rows(rows: Vec<Session>) -> Sessions {
        let mut sessions = Sessions::default();
        for row in rows {
            match row.ended {
                None => sessions.put(row),
                Some(_) => sessions.keep(row),
            }
        }
        sessions
    }
}

/// Takes `index` out of the set under `key`, and the set away with its last one.
pub(super) fn remove<K: Ord + Clone>(map: &mut OrdMap<K, OrdSet<u64>>, key: &K, index: u64) {
    if let Some(set) = map.get_mut(key) {
        set.remove(&index);
        if set.is_empty() {
            map.remove(key);
        }
    }
}
