//! Why leaves are not brought back.

use std::{io, path::PathBuf};

use countersign_log::{Head, StartError, StoreError, import::ImportError};
use countersign_verifier::{hash::Hash, note::NoteError, policy::PolicyError};

use crate::{account::OpenError, foreign::ForeignError};

/// Why nothing was brought back. What is here is as it was, but where leaves were being stored: those that were stay.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// The account's files cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// What is here cannot be read.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The mark cannot be read, or is missing beside a database.
    #[error(
        "{what}. Nothing was changed. Put `published` back from your newest copy (docs/operate/incidents.md, \"The guard refuses\")"
    )]
    Mark {
        /// What is wrong with it.
        what: String,
    },
    /// What is here is damaged.
    #[error(
        "{what}. Nothing was changed: the database that is here is damaged, and never written over. Move db/ away and run this again, and \
         all leaves come back; or put back a copy that is whole. `countersign check` says what else is wrong"
    )]
    Damaged {
        /// What is wrong with it.
        what: String,
    },
    /// Something cannot be had, or is not of its form.
    #[error(transparent)]
    Foreign(#[from] ForeignError),
    /// The head is no note.
    #[error("the head: {0}")]
    Note(#[from] NoteError),
    /// The notes are of several heads.
    #[error("the notes given are not of one head: their texts differ")]
    Heads,
    /// The head is not acceptable.
    #[error("the head is not one that this log may go on from: {0}")]
    Policy(#[from] PolicyError),
    /// It is of another log.
    #[error("the head is of log {found}, and this is {ours}")]
    Log {
        /// Whose it is.
        found: String,
        /// Whose account this is.
        ours: String,
    },
    /// Something larger had left the process.
    #[error(
        "{what} of size {known} had left this log, and the head given has only {} leaves: the leaves between them are still missing",
        head.size
    )]
    Short {
        /// What it is known from.
        what: &'static str,
        /// Its size.
        known: u64,
        /// The head given.
        head: Head,
    },
    /// Two histories.
    #[error(transparent)]
    Fork(#[from] Box<Forked>),
    /// The leaves are not those of the head.
    #[error(
        "{place}: the leaves that are served lead to root {}, and the head of size {} has root {}", found.root, found.size, due.root
    )]
    Root {
        /// Where they came from.
        place: String,
        /// Where they lead.
        found: Head,
        /// Where they must lead.
        due: Head,
    },
    /// A leaf is none of this log's.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// A file cannot be written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// What is here is not a part of the tree of the head given.
#[derive(Debug, thiserror::Error)]
#[error(
    "this is another history: {what} of size {} has root {}, and the tree of the head given, size {} with root {}, has root {there} \
     there. Nothing was changed. Keep this directory: the two heads are evidence of a fork; the way on is a successor (`countersign \
     succeed`)",
    here.size, here.root, head.size, head.root
)]
pub struct Forked {
    /// What the one here is known from.
    pub what: &'static str,
    /// The one here.
    pub here: Head,
    /// The head given.
    pub head: Head,
    /// The root that the head's tree has at the size of the one here.
    pub there: Hash,
}
