//! The largest published head in a small file beside the database.
//!
//! A database can lose its end and still open: a write-ahead log cut to nothing looks like one that was never written, and a
//! folder put back from an older copy is whole. Both would let the log sign a second history. The mark lies outside the
//! database's folder and says how far the published history reached; a store that ends before it is not written to.
//!
//! Two slots of 512 bytes, written in turn and each with a checksum, so that a write cut short leaves the other one. It begins with
//! the empty tree: the database's first checkpoint is durable before the mark is raised to it, and whatever comes between them must
//! not look like a mark that somebody blanked.

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use countersign_verifier::hash::{Hash, sha256};

use super::{Head, NONBLOCK, StoreError};

/// One sector of any disk made in the last decades: written whole or not at all.
const SLOT: usize = 512;
const MAGIC: &[u8; 8] = b"cs.tide1";
/// Magic, size, root, checksum of these.
const USED: usize = 8 + 8 + 32 + 32;

pub(super) struct Tidemark {
    path: PathBuf,
    file: File,
    next_slot: u64,
    last: Option<Head>,
    /// Whether something was written and not synced.
    unsettled: bool,
    /// Whether a sync failed: what was written before it may be gone, whatever the next one says.
    doubtful: bool,
}

impl Tidemark {
    /// Begins a mark, durable on return and whole from its first moment. Never over one that is there.
    pub(super) fn create(path: &Path) -> Result<(), StoreError> {
        let failed =
            |e: std::io::Error| StoreError::Unavailable(format!("{}: {e}", path.display()));
        let mut begun = path.as_os_str().to_owned();
        begun.push(".new");
        let begun = PathBuf::from(begun);
        // What an attempt before left, or what a link leads to, is never written over.
        match fs::remove_file(&begun) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(failed(e)),
            _ => {}
        }
        let file = File::create_new(&begun).map_err(failed)?;
        let mut whole = [0; 2 * SLOT];
        whole[..USED].copy_from_slice(&encode(&Head::EMPTY));
        file.write_all_at(&whole, 0).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        // Unlike a rename, a link is refused where there is one already.
        let linked = fs::hard_link(&begun, path);
        fs::remove_file(&begun).map_err(failed)?;
        linked.map_err(failed)?;
        match path.parent() {
            Some(parent) => File::open(parent)
                .and_then(|d| d.sync_all())
                .map_err(failed),
            None => Ok(()),
        }
    }

    /// Opens a mark that [`Tidemark::create`] made. One that is missing is not begun anew: that is how a store put back from an older
    /// copy would pass for a new one.
    pub(super) fn open(path: &Path) -> Result<Tidemark, StoreError> {
        Tidemark::open_as(path, true)
    }

    /// The same, to be raised only if `write`: what is read may lie where nothing can be written.
    pub(super) fn open_as(path: &Path, write: bool) -> Result<Tidemark, StoreError> {
        let failed =
            |e: std::io::Error| StoreError::Unavailable(format!("{}: {e}", path.display()));
        let damaged = |why: String| StoreError::Damaged {
            what: format!("{}: {why}", path.display()),
        };
        let file = match OpenOptions::new()
            .read(true)
            .write(write)
            .custom_flags(NONBLOCK)
            .open(path)
        {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return Err(damaged(
                    "the mark of the largest published head is missing".into(),
                ));
            }
            Err(e) => return Err(failed(e)),
        };
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(damaged("no plain file".into()));
        }
        let mut bytes = [0; 2 * SLOT];
        match file.read_exact_at(&mut bytes, 0) {
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => {
                let why = "the mark of the largest published head is cut short, or empty";
                return Err(damaged(why.into()));
            }
            other => other.map_err(failed)?,
        }
        let slots = [decode(&bytes[..SLOT]), decode(&bytes[SLOT..])];
        if slots == [None, None] && bytes != [0; 2 * SLOT] {
            return Err(damaged("neither half can be read".into()));
        }
        let size = |slot: &Option<Head>| slot.map_or(0, |h| h.size + 1);
        let (next_slot, last) = if size(&slots[0]) > size(&slots[1]) {
            (1, slots[0])
        } else {
            (0, slots[1])
        };
        Ok(Tidemark {
            path: path.to_owned(),
            file,
            next_slot,
            last,
            unsettled: false,
            doubtful: false,
        })
    }

    /// The largest published head; `None` where none was.
    pub(super) fn last(&self) -> Option<Head> {
        self.last.filter(|head| *head != Head::EMPTY)
    }

    /// Whether nothing was ever written here: earlier releases began marks so, and so do those who blank one.
    pub(super) fn is_blank(&self) -> bool {
        self.last.is_none()
    }

    /// Raises the mark, durable after [`Tidemark::settle`]; a head that is not larger changes nothing.
    pub(super) fn raise(&mut self, head: &Head) -> Result<(), StoreError> {
        if self.last.is_some_and(|last| head.size <= last.size) {
            return Ok(());
        }
        let failed =
            |e: std::io::Error| StoreError::Unavailable(format!("{}: {e}", self.path.display()));
        self.file
            .write_all_at(&encode(head), self.next_slot * SLOT as u64)
            .map_err(failed)?;
        self.next_slot = 1 - self.next_slot;
        self.last = Some(*head);
        self.unsettled = true;
        Ok(())
    }

    /// Makes what was raised durable.
    pub(super) fn settle(&mut self) -> Result<(), StoreError> {
        if !self.unsettled {
            return Ok(());
        }
        let failed =
            |e: std::io::Error| StoreError::Unavailable(format!("{}: {e}", self.path.display()));
        if let Some(last) = self.last.filter(|_| self.doubtful) {
            let slot = (1 - self.next_slot) * SLOT as u64;
            self.file
                .write_all_at(&encode(&last), slot)
                .map_err(failed)?;
        }
        self.doubtful = true;
        self.file.sync_data().map_err(failed)?;
        (self.unsettled, self.doubtful) = (false, false);
        Ok(())
    }
}

