//! The logs that a witness knows: origin, keys, and what they may ask for. Additions only: a log that was removed and added
//! again could be cosigned on another branch, and a list that changed must not change whom the witness trusts.
//!
//! Kept in the store. In memory is what was asked for lately, never more than [`CACHED_MAX`] of them.

mod entry;
mod known;

pub use self::entry::{Addition, LOG_PEERS_MAX, LogEntry, Outcome, URL_BYTES_MAX, address};

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use countersign_verifier::checkpoint::origin_hash;
use countersign_verifier::hash::Hash;
use countersign_verifier::vkey::{Algorithm, VerifierKey};

use self::entry::{Outline, check, join};
use self::known::Known;
use crate::store::{Store, StoreError};

/// Logs held in memory, of about 600 bytes each: 10 MB. One with a key of ML-DSA-44, which has 20 KB, counts for 32.
pub const CACHED_MAX: usize = 16_384;
/// Longest origin, in bytes: what an ML-DSA-44 cosignature can name.
pub const ORIGIN_BYTES_MAX: usize = 255;
/// Most keys of one log.
pub const KEYS_MAX: usize = 8;
/// Most private logs: each is asked for by itself, at each of its peers.
pub const PRIVATE_MAX: usize = 1_024;
/// Most peers that are pulled, those that private logs name included.
pub const PEERS_MAX: usize = 64;

/// The logs of one witness.
pub struct Roster {
    store: Arc<dyn Store>,
    /// The witness's own names and public keys.
    own: Vec<VerifierKey>,
    cache: RwLock<Cache>,
    /// Held while additions are compared and stored.
    known: Mutex<Known>,
}

/// What was asked for lately.
#[derive(Default)]
struct Cache {
    logs: HashMap<String, Arc<LogEntry>>,
    weight: usize,
    /// How often entries were changed in the store: one that was read before the last change is not put here.
    changes: u64,
}

/// A log of a page, as far as it can be told without reading keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// SHA-256 of the origin.
    pub log: Hash,
    /// Not to be shown to everybody.
    pub private: bool,
}

impl Roster {
    /// The roster in `store` of a witness whose own keys these are.
    ///
    /// # Errors
    /// What the store says; `Damaged` if an entry cannot be read.
    pub fn open(store: Arc<dyn Store>, own: Vec<VerifierKey>) -> Result<Roster, StoreError> {
        let mut known = Known::default();
        let mut after = None;
        loop {
            let page = store.entries(after.as_ref(), 1_000)?;
            let Some((last, _)) = page.last() else { break };
            after = Some(*last);
            for (log, bytes) in &page {
                let entry = serde_json::from_slice(bytes).map_err(|_| bad_entry())?;
                known.read(*log, entry);
            }
        }
        Ok(Roster {
            store,
            own,
            cache: RwLock::default(),
            known: Mutex::new(known),
        })
    }

    /// The log of this origin, an exact string of bytes.
    ///
    /// # Errors
    /// What the store says.
    pub fn find(&self, origin: &str) -> Result<Option<Arc<LogEntry>>, StoreError> {
        if origin.len() > ORIGIN_BYTES_MAX {
            return Ok(None);
        }
        let cached = self.cache.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = cached.logs.get(origin) {
            return Ok(Some(entry.clone()));
        }
        // Before the store is read, and without holding anybody up: with 100,000 logs most are not in memory.
        let changes = cached.changes;
        drop(cached);
        let Some(entry) = self.load(origin)?.map(Arc::new) else {
            return Ok(None);
        };
        let mut cache = self.cache.write().unwrap_or_else(PoisonError::into_inner);
        // What is in memory is never older than what is stored.
        if cache.changes != changes {
            return Ok(Some(entry));
        }
        let heavy = |key: &VerifierKey| matches!(key.algorithm, Algorithm::MlDsa44(_));
        cache.weight += 1 + 31 * entry.keys.iter().filter(|key| heavy(key)).count();
        if cache.weight > CACHED_MAX {
            *cache = Cache {
                changes,
                ..Cache::default()
            };
        }
        cache.logs.insert(origin.to_owned(), entry.clone());
        Ok(Some(entry))
    }

    /// Up to `limit` logs behind `after`, by the hash of their origins.
    ///
    /// # Errors
    /// What the store says; `Damaged` if an entry cannot be read.
    pub fn page(
        &self,
        after: Option<&Hash>,
        limit: usize,
    ) -> Result<Vec<(Hash, LogEntry)>, StoreError> {
        let page = self.store.entries(after, limit)?;
        page.iter()
            .map(|(log, bytes)| Ok((*log, LogEntry::decode(bytes).ok_or_else(bad_entry)?)))
            .collect()
    }

