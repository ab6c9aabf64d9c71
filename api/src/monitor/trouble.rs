//! What keeps a monitor from going on, and a log that is not what it was.

use countersign_verifier::{checkpoint::Checkpoint, fork::Fork, hash::Hash, verdict::Status};

use super::KeptError;
use crate::{
    foreign::ForeignError,
    pins::{Head, Pinned},
};

/// Why somebody did not hear.
#[derive(Debug, thiserror::Error)]
pub enum Undelivered {
    /// The webhook took too many attempts.
    #[error("{0}")]
    Webhook(String),
    /// Standard output is closed or full.
    #[error("standard output: {0}")]
    Output(String),
}

/// A log that is not what it was.
#[derive(Debug)]
pub struct Broken {
    /// How.
    pub kind: Breach,
    /// What shows it, in plain words.
    pub what: String,
    /// The log, with the head that it contradicts.
    pub pinned: Box<Pinned>,
    /// That head.
    pub against: Box<Head>,
    /// The head that it shows now.
    pub now: Checkpoint,
    /// As it was signed.
    pub note: String,
    /// What shows it to a stranger, where it could be had.
    pub fork: Option<Box<Fork>>,
}

/// What became of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breach {
    /// It has signed two histories.
    Rewritten,
    /// It shows an older head, and does not serve what it had signed beyond it.
    Shrunk,
}

impl Breach {
    /// As alerts write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Breach::Rewritten => "rewritten",
            Breach::Shrunk => "shrunk",
        }
    }
}

/// Why a step was not made to its end.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// There is no checkpoint to be had.
    #[error(transparent)]
    Head(ForeignError),
    /// Something that the checkpoint needs cannot be had, or is not what was signed.
    #[error(transparent)]
    Log(ForeignError),
    /// Log or witnesses have not signed the newest head as the policy says.
    #[error("the newest checkpoint is not taken: {what}")]
    Unsigned {
        /// Whether that can be told.
        status: Status,
        /// Why.
        what: String,
    },
    /// An older head than was seen before, of the same history.
    #[error(
        "the log is stale: it shows a head of {now} leaves, and has shown one of {before}, of the same history"
    )]
    Older {
        /// Leaves now.
        now: u64,
        /// Leaves before.
        before: u64,
    },
    /// The log is not what it was.
    #[error("{}", .0.what)]
    Broken(Box<Broken>),
    /// The entries are not those that were signed.
    #[error(
        "the log's fault: the entries that it serves below {size} lead to root {root}, and it has signed {signed} for them"
    )]
    Entries {
        /// Leaves.
        size: u64,
        /// Of the entries.
        root: Hash,
        /// Of the signed tree.
        signed: Hash,
    },
    /// The position cannot be read or kept.
    #[error(transparent)]
    Kept(#[from] KeptError),
    /// Somebody did not hear.
    #[error(transparent)]
    Undelivered(#[from] Undelivered),
    /// What is asked for cannot be watched for.
    #[error("{0}")]
    Unusable(String),
}

impl From<ForeignError> for Trouble {
    fn from(error: ForeignError) -> Trouble {
        Trouble::Log(error)
    }
}
