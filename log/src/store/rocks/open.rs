//! Opening a database: its families, its options, and what its errors mean.

use std::{path::Path, sync::atomic::Ordering};

use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamilyDescriptor, DB, DBCompressionType, DBRecoveryMode,
    LogLevel, Options, SliceTransform, WriteBatch, WriteBufferManager,
};

use super::{
    RocksStore,
    codec::{committed, meta},
};
use crate::store::{Head, Store, StoreError, memory::MemoryStore, tidemark::Tidemark};

/// What all databases of a process share, so that 200 open accounts cost little more than one.
#[derive(Clone)]
pub struct Shared {
    cache: Cache,
    buffers: WriteBufferManager,
}

impl Shared {
    /// A block cache and a bound on all write buffers together, in bytes.
    #[must_use]
    pub fn new(cache_bytes: usize, buffer_bytes: usize) -> Shared {
        let cache = Cache::new_lru_cache(cache_bytes);
        let buffers = WriteBufferManager::new_write_buffer_manager(buffer_bytes, false);
        Shared { cache, buffers }
    }
}

/// The layout of the module above. A newer one is refused; an older one is migrated at start (there is none yet).
pub(super) const FORMAT: u32 = 1;

/// The write-ahead log may have so many bytes, all of which a start reads twice after a kill. Without this bound RocksDB keeps 1.3 GB,
/// because families that grow slowly are never full. Small in tests, which would otherwise have to write that much.
const WAL_BYTES_MAX: u64 = if cfg!(test) { 4 << 20 } else { 128 << 20 };

pub(super) const ENTRIES: &str = "entries";
pub(super) const TILES: &str = "tiles";
pub(super) const UNIQUE: &str = "unique";
pub(super) const POSTINGS: &str = "postings";

/// OK because [`open`] opens every family by name; a database without one does not open.
pub(super) fn family<'a>(db: &'a DB, name: &str) -> &'a rocksdb::ColumnFamily {
    db.cf_handle(name).expect("RocksStore: column family")
}

/// Opens for writing what reaches at least to `published`, the largest head that is known to have been published.
///
/// Looked at for reading first: a damaged length in the write-ahead log looks to RocksDB like a record that a crash cut
/// short, and an opening for writing then drops, for good, the whole records behind it.
pub(super) fn open_existing(
    folder: &Path,
    shared: &Shared,
    published: Option<&Head>,
) -> Result<DB, StoreError> {
    // Looked for first, because RocksDB leaves a lock file where it finds nothing.
    if !folder.join("CURRENT").is_file() {
        return Err(damaged(format!(
            "{}: there is no log here (no file CURRENT)",
            folder.display()
        )));
    }
    if let Some(published) = published {
        let (found, _) = committed(&open_to_read(folder, shared)?)?;
        if found.size < published.size {
            return Err(damaged(format!(
                "{}: the database can be read up to size {}, and size {} had been published: leaves are missing, or its \
                 write-ahead log is damaged before its end. Nothing was changed; restore a copy that holds them",
                folder.display(),
                found.size,
                published.size
            )));
        }
    }
    let db = open(folder, shared, false)?;
    known_format(folder, &db)?;
    Ok(db)
}

/// Whether the layout is the one above.
fn known_format(folder: &Path, db: &DB) -> Result<(), StoreError> {
    let format = db.get(meta::FORMAT).map_err(|e| trouble(&e))?;
    let format = format
        .as_deref()
        .and_then(|b| b.try_into().ok())
        .map(u32::from_be_bytes);
    match format {
        Some(FORMAT) => Ok(()),
        Some(found) if found > FORMAT => Err(StoreError::TooNew {
            found,
            known: FORMAT,
        }),
        found => Err(damaged(format!(
            "{}: format {found:?} is none of ours",
            folder.display()
        ))),
    }
}

pub(super) fn open(folder: &Path, shared: &Shared, create: bool) -> Result<DB, StoreError> {
    let mut options = options(shared);
    options.create_if_missing(create);
    options.create_missing_column_families(create);
    DB::open_cf_descriptors(&options, folder, families(shared))
        .map_err(|e| open_trouble(folder, &e))
}

impl RocksStore {
    /// Opens a store that ends before what was published, so that what is missing can be brought back: for reading only, or, to
    /// commit what was proved, for writing. The latter drops what stands behind a damage in the write-ahead log.
    ///
    /// # Errors
    /// As [`RocksStore::open`], but for what is missing.
    pub fn open_behind(
        folder: &Path,
        tidemark: &Path,
        shared: &Shared,
        write: bool,
    ) -> Result<RocksStore, StoreError> {
        let mark = Tidemark::open_as(tidemark, write)?;
        let db = if write {
            open_existing(folder, shared, None)?
        } else {
            refuse_absent(folder)?;
            let db = open_to_read(folder, shared)?;
            known_format(folder, &db)?;
            db
        };
        let store = RocksStore::with(folder, mark, shared, db);
        store.writable.store(write, Ordering::SeqCst);
        Ok(store)
    }
}