    /// Up to `limit` logs behind `after`, without their keys.
    ///
    /// # Errors
    /// What the store says; `Damaged` if an entry cannot be read.
    pub fn outlines(&self, after: Option<&Hash>, limit: usize) -> Result<Vec<Listed>, StoreError> {
        let page = self.store.entries(after, limit)?;
        let outline = |(log, bytes): &(Hash, Vec<u8>)| {
            let entry: Outline = serde_json::from_slice(bytes).map_err(|_| bad_entry())?;
            let private = entry.private;
            Ok(Listed { log: *log, private })
        };
        page.iter().map(outline).collect()
    }

    /// The log whose origin has this SHA-256.
    ///
    /// # Errors
    /// What the store says; `Damaged` if the entry cannot be read.
    pub fn get(&self, log: &Hash) -> Result<Option<LogEntry>, StoreError> {
        let found = self.store.entry(log)?;
        found
            .map(|bytes| LogEntry::decode(&bytes).ok_or_else(bad_entry))
            .transpose()
    }

    /// The private logs, by the hash of their origins.
    #[must_use]
    pub fn private(&self) -> Vec<Hash> {
        self.known().private.logs.iter().copied().collect()
    }

    /// Says whom the witness pulls for everything.
    ///
    /// # Errors
    /// In words, that with those that private logs name there are more than [`PEERS_MAX`].
    pub fn pull(&self, peers: &[String]) -> Result<(), String> {
        self.known().private.pull(peers)
    }

    /// Whom the witness pulls: those that it was told to, and those that private logs name.
    #[must_use]
    pub fn peers(&self) -> BTreeSet<String> {
        self.known().private.peers()
    }

    /// The logs that there is evidence of a fork of.
    #[must_use]
    pub fn forked(&self) -> Vec<Hash> {
        self.known().forked.iter().copied().collect()
    }

    /// Marks a log as forked at `now`, POSIX seconds, durable on return. Nothing takes the mark away.
    ///
    /// # Errors
    /// What the store says.
    pub fn mark_forked(&self, log: &Hash, now: u64) -> Result<(), StoreError> {
        let mut known = self.known();
        let Some(mut entry) = self.get(log)? else {
            return Ok(());
        };
        if entry.forked.is_none() {
            entry.forked = Some(now);
            self.store.put_entries(&[(*log, entry.encode())])?;
        }
        known.forked.insert(*log);
        self.changed([entry]);
        Ok(())
    }

    /// How many logs there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.known().logs
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The lists that logs came from, sorted.
    #[must_use]
    pub fn lists(&self) -> Vec<String> {
        self.known().lists.iter().cloned().collect()
    }

    /// Adds logs, durable on return, and says what became of each. A list never changes a log that is known; the operator may
    /// give it one more key.
    ///
    /// # Errors
    /// What the store says; then nothing was added.
    pub fn add(&self, additions: &[Addition]) -> Result<Vec<Outcome>, StoreError> {
        let mut known = self.known();
        let mut fresh: HashMap<Hash, LogEntry> = HashMap::new();
        let mut outcomes = Vec::with_capacity(additions.len());
        let mut new = Vec::new();
        let mut private = known.private.clone();
        for addition in additions {
            let (origin, key) = match check(addition, &self.own) {
                Ok(checked) => checked,
                Err(why) => {
                    outcomes.push(Outcome::Refused { why });
                    continue;
                }
            };
            let log = origin_hash(&origin);
            let before = match fresh.get(&log) {
                Some(entry) => Some(entry.clone()),
                None => self.load(&origin)?,
            };
            let is_new = before.is_none();
            let (entry, mut outcome) = join(before, origin, key, addition);
            let changes = matches!(
                outcome,
                Outcome::Added | Outcome::KeyAdded | Outcome::Changed
            );
            if changes
                && entry.private
                && let Err(why) = private.take(log, &entry.peers)
            {
                outcome = Outcome::Refused { why };
            } else if changes {
                if is_new {
                    new.push(log);
                }
                fresh.insert(log, entry);
            }
            outcomes.push(outcome);
        }
        if fresh.is_empty() {
            return Ok(outcomes);
        }
        let rows: Vec<_> = fresh.iter().map(|(log, e)| (*log, e.encode())).collect();
        self.store.put_entries(&rows)?;
        new.iter()
            .for_each(|log| known.count(fresh[log].list.as_deref()));
        known.private = private;
        self.changed(fresh.into_values());
        Ok(outcomes)
    }

