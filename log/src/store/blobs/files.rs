//! Bodies as files: one a body, in 256 folders by the first byte of its name.
//!
//! ```text
//! <root>/tmp/<n>            on its way in; left there by a crash, and taken away when the store is opened
//! <root>/<2 digits>/<64>    kept: `CSBLOB1\n`, the length of what is said of it in four bytes, that, and the body
//! ```
//!
//! A file is whole when it gets its name: it is synced before, and the folder after. Erased, it is overwritten where it lies and synced
//! before its name goes. That reaches what the file system has under this name, and no copy that it, the drive or anybody else has made.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, ErrorKind, Read, Seek, SeekFrom, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use countersign_verifier::hash::Hash;

use super::{ABOUT_BYTES_MAX, BlobStore, Incoming, Outgoing, StoreError};
use crate::store::NONBLOCK;

const MAGIC: &[u8; 8] = b"CSBLOB1\n";
/// Overwritten so many bytes at a time.
const PIECE: usize = 64 << 10;

/// Bodies in a folder.
pub struct FileBlobs(Arc<Place>);

struct Place {
    root: PathBuf,
    /// Numbers of files on their way in.
    next: AtomicU64,
    /// Held while a name is given or taken: the folder is this process's alone.
    naming: Mutex<()>,
}

impl FileBlobs {
    /// The bodies in this folder, which need not exist: it is made with the first. What a crash left half done is taken away.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn open(root: &Path) -> Result<FileBlobs, StoreError> {
        let mut place = Place {
            root: root.to_owned(),
            next: AtomicU64::new(0),
            naming: Mutex::new(()),
        };
        for left in entries(&place.tmp())? {
            // A disk that takes nothing lets nothing be taken away; it can still be read. New ones then have higher numbers.
            if let Err(error) = fs::remove_file(&left) {
                tracing::warn!(file = %left.display(), %error, "left by a crash, and still there");
            }
            let number = left
                .file_name()
                .and_then(|name| name.to_str()?.parse().ok());
            let next = place.next.get_mut();
            *next = number.map_or(*next, |number: u64| (*next).max(number.saturating_add(1)));
        }
        Ok(FileBlobs(Arc::new(place)))
    }

    /// The same to look at alone: nothing is taken away, and somebody else may have them open.
    #[must_use]
    pub fn to_look_at(root: &Path) -> FileBlobs {
        FileBlobs(Arc::new(Place {
            root: root.to_owned(),
            next: AtomicU64::new(0),
            naming: Mutex::new(()),
        }))
    }

    /// Where the body of this name lies, if it is here.
    #[must_use]
    pub fn path_of(&self, name: &Hash) -> PathBuf {
        self.0.of(name)
    }

    /// The names of all bodies, those of damaged ones among them. In no order.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn names(&self) -> Result<Vec<Hash>, StoreError> {
        let mut names = Vec::new();
        for folder in entries(&self.0.root)? {
            if folder.file_name().is_none_or(|name| name.len() != 2) {
                continue;
            }
            for path in entries(&folder)? {
                let name = path.file_name().and_then(|name| name.to_str());
                names.extend(name.and_then(|name| Hash::from_hex(name).ok()));
            }
        }
        Ok(names)
    }
}

impl Place {
    fn tmp(&self) -> PathBuf {
        self.root.join("tmp")
    }

    fn of(&self, name: &Hash) -> PathBuf {
        let name = name.to_hex();
        self.root.join(&name[..2]).join(name)
    }

    /// Makes a folder that may be there, durable on return.
    fn make(&self, folder: &Path) -> Result<(), StoreError> {
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => Err(failed(folder)(e)),
            // One that is there already may have been made by somebody who was killed, or whose sync failed.
            _ => sync_parent(folder),
        }
    }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> StoreError + '_ {
    move |e| StoreError::Unavailable(format!("{}: {e}", path.display()))
}

fn sync_parent(path: &Path) -> Result<(), StoreError> {
    match path.parent() {
        Some(parent) => File::open(parent)
            .and_then(|folder| folder.sync_all())
            .map_err(failed(parent)),
        None => Ok(()),
    }
}

/// What is in a folder; nothing where there is none.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(failed(folder)(e)),
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    paths.collect::<Result<_, _>>().map_err(failed(folder))
}

/// A file on its way in.
struct Coming {
    place: Arc<Place>,
    path: PathBuf,
    file: File,
}

impl Incoming for Coming {
    fn write(&mut self, piece: &[u8]) -> Result<(), StoreError> {
        self.file.write_all(piece).map_err(failed(&self.path))
    }

