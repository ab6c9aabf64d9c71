//! The data directory: where each file lies, who holds it, and which service runs on it.
//!
//! Secrets are written once, mode 0600, by [`write_secret`]; nothing here is ever made because it was missing, but by `init`.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, Write},
    os::unix::{fs::OpenOptionsExt, net::UnixStream},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::files;

/// Where a command looks when it is told nothing.
pub const DEFAULT_DIR: &str = "./countersign-data";

/// No process number is longer, with its line's end.
const HOLDER_BYTES_MAX: u64 = 32;

/// A data directory; it need not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataDir {
    root: PathBuf,
}

/// The directory of one account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountDir {
    root: PathBuf,
}

/// What a running service leaves for clients in `serve.json` (mode 0600).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// The process.
    pub pid: u32,
    /// Where it listens.
    pub url: String,
    /// When it began to, RFC 3339.
    pub started_at: String,
}

/// The lock on a data directory, held as long as this lives.
#[derive(Debug)]
pub struct Held {
    /// Where there is one, and it can be opened.
    _file: Option<File>,
    /// The directory itself: a lock file can be taken for a leftover and removed, the directory cannot without the data.
    _directory: File,
}

/// Why a directory could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process has it.
    #[error("the directory {} is in use by process {holder}", dir.display())]
    InUse {
        /// The directory.
        dir: PathBuf,
        /// Its process number, or what could be learned of it.
        holder: String,
    },
    /// It is a backup.
    #[error(
        "{} is a backup, which nothing may change and nobody serves: `countersign restore` makes a data directory of it",
        dir.display()
    )]
    Backup {
        /// The directory.
        dir: PathBuf,
    },
    /// The lock file could not be opened or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl DataDir {
    /// The directory at `root`.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> DataDir {
        DataDir { root: root.into() }
    }

    /// Its path.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// `config.toml`.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.root.join("config.toml")
    }

    /// `backup.json`, which only a backup has.
    #[must_use]
    pub fn backup_json(&self) -> PathBuf {
        self.root.join("backup.json")
    }

    /// `owner.key`, PEM: the owner's private key, where it is kept on this machine.
    #[must_use]
    pub fn owner_key(&self) -> PathBuf {
        self.root.join("owner.key")
    }

    /// `owner.token`: the owner's bearer token.
    #[must_use]
    pub fn owner_token(&self) -> PathBuf {
        self.root.join("owner.token")
    }

    /// `serve.json`.
    #[must_use]
    pub fn serve_json(&self) -> PathBuf {
        self.root.join("serve.json")
    }

    /// `admin.sock`.
    #[must_use]
    pub fn admin_socket(&self) -> PathBuf {
        self.root.join("admin.sock")
    }

    /// The directory of account `name`.
    #[must_use]
    pub fn account(&self, name: &str) -> AccountDir {
        AccountDir {
            root: self.root.join("accounts").join(name),
        }
    }

    /// The names of all accounts, sorted.
    ///
    /// # Errors
    /// What the system says; no `accounts` folder is no account.
    pub fn account_names(&self) -> io::Result<Vec<String>> {
        let entries = match self.root.join("accounts").read_dir() {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(e),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry?;
            if !entry.path().join("log.vkey").is_file() {
                continue;
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            if is_account_name(&name) {
                names.push(name);
            } else {
                // A copy that somebody laid beside the original must not come to life as a second writer of its log.
                tracing::warn!(folder = %entry.path().display(), "passed over: no account has such a name");
            }
        }
        names.sort();
        Ok(names)
    }

    /// Of these accounts those whose log has no successor: what a command means that names none. All of them, where each has one.
    #[must_use]
    pub fn open_names(&self, names: &[String]) -> Vec<String> {
        let open = names
            .iter()
            .filter(|name| !self.account(name).succeeded().exists());
        let open: Vec<String> = open.cloned().collect();
        if open.is_empty() {
            names.to_vec()
        } else {
            open
        }
    }

    /// Takes the directory for this process.
    ///
    /// # Errors
    /// [`LockError::InUse`] naming the holder.
    pub fn lock(&self) -> Result<Held, LockError> {
        // Served as it lies, a copy would sign a second history.
        if self.backup_json().exists() {
            return Err(LockError::Backup {
                dir: self.root.clone(),
            });
        }
        let path = self.root.join("lock");
        let failed = |source| LockError::Io {
            path: path.clone(),
            source,
        };
        let mut file = files::lock_file(&path).map_err(failed)?;
        let directory = self.take(Some(&mut file))?;
        file.set_len(0).map_err(failed)?;
        file.rewind().map_err(failed)?;
        writeln!(file, "{}", std::process::id()).map_err(failed)?;
        Ok(Held {
            _file: Some(file),
            _directory: directory,
        })
    }

    /// The same for who writes nothing: also where nothing can be written. That the directory is mounted for reading here does not say that
    /// nobody writes to it elsewhere.
    ///
    /// # Errors
    /// As [`DataDir::lock`].
    pub fn lock_to_read(&self) -> Result<Held, LockError> {
        match self.lock() {
            Err(LockError::Io { source, .. })
                if source.kind() == io::ErrorKind::ReadOnlyFilesystem => {}
            other => return other,
        }
        let mut file = files::open_plain(&self.root.join("lock")).ok();
        let directory = self.take(file.as_mut())?;
        Ok(Held {
            _file: file,
            _directory: directory,
        })
    }

    /// Locks the directory, and the file in it.
    fn take(&self, file: Option<&mut File>) -> Result<File, LockError> {
        let failed = |source| LockError::Io {
            path: self.root.clone(),
            source,
        };
        let directory = File::open(&self.root).map_err(failed)?;
        let exclusive = rustix::fs::FlockOperation::NonBlockingLockExclusive;
        let taken = rustix::fs::flock(&directory, exclusive);
        let mut holder = String::new();
        let taken = match file {
            Some(file) => {
                let taken = taken.and_then(|()| rustix::fs::flock(&*file, exclusive));
                // A holder that cannot be read is still a holder.
                let _ = Read::take(&mut *file, HOLDER_BYTES_MAX).read_to_string(&mut holder);
                taken
            }
            None => taken,
        };
        if taken.is_ok() {
            return Ok(directory);
        }
        let holder = match holder.trim() {
            "" => "unknown".into(),
            pid => pid.to_owned(),
        };
        Err(LockError::InUse {
            dir: self.root.clone(),
            holder,
        })
    }

    /// The service that says it runs on this directory: a hint for clients, removed at a clean stop. What a service that was killed left is
    /// none: whoever listens at its address by now would be shown tokens.
    #[must_use]
    pub fn running(&self) -> Option<Running> {
        let gone = UnixStream::connect(self.admin_socket()).is_err_and(|e| {
            matches!(
                e.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
            )
        });
        if gone {
            return None;
        }
        let text = files::read_small(&self.serve_json()).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Says for clients where the service is.
    ///
    /// # Errors
    /// What the system says.
    pub fn announce(&self, running: &Running) -> io::Result<()> {
        let text = serde_json::to_string(running).map_err(io::Error::other)?;
        let text = format!("{text}\n");
        files::replace(&self.serve_json(), text.as_bytes(), files::SECRET)
    }

    /// Takes the announcement back.
    pub fn withdraw(&self) {
        // Gone already is as good.
        let _ = std::fs::remove_file(self.serve_json());
    }
}

/// Whether an account can have this name: 1 to 63 of `a-z 0-9 -`.
#[must_use]
pub fn is_account_name(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=63).contains(&name.len()) && name.bytes().all(fits)
}

