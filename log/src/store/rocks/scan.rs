//! Every row of a database, as it lies there, and a copy of all of them: for whoever checks a store instead of using it.

use std::{path::Path, sync::atomic::Ordering};

use rocksdb::{IteratorMode, ReadOptions, checkpoint::Checkpoint};

use super::{
    RocksStore,
    codec::meta,
    open::{ENTRIES, POSTINGS, TILES, UNIQUE, family, trouble},
};
use crate::{judge::Key, store::StoreError};

/// A row of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row<'a> {
    /// A leaf, by its index.
    Entry(u64, &'a [u8]),
    /// A tile: level and index.
    Tile(u8, u64),
    /// A lookup key that names one leaf.
    Unique(Key, u64),
    /// A lookup key that may name many leaves, and one of them.
    Posting(Key, u64),
    /// One of the few others, by its key.
    Meta(&'a [u8]),
    /// A row whose key or value has another form than any of these.
    Odd(&'a [u8]),
}

/// A family of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Leaves, in order of index.
    Entries,
    /// Full tiles.
    Tiles,
    /// Lookup keys that name one leaf.
    Unique,
    /// Lookup keys that may name many.
    Postings,
    /// The head, checkpoints, and whatever else there is one of.
    Meta,
}

impl Rows {
    /// All of them.
    pub const ALL: [Rows; 5] = [
        Rows::Entries,
        Rows::Tiles,
        Rows::Unique,
        Rows::Postings,
        Rows::Meta,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Rows::Entries => ENTRIES,
            Rows::Tiles => TILES,
            Rows::Unique => UNIQUE,
            Rows::Postings => POSTINGS,
            Rows::Meta => "default",
        }
    }

    fn read<'a>(self, key: &'a [u8], value: &'a [u8]) -> Row<'a> {
        let number = |bytes: &[u8]| bytes.try_into().ok().map(u64::from_be_bytes);
        let read = match self {
            Rows::Entries => number(key).map(|index| Row::Entry(index, value)),
            Rows::Tiles => key
                .split_first()
                .and_then(|(level, index)| Some(Row::Tile(*level, number(index)?))),
            Rows::Unique => lookup(key).and_then(|key| Some(Row::Unique(key, number(value)?))),
            Rows::Postings => key.split_at_checked(17).and_then(|(key, index)| {
                Some(Row::Posting(lookup(key)?, number(index)?)).filter(|_| value.is_empty())
            }),
            Rows::Meta => meta::is_known(key).then_some(Row::Meta(key)),
        };
        read.unwrap_or(Row::Odd(key))
    }
}

fn lookup(bytes: &[u8]) -> Option<Key> {
    let (space, prefix) = bytes.split_first()?;
    Some(Key {
        space: *space,
        prefix: prefix.try_into().ok()?,
    })
}

impl RocksStore {
    /// Shows all rows of a family in order of their keys, until `each` says that it has seen enough.
    ///
    /// # Errors
    /// `Damaged` where they cannot be read on; `Unavailable`.
    pub fn scan(
        &self,
        rows: Rows,
        mut each: impl FnMut(Row<'_>) -> bool,
    ) -> Result<(), StoreError> {
        self.read(|db| {
            let mut options = ReadOptions::default();
            // Each is read once: what is in the cache stays of more use.
            options.fill_cache(false);
            // The family of postings has a prefix; all of it is meant.
            options.set_total_order_seek(true);
            let family = family(db, rows.name());
            for row in db.iterator_cf_opt(family, options, IteratorMode::Start) {
                let (key, value) = row.map_err(|e| trouble(&e))?;
                if !each(rows.read(&key, &value)) {
                    break;
                }
            }
            Ok(())
        })
    }

    /// The bytes of a family's tables on the disk; what still lies in the write-ahead log is in none of them.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn table_bytes(&self, rows: Rows) -> Result<u64, StoreError> {
        self.read(|db| {
            let of = family(db, rows.name());
            let bytes = db.property_int_value_cf(of, rocksdb::properties::LIVE_SST_FILES_SIZE);
            Ok(bytes.map_err(|e| trouble(&e))?.unwrap_or(0))
        })
    }