    fn keep(self: Box<Self>, name: &Hash) -> Result<bool, StoreError> {
        self.file.sync_all().map_err(failed(&self.path))?;
        let target = self.place.of(name);
        // OK because `of` puts a folder before the name.
        let folder = target.parent().expect("Coming::keep: a folder");
        self.place.make(folder)?;
        let naming = self.place.naming.lock();
        let _naming = naming.unwrap_or_else(PoisonError::into_inner);
        if target.try_exists().map_err(failed(&target))? {
            // Whoever put it there may have come no further.
            sync_parent(&target)?;
            return Ok(false);
        }
        fs::rename(&self.path, &target).map_err(failed(&target))?;
        sync_parent(&target).inspect_err(|_| {
            // Said not to be kept, it is not: it would be given out, and counted for nobody.
            let _ = fs::rename(&target, &self.path);
        })?;
        Ok(true)
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        // Gone where it was kept; what cannot be taken away now is when the store is opened again.
        let _ = fs::remove_file(&self.path);
    }
}

/// A file on its way out.
struct Going {
    path: PathBuf,
    file: File,
    about: Vec<u8>,
    bytes: u64,
}

impl Going {
    fn open(path: &Path) -> Result<Option<Going>, StoreError> {
        // What waits for another end is not waited for.
        let mut options = OpenOptions::new();
        let mut file = match options.read(true).custom_flags(NONBLOCK).open(path) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(failed(path)(e)),
        };
        let damaged = |why: &str| StoreError::Damaged {
            what: format!("{}: {why}", path.display()),
        };
        if !file.metadata().map_err(failed(path))?.is_file() {
            return Err(damaged("no plain file"));
        }
        let mut front = [0; 12];
        let all = file.metadata().map_err(failed(path))?.len();
        match file.read_exact(&mut front) {
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => return Err(damaged("cut short")),
            other => other.map_err(failed(path))?,
        }
        // OK because the array has twelve bytes.
        let (magic, length) = front.split_first_chunk::<8>().expect("Going::open");
        let length = u32::from_be_bytes([length[0], length[1], length[2], length[3]]);
        // OK because a length beyond this is refused.
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if magic != MAGIC || length > ABOUT_BYTES_MAX {
            return Err(damaged("not a body that was kept here"));
        }
        let mut about = vec![0; length];
        let bytes = all.checked_sub(12 + length as u64);
        let bytes = bytes.ok_or_else(|| damaged("cut short"))?;
        file.read_exact(&mut about).map_err(failed(path))?;
        Ok(Some(Going {
            path: path.to_owned(),
            file,
            about,
            bytes,
        }))
    }
}

impl Outgoing for Going {
    fn about(&self) -> &[u8] {
        &self.about
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read(&mut self, piece: &mut [u8]) -> Result<usize, StoreError> {
        loop {
            match self.file.read(piece) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                other => return other.map_err(failed(&self.path)),
            }
        }
    }
}

impl BlobStore for FileBlobs {
    fn begin(&self, about: &[u8]) -> Result<Box<dyn Incoming>, StoreError> {
        let place = &self.0;
        place.make(&place.root)?;
        place.make(&place.tmp())?;
        let number = place.next.fetch_add(1, Ordering::Relaxed);
        let path = place.tmp().join(number.to_string());
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(failed(&path))?;
        let mut coming = Coming {
            place: place.clone(),
            path,
            file,
        };
        let length = u32::try_from(about.len()).ok();
        let length = length.filter(|n| *n as usize <= ABOUT_BYTES_MAX);
        let length =
            length.ok_or_else(|| StoreError::Unavailable("too much is said of it".into()))?;
        coming.write(&[MAGIC, &length.to_be_bytes()[..], about].concat())?;
        Ok(Box::new(coming))
    }

    fn open(&self, name: &Hash) -> Result<Option<Box<dyn Outgoing>>, StoreError> {
        let going = Going::open(&self.0.of(name))?;
        Ok(going.map(|going| Box::new(going) as Box<dyn Outgoing>))
    }

    fn has(&self, name: &Hash) -> Result<bool, StoreError> {
        let path = self.0.of(name);
        path.try_exists().map_err(failed(&path))
    }

    fn erase(&self, name: &Hash) -> Result<bool, StoreError> {
        let path = self.0.of(name);
        let naming = self.0.naming.lock();
        let _naming = naming.unwrap_or_else(PoisonError::into_inner);
        let mut file = match OpenOptions::new()
            .write(true)
            .custom_flags(NONBLOCK)
            .open(&path)
        {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(failed(&path)(e)),
        };
        overwrite(&mut file).map_err(failed(&path))?;
        fs::remove_file(&path).map_err(failed(&path))?;
        sync_parent(&path)?;
        Ok(true)
    }

