//! Stores that end before what was published, or are lost: what there is to go on from.

use std::{path::Path, sync::atomic::Ordering};

use rocksdb::WriteBatch;

use super::{
    RocksStore, Shared,
    codec::meta,
    migrate::LAYOUT,
    open::{damaged, open, open_existing, open_to_read, refuse_absent},
};
use crate::store::{Head, Store, StoreError, memory::MemoryStore, tidemark::Tidemark};

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
            open_existing(folder, shared, None, &LAYOUT)?
        } else {
            refuse_absent(folder)?;
            let db = open_to_read(folder, shared)?;
            LAYOUT.is(folder, &db)?;
            db
        };
        let store = RocksStore::with(folder, mark, shared, (db, &LAYOUT));
        store.writable.store(write, Ordering::SeqCst);
        Ok(store)
    }

    /// The largest published head, as the mark beside a database says alone; `None` where nothing was published.
    ///
    /// # Errors
    /// `Damaged` where it is missing or cannot be read; `Unavailable`.
    pub fn read_mark(tidemark: &Path) -> Result<Option<Head>, StoreError> {
        Ok(Tidemark::open_as(tidemark, false)?.last())
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
        let store = RocksStore::with(&stage, mark, shared, (open(&stage, shared, true)?, &LAYOUT));
        let mut batch = WriteBatch::default();
        batch.put(meta::FORMAT, LAYOUT.format.to_be_bytes());
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
