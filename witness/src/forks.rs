//! Evidence of forks, kept once a log: in files of its own, so that it is there whatever becomes of the database.
//!
//! A file `<SHA-256 of the origin>.json` is the evidence (`countersign.fork/1`), byte for byte what others verify; an empty
//! `<SHA-256 of the origin>.told` beside it says that the webhook has it.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use countersign_verifier::hash::Hash;
use countersign_verifier::limits::FORK_BYTES_MAX;
use tokio::sync::Notify;

use crate::dir::{sync_dir, write_new};

const EVIDENCE: &str = "json";
const TOLD: &str = "told";

/// Where evidence is kept.
enum Place {
    /// Nowhere: a witness without a directory answers the witness protocol alone, and marks nothing.
    Off,
    /// For tests.
    Memory(Mutex<BTreeMap<Hash, Vec<u8>>>),
    Folder(PathBuf),
}

/// The evidence that a witness has.
pub struct Forks {
    place: Place,
    /// Of which logs, and whether the webhook was told. About 100 bytes each, and never more than there are logs.
    held: RwLock<BTreeMap<Hash, bool>>,
    /// Proved to have forked, and not written yet, most likely because the disk is full: nothing of them is signed all the same.
    unwritten: Mutex<BTreeSet<Hash>>,
    /// Held while a file is written: the first evidence of a log is the one that is kept.
    writing: Mutex<()>,
    later: AtomicU64,
    found: Notify,
}

impl Forks {
    /// Keeps nothing, and takes nothing.
    #[must_use]
    pub fn off() -> Forks {
        Forks::with(Place::Off, BTreeMap::new())
    }

    /// In memory.
    #[must_use]
    pub fn memory() -> Forks {
        Forks::with(Place::Memory(Mutex::default()), BTreeMap::new())
    }

    /// In `folder`, which is made if it is not there. Files that `holds` does not know for evidence of that log are passed over.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(folder: &Path, holds: impl Fn(&Hash, &[u8]) -> bool) -> io::Result<Forks> {
        match std::fs::create_dir(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Err(_) => {}
            Ok(()) => sync_dir(folder.parent().unwrap_or(folder))?,
        }
        let mut held = BTreeMap::new();
        for file in folder.read_dir()? {
            let path = file?.path();
            let Some(log) = log_of(&path) else { continue };
            match read(&path) {
                Ok(bytes) if holds(&log, &bytes) => {
                    held.insert(log, path.with_extension(TOLD).exists());
                }
                Ok(_) => {
                    tracing::warn!(path = %path.display(), "no evidence of a fork of a log that is known here");
                }
                Err(error) => tracing::error!(path = %path.display(), %error, "cannot be read"),
            }
        }
        Ok(Forks::with(Place::Folder(folder.to_owned()), held))
    }

    fn with(place: Place, held: BTreeMap<Hash, bool>) -> Forks {
        Forks {
            place,
            held: RwLock::new(held),
            unwritten: Mutex::default(),
            writing: Mutex::default(),
            later: AtomicU64::new(0),
            found: Notify::new(),
        }
    }

    /// Whether evidence is kept at all.
    #[must_use]
    pub fn is_on(&self) -> bool {
        !matches!(self.place, Place::Off)
    }

    /// Whether there is evidence of a fork of this log.
    #[must_use]
    pub fn holds(&self, log: &Hash) -> bool {
        self.held().contains_key(log)
    }

    /// Whether nothing of this log may be signed: there is evidence, written or not.
    #[must_use]
    pub fn bars(&self, log: &Hash) -> bool {
        let unwritten = self
            .unwritten
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        unwritten.contains(log) || self.holds(log)
    }

    /// Keeps verified evidence, durable on return; whether it is the first of this log. Later ones are counted only.
    ///
    /// # Errors
    /// What the system says; then it is not kept, and may be brought again.
    pub fn keep(&self, log: &Hash, evidence: &[u8]) -> io::Result<bool> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.holds(log) {
            self.later.fetch_add(1, Ordering::Relaxed);
            return Ok(false);
        }
        match &self.place {
            Place::Off => return Ok(false),
            Place::Memory(kept) => {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.insert(*log, evidence.to_vec());
            }
            Place::Folder(folder) => {
                let written = write_whole(folder, log, evidence);
                let mut unwritten = self
                    .unwritten
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                match written {
                    Ok(()) => unwritten.remove(log),
                    Err(error) => {
                        unwritten.insert(*log);
                        return Err(error);
                    }
                };
            }
        }
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        held.insert(*log, false);
        drop(held);
        self.found.notify_one();
        Ok(true)
    }

    /// The evidence against a log.
    ///
    /// # Errors
    /// What the system says.
    pub fn evidence(&self, log: &Hash) -> io::Result<Option<Vec<u8>>> {
        if !self.holds(log) {
            return Ok(None);
        }
        match &self.place {
            Place::Off => Ok(None),
            Place::Memory(kept) => {
                let kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(kept.get(log).cloned())
            }
            Place::Folder(folder) => read(&file(folder, log, EVIDENCE)).map(Some),
        }
    }

    /// Up to `limit` logs behind `after` that there is evidence of.
    #[must_use]
    pub fn page(&self, after: Option<&Hash>, limit: usize) -> Vec<Hash> {
        let held = self.held();
        let behind = held.keys().filter(|log| after.is_none_or(|a| *log > a));
        behind.take(limit).copied().collect()
    }

    /// How many logs there is evidence of.
    #[must_use]
    pub fn len(&self) -> usize {
        self.held().len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Evidence that came for logs that there was evidence of already, since the start.
    #[must_use]
    pub fn later(&self) -> u64 {
        self.later.load(Ordering::Relaxed)
    }

    /// The logs whose evidence the webhook does not have.
    #[must_use]
    pub fn untold(&self) -> Vec<Hash> {
        let held = self.held();
        let untold = held.iter().filter(|(_, told)| !**told);
        untold.map(|(log, _)| *log).collect()
    }

    /// Remembers that the webhook has it. If that is not durable, the webhook hears of it twice.
    ///
    /// # Errors
    /// What the system says.
    pub fn told(&self, log: &Hash) -> io::Result<()> {
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        held.insert(*log, true);
        drop(held);
        match &self.place {
            Place::Folder(folder) => match write_new(&file(folder, log, TOLD), b"", 0o600) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                written => written,
            },
            Place::Off | Place::Memory(_) => Ok(()),
        }
    }

    /// Returns once evidence was found since the last call; at least once for each.
    pub async fn wait(&self) {
        self.found.notified().await;
    }

    fn held(&self) -> std::sync::RwLockReadGuard<'_, BTreeMap<Hash, bool>> {
        self.held.read().unwrap_or_else(PoisonError::into_inner)
    }
}