    fn each(&self, see: &mut dyn FnMut(Hash, &[u8], u64)) -> Result<(), StoreError> {
        for name in self.names()? {
            match Going::open(&self.0.of(&name)) {
                Ok(Some(going)) => see(name, &going.about, going.bytes),
                // Erased meanwhile.
                Ok(None) => {}
                Err(StoreError::Damaged { what }) => {
                    tracing::error!(what, "a body is damaged");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn room(&self) -> Result<Option<u64>, StoreError> {
        // The folder is made with the first body; before that the one above it says as much.
        let known = [Some(self.0.root.as_path()), self.0.root.parent()];
        let folder = known.into_iter().flatten().find(|folder| folder.is_dir());
        let Some(folder) = folder else {
            return Ok(None);
        };
        let found = rustix::fs::statvfs(folder).map_err(|e| failed(folder)(e.into()))?;
        Ok(Some(found.f_bavail.saturating_mul(found.f_frsize)))
    }
}

/// Puts zeros where the bytes of a file are, durable on return.
fn overwrite(file: &mut File) -> io::Result<()> {
    let mut left = file.metadata()?.len();
    file.seek(SeekFrom::Start(0))?;
    let zeros = vec![0; PIECE];
    while left > 0 {
        let n = left.min(PIECE as u64);
        // OK because it is at most the length of a piece.
        file.write_all(&zeros[..usize::try_from(n).expect("overwrite")])?;
        left -= n;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use countersign_verifier::hash::sha256;

    use super::super::suite::{self, keep, read};
    use super::*;

    #[test]
    fn it_passes_the_suite() {
        let folders = Mutex::new(Vec::new());
        suite::run(&|| {
            let dir = tempfile::tempdir().unwrap();
            let store = FileBlobs::open(&dir.path().join("blobs")).unwrap();
            folders.lock().unwrap().push(dir);
            Box::new(store)
        });
    }

    #[test]
    fn what_is_kept_is_there_when_it_is_opened_again_and_what_was_not_is_taken_away() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("blobs");
        let store = FileBlobs::open(&root).unwrap();
        assert!(!root.exists(), "nothing is made by looking");
        assert!(store.room().unwrap().unwrap() > 0);
        let name = sha256(b"a");
        keep(&store, &name, b"about", &[b"body"]);
        let mut half = store.begin(b"").unwrap();
        half.write(b"half").unwrap();
        // As a crash leaves it.
        std::mem::forget(half);
        drop(store);
        assert_eq!(entries(&root.join("tmp")).unwrap().len(), 1);
        let store = FileBlobs::open(&root).unwrap();
        assert_eq!(entries(&root.join("tmp")).unwrap().len(), 0);
        let found = read(&store, &name);
        assert_eq!(found, Some((b"about".to_vec(), b"body".to_vec())));
    }

    #[test]
    fn erased_bytes_are_overwritten_and_not_only_unnamed() {
        let dir = tempfile::tempdir().unwrap();
        let store = FileBlobs::open(dir.path()).unwrap();
        let name = sha256(b"a");
        let body = vec![7; PIECE + 1];
        keep(&store, &name, b"salt", &[&body]);
        // Another name of the same bytes on the disk shows what became of them.
        let other = dir.path().join("other");
        fs::hard_link(store.0.of(&name), &other).unwrap();
        assert!(fs::read(&other).unwrap().ends_with(&body));
        assert_eq!(store.erase(&name), Ok(true));
        let left = fs::read(&other).unwrap();
        assert_eq!(left.len(), 12 + 4 + body.len());
        assert!(left.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_damaged_front_is_damage_and_can_be_erased() {
        let dir = tempfile::tempdir().unwrap();
        let store = FileBlobs::open(dir.path()).unwrap();
        let name = sha256(b"a");
        keep(&store, &name, b"about", &[b"body"]);
        for bytes in [&b""[..], b"CSBLOB1\n\0\0\0\x09abc", b"not a body of ours"] {
            fs::write(store.0.of(&name), bytes).unwrap();
            let opened = store.open(&name).err();
            assert!(
                matches!(opened, Some(StoreError::Damaged { .. })),
                "{bytes:?}"
            );
        }
        store.each(&mut |_, _, _| panic!("shown")).unwrap();
        assert_eq!(store.erase(&name), Ok(true));
    }
}
