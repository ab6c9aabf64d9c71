//! One more way through leaves that are known to be whole.

use super::Known;
use crate::{
    judge::Key,
    store::{
        StoreError,
        rocks::{RocksStore, Row, Rows},
    },
};
use countersign_verifier::hash::{Hash, leaf_hash};

/// Leaves that are taken at once: as many as are worth several cores.
pub(super) const CHUNK: usize = 2_048;
/// And so many bytes of them at most, beyond the last.
pub(super) const CHUNK_BYTES: usize = 8 << 20;

/// Shows the first `size` leaves in order, so many at once; `each` is told the index of the first of them.
pub(super) fn leaves(
    store: &RocksStore,
    size: u64,
    mut each: impl FnMut(u64, &[Vec<u8>]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let (mut chunk, mut bytes, mut next) = (Vec::new(), 0, 0_u64);
    let mut done = Ok(());
    store.scan(Rows::Entries, |row| {
        let leaf = match row {
            Row::Entry(index, leaf) if index == next && next < size => leaf,
            Row::Entry(..) => return false,
            // Named by the check; no leaf lies there.
            _ => return true,
        };
        next += 1;
        bytes += leaf.len();
        chunk.push(leaf.to_vec());
        if chunk.len() == CHUNK || bytes >= CHUNK_BYTES {
            done = each(next - chunk.len() as u64, &chunk);
            chunk.clear();
            bytes = 0;
        }
        done.is_ok() && next < size
    })?;
    done?;
    if next != size {
        let what = format!("entry {next} is missing");
        return Err(StoreError::Damaged { what });
    }
    if chunk.is_empty() {
        return Ok(());
    }
    each(next - chunk.len() as u64, &chunk)
}

/// The keys that a leaf is found by, each once: those that name it alone, its hash first, and the others.
pub(super) fn keys(hash: &Hash, known: &Known) -> (Vec<Key>, Vec<Key>) {
    let mut unique = vec![Key::new(Key::LEAF_HASH, hash)];
    for key in &known.unique {
        if !unique.contains(key) {
            unique.push(*key);
        }
    }
    let mut postings: Vec<Key> = Vec::with_capacity(known.postings.len());
    for key in &known.postings {
        if !postings.contains(key) {
            postings.push(*key);
        }
    }
    (unique, postings)
}

/// The same of a leaf's bytes.
pub(super) fn keys_of(leaf: &[u8], known: &Known) -> (Vec<Key>, Vec<Key>) {
    keys(&leaf_hash(leaf), known)
}

/// Whether a tree of `size` leaves has this full tile.
pub(super) fn has_tile(size: u64, level: u8, index: u64) -> bool {
    let full = |level: u8| size.checked_shr(8 * (u32::from(level) + 1)).unwrap_or(0);
    level < 8 && index < full(level)
}