    /// Entries are stored that are other than those in memory.
    fn changed(&self, entries: impl IntoIterator<Item = LogEntry>) {
        let mut cache = self.cache.write().unwrap_or_else(PoisonError::into_inner);
        cache.changes += 1;
        for entry in entries {
            cache.logs.remove(&entry.origin);
        }
    }

    fn load(&self, origin: &str) -> Result<Option<LogEntry>, StoreError> {
        let Some(bytes) = self.store.entry(&origin_hash(origin))? else {
            return Ok(None);
        };
        let entry = LogEntry::decode(&bytes).filter(|entry| entry.origin == origin);
        entry.map(Some).ok_or_else(bad_entry)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bad_entry() -> StoreError {
    StoreError::Damaged("an entry of the roster is not one of ours".into())
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::SigningKey;

    use super::*;
    use crate::keys::Keys;
    use crate::store::Memory;

    fn vkey(name: &str, seed: u8) -> String {
        let key = SigningKey::from_bytes(&[seed; 32]).verifying_key();
        let key = VerifierKey::new(name, Algorithm::Ed25519(key)).unwrap();
        key.to_string()
    }

    fn addition(name: &str, seed: u8) -> Addition {
        Addition {
            vkey: vkey(name, seed),
            ..Addition::default()
        }
    }

    fn roster(store: Arc<Memory>) -> Roster {
        let own = Keys::from_seeds("w.example", &[99; 32], None).unwrap();
        let own = own.vkeys().into_iter().cloned().collect();
        Roster::open(store, own).unwrap()
    }

    fn refused(roster: &Roster, addition: Addition) -> bool {
        matches!(roster.add(&[addition]).unwrap()[0], Outcome::Refused { .. })
    }

    #[test]
    fn additions_only() {
        let store = Arc::new(Memory::default());
        let roster = roster(store.clone());
        let mut listed = addition("a.example", 2);
        listed.list = Some("list".into());
        let batch = [addition("a.example", 1), addition("b.example", 1)];
        assert_eq!(roster.add(&batch), Ok(vec![Outcome::Added; 2]));
        assert_eq!(roster.add(&batch), Ok(vec![Outcome::Known; 2]));
        assert_eq!(roster.add(&[listed.clone()]), Ok(vec![Outcome::Kept]));
        assert_eq!(roster.find("a.example").unwrap().unwrap().keys.len(), 1);
        let second = roster.add(&[addition("a.example", 2)]);
        assert_eq!(second, Ok(vec![Outcome::KeyAdded]));
        assert_eq!(roster.find("a.example").unwrap().unwrap().keys.len(), 2);
        assert_eq!(roster.find("A.example"), Ok(None), "an exact string");
        listed.vkey = vkey("c.example", 3);
        listed.origin = Some("go.sum database tree".into());
        listed.qpd = Some(100);
        assert_eq!(roster.add(&[listed]), Ok(vec![Outcome::Added]));
        let again = self::roster(store);
        let found = again.find("go.sum database tree").unwrap().unwrap();
        assert_eq!((found.qpd, again.len()), (Some(100), 3));
        assert_eq!(again.lists(), ["list"]);
        assert_eq!(again.page(None, 10).unwrap().len(), 3);
    }

    #[test]
    fn t47_t17_t16_the_witness_itself_and_other_witnesses_are_no_logs() {
        let roster = roster(Arc::default());
        assert!(refused(&roster, addition("w.example", 1)), "own name");
        let mut own_origin = addition("x.example", 1);
        own_origin.origin = Some("w.example".into());
        assert!(refused(&roster, own_origin), "own name as origin");
        assert!(refused(&roster, addition("x.example", 99)), "own key");
        let mut witness = addition("x.example", 1);
        let key = VerifierKey::parse(&witness.vkey).unwrap();
        witness.vkey = key.as_cosigner().unwrap().to_string();
        assert!(refused(&roster, witness), "type 0x04");
        for origin in ["", "two\nlines", &"x".repeat(256)] {
            let mut odd = addition("x.example", 1);
            odd.origin = Some(origin.into());
            assert!(refused(&roster, odd), "{origin:?}");
        }
        assert!(roster.is_empty());
    }

    #[test]
    fn the_operator_says_where_a_log_is_and_who_may_know_of_it() {
        let store = Arc::new(Memory::default());
        let roster = roster(store.clone());
        let plain = addition("a.example", 1);
        assert_eq!(
            roster.add(std::slice::from_ref(&plain)),
            Ok(vec![Outcome::Added])
        );
        let mut more = plain.clone();
        more.url = Some("https://a.example/log/".into());
        more.private = true;
        more.peers = vec!["http://p.example:1/x".into()];
        assert_eq!(roster.add(&[more.clone()]), Ok(vec![Outcome::Changed]));
        assert_eq!(roster.add(&[more, plain]), Ok(vec![Outcome::Known; 2]));
        let found = roster.find("a.example").unwrap().unwrap();
        assert_eq!(found.url.as_deref(), Some("https://a.example/log"));
        assert!(found.private && found.peers == ["http://p.example:1/x"]);
        let log = origin_hash("a.example");
        let again = self::roster(store);
        assert_eq!((again.private(), again.len()), (vec![log], 1));
        let private = true;
        assert_eq!(again.outlines(None, 9), Ok(vec![Listed { log, private }]));
        let mut peered = addition("b.example", 2);
        peered.peers = vec!["http://p.example".into()];
        assert!(refused(&again, peered), "peers of a public log");
        for odd in [
            "ftp://x",
            "https://",
            "http://a b",
            "x.example",
            "http://u@h",
        ] {
            let mut odd_url = addition("c.example", 3);
            odd_url.url = Some(odd.into());
            assert!(refused(&again, odd_url), "{odd}");
        }
        assert_eq!(again.len(), 1);
    }

    #[test]
    fn peers_beyond_the_limit_are_refused_by_name_and_never_passed_over() {
        let store = Arc::new(Memory::default());
        let roster = roster(store.clone());
        let url = |n: usize| format!("http://p.example:{n}");
        let pulled: Vec<String> = (0..PEERS_MAX - 1).map(url).collect();
        assert_eq!(roster.pull(&pulled), Ok(()));
        let mut private = addition("a.example", 1);
        private.private = true;
        private.peers = vec![url(0), url(PEERS_MAX)];
        assert_eq!(roster.add(&[private.clone()]), Ok(vec![Outcome::Added]));
        assert_eq!(roster.peers().len(), PEERS_MAX);
        private.peers = vec![url(PEERS_MAX + 1)];
        match &roster.add(&[private]).unwrap()[0] {
            Outcome::Refused { why } => assert!(why.contains("at most 64 peers"), "{why}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(roster.find("a.example").unwrap().unwrap().peers.len(), 2);
        // After a restart, with more to pull.
        let again = self::roster(store);
        let more: Vec<String> = (0..PEERS_MAX).map(url).collect();
        let why = again.pull(&more).unwrap_err();
        assert!(
            why.contains("at most 64 peers") && why.ends_with("65"),
            "{why}"
        );
        assert_eq!(again.peers().len(), 2);
    }

    #[test]
    fn what_is_found_is_what_is_stored_whoever_changes_it_meanwhile() {
        let store = Arc::new(Memory::default());
        let roster = roster(store);
        roster.add(&[addition("a.example", 1)]).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while roster.find("a.example").unwrap().unwrap().keys.len() < KEYS_MAX {}
                });
            }
            for seed in 2..=8 {
                roster.add(&[addition("a.example", seed)]).unwrap();
                let found = roster.find("a.example").unwrap().unwrap();
                assert_eq!(found.keys.len(), usize::from(seed));
            }
        });
    }

    #[test]
    fn a_mark_stays_whatever_is_added() {
        let store = Arc::new(Memory::default());
        let roster = roster(store.clone());
        roster.add(&[addition("a.example", 1)]).unwrap();
        let log = origin_hash("a.example");
        roster.find("a.example").unwrap();
        roster.mark_forked(&log, 7).unwrap();
        roster.mark_forked(&log, 9).unwrap();
        roster.add(&[addition("a.example", 2)]).unwrap();
        let again = self::roster(store);
        let found = again.find("a.example").unwrap().unwrap();
        assert_eq!((found.forked, found.keys.len()), (Some(7), 2));
        assert_eq!(again.forked(), [log]);
        assert_eq!(again.mark_forked(&Hash([9; 32]), 7), Ok(()), "unknown");
    }
}
