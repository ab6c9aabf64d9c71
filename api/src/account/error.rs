//! Why an account does not open.

use std::{io, path::PathBuf};

use countersign_log::{StartError, StoreError};

use crate::quorum::QuorumError;

/// Why an account does not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A file is missing or cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A key file holds no key, or not the one that belongs here.
    #[error("{}: {why}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Another file of the account is not what it must be.
    #[error("{}: {why}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Its policies are not what they must be.
    #[error(transparent)]
    Quorum(#[from] QuorumError),
    /// Another log goes on in its place.
    #[error("{}: this log has a successor, and never signs again", path.display())]
    Succeeded {
        /// The file that says so.
        path: PathBuf,
    },
    /// The store does not open.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log does not start.
    #[error(transparent)]
    Start(#[from] StartError),
}

impl OpenError {
    /// Whether it is about a key: the service must never make one because it is missing.
    #[must_use]
    pub fn is_key(&self) -> bool {
        matches!(self, OpenError::Key { .. })
    }
}