impl AccountDir {
    /// Its path.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The data directory that it lies in; `None` where it lies in none.
    #[must_use]
    pub fn data_dir(&self) -> Option<DataDir> {
        let root = self.root.parent()?.parent()?;
        Some(DataDir::new(root))
    }

    /// `still/`: a copy of the store that a running service makes for whoever checks it.
    #[must_use]
    pub fn still(&self) -> PathBuf {
        self.root.join("still")
    }

    /// `log.key`, PEM: the log's private key.
    #[must_use]
    pub fn log_key(&self) -> PathBuf {
        self.root.join("log.key")
    }

    /// `log.vkey`: the log's verifier key, one line.
    #[must_use]
    pub fn log_vkey(&self) -> PathBuf {
        self.root.join("log.vkey")
    }

    /// `service.key`, PEM: the key of the account's service identity.
    #[must_use]
    pub fn service_key(&self) -> PathBuf {
        self.root.join("service.key")
    }

    /// `seat.secret`: 32 random bytes in base64, of which the keys of seats are made.
    #[must_use]
    pub fn seat_secret(&self) -> PathBuf {
        self.root.join("seat.secret")
    }

    /// `policy.d`: the policies by tree size, once there has been more than one.
    #[must_use]
    pub fn policies(&self) -> PathBuf {
        self.root.join("policy.d")
    }

    /// What verifiers are pointed at: all eras where there has been more than one, else the one policy.
    #[must_use]
    pub fn policy_for_verifiers(&self) -> PathBuf {
        let eras = self.policies();
        if eras.is_dir() { eras } else { self.policy() }
    }

    /// `policy`: the present tlog-policy file.
    #[must_use]
    pub fn policy(&self) -> PathBuf {
        self.root.join("policy")
    }

    /// `account.json`: owner and visibility, as chosen when the account was made.
    #[must_use]
    pub fn about(&self) -> PathBuf {
        self.root.join("account.json")
    }

    /// `succeeded.json`: there where another log goes on in the place of this one, which then never signs again.
    #[must_use]
    pub fn succeeded(&self) -> PathBuf {
        self.root.join("succeeded.json")
    }

    /// `db/`: the store.
    #[must_use]
    pub fn db(&self) -> PathBuf {
        self.root.join("db")
    }

    /// `blobs/`: bodies beside the log.
    #[must_use]
    pub fn blobs(&self) -> PathBuf {
        self.root.join("blobs")
    }

    /// `published`: the mark of the largest published head, outside the store's folder on purpose.
    #[must_use]
    pub fn tidemark(&self) -> PathBuf {
        self.root.join("published")
    }
}

/// Makes the names in a directory durable.
///
/// # Errors
/// What the system says.
pub fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Writes a file that only its owner may read, durable on return. Never over an existing one.
///
/// # Errors
/// `AlreadyExists`, or what the system says.
pub fn write_secret(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_new(path, bytes, 0o600)
}

/// Writes a new file that anybody may read, durable on return. Never over an existing one.
///
/// # Errors
/// `AlreadyExists`, or what the system says.
pub fn write_public(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_new(path, bytes, 0o644)
}

fn write_new(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
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
