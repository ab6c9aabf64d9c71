//! A log in RocksDB: one database an account, one synced write batch a commit.
//!
//! | column family | key | value |
//! |---|---|---|
//! | default | `format`, `migrating`, `head`, `snapshot-parts`, `snapshot/…`, `published`, `ahead`, `signed/<size>` | see `meta` below |
//! | entries | index, u64 big-endian | the leaf |
//! | tiles | level, then index, u64 big-endian | 8,192 bytes |
//! | unique | name space, 16 bytes of a hash | index |
//! | postings | name space, 16 bytes of a hash, index | nothing |
//!
//! Who may write here can change history up to the last published head, and no further: what is published is signed, and the
//! mark beside the database (`tidemark`) and every witness remember it.

mod behind;
mod codec;
mod mend;
mod migrate;
mod open;
mod scan;

use std::{
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

use rocksdb::{DB, Direction, IteratorMode, ReadOptions, WriteBatch, WriteOptions};

pub(crate) use self::mend::Mending;
pub use self::{
    behind::lost,
    mend::Derived,
    open::Shared,
    scan::{Row, Rows},
};

use self::{
    codec::{
        batch, checkpoint, committed, kept, meta, number, part_key, parts, signed_key, tile_key,
    },
    migrate::{LAYOUT, Layout},
    open::{
        ENTRIES, POSTINGS, TILES, UNIQUE, damaged, family, open, open_existing, open_to_read,
        trouble,
    },
};
use super::{Growth, Head, Kept, Snapshot, Stage, Store, StoreError, tidemark::Tidemark};
use crate::judge::Key;

/// A snapshot is kept in parts of so many bytes.
const SNAPSHOT_PART_BYTES: usize = 1 << 20;

/// A log in a RocksDB folder, with the mark of its published head beside it.
pub struct RocksStore {
    folder: PathBuf,
    shared: Shared,
    layout: &'static Layout,
    /// After a reload that failed: open for reading only, or `None` if not even that can be done.
    db: RwLock<Option<DB>>,
    /// Whether that database is open for writing.
    writable: AtomicBool,
    tidemark: Mutex<Tidemark>,
    /// Held from the compare to the end of the write: RocksDB allows one process, this allows one committer in it.
    committer: Mutex<()>,
    sync: WriteOptions,
}

impl RocksStore {
    /// Makes a new, empty store. `tidemark` is a file outside `folder`.
    ///
    /// # Errors
    /// `Damaged` if there is anything at either place: a new log is never begun over an old one.
    pub fn create(
        folder: &Path,
        tidemark: &Path,
        shared: &Shared,
    ) -> Result<RocksStore, StoreError> {
        let occupied = folder.read_dir().is_ok_and(|mut d| d.next().is_some());
        if occupied || tidemark.exists() {
            return Err(StoreError::Damaged {
                what: format!(
                    "{}: there is a log here already; a new one is never begun over it",
                    folder.display()
                ),
            });
        }
        std::fs::create_dir_all(folder)
            .map_err(|e| StoreError::Unavailable(format!("{}: {e}", folder.display())))?;
        Tidemark::create(tidemark)?;
        let db = open(folder, shared, true)?;
        let mut batch = WriteBatch::default();
        batch.put(meta::FORMAT, LAYOUT.format.to_be_bytes());
        let store = RocksStore::with(folder, Tidemark::open(tidemark)?, shared, (db, &LAYOUT));
        store.write(batch)?;
        Ok(store)
    }

    /// Opens a store that [`RocksStore::create`] made; one of an older layout is migrated, with a line on standard error and a copy of
    /// what was there beside it.
    ///
    /// # Errors
    /// `InUse` if another process holds it, `TooNew`, `Damaged` if RocksDB refuses what it finds or there is no log, `Unavailable`.
    pub fn open(folder: &Path, tidemark: &Path, shared: &Shared) -> Result<RocksStore, StoreError> {
        RocksStore::open_as((folder, tidemark), shared, &LAYOUT)
    }

    fn open_as(
        (folder, tidemark): (&Path, &Path),
        shared: &Shared,
        layout: &'static Layout,
    ) -> Result<RocksStore, StoreError> {
        let mark = Tidemark::open(tidemark)?;
        let db = open_existing(folder, shared, mark.last().as_ref(), layout)?;
        let store = RocksStore::with(folder, mark, shared, (db, layout));
        if store.mark_is_blank() {
            if store.published()?.is_some() {
                return Err(damaged(format!(
                    "{}: the mark of the largest published head is empty, and the database has published",
                    tidemark.display()
                )));
            }
            store.mark(&Head::EMPTY)?;
            store.settle()?;
        }
        Ok(store)
    }

    /// Whether the mark says nothing at all, not even that nothing was published.
    pub(crate) fn mark_is_blank(&self) -> bool {
        let mark = self.tidemark.lock();
        mark.unwrap_or_else(PoisonError::into_inner).is_blank()
    }

    fn with(
        folder: &Path,
        tidemark: Tidemark,
        shared: &Shared,
        (db, layout): (DB, &'static Layout),
    ) -> RocksStore {
        let mut sync = WriteOptions::default();
        sync.set_sync(true);
        RocksStore {
            folder: folder.to_owned(),
            shared: shared.clone(),
            layout,
            db: RwLock::new(Some(db)),
            writable: AtomicBool::new(true),
            tidemark: Mutex::new(tidemark),
            committer: Mutex::new(()),
            sync,
        }
    }

    fn read<T>(&self, work: impl FnOnce(&DB) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let db = self.db.read().unwrap_or_else(PoisonError::into_inner);
        match db.as_ref() {
            Some(db) => work(db),
            None => Err(StoreError::Unavailable(
                "the database is closed after a failed write".into(),
            )),
        }
    }

    fn checkpoint(&self, key: &[u8]) -> Result<Option<Kept>, StoreError> {
        self.read(|db| {
            let found = db.get(key).map_err(|e| trouble(&e))?;
            found.map(|bytes| kept(&bytes)).transpose()
        })
    }

    /// Writes every table that is not written yet.
    fn flush(&self) -> Result<(), StoreError> {
        self.read(|db| {
            for name in [ENTRIES, TILES, UNIQUE, POSTINGS] {
                db.flush_cf(family(db, name)).map_err(|e| trouble(&e))?;
            }
            db.flush().map_err(|e| trouble(&e))
        })
    }

    fn write(&self, batch: WriteBatch) -> Result<(), StoreError> {
        self.read(|db| db.write_opt(batch, &self.sync).map_err(|e| trouble(&e)))
    }
}

/// After an orderly end a start may have so many bytes of the write-ahead log to read: below this, writing tables would cost more.
const WAL_BYTES_LEFT: u64 = 1 << 20;

impl Drop for RocksStore {
    /// Writes out what the next start would have to read from the write-ahead log.
    fn drop(&mut self) {
        if !self.writable.load(Ordering::SeqCst) || wal_bytes(&self.folder) <= WAL_BYTES_LEFT {
            return;
        }
        if let Err(error) = self.flush() {
            tracing::warn!(%error, "the next start reads the write-ahead log");
        }
    }
}

/// Bytes of the write-ahead log of a database; what cannot be read counts as none.
fn wal_bytes(folder: &Path) -> u64 {
    let files = folder.read_dir().into_iter().flatten().flatten();
    let logs = files.filter(|file| file.path().extension().is_some_and(|kind| kind == "log"));
    logs.filter_map(|file| Some(file.metadata().ok()?.len()))
        .sum()
}

impl Store for RocksStore {
    fn head(&self) -> Result<(Head, u64), StoreError> {
        self.read(committed)
    }

    fn commit(&self, previous: &Head, growth: &Growth) -> Result<(), StoreError> {
        let _held = self
            .committer
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.read(|db| {
            let (found, _) = committed(db)?;
            if found != *previous {
                return Err(StoreError::Conflict {
                    expected: *previous,
                    found,
                });
            }
            db.write_opt(batch(db, previous.size, growth), &self.sync)
                .map_err(|e| trouble(&e))
        })
    }

    fn entry(&self, index: u64) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(|db| {
            let found = db
                .get_cf(family(db, ENTRIES), index.to_be_bytes())
                .map_err(|e| trouble(&e))?;
            if found.is_none() && index < committed(db)?.0.size {
                return Err(damaged(format!("entry {index} is missing")));
            }
            Ok(found)
        })
    }

    fn entries(&self, first: u64, count: usize) -> Result<Vec<Vec<u8>>, StoreError> {
        self.read(|db| {
            let size = committed(db)?.0.size;
            let count = size.saturating_sub(first).min(count as u64);
            let start = first.to_be_bytes();
            let mut found = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
            let rows = db.iterator_cf(
                family(db, ENTRIES),
                IteratorMode::From(&start, Direction::Forward),
            );
            for (expected, row) in (first..first + count).zip(rows) {
                let (key, leaf) = row.map_err(|e| trouble(&e))?;
                if *key != expected.to_be_bytes() {
                    return Err(damaged(format!("entry {expected} is missing")));
                }
                found.push(leaf.into_vec());
            }
            if found.len() as u64 != count {
                return Err(damaged(format!(
                    "entry {} is missing",
                    first + found.len() as u64
                )));
            }
            Ok(found)
        })
    }

    fn tile(&self, level: u8, index: u64) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(|db| {
            let found = db
                .get_cf(family(db, TILES), tile_key(level, index))
                .map_err(|e| trouble(&e))?;
            match found {
                Some(bytes) if bytes.len() != 8_192 => Err(damaged(format!(
                    "tile {level}/{index} has {} bytes",
                    bytes.len()
                ))),
                found => Ok(found),
            }
        })
    }

    fn find(&self, key: &Key) -> Result<Option<u64>, StoreError> {
        self.read(|db| {
            let found = db
                .get_pinned_cf(family(db, UNIQUE), key.bytes())
                .map_err(|e| trouble(&e))?;
            found.map(|bytes| number(&bytes, "unique key")).transpose()
        })
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
        self.read(|db| {
            let mut start = key.bytes().to_vec();
            start.extend(first.to_be_bytes());
            let mut options = ReadOptions::default();
            options.set_prefix_same_as_start(true);
            let mode = IteratorMode::From(&start, Direction::Forward);
            let mut found = Vec::new();
            for row in db
                .iterator_cf_opt(family(db, POSTINGS), options, mode)
                .take(limit)
            {
                let (bytes, _) = row.map_err(|e| trouble(&e))?;
                if bytes.get(..17) != Some(&key.bytes()[..]) {
                    break;
                }
                found.push(number(&bytes[17..], "posting")?);
            }
            Ok(found)
        })
    }

    fn keep(&self, stage: Stage, kept: &Kept) -> Result<(), StoreError> {
        let value = checkpoint(kept);
        let mut batch = WriteBatch::default();
        match stage {
            Stage::Signed { replaces } => {
                if let Some(size) = replaces {
                    batch.delete(signed_key(size));
                }
                batch.put(signed_key(kept.head.size), value);
            }
            Stage::Published => {
                batch.put(meta::PUBLISHED, value);
                // One by one: a range deletion at each publication would pile up and slow every read of this family.
                for head in self.signed()?.iter().map(|signed| signed.head) {
                    if head.size <= kept.head.size {
                        batch.delete(signed_key(head.size));
                    }
                }
            }
        }
        self.write(batch)?;
        if stage == Stage::Published {
            self.mark(&kept.head)?;
        }
        Ok(())
    }

    fn mark(&self, head: &Head) -> Result<(), StoreError> {
        self.tidemark
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .raise(head)
    }

    fn settle(&self) -> Result<(), StoreError> {
        self.tidemark
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .settle()
    }

    fn published(&self) -> Result<Option<Kept>, StoreError> {
        self.checkpoint(meta::PUBLISHED)
    }

    fn keep_ahead(&self, ahead: &Kept) -> Result<(), StoreError> {
        let mut batch = WriteBatch::default();
        batch.put(meta::AHEAD, checkpoint(ahead));
        self.write(batch)
    }

    fn ahead(&self) -> Result<Option<Kept>, StoreError> {
        self.checkpoint(meta::AHEAD)
    }

    fn signed(&self) -> Result<Vec<Kept>, StoreError> {
        self.read(|db| {
            let mut all = Vec::new();
            for row in db.iterator(IteratorMode::From(meta::SIGNED, Direction::Forward)) {
                let (key, value) = row.map_err(|e| trouble(&e))?;
                if !key.starts_with(meta::SIGNED) {
                    break;
                }
                all.push(kept(&value)?);
            }
            Ok(all)
        })
    }

    fn tidemark(&self) -> Result<Option<Head>, StoreError> {
        Ok(self
            .tidemark
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .last())
    }

    fn keep_snapshot(&self, snapshot: &Snapshot) -> Result<(), StoreError> {
        let before = self.read(parts)?;
        let number = before.map_or(0, |[_, number, _]| number + 1);
        // Past the write-ahead log: in it, the next commit would have to sync all of this before it is answered.
        let mut apart = WriteOptions::default();
        apart.disable_wal(true);
        let mut count = 0;
        for part in snapshot.bytes.chunks(SNAPSHOT_PART_BYTES) {
            let key = part_key(number, count);
            self.read(|db| db.put_opt(key, part, &apart).map_err(|e| trouble(&e)))?;
            count += 1;
        }
        // The parts are durable before the row that names them is written.
        self.read(|db| db.flush().map_err(|e| trouble(&e)))?;
        let mut batch = WriteBatch::default();
        batch.put(
            meta::SNAPSHOT_PARTS,
            [snapshot.size, number, count]
                .map(u64::to_be_bytes)
                .concat(),
        );
        batch.delete(meta::SNAPSHOT);
        if let Some([_, before, parts]) = before {
            (0..parts).for_each(|part| batch.delete(part_key(before, part)));
        }
        // An earlier attempt at this number that came to nothing may have had more parts.
        let is_there = |part| {
            self.read(|db| {
                let found = db.get_pinned(part_key(number, part));
                Ok(found.map_err(|e| trouble(&e))?.is_some())
            })
        };
        while is_there(count)? {
            batch.delete(part_key(number, count));
            count += 1;
        }
        self.write(batch)
    }

    fn snapshot(&self) -> Result<Option<Snapshot>, StoreError> {
        self.read(|db| {
            if let Some([size, number, count]) = parts(db)? {
                let mut bytes = Vec::new();
                for part in 0..count {
                    let found = db
                        .get_pinned(part_key(number, part))
                        .map_err(|e| trouble(&e))?;
                    let found =
                        found.ok_or_else(|| damaged("a part of the snapshot is missing"))?;
                    bytes.extend_from_slice(&found);
                }
                return Ok(Some(Snapshot { size, bytes }));
            }
            let found = db.get(meta::SNAPSHOT).map_err(|e| trouble(&e))?;
            found
                .map(|bytes| {
                    let (size, rest) = bytes
                        .split_first_chunk::<8>()
                        .ok_or_else(|| damaged("the snapshot is cut short"))?;
                    Ok(Snapshot {
                        size: u64::from_be_bytes(*size),
                        bytes: rest.to_vec(),
                    })
                })
                .transpose()
        })
    }

    fn reload(&self) -> Result<(), StoreError> {
        let mut db = self.db.write().unwrap_or_else(PoisonError::into_inner);
        // Closed first: RocksDB lets nobody, this process included, open a folder for writing twice. One that is open for
        // reading only holds no lock and stays until there is a better one.
        if self.writable.swap(false, Ordering::SeqCst) {
            *db = None;
        }
        let mark = self.tidemark()?;
        match open_existing(&self.folder, &self.shared, mark.as_ref(), self.layout) {
            Ok(opened) => {
                *db = Some(opened);
                self.writable.store(true, Ordering::SeqCst);
                Ok(())
            }
            Err(error) => {
                // A full or read-only disk: what is durable can still be read until it opens for writing again.
                if db.is_none() {
                    *db = open_to_read(&self.folder, &self.shared).ok();
                }
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::suite;

    struct Fresh {
        store: RocksStore,
        _dir: tempfile::TempDir,
    }

    fn fresh() -> Fresh {
        let dir = tempfile::tempdir().unwrap();
        let store = RocksStore::create(
            &dir.path().join("db"),
            &dir.path().join("published"),
            &shared(),
        )
        .unwrap();
        Fresh { store, _dir: dir }
    }

    fn shared() -> Shared {
        Shared::new(8 << 20, 8 << 20)
    }

    #[test]
    fn it_passes_the_suite() {
        let kept = Mutex::new(Vec::new());
        suite::run(&|| {
            let Fresh { store, _dir } = fresh();
            kept.lock().unwrap().push(_dir);
            Box::new(store)
        });
    }

    #[test]
    fn a_start_has_little_of_the_write_ahead_log_to_read() {
        let Fresh { store, _dir } = fresh();
        let (folder, mark) = (store.folder.clone(), _dir.path().join("published"));
        let (mut head, mut edge) = (Head::EMPTY, crate::grow::Edge::default());
        let mut grow = |count: u8| {
            let leaves: Vec<Vec<u8>> = (0..count).map(|n| vec![n; 60_000]).collect();
            let leaves: Vec<&[u8]> = leaves.iter().map(Vec::as_slice).collect();
            let growth = suite::grow(&mut edge, &leaves);
            store.commit(&head, &growth).unwrap();
            head = growth.head;
        };
        (0..20).for_each(|_| grow(20));
        // 24 MB were written, of which 4 may stay. Tables are written by RocksDB's own threads, a moment later, and only a commit begins that.
        let mut rounds = 0;
        while wal_bytes(&folder) > 6 << 20 {
            rounds += 1;
            assert!(rounds < 1_000, "{} bytes", wal_bytes(&folder));
            grow(1);
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let running = || {
            let all = [
                "rocksdb.num-running-flushes",
                "rocksdb.mem-table-flush-pending",
            ];
            all.iter()
                .map(|of| store.read(|db| Ok(db.property_int_value(*of).unwrap().unwrap_or(0))))
                .map(Result::unwrap)
                .sum::<u64>()
        };
        while running() > 0 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        drop(store);
        assert!(wal_bytes(&folder) <= WAL_BYTES_LEFT);
        let store = RocksStore::open(&folder, &mark, &shared()).unwrap();
        assert_eq!(store.head().unwrap().0, head);
        assert_eq!(store.entries(0, 400).unwrap().len(), 400);
        assert!(head.size >= 400);
    }

    #[test]
    fn a_second_opener_is_refused() {
        let Fresh { store, _dir } = fresh();
        let again = RocksStore::open(&store.folder, &_dir.path().join("published"), &shared());
        assert!(matches!(again.err(), Some(StoreError::InUse(_))));
    }

    #[test]
    fn b113_a_new_log_is_never_begun_over_an_old_one() {
        let Fresh { store, _dir } = fresh();
        let folder = store.folder.clone();
        drop(store);
        let again = RocksStore::create(&folder, &_dir.path().join("other"), &shared());
        assert!(matches!(again.err(), Some(StoreError::Damaged { .. })));
        let beside = RocksStore::create(
            &_dir.path().join("db2"),
            &_dir.path().join("published"),
            &shared(),
        );
        assert!(
            matches!(beside.err(), Some(StoreError::Damaged { .. })),
            "the mark of an old log counts too"
        );
    }

    #[test]
    fn b115_a_missing_file_refuses_to_open_and_is_named() {
        let Fresh { store, _dir } = fresh();
        store
            .commit(&Head::EMPTY, &suite::growth(&Head::EMPTY, &[b"a"]))
            .unwrap();
        store.flush().unwrap();
        let folder = store.folder.clone();
        drop(store);
        let table = folder.read_dir().unwrap().find_map(|f| {
            let path = f.unwrap().path();
            (path.extension()? == "sst").then_some(path)
        });
        let table = table.expect("a flushed table");
        std::fs::remove_file(&table).unwrap();
        let error = RocksStore::open(&folder, &_dir.path().join("published"), &shared())
            .err()
            .unwrap();
        let StoreError::Damaged { what } = error else {
            panic!("a missing table must be damage: {error:?}");
        };
        assert!(
            what.contains(table.file_name().unwrap().to_str().unwrap()),
            "{what}"
        );
    }

    #[test]
    fn a_first_checkpoint_without_its_mark_is_a_crash_and_a_blanked_mark_is_none() {
        let Fresh { store, _dir } = fresh();
        let (folder, mark) = (store.folder.clone(), _dir.path().join("published"));
        let open = || RocksStore::open(&folder, &mark, &shared());
        let blank = || std::fs::write(&mark, [0; 1024]).unwrap();
        drop(store);
        // As earlier releases began them.
        blank();
        let store = open().unwrap();
        assert!(!store.mark_is_blank() && store.tidemark().unwrap().is_none());
        let mut growth = suite::growth(&Head::EMPTY, &[b"a"]);
        growth.published = Some(suite::kept_at(1));
        store.commit(&Head::EMPTY, &growth).unwrap();
        drop(store);
        assert!(open().unwrap().published().unwrap().is_some());
        blank();
        assert!(matches!(open().err(), Some(StoreError::Damaged { .. })));
    }

    #[test]
    fn nothing_there_is_no_empty_log() {
        let dir = tempfile::tempdir().unwrap();
        let opened = RocksStore::open(
            &dir.path().join("db"),
            &dir.path().join("published"),
            &shared(),
        );
        assert!(matches!(opened.err(), Some(StoreError::Damaged { .. })));
        assert_eq!(
            dir.path().read_dir().unwrap().count(),
            0,
            "and nothing is made by looking"
        );
    }
}
