//! A witness's memory in RocksDB: one synced write batch a commit, whatever number of logs it moves.
//!
//! | column family | key | value |
//! |---|---|---|
//! | default | `format`, `commits` | u32, u64, big-endian |
//! | heads | SHA-256 of the origin | the record |
//! | logs | SHA-256 of the origin | the roster's entry, JSON |
//! | tallies | SHA-256 of the origin | counts |
//!
//! `commits` counts the synced batches, and a small file beside the database says how many there were at least. A write-ahead
//! log that is damaged before its end looks like one that a crash cut short; RocksDB would drop what lies behind the damage,
//! and the witness would go back to heads that it had moved on from. So it is looked at for reading first.

mod open;

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError, RwLock},
};

use countersign_verifier::hash::Hash;
use rocksdb::{Cache, ColumnFamily, DB, Direction, IteratorMode, WriteBatch, WriteOptions};

use self::open::{HEADS, LOGS, TALLIES, damaged, open, open_to_read, trouble, unavailable};
use super::{Change, Store, StoreError};
use crate::dir::open_plain;
use crate::record::Record;
use crate::tally::Tally;

/// The layout above. A newer one is refused.
const FORMAT: u32 = 1;
const FORMAT_KEY: &[u8] = b"format";
const COMMITS_KEY: &[u8] = b"commits";

/// A witness's memory in a RocksDB folder, with the number of its commits beside it.
pub struct RocksStore {
    folder: PathBuf,
    cache: Cache,
    /// `None` after a reload that failed.
    db: RwLock<Option<DB>>,
    /// Held from the compare to the end of the write.
    committer: Mutex<Committer>,
    sync: WriteOptions,
}

struct Committer {
    mark: File,
    commits: u64,
}

impl RocksStore {
    /// Makes a new, empty store. `mark` is a file outside `folder`.
    ///
    /// # Errors
    /// `Damaged` if there is anything at either place: nothing is ever begun over an old one.
    pub fn create(folder: &Path, mark: &Path) -> Result<RocksStore, StoreError> {
        let occupied = folder.read_dir().is_ok_and(|mut d| d.next().is_some());
        if occupied || mark.exists() {
            return Err(damaged(folder, "there is a witness here already"));
        }
        std::fs::create_dir_all(folder).map_err(|e| unavailable(folder, e))?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(mark)
            .map_err(|e| unavailable(mark, e))?;
        let written = file.write_all_at(&0_u64.to_be_bytes(), 0);
        written
            .and_then(|()| file.sync_all())
            .map_err(|e| unavailable(mark, e))?;
        let cache = Cache::new_lru_cache(CACHE_BYTES);
        let db = open(folder, &cache, true)?;
        let store = RocksStore::with(folder, cache, db, file, 0);
        let mut batch = WriteBatch::default();
        batch.put(FORMAT_KEY, FORMAT.to_be_bytes());
        batch.put(COMMITS_KEY, 0_u64.to_be_bytes());
        store.read(|db| db.write_opt(batch, &store.sync).map_err(|e| trouble(&e)))?;
        Ok(store)
    }

    /// Opens a store that [`RocksStore::create`] made.
    ///
    /// # Errors
    /// `InUse` if another process holds it, `TooNew`, `Damaged` if it is not whole or not there, `Unavailable`.
    pub fn open(folder: &Path, mark: &Path) -> Result<RocksStore, StoreError> {
        let missing = |why: std::io::Error| {
            damaged(
                mark,
                format!(
                    "the number of commits is missing ({why}): which heads were cosigned cannot be told"
                ),
            )
        };
        let file = open_plain(mark, OpenOptions::new().read(true).write(true));
        let file = file.map_err(missing)?;
        let cache = Cache::new_lru_cache(CACHE_BYTES);
        let (db, commits) = open_existing(folder, &cache, marked(&file, mark)?)?;
        Ok(RocksStore::with(folder, cache, db, file, commits))
    }

