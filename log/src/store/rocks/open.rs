//! Opening a database: its families, its options, and what its errors mean.

use std::path::Path;

use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamilyDescriptor, DB, DBCompressionType, DBRecoveryMode,
    LogLevel, Options, SliceTransform, WriteBufferManager,
};

use super::{
    codec::committed,
    migrate::{self, LAYOUT, Layout},
};
use crate::store::{Head, StoreError};

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

/// The write-ahead log may have so many bytes, all of which a start reads twice after a kill. Without this bound RocksDB keeps 1.3 GB,
/// because families that grow slowly are never full. Small in tests, which would otherwise have to write that much.
const WAL_BYTES_MAX: u64 = if cfg!(test) { 4 << 20 } else { 128 << 20 };

/// Of a memtable's size its bloom filter has so much, zeroed as soon as anything is written: 400 KiB of 32 MiB, some 10 bits a key when it is
/// full. With ten times that 200 accounts that had one leaf each held more than a gigabyte of zeroes.
const MEMTABLE_BLOOM: f64 = 0.0125;

pub(super) const ENTRIES: &str = "entries";
pub(super) const TILES: &str = "tiles";
pub(super) const UNIQUE: &str = "unique";
pub(super) const POSTINGS: &str = "postings";

/// OK because [`open`] opens every family by name; a database without one does not open.
pub(super) fn family<'a>(db: &'a DB, name: &str) -> &'a rocksdb::ColumnFamily {
    db.cf_handle(name).expect("RocksStore: column family")
}

/// Opens for writing what reaches at least to `published`, the largest head that is known to have been published; of an older layout it
/// is made one of this.
///
/// Looked at for reading first: what is of a newer layout is not touched at all; and a damaged length in the write-ahead log looks to
/// RocksDB like a record that a crash cut short, and an opening for writing then drops, for good, the whole records behind it.
pub(super) fn open_existing(
    folder: &Path,
    shared: &Shared,
    published: Option<&Head>,
    layout: &Layout,
) -> Result<DB, StoreError> {
    // Looked for first, because RocksDB leaves a lock file where it finds nothing.
    refuse_absent(folder)?;
    {
        let db = open_to_read(folder, shared)?;
        layout.knows(folder, &db)?;
        if let Some(published) = published {
            let (found, _) = committed(&db)?;
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
    }
    let db = open(folder, shared, false)?;
    migrate::run(folder, &db, layout)?;
    Ok(db)
}

pub(super) fn refuse_absent(folder: &Path) -> Result<(), StoreError> {
    if folder.join("CURRENT").is_file() {
        return Ok(());
    }
    Err(damaged(format!(
        "{}: there is no log here (no file CURRENT)",
        folder.display()
    )))
}

pub(super) fn open(folder: &Path, shared: &Shared, create: bool) -> Result<DB, StoreError> {
    let mut options = options(shared);
    options.create_if_missing(create);
    options.create_missing_column_families(create);
    DB::open_cf_descriptors(&options, folder, families(shared))
        .map_err(|e| open_trouble(folder, &e))
}

/// Opens it with every family that it should have, creating those that it has not.
pub(super) fn open_to_complete(folder: &Path, shared: &Shared) -> Result<DB, StoreError> {
    let mut options = options(shared);
    options.create_missing_column_families(true);
    DB::open_cf_descriptors(&options, folder, families(shared))
        .map_err(|e| open_trouble(folder, &e))
}

/// Puts an empty family in the place of one.
pub(super) fn recreate(db: &mut DB, name: &str, shared: &Shared) -> Result<(), StoreError> {
    db.drop_cf(name).map_err(|e| trouble(&e))?;
    let of = FAMILIES.iter().find(|(named, _)| *named == name);
    // OK because every family that is opened is in that list.
    let (_, kind) = of.expect("open::recreate: family");
    db.create_cf(name, &family_options(shared, *kind))
        .map_err(|e| trouble(&e))
}

/// For reading only, without a lock of its own: nothing is written, so a full disk does not keep it from opening.
pub(super) fn open_to_read(folder: &Path, shared: &Shared) -> Result<DB, StoreError> {
    if let Ok(there) = DB::list_cf(&options(shared), folder) {
        same_families(folder, shared, &there)?;
    }
    DB::open_cf_descriptors_read_only(&options(shared), folder, families(shared), false)
        .map_err(|e| open_trouble(folder, &e))
}

/// Whether these families are those of a log: an opening for writing refuses others, and one that only reads is to say the same. Of a newer
/// layout that is said instead.
fn same_families(folder: &Path, shared: &Shared, there: &[String]) -> Result<(), StoreError> {
    let other = there
        .iter()
        .find(|name| FAMILIES.iter().all(|(ours, _)| ours != name));
    let missing = FAMILIES
        .iter()
        .find(|(ours, _)| there.iter().all(|name| name != ours));
    let what = match (other, missing) {
        (None, None) => return Ok(()),
        (Some(other), _) => format!("the family {other:?} is none of a log"),
        (None, Some((missing, _))) => format!("the family {missing:?} is missing"),
    };
    let db = DB::open_cf_for_read_only(&options(shared), folder, there, false);
    LAYOUT.knows(folder, &db.map_err(|e| open_trouble(folder, &e))?)?;
    Err(damaged(format!("{}: {what}", folder.display())))
}

pub(super) fn options(shared: &Shared) -> Options {
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

const FAMILIES: [(&str, Family); 5] = [
    ("default", Family::Plain),
    (ENTRIES, Family::Text),
    (TILES, Family::Plain),
    (UNIQUE, Family::Points),
    (POSTINGS, Family::Prefixed),
];

fn families(shared: &Shared) -> Vec<ColumnFamilyDescriptor> {
    FAMILIES
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
            options.set_memtable_prefix_bloom_ratio(MEMTABLE_BLOOM);
        }
        Family::Prefixed => {
            table.set_bloom_filter(10.0, false);
            table.set_whole_key_filtering(false);
            options.set_prefix_extractor(SliceTransform::create_fixed_prefix(17));
            options.set_memtable_prefix_bloom_ratio(MEMTABLE_BLOOM);
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
    // RocksDB reports a lock held elsewhere as an I/O error; only its text tells that from a lock file that cannot be opened.
    let text = error.to_string();
    let held = ["While lock file", "lock hold by current process"];
    match error.kind() {
        rocksdb::ErrorKind::IOError if held.iter().any(|held| text.contains(held)) => {
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
