//! Opening the database: its families, its options, and what its errors mean.

use std::path::Path;

use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamilyDescriptor, DB, DBCompressionType, DBRecoveryMode,
    LogLevel, Options,
};

use crate::store::StoreError;

pub(super) const HEADS: &str = "heads";
pub(super) const LOGS: &str = "logs";
pub(super) const TALLIES: &str = "tallies";

/// Write buffer of a column family, in bytes.
const BUFFER_BYTES: usize = 8 << 20;

pub(super) fn open(folder: &Path, cache: &Cache, create: bool) -> Result<DB, StoreError> {
    let mut options = options();
    options.create_if_missing(create);
    options.create_missing_column_families(create);
    DB::open_cf_descriptors(&options, folder, families(cache)).map_err(|e| open_trouble(folder, &e))
}

/// For reading only: nothing is written, and nothing dropped.
pub(super) fn open_to_read(folder: &Path, cache: &Cache) -> Result<DB, StoreError> {
    DB::open_cf_descriptors_read_only(&options(), folder, families(cache), false)
        .map_err(|e| open_trouble(folder, &e))
}

fn options() -> Options {
    let mut options = Options::default();
    // A record cut short at the very end was never acknowledged; any other damage refuses to open.
    options.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
    options.set_recycle_log_file_num(0);
    options.set_track_and_verify_wals_in_manifest(true);
    options.set_max_background_jobs(2);
    options.set_max_total_wal_size(64 << 20);
    options.set_max_open_files(128);
    options.set_bytes_per_sync(1 << 20);
    options.set_log_level(LogLevel::Warn);
    options.set_keep_log_file_num(2);
    options.set_stats_dump_period_sec(0);
    options
}

fn families(cache: &Cache) -> Vec<ColumnFamilyDescriptor> {
    ["default", HEADS, LOGS, TALLIES]
        .map(|name| {
            let mut table = BlockBasedOptions::default();
            table.set_block_cache(cache);
            table.set_cache_index_and_filter_blocks(true);
            table.set_format_version(5);
            // Read by whole keys; of unknown logs that are not there.
            table.set_bloom_filter(10.0, false);
            let mut options = Options::default();
            options.set_write_buffer_size(BUFFER_BYTES);
            options.set_compression_type(DBCompressionType::None);
            options.set_level_compaction_dynamic_level_bytes(true);
            options.set_block_based_table_factory(&table);
            ColumnFamilyDescriptor::new(name, options)
        })
        .into()
}

pub(super) fn damaged(at: &Path, what: impl std::fmt::Display) -> StoreError {
    StoreError::Damaged(format!("{}: {what}", at.display()))
}

pub(super) fn unavailable(at: &Path, error: std::io::Error) -> StoreError {
    StoreError::Unavailable(format!("{}: {error}", at.display()))
}

/// RocksDB tells kinds of trouble apart; what it calls corruption does not pass with time.
pub(super) fn trouble(error: &rocksdb::Error) -> StoreError {
    match error.kind() {
        rocksdb::ErrorKind::Corruption => StoreError::Damaged(error.to_string()),
        _ => StoreError::Unavailable(error.to_string()),
    }
}

fn open_trouble(folder: &Path, error: &rocksdb::Error) -> StoreError {
    // RocksDB reports a lock held elsewhere as an I/O error; only its text says which file.
    let text = error.to_string();
    match error.kind() {
        rocksdb::ErrorKind::IOError if text.contains("/LOCK") => {
            let text = format!("{} is in use by another process", folder.display());
            StoreError::InUse(text)
        }
        rocksdb::ErrorKind::Corruption | rocksdb::ErrorKind::InvalidArgument => {
            damaged(folder, text)
        }
        rocksdb::ErrorKind::IOError if text.contains("No such file") => damaged(folder, text),
        _ => StoreError::Unavailable(format!("{}: {text}", folder.display())),
    }
}