/// What there is to go on from where a database was lost: no leaf, and the mark if that was kept. `None` where there is something in
/// the folder: a database that is damaged is not lost, and is never begun over.
///
/// # Errors
/// `Damaged` where the mark cannot be read; `Unavailable`.
pub fn lost(folder: &Path, tidemark: &Path) -> Result<Option<MemoryStore>, StoreError> {
    if !is_lost(folder)? {
        return Ok(None);
    }
    let nothing = MemoryStore::new();
    if tidemark.exists()
        && let Some(head) = Tidemark::open(tidemark)?.last()
    {
        nothing.mark(&head)?;
    }
    Ok(Some(nothing))
}

/// Whether there is nothing but what RocksDB leaves where it was asked to open nothing.
fn is_lost(folder: &Path) -> Result<bool, StoreError> {
    let failed = |e: std::io::Error| StoreError::Unavailable(format!("{}: {e}", folder.display()));
    let entries = match folder.read_dir() {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(true),
        Err(e) => return Err(failed(e)),
    };
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        let name = name.to_string_lossy();
        if name != "LOCK" && !name.starts_with("LOG") {
            return Ok(false);
        }
    }
    Ok(true)
}

impl RocksStore {
    /// Begins a database where one was lost, to which leaves come back up to `promised`. The mark is raised to that before there is a
    /// database: however this ends, nothing less is ever taken for the whole log.
    ///
    /// # Errors
    /// `Damaged` if the folder is not empty; `Unavailable`.
    pub fn create_behind(
        folder: &Path,
        tidemark: &Path,
        shared: &Shared,
        promised: &Head,
    ) -> Result<RocksStore, StoreError> {
        let failed =
            |e: std::io::Error| StoreError::Unavailable(format!("{}: {e}", folder.display()));
        if !is_lost(folder)? {
            return Err(damaged(format!("{}: it is not empty", folder.display())));
        }
        if !tidemark.exists() {
            Tidemark::create(tidemark)?;
        }
        let mut mark = Tidemark::open(tidemark)?;
        mark.raise(promised)?;
        mark.settle()?;
        // Made whole elsewhere: a folder that RocksDB was killed in opens neither as a database nor as none.
        let stage = folder.with_extension("new");
        for left in [&stage, folder] {
            match std::fs::remove_dir_all(left) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(failed(e)),
                _ => {}
            }
        }
        std::fs::create_dir(&stage).map_err(failed)?;
        let store = RocksStore::with(&stage, mark, shared, open(&stage, shared, true)?);
        let mut batch = WriteBatch::default();
        batch.put(meta::FORMAT, FORMAT.to_be_bytes());
        store.write(batch)?;
        drop(store);
        std::fs::rename(&stage, folder).map_err(failed)?;
        if let Some(parent) = folder.parent() {
            let parent = std::fs::File::open(parent).and_then(|d| d.sync_all());
            parent.map_err(failed)?;
        }
        RocksStore::open_behind(folder, tidemark, shared, true)
    }
}

/// Looked for first, because RocksDB leaves a lock file where it finds nothing.
fn refuse_absent(folder: &Path) -> Result<(), StoreError> {
    if folder.join("CURRENT").is_file() {
        return Ok(());
    }
    Err(damaged(format!(
        "{}: there is no log here (no file CURRENT)",
        folder.display()
    )))
}

/// For reading only, without a lock of its own: nothing is written, so a full disk does not keep it from opening.
pub(super) fn open_to_read(folder: &Path, shared: &Shared) -> Result<DB, StoreError> {
    DB::open_cf_descriptors_read_only(&options(shared), folder, families(shared), false)
        .map_err(|e| open_trouble(folder, &e))
}

fn options(shared: &Shared) -> Options {
    let mut options = Options::default();
    // A record cut short at the very end was never acknowledged; any other damage refuses to open.
    options.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
    options.set_recycle_log_file_num(0);
    options.set_track_and_verify_wals_in_manifest(true);
    options.set_write_buffer_manager(&shared.buffers);
    options.set_max_background_jobs(2);
    // There is one writer: what lets several insert at once only costs it time.
    options.set_allow_concurrent_memtable_write(false);
    options.set_max_total_wal_size(WAL_BYTES_MAX);
    options.set_max_open_files(256);
    options.set_bytes_per_sync(1 << 20);
    options.set_log_level(LogLevel::Warn);
    options.set_keep_log_file_num(2);
    options.set_stats_dump_period_sec(0);
    options
}

