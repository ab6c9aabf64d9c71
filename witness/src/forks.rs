//! Evidence of forks, kept once a log: in files of its own, so that it is there whatever becomes of the database.
//!
//! A file `<SHA-256 of the origin>.json` is the evidence (`countersign.fork/1`), byte for byte what others verify; an empty
//! `<SHA-256 of the origin>.told` beside it says that the webhook has it.

use std::{
    collections::BTreeMap,
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

use crate::dir::{read_plain, replace, sync_dir, write_new};

const EVIDENCE: &str = "json";
const TOLD: &str = "told";
/// Pieces of evidence, of 2 MiB at most, that wait in memory for a disk that takes none. Of more it is known that they are there,
/// and whoever brought them may bring them again.
const WAITING_MAX: usize = 16;

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
    /// What is to be written, where there was room to remember it.
    unwritten: Mutex<BTreeMap<Hash, Option<Vec<u8>>>>,
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
        self.waiting().contains_key(log) || self.holds(log)
    }

    /// How many logs there is evidence of that is not written.
    #[must_use]
    pub fn unwritten(&self) -> u64 {
        self.waiting().len() as u64
    }

    /// Tries once more to write what could not be; the logs whose evidence is kept now.
    pub fn write_again(&self) -> Vec<Hash> {
        let waiting = self.waiting().clone();
        let kept = |log: &Hash, evidence: Vec<u8>| match self.keep(log, &evidence) {
            Ok(first) => first,
            Err(error) => {
                tracing::error!(%error, %log, "evidence of a fork still cannot be written");
                false
            }
        };
        let written = waiting
            .into_iter()
            .filter_map(|(log, evidence)| kept(&log, evidence?).then_some(log));
        written.collect()
    }

    /// Keeps verified evidence, durable on return; whether it is the first of this log. Later ones are counted only.
    ///
    /// # Errors
    /// What the system says; then it is kept in memory for [`Forks::write_again`], and may be brought again.
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
                let written = replace(&file(folder, log, EVIDENCE), evidence, 0o644);
                let mut waiting = self.waiting();
                if let Err(error) = written {
                    let room = waiting.values().flatten().count() < WAITING_MAX;
                    let place = waiting.entry(*log).or_default();
                    *place = place.take().or(room.then(|| evidence.to_vec()));
                    return Err(error);
                }
                waiting.remove(log);
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

    fn waiting(&self) -> std::sync::MutexGuard<'_, BTreeMap<Hash, Option<Vec<u8>>>> {
        self.unwritten
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
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
    read_plain(path, FORK_BYTES_MAX as u64)
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
    fn what_cannot_be_written_waits_for_a_disk_that_takes_it() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("forks");
        let forks = Forks::open(&folder, |_, _| true).unwrap();
        std::fs::remove_dir(&folder).unwrap();
        let log = |n: usize| Hash([u8::try_from(n).unwrap(); 32]);
        for n in 0..=WAITING_MAX {
            assert!(forks.keep(&log(n), b"first").is_err());
            assert!(forks.keep(&log(n), b"later").is_err());
            assert!(!forks.holds(&log(n)) && forks.bars(&log(n)));
        }
        assert_eq!(forks.write_again(), [], "the disk still takes nothing");
        assert_eq!(forks.unwritten(), WAITING_MAX as u64 + 1);
        std::fs::create_dir(&folder).unwrap();
        let written: Vec<Hash> = (0..WAITING_MAX).map(log).collect();
        assert_eq!(forks.write_again(), written);
        assert_eq!(forks.evidence(&log(0)).unwrap().unwrap(), b"first");
        // The last had no room in memory: it is barred, and what is brought again is kept.
        let last = log(WAITING_MAX);
        assert!(forks.bars(&last) && !forks.holds(&last));
        assert!(forks.keep(&last, b"again").unwrap());
        assert_eq!(
            (forks.unwritten(), forks.untold().len()),
            (0, WAITING_MAX + 1)
        );
        assert!(!Forks::off().keep(&log(0), b"x").unwrap());
    }
}
