//! The way through the leaves of a store.

use std::collections::{BTreeMap, BTreeSet};

use countersign_verifier::{
    hash::{Hash, leaf_hash},
    limits::ENTRY_BYTES_MAX,
    tile::Tile,
};

use super::{Above, Class, Fault, Found, index::Expected};
use crate::{
    grow::Edge,
    judge::Key,
    store::{
        Head, Store, StoreError,
        rocks::{RocksStore, Row, Rows},
    },
};

/// Leaves that are taken at once: as many as are worth several cores.
const CHUNK: usize = 2_048;
/// And so many bytes of them at most, beyond the last.
const CHUNK_BYTES: usize = 8 << 20;
/// Faults of one kind that are named.
const NAMED_MAX: usize = 100;

pub(super) struct Walk<'a> {
    store: &'a RocksStore,
    head: Head,
    edge: Edge,
    /// Sizes whose roots are asked for, and those found.
    sizes: BTreeSet<u64>,
    pub(super) roots: BTreeMap<u64, Hash>,
    pub(super) tiles: u64,
    /// Where a tile says otherwise than the leaves: level, index, place in it.
    apart: Vec<(u8, u64, u64)>,
    /// Leaves that are not found by their hash.
    unfound: Vec<u64>,
    expected: Expected,
    faults: Vec<Fault>,
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
            apart: Vec::new(),
            unfound: Vec::new(),
            expected: Expected::default(),
            faults: Vec::new(),
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
        let mut faults = Vec::new();
        let scanned = store.scan(Rows::Entries, |row| {
            let wrong = |index, what: String| Fault::new(Class::Entry, index, what);
            let Row::Entry(index, leaf) = row else {
                faults.push(wrong(None, "a row that is none of a leaf".into()));
                return faults.len() < NAMED_MAX;
            };
            if index != next && next < self.head.size {
                faults.push(wrong(Some(next), "the leaf is missing".into()));
                return false;
            }
            if index >= self.head.size {
                let what = format!("a leaf beyond the head, which has {}", self.head.size);
                faults.push(wrong(Some(index), what));
                return faults.len() < NAMED_MAX;
            }
            if leaf.len() > ENTRY_BYTES_MAX {
                let what = format!("a leaf of {} bytes, longer than any", leaf.len());
                faults.push(wrong(Some(index), what));
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
            Ok(()) if next < self.head.size && faults.is_empty() => {
                let what = format!(
                    "the leaf is missing, and all after it: the head has {}",
                    self.head.size
                );
                faults.push(Fault::new(Class::Entry, Some(next), what));
            }
            Err(StoreError::Damaged { what }) => {
                faults.push(Fault::new(Class::Entry, Some(next), what));
            }
            other => other?,
        }
        self.ended = next == self.head.size;
        self.faults.append(&mut faults);
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
            self.found_by(index, &[Key::new(Key::LEAF_HASH, &hash)], true)?;
            match known.get(at).and_then(Option::as_ref) {
                Some(known) => {
                    self.found_by(index, &known.unique, false)?;
                    self.listed_under(index, &known.postings)?;
                    self.last_at = Some(known.at);
                }
                None => {
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

    fn found_by(&mut self, index: u64, keys: &[Key], own: bool) -> Result<(), StoreError> {
        for key in keys {
            self.expected.add(key, index);
            let found = match self.store.find(key) {
                Err(StoreError::Damaged { what }) => {
                    self.index_fault(index, what);
                    continue;
                }
                found => found?,
            };
            match found {
                Some(found) if found == index => {}
                // A later leaf may have taken a key over: whether it did is known at the end.
                Some(later) if later > index => self.expected.later(key, index, later),
                _ if own => self.unfound.push(index),
                _ => self.index_fault(index, missing(key)),
            }
        }
        Ok(())
    }

    fn listed_under(&mut self, index: u64, keys: &[Key]) -> Result<(), StoreError> {
        for key in keys {
            self.expected.add_posting(key, index);
            match self.store.postings(key, index.checked_sub(1), 1) {
                Ok(found) if found == [index] => {}
                Ok(_) => self.index_fault(index, missing(key)),
                Err(StoreError::Damaged { what }) => self.index_fault(index, what),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn index_fault(&mut self, index: u64, what: String) {
        self.faults
            .push(Fault::new(Class::Index, Some(index), what));
    }

    fn compare(&mut self, tile: &Tile, due: &[u8]) -> Result<(), StoreError> {
        let fault = |what: String| Fault::new(Class::Tile, None, what);
        match self.store.tile(tile.level, tile.index) {
            Ok(Some(stored)) => {
                self.tiles += 1;
                let pairs = (0..).zip(due.chunks(32).zip(stored.chunks(32)));
                let apart = pairs.filter(|(_, (due, stored))| due != stored);
                let apart = apart.map(|(place, _)| (tile.level, tile.index, place));
                self.apart.extend(apart);
            }
            Ok(None) => self
                .faults
                .push(fault(format!("{} is missing", tile.path()))),
            Err(StoreError::Damaged { what }) => self.faults.push(fault(what)),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Tiles that no tree of this size has.
    pub(super) fn tiles_beyond(&mut self) -> Result<(), StoreError> {
        let (size, ended) = (self.edge.size(), self.ended);
        let mut faults = Vec::new();
        let scanned = self.store.scan(Rows::Tiles, |row| {
            let what = match row {
                Row::Tile(level, index) if level < 8 => {
                    let full = size.checked_shr(8 * (u32::from(level) + 1)).unwrap_or(0);
                    // Where leaves are missing it cannot be told.
                    if index < full || !ended {
                        return true;
                    }
                    format!("tile {level}/{index} is beyond the tree")
                }
                _ => "a row that is none of a tile".into(),
            };
            faults.push(Fault::new(Class::Tile, None, what));
            faults.len() < NAMED_MAX
        });
        match scanned {
            Err(StoreError::Damaged { what }) => faults.push(Fault::new(Class::Tile, None, what)),
            other => other?,
        }
        self.faults.append(&mut faults);
        Ok(())
    }

    /// The tree of all leaves; `None` where one could not be read.
    pub(super) fn whole(&self) -> Option<Head> {
        self.ended.then(|| Head {
            size: self.edge.size(),
            root: self.edge.root(),
        })
    }

    /// The log time of the last leaf, where that is known.
    pub(super) fn last_at(&self) -> Option<u64> {
        self.last_at
            .filter(|_| self.ended && self.unknown.is_none())
    }

    /// Says of each difference who is wrong: the leaves, where they do not lead to the head. Whether those that were read are what was
    /// committed.
    pub(super) fn settle(mut self, found: &mut Found) -> bool {
        let sound = found.tree == Some(found.head);
        found.faults.append(&mut self.faults);
        let mut wrong = BTreeSet::new();
        for (level, index, place) in self.apart.drain(..) {
            let tile = format!("tile {level}/{index}");
            if level > 0 {
                // What is above a changed leaf is another one too.
                if sound {
                    let what = format!(
                        "{tile}: hash {place} does not follow from level {}",
                        level - 1
                    );
                    found.faults.push(Fault::new(Class::Tile, None, what));
                }
            } else if sound {
                let at = Some(index * 256 + place);
                let what = format!("{tile}: hash {place} is not that of the leaf");
                found.faults.push(Fault::new(Class::Tile, at, what));
            } else {
                wrong.insert(index * 256 + place);
            }
        }
        if !sound && self.ended {
            // In the last, unfinished tile only the lookup by hash tells.
            let full = self.edge.size() / 256 * 256;
            wrong.extend(self.unfound.iter().filter(|index| **index >= full));
            let changed = |index: &u64| {
                Fault::new(
                    Class::Entry,
                    Some(*index),
                    "another leaf than the one that was committed",
                )
            };
            found.faults.extend(wrong.iter().map(changed));
            if wrong.is_empty() {
                let root = self.edge.root();
                let what = format!(
                    "the leaves lead to root {root}, as the tiles do, and the head says {}",
                    found.head.root
                );
                found.faults.push(Fault::new(Class::Head, None, what));
            }
        }
        // By another leaf's keys this one was never found.
        found.faults.retain(|fault| {
            fault.class != Class::Index || fault.index.is_none_or(|at| !wrong.contains(&at))
        });
        for index in self
            .unfound
            .drain(..)
            .filter(|index| !wrong.contains(index))
        {
            let what = "it is not found by its leaf hash";
            found
                .faults
                .push(Fault::new(Class::Index, Some(index), what));
        }
        if !self.ended || !wrong.is_empty() {
            found.keys_untold = Some("leaves are missing or changed");
        } else if self.unknown.is_some() {
            found.keys_untold =
                Some("there are leaves of which it is not known what they are found by");
        } else {
            self.expected.compare(self.store, found);
        }
        wrong.is_empty()
    }
}

fn missing(key: &Key) -> String {
    format!("it is not found by its key of space {}", key.space)
}
