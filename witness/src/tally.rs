//! What a witness counts of each log. Kept in memory for those that called lately, and written from time to time: a crash loses
//! a few seconds of it, which no decision reads.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use countersign_verifier::hash::Hash;

use crate::store::{Store, StoreError};

/// So many logs are counted in memory before they are written: 4,096 of about 100 bytes.
const HELD_MAX: usize = 4_096;

/// Requests of one log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The day of the last request, days since 1970.
    pub day: u32,
    /// Requests on that day, refused ones included.
    pub requests: u64,
    /// Requests that were refused since the log is known, conflicts not included.
    pub refusals: u64,
}

impl Tally {
    /// Requests on `day`.
    #[must_use]
    pub fn on(&self, day: u32) -> u64 {
        if self.day == day { self.requests } else { 0 }
    }

    /// This and what came later.
    fn and(self, later: Tally) -> Tally {
        let before = if self.day == later.day {
            self.requests
        } else {
            0
        };
        Tally {
            day: later.day,
            requests: before + later.requests,
            refusals: self.refusals + later.refusals,
        }
    }

    /// As it is stored: three numbers, big-endian, 4 + 8 + 8 bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; 20] {
        let mut bytes = [0; 20];
        bytes[..4].copy_from_slice(&self.day.to_be_bytes());
        bytes[4..12].copy_from_slice(&self.requests.to_be_bytes());
        bytes[12..].copy_from_slice(&self.refusals.to_be_bytes());
        bytes
    }

    /// Reads what [`encode`](Self::encode) wrote; anything else counts nothing.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Tally {
        let Ok(bytes) = <[u8; 20]>::try_from(bytes) else {
            return Tally::default();
        };
        let number = |at: usize| {
            // OK because both slices have eight bytes.
            u64::from_be_bytes(bytes[at..at + 8].try_into().expect("Tally::decode"))
        };
        Tally {
            day: u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
            requests: number(4),
            refusals: number(12),
        }
    }
}

/// The day of a time in POSIX seconds.
#[must_use]
pub fn day(time: u64) -> u32 {
    u32::try_from(time / 86_400).unwrap_or(u32::MAX)
}

/// What was not yet written.
#[derive(Debug, Default)]
pub struct Tallies(Mutex<HashMap<Hash, Tally>>);

impl Tallies {
    /// Counts a request of a configured log. Whether there is so much that it should be written now.
    pub fn count(&self, log: Hash, day: u32, refused: bool) -> bool {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let tally = held.entry(log).or_default();
        *tally = tally.and(Tally {
            day,
            requests: 1,
            refusals: u64::from(refused),
        });
        held.len() >= HELD_MAX
    }

    /// What is stored and what is not yet, together.
    ///
    /// # Errors
    /// What the store says.
    pub fn of(&self, store: &dyn Store, log: &Hash) -> Result<Tally, StoreError> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stored = store.tally(log)?;
        Ok(held.get(log).map_or(stored, |later| stored.and(*later)))
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// What the store says; then it is tried again with the next.
    pub fn flush(&self, store: &dyn Store) -> Result<(), StoreError> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_empty() {
            return Ok(());
        }
        let mut sums = Vec::with_capacity(held.len());
        for (log, later) in held.iter() {
            sums.push((*log, store.tally(log)?.and(*later)));
        }
        store.put_tallies(&sums)?;
        held.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Memory;

    #[test]
    fn counts_survive_and_days_begin_anew() {
        let (store, tallies) = (Memory::default(), Tallies::default());
        let log = Hash([1; 32]);
        tallies.count(log, 5, true);
        tallies.count(log, 5, false);
        tallies.flush(&store).unwrap();
        tallies.count(log, 5, false);
        let found = tallies.of(&store, &log).unwrap();
        assert_eq!((found.on(5), found.on(6), found.refusals), (3, 0, 1));
        tallies.flush(&store).unwrap();
        tallies.count(log, 6, true);
        let found = tallies.of(&store, &log).unwrap();
        assert_eq!((found.on(5), found.on(6), found.refusals), (0, 1, 2));
        assert_eq!(Tally::decode(&found.encode()), found);
        assert_eq!(Tally::decode(b"short"), Tally::default());
    }
}