    fn with(folder: &Path, cache: Cache, db: DB, mark: File, commits: u64) -> RocksStore {
        let mut sync = WriteOptions::default();
        sync.set_sync(true);
        RocksStore {
            folder: folder.to_owned(),
            cache,
            db: RwLock::new(Some(db)),
            committer: Mutex::new(Committer { mark, commits }),
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

    fn get(&self, name: &str, log: &Hash) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(|db| db.get_cf(family(db, name), log.0).map_err(|e| trouble(&e)))
    }

    /// Fills a batch and writes it, synced and counted. Nobody else writes in between.
    fn write_synced(
        &self,
        fill: impl FnOnce(&DB, &mut WriteBatch) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut committer = self.committer();
        let commits = committer.commits + 1;
        self.read(|db| {
            let mut batch = WriteBatch::default();
            fill(db, &mut batch)?;
            batch.put(COMMITS_KEY, commits.to_be_bytes());
            db.write_opt(batch, &self.sync).map_err(|e| trouble(&e))
        })?;
        committer.commits = commits;
        // Not synced: it comes after what it counts, so that it can only ever say too little.
        committer
            .mark
            .write_all_at(&commits.to_be_bytes(), 0)
            .map_err(|e| unavailable(&self.folder, e))
    }

    fn committer(&self) -> std::sync::MutexGuard<'_, Committer> {
        self.committer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for RocksStore {
    fn record(&self, log: &Hash) -> Result<Option<Record>, StoreError> {
        self.get(HEADS, log)?
            .map(|bytes| Record::decode(&bytes).map_err(|why| damaged(&self.folder, why)))
            .transpose()
    }

    fn commit(&self, changes: &[Change]) -> Result<(), StoreError> {
        if changes.is_empty() {
            return Ok(());
        }
        self.write_synced(|db, batch| {
            let heads = family(db, HEADS);
            for change in changes {
                let stored = db
                    .get_pinned_cf(heads, change.log.0)
                    .map_err(|e| trouble(&e))?;
                let expected = change.expected.as_ref().map(Record::encode);
                if stored.as_deref() != expected.as_deref() {
                    return Err(StoreError::Conflict { log: change.log });
                }
                batch.put_cf(heads, change.log.0, change.next.encode());
            }
            Ok(())
        })
    }

    fn entry(&self, log: &Hash) -> Result<Option<Vec<u8>>, StoreError> {
        self.get(LOGS, log)
    }

    fn put_entries(&self, entries: &[(Hash, Vec<u8>)]) -> Result<(), StoreError> {
        self.write_synced(|db, batch| {
            for (log, entry) in entries {
                batch.put_cf(family(db, LOGS), log.0, entry);
            }
            Ok(())
        })
    }

    fn entries(
        &self,
        after: Option<&Hash>,
        limit: usize,
    ) -> Result<Vec<(Hash, Vec<u8>)>, StoreError> {
        self.read(|db| {
            let mode = match after {
                None => IteratorMode::Start,
                Some(after) => IteratorMode::From(&after.0, Direction::Forward),
            };
            let mut found = Vec::new();
            for row in db.iterator_cf(family(db, LOGS), mode) {
                let (key, value) = row.map_err(|e| trouble(&e))?;
                let key = <[u8; 32]>::try_from(&*key);
                let log = Hash(key.map_err(|_| damaged(&self.folder, "a key of another length"))?);
                if Some(&log) == after {
                    continue;
                }
                if found.len() == limit {
                    break;
                }
                found.push((log, value.into_vec()));
            }
            Ok(found)
        })
    }

    fn tally(&self, log: &Hash) -> Result<Tally, StoreError> {
        let found = self.get(TALLIES, log)?;
        Ok(found.map_or(Tally::default(), |bytes| Tally::decode(&bytes)))
    }

    fn put_tallies(&self, tallies: &[(Hash, Tally)]) -> Result<(), StoreError> {
        self.read(|db| {
            let mut batch = WriteBatch::default();
            for (log, tally) in tallies {
                batch.put_cf(family(db, TALLIES), log.0, tally.encode());
            }
            db.write(batch).map_err(|e| trouble(&e))
        })
    }

    fn reload(&self) -> Result<(), StoreError> {
        let mut committer = self.committer();
        let mut db = self.db.write().unwrap_or_else(PoisonError::into_inner);
        // Closed first: RocksDB lets nobody, this process included, open a folder for writing twice.
        *db = None;
        let least = marked(&committer.mark, &self.folder)?;
        let (opened, commits) = open_existing(&self.folder, &self.cache, least)?;
        committer.commits = commits;
        *db = Some(opened);
        Ok(())
    }
}

/// Block cache, in bytes: the newest heads of some 20,000 logs.
const CACHE_BYTES: usize = 16 << 20;

fn marked(file: &File, path: &Path) -> Result<u64, StoreError> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, 0)
        .map_err(|e| damaged(path, e))?;
    Ok(u64::from_be_bytes(bytes))
}