fn encode(head: &Head) -> [u8; USED] {
    let mut slot = [0; USED];
    slot[..8].copy_from_slice(MAGIC);
    slot[8..16].copy_from_slice(&head.size.to_be_bytes());
    slot[16..48].copy_from_slice(&head.root.0);
    let sum = sha256(&slot[..48]);
    slot[48..].copy_from_slice(&sum.0);
    slot
}

fn decode(slot: &[u8]) -> Option<Head> {
    if slot[..8] != *MAGIC || sha256(&slot[..48]).0 != slot[48..USED] {
        return None;
    }
    // OK because the ranges are 8 and 32 bytes long.
    Some(Head {
        size: u64::from_be_bytes(slot[8..16].try_into().ok()?),
        root: Hash(slot[16..48].try_into().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(size: u64) -> Head {
        Head {
            size,
            root: sha256(&size.to_be_bytes()),
        }
    }

    #[test]
    fn it_rises_survives_and_never_sinks() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("published");
        // What an attempt that was killed left.
        std::fs::write(dir.path().join("published.new"), "half").unwrap();
        Tidemark::create(&path).unwrap();
        assert_eq!(dir.path().read_dir().unwrap().count(), 1);
        let begun = Tidemark::open(&path).unwrap();
        assert!(begun.last().is_none() && !begun.is_blank());
        for size in [1, 3, 4, 9] {
            let mut mark = Tidemark::open(&path).unwrap();
            mark.raise(&head(size)).unwrap();
            assert_eq!(Tidemark::open(&path).unwrap().last(), Some(head(size)));
        }
        Tidemark::open(&path).unwrap().raise(&head(5)).unwrap();
        assert_eq!(Tidemark::open(&path).unwrap().last(), Some(head(9)));
    }

    #[test]
    fn a_torn_write_leaves_the_one_before_and_a_ruined_file_is_damage() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("published");
        assert!(
            matches!(Tidemark::open(&path), Err(StoreError::Damaged { .. })),
            "a missing mark is not begun anew"
        );
        Tidemark::create(&path).unwrap();
        assert!(Tidemark::create(&path).is_err());
        let mut mark = Tidemark::open(&path).unwrap();
        mark.raise(&head(1)).unwrap();
        mark.raise(&head(2)).unwrap();
        let torn = 1 - mark.next_slot;
        mark.file
            .write_all_at(&[0xff; 20], torn * SLOT as u64 + 30)
            .unwrap();
        assert_eq!(Tidemark::open(&path).unwrap().last(), Some(head(1)));
        mark.file
            .write_all_at(&[0xff; 20], mark.next_slot * SLOT as u64)
            .unwrap();
        assert!(matches!(
            Tidemark::open(&path),
            Err(StoreError::Damaged { .. })
        ));
        std::fs::write(&path, [0; 2 * SLOT]).unwrap();
        let mut blank = Tidemark::open(&path).unwrap();
        assert!(blank.last().is_none() && blank.is_blank());
        blank.raise(&Head::EMPTY).unwrap();
        let begun = Tidemark::open(&path).unwrap();
        assert!(begun.last().is_none() && !begun.is_blank());
        std::fs::write(&path, b"short").unwrap();
        assert!(matches!(
            Tidemark::open(&path),
            Err(StoreError::Damaged { .. })
        ));
    }
}
