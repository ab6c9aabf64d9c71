//! The logs that a witness knows: origin, keys, and what they may ask for. Additions only: a log that was removed and added
//! again could be cosigned on another branch, and a list that changed must not change whom the witness trusts.
//!
//! Kept in the store. In memory is what was asked for lately, never more than [`CACHED_MAX`] of them.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use countersign_verifier::checkpoint::origin_hash;
use countersign_verifier::hash::Hash;
use countersign_verifier::vkey::{Algorithm, VerifierKey, VkeyError};
use serde::{Deserialize, Serialize};

use crate::store::{Store, StoreError};

/// Logs held in memory, of about 600 bytes each: 10 MB. One with a key of ML-DSA-44, which has 20 KB, counts for 32.
pub const CACHED_MAX: usize = 16_384;
/// Longest origin, in bytes: what an ML-DSA-44 cosignature can name.
pub const ORIGIN_BYTES_MAX: usize = 255;
/// Most keys of one log.
pub const KEYS_MAX: usize = 8;
/// Most lists that are named on the witness's page.
const LISTS_MAX: usize = 64;

/// A configured log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// First line of its checkpoints.
    pub origin: String,
    /// The keys that it signs with; any of them is enough.
    pub keys: Vec<VerifierKey>,
    /// Requests a day that a list announces.
    pub qpd: Option<u32>,
    /// The list that it came from; `None` if the operator added it.
    pub list: Option<String>,
}

/// A log to add.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Addition {
    /// Its verifier key.
    pub vkey: String,
    /// Its origin; the key's name if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// Requests a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qpd: Option<u32>,
    /// The list that it stands in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<String>,
}

/// What became of an addition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Outcome {
    /// The log was new.
    Added,
    /// The operator gave a known log one more key.
    KeyAdded,
    /// Nothing new.
    Known,
    /// A list has another key for a known log than the witness; the witness keeps its own.
    Kept,
    /// It cannot be taken.
    Refused {
        /// Why.
        why: String,
    },
}

/// The stored form of a [`LogEntry`].
#[derive(Serialize, Deserialize)]
struct Stored {
    origin: String,
    vkeys: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    qpd: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    list: Option<String>,
}

/// What is counted of a [`Stored`].
#[derive(Deserialize)]
struct Listed {
    list: Option<String>,
}

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
}

/// What is known of all logs together.
#[derive(Default)]
struct Known {
    logs: u64,
    lists: BTreeSet<String>,
}

impl LogEntry {
    fn decode(bytes: &[u8]) -> Option<LogEntry> {
        let stored: Stored = serde_json::from_slice(bytes).ok()?;
        let keys = stored.vkeys.iter().map(|text| VerifierKey::parse(text));
        Some(LogEntry {
            origin: stored.origin,
            keys: keys.collect::<Result<_, VkeyError>>().ok()?,
            qpd: stored.qpd,
            list: stored.list,
        })
    }

    /// # Panics
    /// Never.
    fn encode(&self) -> Vec<u8> {
        let stored = Stored {
            origin: self.origin.clone(),
            vkeys: self.keys.iter().map(ToString::to_string).collect(),
            qpd: self.qpd,
            list: self.list.clone(),
        };
        // OK because strings and numbers always have a JSON form.
        serde_json::to_vec(&stored).expect("LogEntry::encode")
    }
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
            for (_, bytes) in &page {
                // Keys are read when they are asked for: of 100,000 logs that would take seconds here.
                let entry: Listed = serde_json::from_slice(bytes).map_err(|_| bad_entry())?;
                known.count(entry.list.as_deref());
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
        drop(cached);
        // Also where additions are held, so that what is cached is never older than what is stored.
        let _held = self.known();
        let Some(entry) = self.load(origin)?.map(Arc::new) else {
            return Ok(None);
        };
        let mut cache = self.cache.write().unwrap_or_else(PoisonError::into_inner);
        let heavy = |key: &VerifierKey| matches!(key.algorithm, Algorithm::MlDsa44(_));
        cache.weight += 1 + 31 * entry.keys.iter().filter(|key| heavy(key)).count();
        if cache.weight > CACHED_MAX {
            *cache = Cache::default();
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
        for addition in additions {
            let (origin, key) = match self.check(addition) {
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
            if before.is_none() {
                new.push(log);
            }
            let (entry, outcome) = join(before, origin, key, addition);
            if matches!(outcome, Outcome::Added | Outcome::KeyAdded) {
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
        let mut cache = self.cache.write().unwrap_or_else(PoisonError::into_inner);
        for entry in fresh.into_values() {
            cache.logs.remove(&entry.origin);
        }
        Ok(outcomes)
    }

    /// Origin and key of an addition that can be taken.
    fn check(&self, addition: &Addition) -> Result<(String, VerifierKey), String> {
        let key = VerifierKey::parse(&addition.vkey).map_err(|why| why.to_string())?;
        let origin = addition.origin.clone().unwrap_or_else(|| key.name.clone());
        if origin.is_empty() || origin.contains(|c: char| c < ' ') {
            return Err("an origin is not empty, and one line".into());
        }
        if origin.len() > ORIGIN_BYTES_MAX {
            return Err(format!(
                "an origin beyond {ORIGIN_BYTES_MAX} bytes cannot be cosigned"
            ));
        }
        match key.algorithm {
            Algorithm::Ed25519(_) | Algorithm::EcdsaP256(_) | Algorithm::MlDsa44(_) => {}
            Algorithm::CosignatureV1(_) => {
                return Err("this is the key of a witness (type 0x04), not of a log".into());
            }
            Algorithm::Other { .. } => {
                let kind = key.algorithm.kind();
                return Err(format!(
                    "logs that sign by keys of type 0x{kind:02x} are not taken"
                ));
            }
        }
        for own in &self.own {
            if own.name == origin || own.name == key.name {
                return Err("this is the witness's own name".into());
            }
            if own.algorithm.public_key() == key.algorithm.public_key() {
                return Err("this is the witness's own key".into());
            }
        }
        Ok((origin, key))
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

impl Known {
    fn count(&mut self, list: Option<&str>) {
        self.logs += 1;
        if let Some(list) = list
            && self.lists.len() < LISTS_MAX
        {
            self.lists.insert(list.to_owned());
        }
    }
}

/// What an addition makes of what is known.
fn join(
    before: Option<LogEntry>,
    origin: String,
    key: VerifierKey,
    addition: &Addition,
) -> (LogEntry, Outcome) {
    let Some(mut entry) = before else {
        let entry = LogEntry {
            origin,
            keys: vec![key],
            qpd: addition.qpd,
            list: addition.list.clone(),
        };
        return (entry, Outcome::Added);
    };
    let outcome = if entry.keys.contains(&key) {
        Outcome::Known
    } else if addition.list.is_some() {
        Outcome::Kept
    } else if entry
        .keys
        .iter()
        .any(|k| k.name == key.name && k.id == key.id)
    {
        let why = "a known key of this log has the same name and key ID".into();
        Outcome::Refused { why }
    } else if entry.keys.len() >= KEYS_MAX {
        let why = format!("a log has at most {KEYS_MAX} keys");
        Outcome::Refused { why }
    } else {
        entry.keys.push(key);
        Outcome::KeyAdded
    };
    (entry, outcome)
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
            origin: None,
            qpd: None,
            list: None,
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
}
