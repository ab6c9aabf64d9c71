//! A store in memory that can be told to fail before or after any step: for tests of what stands above it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::{Growth, Head, Kept, Snapshot, Stage, Store, StoreError};
use crate::judge::Key;

/// A step that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// [`Store::commit`].
    Commit,
    /// [`Store::keep`] with [`Stage::Signed`].
    KeepSigned,
    /// [`Store::keep`] with [`Stage::Published`].
    KeepPublished,
    /// [`Store::mark`].
    Mark,
    /// [`Store::keep_snapshot`].
    Snapshot,
    /// Any read of a leaf, a tile or a key.
    Read,
    /// [`Store::reload`].
    Reload,
}

/// When it fails: before anything was done, or after it was done and made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Nothing happened.
    Before,
    /// All of it happened, and the caller is not told.
    After,
}

#[derive(Clone, Default)]
struct Inner {
    entries: Vec<Vec<u8>>,
    tiles: HashMap<(u8, u64), Vec<u8>>,
    unique: HashMap<Key, u64>,
    postings: BTreeSet<(Key, u64)>,
    head: Option<(Head, u64)>,
    snapshot: Option<Snapshot>,
    published: Option<Kept>,
    mark: Option<Head>,
    ahead: Option<Kept>,
    signed: BTreeMap<u64, Kept>,
    faults: Vec<(Step, When)>,
}