fn file(folder: &Path, log: &Hash, extension: &str) -> PathBuf {
    folder.join(log.to_hex()).with_extension(extension)
}

/// The log whose evidence a file of this name is.
fn log_of(path: &Path) -> Option<Hash> {
    if path.extension()? != EVIDENCE {
        return None;
    }
    Hash::from_hex(path.file_stem()?.to_str()?).ok()
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    if path.metadata()?.len() > FORK_BYTES_MAX as u64 {
        let what = "larger than any evidence";
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    std::fs::read(path)
}

/// Under its name is only ever a whole file.
fn write_whole(folder: &Path, log: &Hash, evidence: &[u8]) -> io::Result<()> {
    let part = file(folder, log, "part");
    match std::fs::remove_file(&part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    write_new(&part, evidence, 0o644)?;
    std::fs::rename(&part, file(folder, log, EVIDENCE))?;
    sync_dir(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_evidence_of_a_log_is_kept_and_found_again() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("forks");
        let logs = [Hash([1; 32]), Hash([2; 32])];
        let forks = Forks::open(&folder, |_, _| true).unwrap();
        assert!(forks.is_empty());
        // What a crash left half is in the way of nothing.
        std::fs::write(file(&folder, &logs[0], "part"), b"ha").unwrap();
        assert!(forks.keep(&logs[0], b"first").unwrap());
        assert!(!forks.keep(&logs[0], b"later").unwrap());
        assert!(forks.keep(&logs[1], b"other").unwrap());
        assert_eq!((forks.len(), forks.later()), (2, 1));
        forks.told(&logs[0]).unwrap();
        forks.told(&logs[0]).unwrap();
        std::fs::write(folder.join("notes.json"), b"").unwrap();
        let again = Forks::open(&folder, |_, bytes| bytes != b"other").unwrap();
        assert_eq!(again.evidence(&logs[0]).unwrap().unwrap(), b"first");
        assert_eq!(again.page(None, 9), [logs[0]], "the other is none");
        assert!(again.untold().is_empty());
        let all = Forks::open(&folder, |_, _| true).unwrap();
        assert_eq!(all.page(Some(&logs[0]), 9), [logs[1]]);
        assert_eq!(all.untold(), [logs[1]]);
    }

    #[test]
    fn what_cannot_be_kept_is_not_held() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("forks");
        let forks = Forks::open(&folder, |_, _| true).unwrap();
        std::fs::remove_dir(&folder).unwrap();
        assert!(forks.keep(&Hash([1; 32]), b"x").is_err());
        assert!(!forks.holds(&Hash([1; 32])));
        assert!(!Forks::off().keep(&Hash([1; 32]), b"x").unwrap());
    }
}
