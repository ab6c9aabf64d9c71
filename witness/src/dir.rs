//! The witness's directory: where each file lies, and how its files are written.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use rustix::fs::FlockOperation;

/// Where a command looks when it is told nothing.
pub const DEFAULT_DIR: &str = "./countersign-witness-data";

/// A witness's directory; it need not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dir {
    root: PathBuf,
}

/// The lock on a directory, held as long as this lives.
#[derive(Debug)]
pub struct Held(#[expect(dead_code, reason = "held, not read")] File);

impl Dir {
    /// The directory at `root`.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Dir {
        Dir { root: root.into() }
    }

    /// Its path.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// `witness.key`, PEM, mode 0600: the Ed25519 key.
    #[must_use]
    pub fn key(&self) -> PathBuf {
        self.root.join("witness.key")
    }

    /// `witness.vkey`: its verifier key, one line, which holds the witness's name.
    #[must_use]
    pub fn vkey(&self) -> PathBuf {
        self.root.join("witness.vkey")
    }

    /// `witness-mldsa.key`, PEM, mode 0600: the ML-DSA-44 key, where there is one.
    #[must_use]
    pub fn mldsa_key(&self) -> PathBuf {
        self.root.join("witness-mldsa.key")
    }

    /// `witness-mldsa.vkey`: its verifier key.
    #[must_use]
    pub fn mldsa_vkey(&self) -> PathBuf {
        self.root.join("witness-mldsa.vkey")
    }

    /// `db/`: the store.
    #[must_use]
    pub fn db(&self) -> PathBuf {
        self.root.join("db")
    }

    /// `commits`: how many commits the store has seen, outside its folder on purpose.
    #[must_use]
    pub fn commits(&self) -> PathBuf {
        self.root.join("commits")
    }

    /// `admin.sock`: where a running witness listens to its operator.
    #[must_use]
    pub fn admin_socket(&self) -> PathBuf {
        self.root.join("admin.sock")
    }

    /// `gossip.json`: the peers that are pulled, and who is told of evidence.
    #[must_use]
    pub fn gossip(&self) -> PathBuf {
        self.root.join("gossip.json")
    }

    /// `unresolved.json`: heads of peers that are not settled, and since when.
    #[must_use]
    pub fn unresolved(&self) -> PathBuf {
        self.root.join("unresolved.json")
    }

    /// `forks/`: evidence.
    #[must_use]
    pub fn forks(&self) -> PathBuf {
        self.root.join("forks")
    }

    /// Takes the directory for this process. It is the directory itself that is locked: a lock file can be taken for a leftover and
    /// removed, and two witnesses on one directory could cosign two branches.
    ///
    /// # Errors
    /// `WouldBlock` if another process holds it; what the system says.
    pub fn lock(&self) -> io::Result<Held> {
        let directory = File::open(&self.root)?;
        rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Held(directory))
    }

    /// Makes the directory, mode 0700, with its parents.
    ///
    /// # Errors
    /// What the system says; `AlreadyExists` if there is anything in it.
    pub fn create(&self) -> io::Result<()> {
        let mut maker = std::fs::DirBuilder::new();
        maker.recursive(true).mode(0o700).create(&self.root)?;
        if self.root.read_dir()?.next().is_some() {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "the directory is not empty",
            ));
        }
        match self.root.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => sync_dir(parent),
            _ => Ok(()),
        }
    }
}

/// Makes the names in a directory durable.
///
/// # Errors
/// What the system says.
pub fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// None of the files of keys is nearly as large.
pub(crate) const KEY_BYTES_MAX: u64 = 64 << 10;

// OK because these bits are an int in the system's own call.
const NONBLOCK: i32 = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();

/// Reads a plain file of so many bytes at most. What waits for another end, or never ends, is refused and not waited for: a file
/// that lies in a folder is whatever those who may write there have put in its place.
///
/// # Errors
/// `InvalidInput` for what is no plain file, `FileTooLarge`; what the system says.
pub fn read_plain(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = open_plain(path, OpenOptions::new().read(true))?;
    // As large as it is: of a secret that outgrows its buffer, the buffer before is left behind.
    let length = file.metadata()?.len().min(bytes_max);
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    file.take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let why = format!("larger than {bytes_max} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

/// Opens a plain file with these options, without waiting.
pub(crate) fn open_plain(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let no_plain = || io::Error::new(io::ErrorKind::InvalidInput, "no plain file");
    // So says the system of a socket.
    let no_device = Some(rustix::io::Errno::NXIO.raw_os_error());
    let file = match options.custom_flags(NONBLOCK).open(path) {
        Err(e) if e.raw_os_error() == no_device => return Err(no_plain()),
        Err(e) if e.kind() == io::ErrorKind::IsADirectory => return Err(no_plain()),
        opened => opened?,
    };
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(no_plain()),
    }
}

/// Puts a file in the place of another, or of none, durable on return: under its name is only ever a whole one. What is written
/// meanwhile lies beside it under the extension `part`, so that only one at a time may write.
///
/// # Errors
/// What the system says; then what was there stays.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let part = path.with_extension("part");
    match std::fs::remove_file(&part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    write_new(&part, bytes, mode)?;
    std::fs::rename(&part, path)?;
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_dir(parent),
        _ => Ok(()),
    }
}

/// Writes a new file with this mode, durable on return. Never over an existing one.
///
/// # Errors
/// `AlreadyExists`, or what the system says.
pub fn write_new(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_dir(parent),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_plain_file_is_refused_and_not_waited_for() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        let made = std::process::Command::new("mkfifo")
            .arg(at("pipe"))
            .status();
        assert!(made.unwrap().success());
        std::fs::create_dir(at("folder")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        for path in [at("pipe"), at("folder"), at("socket"), "/dev/zero".into()] {
            let mut both = OpenOptions::new();
            both.read(true).write(true);
            for error in [
                read_plain(&path, 9).unwrap_err(),
                open_plain(&path, &mut both).unwrap_err(),
            ] {
                assert_eq!(error.to_string(), "no plain file", "{}", path.display());
            }
        }
        std::fs::write(at("file"), "123456789").unwrap();
        assert_eq!(read_plain(&at("file"), 9).unwrap(), b"123456789");
        let large = read_plain(&at("file"), 8).unwrap_err();
        assert_eq!(large.kind(), io::ErrorKind::FileTooLarge);
    }
}
