//! The way through the leaves of a store.

mod settle;

use std::collections::{BTreeMap, BTreeSet};

use countersign_verifier::{
    hash::{Hash, leaf_hash},
    limits::ENTRY_BYTES_MAX,
    tile::Tile,
};

use super::{
    Above, Class, Fault,
    faults::{Bits, Faults, NAMED_MAX},
    index::Claims,
    pass::{self, CHUNK, CHUNK_BYTES},
};
use crate::{
    grow::Edge,
    judge::Key,
    store::{
        Head, Store, StoreError,
        rocks::{RocksStore, Row, Rows},
    },
};

pub(super) struct Walk<'a> {
    store: &'a RocksStore,
    head: Head,
    edge: Edge,
    /// Sizes whose roots are asked for, and those found.
    sizes: BTreeSet<u64>,
    pub(super) roots: BTreeMap<u64, Hash>,
    pub(super) tiles: u64,
    /// Leaves of which the tile above them has another hash.
    apart: Bits,
    /// Where a tile further up says otherwise than the one below: level, index, place in it.
    apart_above: Vec<(u8, u64, u64)>,
    /// Leaves that are not found by their hash.
    unfound: Bits,
    /// Leaves that are not found by another of their keys; the first faults of that kind.
    keyless: Bits,
    keyless_first: Vec<Fault>,
    claims: Claims,
    faults: Faults,
    /// Whether every leaf up to the head was read.
    ended: bool,
    last_at: Option<u64>,
    /// From which leaf on it is not known by what it is found.
    unknown: Option<u64>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(store: &'a RocksStore, head: Head, sizes: BTreeSet<u64>) -> Walk<'a> {
        let mut walk = Walk {
            store,
            head,
            edge: Edge::default(),
            sizes,
            roots: BTreeMap::new(),
            tiles: 0,
            apart: Bits::default(),
            apart_above: Vec::new(),
            unfound: Bits::default(),
            keyless: Bits::default(),
            keyless_first: Vec::new(),
            claims: Claims::default(),
            faults: Faults::default(),
            ended: false,
            last_at: None,
            unknown: None,
        };
        walk.note_root();
        walk
    }

    /// Reads every leaf.
    pub(super) fn run(&mut self, above: &mut dyn Above) -> Result<(), StoreError> {
        let store = self.store;
        let (mut chunk, mut bytes) = (Vec::new(), 0);
        let (mut next, mut failed) = (0_u64, None);
        let mut faults = Faults::default();
        let mut whole = true;
        let scanned = store.scan(Rows::Entries, |row| {
            let Row::Entry(index, leaf) = row else {
                faults.add(Class::Entry, None, "a row that is none of a leaf");
                return true;
            };
            if index != next && next < self.head.size {
                faults.add(Class::Entry, Some(next), "the leaf is missing");
                whole = false;
                return false;
            }
            if index >= self.head.size {
                let what = format!("a leaf beyond the head, which has {}", self.head.size);
                faults.add(Class::Entry, Some(index), what);
                return true;
            }
            if leaf.len() > ENTRY_BYTES_MAX {
                let what = format!("a leaf of {} bytes, longer than any", leaf.len());
                faults.add(Class::Entry, Some(index), what);
                whole = false;
                return false;
            }
            next += 1;
            bytes += leaf.len();
            chunk.push(leaf.to_vec());
            if chunk.len() == CHUNK || bytes >= CHUNK_BYTES {
                failed = self.take(&std::mem::take(&mut chunk), above).err();
                bytes = 0;
            }
            failed.is_none()
        });
        if let Some(error) = failed {
            return Err(error);
        }
        self.take(&chunk, above)?;
        match scanned {
            Ok(()) if next < self.head.size && whole => {
                let what = format!(
                    "the leaf is missing, and all after it: the head has {}",
                    self.head.size
                );
                faults.add(Class::Entry, Some(next), what);
            }
            Err(StoreError::Damaged { what }) => faults.add(Class::Entry, Some(next), what),
            other => other?,
        }
        self.ended = next == self.head.size;
        self.faults.append(faults);
        Ok(())
    }

    fn note_root(&mut self) {
        let size = self.edge.size();
        if self.sizes.remove(&size) {
            self.roots.insert(size, self.edge.root());
        }
    }

    fn take(&mut self, leaves: &[Vec<u8>], above: &mut dyn Above) -> Result<(), StoreError> {
        if leaves.is_empty() {
            return Ok(());
        }
        let first = self.edge.size();
        let known = above.take(first, leaves);
        let mut full = Vec::new();
        for (at, leaf) in leaves.iter().enumerate() {
            let index = self.edge.size();
            let hash = leaf_hash(leaf);
            self.edge.push(hash, &mut full);
            self.note_root();
            match known.get(at).and_then(Option::as_ref) {
                Some(known) => {
                    let (unique, postings) = pass::keys(&hash, known);
                    self.found_by(index, &unique)?;
                    self.listed_under(index, &postings)?;
                    self.last_at = Some(known.at);
                }
                None => {
                    self.found_by(index, &[Key::new(Key::LEAF_HASH, &hash)])?;
                    self.unknown.get_or_insert(index);
                }
            }
        }
        for (tile, bytes) in &full {
            self.compare(tile, bytes)?;
        }
        above.progress(self.edge.size(), self.head.size);
        Ok(())
    }

    fn found_by(&mut self, index: u64, keys: &[Key]) -> Result<(), StoreError> {
        for key in keys {
            let found = match self.store.find(key) {
                Err(StoreError::Damaged { what }) => {
                    self.index_fault(index, what);
                    continue;
                }
                found => found?,
            };
            match found {
                Some(found) if found == index => self.claims.unique(key, index),
                Some(later) if later > index => self.claims.later(key, index, later),
                _ if key.space == Key::LEAF_HASH => self.unfound.set(index),
                _ => self.index_fault(index, missing(key)),
            }
        }
        Ok(())
    }

    fn listed_under(&mut self, index: u64, keys: &[Key]) -> Result<(), StoreError> {
        for key in keys {
            match self.store.postings(key, index.checked_sub(1), 1) {
                Ok(found) if found == [index] => self.claims.posting(key, index),
                Ok(_) => self.index_fault(index, missing(key)),
                Err(StoreError::Damaged { what }) => self.index_fault(index, what),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn index_fault(&mut self, index: u64, what: String) {
        self.keyless.set(index);
        // Some of them may turn out to be of a changed leaf, and are then none.
        if self.keyless_first.len() < 2 * NAMED_MAX {
            let fault = Fault::new(Class::Index, Some(index), what);
            self.keyless_first.push(fault);
        }
    }

    fn compare(&mut self, tile: &Tile, due: &[u8]) -> Result<(), StoreError> {
        match self.store.tile(tile.level, tile.index) {
            Ok(Some(stored)) => {
                self.tiles += 1;
                let pairs = (0..).zip(due.chunks(32).zip(stored.chunks(32)));
                for (place, _) in pairs.filter(|(_, (due, stored))| due != stored) {
                    match tile.level {
                        0 => self.apart.set(tile.index * 256 + place),
                        level => self.apart_above.push((level, tile.index, place)),
                    }
                }
            }
            Ok(None) => {
                let what = format!("{} is missing", tile.path());
                self.faults.add(Class::Tile, None, what);
            }
            Err(StoreError::Damaged { what }) => self.faults.add(Class::Tile, None, what),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Tiles that no tree of this size has.
    pub(super) fn tiles_beyond(&mut self) -> Result<(), StoreError> {
        let (size, ended) = (self.edge.size(), self.ended);
        let faults = &mut self.faults;
        let scanned = self.store.scan(Rows::Tiles, |row| {
            match row {
                // Where leaves are missing it cannot be told.
                Row::Tile(level, index) if pass::has_tile(size, level, index) || !ended => {}
                Row::Tile(level, index) => {
                    let what = format!("tile {level}/{index} is beyond the tree");
                    faults.add(Class::Tile, None, what);
                }
                _ => faults.add(Class::Tile, None, "a row that is none of a tile"),
            }
            true
        });
        match scanned {
            Err(StoreError::Damaged { what }) => self.faults.add(Class::Tile, None, what),
            other => other?,
        }
        Ok(())
    }

    /// The tree of all leaves; `None` where one could not be read.
    pub(super) fn whole(&self) -> Option<Head> {
        self.ended.then(|| self.edge.head())
    }

    /// The log time of the last leaf, where that is known.
    pub(super) fn last_at(&self) -> Option<u64> {
        self.last_at
            .filter(|_| self.ended && self.unknown.is_none())
    }
}

fn missing(key: &Key) -> String {
    format!("it is not found by its key of space {}", key.space)
}
