//! Writing rows that follow from leaves, and no others: for a repair, which has a copy of what was there.

use std::{path::Path, sync::PoisonError};

use rocksdb::{DB, Direction, IteratorMode, WriteBatch};

use super::{
    RocksStore, Rows, Shared,
    codec::{committed, meta},
    migrate::{LAYOUT, Progress},
    open::{family, open_to_complete, options, recreate, trouble},
};
use crate::store::{StoreError, tidemark::Tidemark};

/// A batch has so many bytes at most, beyond its last row.
const BATCH_BYTES: usize = 4 << 20;

/// A family of rows that follow from the leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Derived {
    /// Full tiles.
    Tiles,
    /// Lookup keys that name one leaf.
    Unique,
    /// Lookup keys that may name many.
    Postings,
}

impl Derived {
    /// All of them.
    pub const ALL: [Derived; 3] = [Derived::Tiles, Derived::Unique, Derived::Postings];

    /// As [`RocksStore::scan`] calls it.
    #[must_use]
    pub const fn rows(self) -> Rows {
        match self {
            Derived::Tiles => Rows::Tiles,
            Derived::Unique => Rows::Unique,
            Derived::Postings => Rows::Postings,
        }
    }
}

/// Rows that are changed, written in batches of bounded size, in the order in which they are given.
pub(crate) struct Mending<'a> {
    store: &'a RocksStore,
    batch: WriteBatch,
}

impl Mending<'_> {
    /// Puts a row in the place of what is there.
    pub(crate) fn put(&mut self, of: Derived, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.store.read(|db| {
            self.batch.put_cf(family(db, of.rows().name()), key, value);
            Ok(())
        })?;
        self.write(BATCH_BYTES)
    }

    /// Takes a row away.
    pub(crate) fn remove(&mut self, of: Derived, key: &[u8]) -> Result<(), StoreError> {
        self.store.read(|db| {
            self.batch.delete_cf(family(db, of.rows().name()), key);
            Ok(())
        })?;
        self.write(BATCH_BYTES)
    }

    /// Makes what is left durable.
    pub(crate) fn finish(mut self) -> Result<(), StoreError> {
        self.write(0)
    }

    fn write(&mut self, from_bytes: usize) -> Result<(), StoreError> {
        if self.batch.is_empty() || self.batch.size_in_bytes() < from_bytes {
            return Ok(());
        }
        self.store.write(std::mem::take(&mut self.batch))
    }
}

impl RocksStore {
    /// Creates the families of derived rows that are not there, empty: a repair that was cut off between dropping one and creating it
    /// leaves a database that does not open. Whether there were any; of one that cannot be read nothing is done.
    ///
    /// # Errors
    /// As at an opening.
    pub fn complete(
        (folder, tidemark): (&Path, &Path),
        shared: &Shared,
    ) -> Result<bool, StoreError> {
        let Ok(there) = DB::list_cf(&options(shared), folder) else {
            return Ok(false);
        };
        let is_there = |of: &Derived| there.iter().any(|name| name == of.rows().name());
        // Without its leaves it is no log of ours, or one that nothing can be made of.
        let whole = there.iter().any(|name| name == Rows::Entries.name());
        if !whole || Derived::ALL.iter().all(is_there) {
            return Ok(false);
        }
        // Nothing is written to what this release does not know, or what ends before what was published: the latter an opening could cut.
        {
            let db = DB::open_cf_for_read_only(&options(shared), folder, &there, false);
            let db = db.map_err(|e| trouble(&e))?;
            LAYOUT.is(folder, &db)?;
            let published = Tidemark::open_as(tidemark, false)?.last();
            if published.is_some_and(|mark| mark.size > committed(&db).map_or(0, |(h, _)| h.size)) {
                return Ok(false);
            }
        }
        drop(open_to_complete(folder, shared)?);
        Ok(true)
    }

    /// Whether a change of format that was cut off can be gone on with, where there is one.
    ///
    /// # Errors
    /// `Damaged` where it cannot; `Unavailable`.
    pub(crate) fn migrating(&self) -> Result<(), StoreError> {
        self.read(|db| Progress::read(db).map(drop))
    }

    /// Begins to change rows.
    pub(crate) fn mending(&self) -> Mending<'_> {
        Mending {
            store: self,
            batch: WriteBatch::default(),
        }
    }

    /// The value of a row, as it lies there.
    pub(crate) fn row(&self, of: Derived, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(|db| {
            db.get_cf(family(db, of.rows().name()), key)
                .map_err(|e| trouble(&e))
        })
    }

    /// Drops a family whose tables cannot be read, and creates it empty: rows that are written over stay in the way of whoever reads all.
    pub(crate) fn begin_again(&self, of: Derived) -> Result<(), StoreError> {
        let mut db = self.db.write().unwrap_or_else(PoisonError::into_inner);
        let db = db
            .as_mut()
            .ok_or_else(|| StoreError::Unavailable("the database is closed".into()))?;
        recreate(db, of.rows().name(), &self.shared)
    }

    /// Forgets the snapshot, however little of it can be read: a start then replays, and keeps another one.
    ///
    /// # Errors
    /// `Unavailable`; `Damaged` if not even its keys can be read.
    pub fn drop_snapshot(&self) -> Result<(), StoreError> {
        let parts = self.read(|db| {
            let mut keys = Vec::new();
            for row in db.iterator(IteratorMode::From(meta::SNAPSHOT_PART, Direction::Forward)) {
                let (key, _) = row.map_err(|e| trouble(&e))?;
                if !key.starts_with(meta::SNAPSHOT_PART) {
                    break;
                }
                keys.push(key);
            }
            Ok(keys)
        })?;
        let mut batch = WriteBatch::default();
        batch.delete(meta::SNAPSHOT_PARTS);
        batch.delete(meta::SNAPSHOT);
        parts.iter().for_each(|key| batch.delete(key));
        self.write(batch)
    }
}