/// Opens for writing what has at least `least` commits, and returns how many it has.
fn open_existing(folder: &Path, cache: &Cache, least: u64) -> Result<(DB, u64), StoreError> {
    // Looked for first, because RocksDB leaves a lock file where it finds nothing.
    if !folder.join("CURRENT").is_file() {
        return Err(damaged(
            folder,
            "there is no witness's memory here (no file CURRENT)",
        ));
    }
    let to_read = open_to_read(folder, cache)?;
    let format = number::<4>(&to_read, FORMAT_KEY)?.map(u32::from_be_bytes);
    match format {
        Some(FORMAT) => {}
        Some(found) if found > FORMAT => {
            let known = FORMAT;
            return Err(StoreError::TooNew { found, known });
        }
        _ => return Err(damaged(folder, "its format is none of ours")),
    }
    let found = number::<8>(&to_read, COMMITS_KEY)?.map_or(0, u64::from_be_bytes);
    if found < least {
        let what = format!(
            "the database can be read up to commit {found}, and there had been {least}: cosigned heads are missing, or its \
             write-ahead log is damaged before its end. Nothing was changed; restore a copy that holds them"
        );
        return Err(damaged(folder, what));
    }
    drop(to_read);
    Ok((open(folder, cache, false)?, found))
}

fn number<const N: usize>(db: &DB, key: &[u8]) -> Result<Option<[u8; N]>, StoreError> {
    let found = db.get(key).map_err(|e| trouble(&e))?;
    Ok(found.and_then(|bytes| bytes.try_into().ok()))
}

/// OK because [`open`] opens every family by name; a database without one does not open.
fn family<'a>(db: &'a DB, name: &str) -> &'a ColumnFamily {
    db.cf_handle(name).expect("RocksStore: column family")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::suite;

    fn fresh() -> (RocksStore, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let (db, mark) = (dir.path().join("db"), dir.path().join("commits"));
        (RocksStore::create(&db, &mark).unwrap(), dir)
    }

    fn again(dir: &tempfile::TempDir) -> Result<RocksStore, StoreError> {
        RocksStore::open(&dir.path().join("db"), &dir.path().join("commits"))
    }

    #[test]
    fn it_passes_the_suite() {
        let kept = Mutex::new(Vec::new());
        suite::run(&|| {
            let (store, dir) = fresh();
            kept.lock().unwrap().push(dir);
            Box::new(store)
        });
    }

    #[test]
    fn a_second_opener_is_refused_and_a_later_one_finds_all() {
        let (store, dir) = fresh();
        let (log, record) = suite::record(3);
        store.commit(&[suite::change(log, None, &record)]).unwrap();
        assert!(matches!(again(&dir).err(), Some(StoreError::InUse(_))));
        drop(store);
        assert_eq!(again(&dir).unwrap().record(&log), Ok(Some(record)));
    }

    #[test]
    fn nothing_is_begun_over_another_one_or_because_it_is_missing() {
        let (store, dir) = fresh();
        drop(store);
        let (db, mark) = (dir.path().join("db"), dir.path().join("commits"));
        let over = RocksStore::create(&db, &mark);
        assert!(matches!(over.err(), Some(StoreError::Damaged(_))));
        std::fs::remove_file(&mark).unwrap();
        assert!(matches!(again(&dir).err(), Some(StoreError::Damaged(_))));
        let (store, dir) = fresh();
        drop(store);
        std::fs::remove_dir_all(dir.path().join("db")).unwrap();
        assert!(matches!(again(&dir).err(), Some(StoreError::Damaged(_))));
    }

    #[test]
    fn a_database_that_lost_its_end_is_not_opened_and_not_changed() {
        let (store, dir) = fresh();
        let (log, record) = suite::record(3);
        store.commit(&[suite::change(log, None, &record)]).unwrap();
        drop(store);
        let db = dir.path().join("db");
        let wal = || {
            let files = db.read_dir().unwrap().map(|f| f.unwrap().path());
            let mut logs: Vec<PathBuf> = files
                .filter(|p| p.extension().is_some_and(|e| e == "log"))
                .collect();
            logs.sort();
            logs.pop().unwrap()
        };
        let path = wal();
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        assert!(matches!(again(&dir).err(), Some(StoreError::Damaged(_))));
        std::fs::write(&path, &whole).unwrap();
        assert_eq!(again(&dir).unwrap().record(&log), Ok(Some(record)));
    }
}
