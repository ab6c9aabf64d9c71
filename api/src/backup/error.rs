//! Why there is no backup, or none is put back.

use std::{io, path::PathBuf};

use countersign_log::StoreError;

/// Why nothing was made. Whatever was begun is gone again.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The place is none, or something is there.
    #[error("{}: {why}", path.display())]
    Place {
        /// Where it was to be, or what was to be read.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Another process is at work on it.
    #[error("{}: another process is at work on it", .0.display())]
    InUse(PathBuf),
    /// A file cannot be read or written.
    #[error("{}: {source}; nothing was made", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// An account is not what it must be: a backup of it could not be put back.
    #[error("account `{account}`: {what}; `countersign check` says what else is wrong")]
    Damaged {
        /// Which.
        account: String,
        /// What is wrong.
        what: String,
    },
    /// The store of an account cannot be looked at.
    #[error("account `{account}`: {source}")]
    Store {
        /// Which.
        account: String,
        /// What it said.
        source: StoreError,
    },
    /// `backup.json` is none.
    #[error("{}: {why}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Of a newer release.
    #[error("{}: the format {format:?} is of a newer release", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// What it says that it is.
        format: String,
    },
    /// Another backup than the one that was asked for.
    #[error("{}: its SHA-256 is {found}, and that of the backup meant is {due}", path.display())]
    Another {
        /// The file.
        path: PathBuf,
        /// Of this one.
        found: String,
        /// Of that one.
        due: String,
    },
}

/// What to do with an error of the system about this file.
pub(super) fn file(path: &std::path::Path) -> impl FnOnce(io::Error) -> BackupError + use<> {
    let path = path.to_owned();
    move |source| BackupError::File { path, source }
}

/// What is wrong with this place.
pub(super) fn place(path: &std::path::Path, why: impl Into<String>) -> BackupError {
    let (path, why) = (path.to_owned(), why.into());
    BackupError::Place { path, why }
}