/// All in memory, behind one lock.
#[derive(Default)]
pub struct MemoryStore(Mutex<Inner>);

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    /// Makes the next `step` fail. Several faults for one step are used up in order.
    pub fn fail_next(&self, step: Step, when: When) {
        self.lock().faults.push((step, when));
    }

    /// Whether all faults have been used up.
    #[must_use]
    pub fn faults_used(&self) -> bool {
        self.lock().faults.is_empty()
    }

    /// A store with what this one holds now, as a backup would have it.
    #[must_use]
    pub fn copy(&self) -> MemoryStore {
        MemoryStore(Mutex::new(self.lock().clone()))
    }

    /// All lookup keys, unique ones and postings, each in order.
    #[must_use]
    pub fn keys(&self) -> [Vec<(Key, u64)>; 2] {
        let inner = self.lock();
        let mut unique: Vec<_> = inner.unique.iter().map(|(k, at)| (*k, *at)).collect();
        unique.sort_unstable();
        [unique, inner.postings.iter().copied().collect()]
    }

    /// Replaces stored bytes, as a broken disk would.
    pub fn damage_entry(&self, index: u64, bytes: &[u8]) {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        if let Some(entry) = self.lock().entries.get_mut(index) {
            *entry = bytes.to_vec();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn fault(&mut self, step: Step) -> Option<When> {
        let at = self.faults.iter().position(|(s, _)| *s == step)?;
        Some(self.faults.remove(at).1)
    }

    /// Runs `work` around the fault that waits for `step`, if one does.
    fn step<T>(
        &mut self,
        step: Step,
        work: impl FnOnce(&mut Inner) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let failed = |when| StoreError::Unavailable(format!("told to fail {when:?} {step:?}"));
        match self.fault(step) {
            None => work(self),
            Some(When::Before) => Err(failed(When::Before)),
            Some(When::After) => {
                work(self)?;
                Err(failed(When::After))
            }
        }
    }

    fn raise(&mut self, head: &Head) {
        if self.mark.is_none_or(|mark| mark.size < head.size) {
            self.mark = Some(*head);
        }
    }

    fn head(&self) -> (Head, u64) {
        self.head.unwrap_or((Head::EMPTY, 0))
    }

    fn commit(&mut self, previous: &Head, growth: &Growth) -> Result<(), StoreError> {
        let (found, _) = self.head();
        if found != *previous {
            return Err(StoreError::Conflict {
                expected: *previous,
                found,
            });
        }
        self.entries.extend(growth.entries.iter().cloned());
        for (tile, bytes) in &growth.tiles {
            self.tiles.insert((tile.level, tile.index), bytes.clone());
        }
        self.unique.extend(growth.unique.iter().copied());
        self.postings.extend(growth.postings.iter().copied());
        self.head = Some((growth.head, growth.at));
        if let Some(kept) = &growth.published {
            self.published = Some(kept.clone());
        }
        Ok(())
    }
}

impl Store for MemoryStore {
    fn head(&self) -> Result<(Head, u64), StoreError> {
        Ok(self.lock().head())
    }

    fn commit(&self, previous: &Head, growth: &Growth) -> Result<(), StoreError> {
        self.lock()
            .step(Step::Commit, |inner| inner.commit(previous, growth))
    }

    fn entry(&self, index: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        self.lock()
            .step(Step::Read, |inner| Ok(inner.entries.get(index).cloned()))
    }

    fn entries(&self, first: u64, count: usize) -> Result<Vec<Vec<u8>>, StoreError> {
        let first = usize::try_from(first).unwrap_or(usize::MAX);
        self.lock().step(Step::Read, |inner| {
            Ok(inner
                .entries
                .iter()
                .skip(first)
                .take(count)
                .cloned()
                .collect())
        })
    }

    fn tile(&self, level: u8, index: u64) -> Result<Option<Vec<u8>>, StoreError> {
        self.lock().step(Step::Read, |inner| {
            Ok(inner.tiles.get(&(level, index)).cloned())
        })
    }

    fn find(&self, key: &Key) -> Result<Option<u64>, StoreError> {
        self.lock()
            .step(Step::Read, |inner| Ok(inner.unique.get(key).copied()))
    }

    fn postings(
        &self,
        key: &Key,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<u64>, StoreError> {
        let Some(first) = after.map_or(Some(0), |a| a.checked_add(1)) else {
            return Ok(Vec::new());
        };
        self.lock().step(Step::Read, |inner| {
            let range = inner.postings.range((*key, first)..=(*key, u64::MAX));
            Ok(range.take(limit).map(|(_, index)| *index).collect())
        })
    }

    fn keep(&self, stage: Stage, kept: &Kept) -> Result<(), StoreError> {
        let step = match stage {
            Stage::Signed { .. } => Step::KeepSigned,
            Stage::Published => Step::KeepPublished,
        };
        self.lock().step(step, |inner| {
            match stage {
                Stage::Signed { replaces } => {
                    inner.signed.retain(|size, _| Some(*size) != replaces);
                    inner.signed.insert(kept.head.size, kept.clone());
                }
                Stage::Published => {
                    inner.published = Some(kept.clone());
                    inner.raise(&kept.head);
                    inner.signed.retain(|size, _| *size > kept.head.size);
                }
            }
            Ok(())
        })
    }

    fn mark(&self, head: &Head) -> Result<(), StoreError> {
        self.lock().step(Step::Mark, |inner| {
            inner.raise(head);
            Ok(())
        })
    }

    fn settle(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn published(&self) -> Result<Option<Kept>, StoreError> {
        Ok(self.lock().published.clone())
    }

    fn signed(&self) -> Result<Vec<Kept>, StoreError> {
        Ok(self.lock().signed.values().cloned().collect())
    }

    fn tidemark(&self) -> Result<Option<Head>, StoreError> {
        Ok(self.lock().mark)
    }

    fn keep_ahead(&self, ahead: &Kept) -> Result<(), StoreError> {
        self.lock().ahead = Some(ahead.clone());
        Ok(())
    }

    fn ahead(&self) -> Result<Option<Kept>, StoreError> {
        Ok(self.lock().ahead.clone())
    }

    fn keep_snapshot(&self, snapshot: &Snapshot) -> Result<(), StoreError> {
        self.lock().step(Step::Snapshot, |inner| {
            inner.snapshot = Some(snapshot.clone());
            Ok(())
        })
    }

    fn snapshot(&self) -> Result<Option<Snapshot>, StoreError> {
        Ok(self.lock().snapshot.clone())
    }

    fn reload(&self) -> Result<(), StoreError> {
        self.lock().step(Step::Reload, |_| Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_passes_the_suite() {
        super::super::suite::run(&|| Box::new(MemoryStore::new()));
    }

    #[test]
    fn a_fault_before_leaves_nothing_and_a_fault_after_leaves_all() {
        for (when, size) in [(When::Before, 0), (When::After, 1)] {
            let store = MemoryStore::new();
            store.fail_next(Step::Commit, when);
            let growth = super::super::suite::growth(&Head::EMPTY, &[b"a"]);
            assert!(store.commit(&Head::EMPTY, &growth).is_err());
            assert_eq!(store.head().unwrap().0.size, size);
            assert!(store.faults_used());
        }
    }
}
