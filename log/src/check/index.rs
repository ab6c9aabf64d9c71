//! Lookup keys: whether there are those that the leaves have, and no others.

use super::{Class, Fault, Found};
use crate::{
    judge::Key,
    store::{
        StoreError,
        rocks::{RocksStore, Row, Rows},
    },
};

/// Faults that are named.
const NAMED_MAX: usize = 100;

/// The rows that must be there. Of each 8 bytes of what tells it apart are kept: a prefix of a SHA-256, mixed with the index.
#[derive(Default)]
pub(super) struct Expected {
    unique: Vec<u64>,
    postings: Vec<u64>,
    /// Keys that were found at a later leaf: key, this leaf, that leaf.
    later: Vec<(Key, u64, u64)>,
}

/// Odd, and otherwise as good as any: 2^64 divided by the golden ratio.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

fn mark(key: &Key, index: u64) -> u64 {
    let (prefix, rest) = key.prefix.split_at(8);
    // OK because it is eight bytes of sixteen, twice.
    let number = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().expect("index::mark"));
    let place = index.wrapping_mul(MIX).rotate_left(u32::from(key.space));
    number(prefix) ^ number(rest).rotate_left(1) ^ place
}

impl Expected {
    pub(super) fn add(&mut self, key: &Key, index: u64) {
        self.unique.push(mark(key, index));
    }

    pub(super) fn add_posting(&mut self, key: &Key, index: u64) {
        self.postings.push(mark(key, index));
    }

    pub(super) fn later(&mut self, key: &Key, index: u64, later: u64) {
        self.later.push((*key, index, later));
    }

    /// Looks at every row: is it one that a leaf has?
    pub(super) fn compare(mut self, store: &RocksStore, found: &mut Found) {
        self.unique.sort_unstable();
        self.postings.sort_unstable();
        for (key, index, later) in &self.later {
            if self.unique.binary_search(&mark(key, *later)).is_err() {
                let what = format!(
                    "its key of space {} leads to leaf {later}, which does not have it",
                    key.space
                );
                found
                    .faults
                    .push(Fault::new(Class::Index, Some(*index), what));
            }
        }
        for (rows, expected) in [
            (Rows::Unique, &self.unique),
            (Rows::Postings, &self.postings),
        ] {
            let mut faults = Vec::new();
            let scanned = store.scan(rows, |row| {
                found.keys += 1;
                let (index, what) = match row {
                    Row::Unique(key, index) | Row::Posting(key, index) => {
                        if expected.binary_search(&mark(&key, index)).is_ok() {
                            return true;
                        }
                        let what =
                            format!("a key of space {} that the leaf does not have", key.space);
                        (Some(index), what)
                    }
                    _ => (None, "a row that is none of a lookup key".into()),
                };
                faults.push(Fault::new(Class::Index, index, what));
                faults.len() < NAMED_MAX
            });
            if let Err(error) = scanned {
                let what = match error {
                    StoreError::Damaged { what } => what,
                    other => other.to_string(),
                };
                faults.push(Fault::new(Class::Index, None, what));
            }
            found.faults.append(&mut faults);
        }
    }
}