fn families(shared: &Shared) -> Vec<ColumnFamilyDescriptor> {
    [
        ("default", Family::Plain),
        (ENTRIES, Family::Text),
        (TILES, Family::Plain),
        (UNIQUE, Family::Points),
        (POSTINGS, Family::Prefixed),
    ]
    .map(|(name, family)| ColumnFamilyDescriptor::new(name, family_options(shared, family)))
    .into()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    /// Hashes and small things: nothing to compress.
    Plain,
    /// Leaves: JSON with base64 inside.
    Text,
    /// Read by whole keys, mostly ones that are not there: bloom filters answer those.
    Points,
    /// Read by prefix.
    Prefixed,
}

fn family_options(shared: &Shared, family: Family) -> Options {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&shared.cache);
    table.set_cache_index_and_filter_blocks(true);
    table.set_pin_l0_filter_and_index_blocks_in_cache(true);
    table.set_format_version(5);
    let mut options = Options::default();
    options.set_write_buffer_size(32 << 20);
    options.set_compression_type(DBCompressionType::None);
    options.set_level_compaction_dynamic_level_bytes(true);
    match family {
        Family::Plain => {}
        Family::Text => {
            table.set_block_size(16 << 10);
            options.set_compression_type(DBCompressionType::Lz4);
        }
        Family::Points => {
            table.set_bloom_filter(10.0, false);
            options.set_memtable_whole_key_filtering(true);
            options.set_memtable_prefix_bloom_ratio(0.1);
        }
        Family::Prefixed => {
            table.set_bloom_filter(10.0, false);
            table.set_whole_key_filtering(false);
            options.set_prefix_extractor(SliceTransform::create_fixed_prefix(17));
            options.set_memtable_prefix_bloom_ratio(0.1);
        }
    }
    options.set_block_based_table_factory(&table);
    options
}

pub(super) fn damaged(what: impl Into<String>) -> StoreError {
    StoreError::Damaged { what: what.into() }
}

/// RocksDB tells kinds of trouble apart; what it calls corruption does not pass with time.
pub(super) fn trouble(error: &rocksdb::Error) -> StoreError {
    match error.kind() {
        rocksdb::ErrorKind::Corruption => damaged(error.to_string()),
        _ => StoreError::Unavailable(error.to_string()),
    }
}

fn open_trouble(folder: &Path, error: &rocksdb::Error) -> StoreError {
    // RocksDB reports a lock held elsewhere as an I/O error; only its text says which file.
    let text = error.to_string();
    match error.kind() {
        rocksdb::ErrorKind::IOError if text.contains("/LOCK") => {
            StoreError::InUse(format!("{}: {text}", folder.display()))
        }
        rocksdb::ErrorKind::Corruption | rocksdb::ErrorKind::InvalidArgument => {
            damaged(format!("{}: {text}", folder.display()))
        }
        rocksdb::ErrorKind::IOError if text.contains("No such file") => {
            damaged(format!("{}: {text}", folder.display()))
        }
        _ => StoreError::Unavailable(format!("{}: {text}", folder.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::suite;

    #[test]
    fn a_lost_database_is_begun_again_and_is_no_log_before_it_reaches_its_mark() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, mark) = (dir.path().join("db"), dir.path().join("published"));
        let shared = Shared::new(8 << 20, 8 << 20);
        let growth = suite::growth(&Head::EMPTY, &[b"a", b"b"]);
        let is_lost = || lost(&folder, &mark).unwrap().is_some();
        assert!(is_lost());
        // Where RocksDB looked in vain it leaves these; anything else may be a log.
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("LOCK"), "").unwrap();
        assert!(is_lost());
        std::fs::write(folder.join("000004.sst"), "x").unwrap();
        assert!(!is_lost());
        assert!(RocksStore::create_behind(&folder, &mark, &shared, &growth.head).is_err());
        assert!(!mark.exists());
        std::fs::remove_file(folder.join("000004.sst")).unwrap();
        // An attempt that was killed while the database was made.
        let stage = dir.path().join("db.new");
        std::fs::create_dir(&stage).unwrap();
        std::fs::write(stage.join("CURRENT"), "half").unwrap();
        drop(RocksStore::create_behind(&folder, &mark, &shared, &growth.head).unwrap());
        assert!(!stage.exists() && !is_lost());
        let open = || RocksStore::open(&folder, &mark, &shared);
        assert!(matches!(open(), Err(StoreError::Damaged { .. })));
        let store = RocksStore::open_behind(&folder, &mark, &shared, true).unwrap();
        store.commit(&Head::EMPTY, &growth).unwrap();
        drop(store);
        let (head, _) = open().unwrap().head().unwrap();
        assert_eq!(head, growth.head);
        // Lost again: the mark that was kept is known.
        std::fs::remove_dir_all(&folder).unwrap();
        let nothing = lost(&folder, &mark).unwrap().unwrap();
        assert_eq!(nothing.tidemark().unwrap(), Some(growth.head));
    }
}