    /// Makes a copy of the database as it is now in `folder`, which must not exist: of hard links where that is on the same file
    /// system, so it costs little until the database has moved on. Writers go on meanwhile.
    ///
    /// # Errors
    /// What the database or the system says.
    pub fn copy_to(&self, folder: &Path) -> Result<(), StoreError> {
        // What is only in the write-ahead log would not be in the copy.
        if !self.writable.load(Ordering::SeqCst) {
            let why = "after a failed write the database is open for reading only, and cannot be copied whole until it writes again";
            return Err(StoreError::Unavailable(why.into()));
        }
        self.read(|db| {
            let checkpoint = Checkpoint::new(db).map_err(|e| trouble(&e))?;
            checkpoint
                .create_checkpoint(folder)
                .map_err(|e| trouble(&e))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Head, Store, rocks::Shared, suite};

    impl RocksStore {
        /// Puts a row in the place of what is there, as a broken disk would; an empty `value` of a leaf or a tile removes it.
        pub(crate) fn damage(&self, rows: Option<Rows>, key: &[u8], value: Option<&[u8]>) {
            let damaged = self.read(|db| {
                match (rows, value) {
                    (Some(rows), Some(value)) => db.put_cf(family(db, rows.name()), key, value),
                    (Some(rows), None) => db.delete_cf(family(db, rows.name()), key),
                    (None, Some(value)) => db.put(key, value),
                    (None, None) => db.delete(key),
                }
                .map_err(|e| trouble(&e))
            });
            damaged.unwrap();
        }
    }

    impl RocksStore {
        /// Every row of a family, as it lies there.
        pub(crate) fn raw(&self, rows: Rows) -> Vec<(Vec<u8>, Vec<u8>)> {
            let read = self.read(|db| {
                let all = db.full_iterator_cf(family(db, rows.name()), IteratorMode::Start);
                let all = all.map(|row| row.map(|(key, value)| (key.into_vec(), value.into_vec())));
                all.collect::<Result<_, _>>().map_err(|e| trouble(&e))
            });
            read.unwrap()
        }

        /// Writes everything into tables.
        pub(crate) fn tables(&self) {
            self.flush().unwrap();
        }

        /// Drops a family, as an interrupted repair leaves it.
        pub(crate) fn lose(&self, of: crate::store::rocks::Derived) {
            let mut db = self.db.write().unwrap();
            db.as_mut().unwrap().drop_cf(of.rows().name()).unwrap();
        }
    }

    #[test]
    fn a_copy_is_the_store_as_it_was_and_every_row_is_shown() {
        let dir = tempfile::tempdir().unwrap();
        let shared = Shared::new(8 << 20, 8 << 20);
        let (folder, mark) = (dir.path().join("db"), dir.path().join("published"));
        let store = RocksStore::create(&folder, &mark, &shared).unwrap();
        let mut growth = suite::growth(&Head::EMPTY, &[b"a", b"b"]);
        let key = Key {
            space: 7,
            prefix: [9; 16],
        };
        growth.unique = vec![(key, 1)];
        growth.postings = vec![(key, 0), (key, 1)];
        store.commit(&Head::EMPTY, &growth).unwrap();
        let copy = dir.path().join("copy");
        store.copy_to(&copy).unwrap();
        assert!(store.copy_to(&copy).is_err(), "never over anything");
        let copy = RocksStore::open_behind(&copy, &mark, &shared, false).unwrap();
        let mut seen = Vec::new();
        for rows in [Rows::Entries, Rows::Tiles, Rows::Unique, Rows::Postings] {
            copy.scan(rows, |row| {
                seen.push(format!("{row:?}"));
                true
            })
            .unwrap();
        }
        assert_eq!(seen.len(), 5, "{seen:?}");
        assert_eq!(seen[0], format!("{:?}", Row::Entry(0, b"a")));
        assert_eq!(seen[4], format!("{:?}", Row::Posting(key, 1)));
        assert_eq!(copy.head().unwrap().0, growth.head);
        let mut first = 0;
        copy.scan(Rows::Postings, |_| {
            first += 1;
            false
        })
        .unwrap();
        assert_eq!(first, 1);
    }
}
