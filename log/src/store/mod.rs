//! Where a log's bytes lie: one contract, cut by guarantee.
//!
//! Every implementation passes [`suite`]. What the contract promises:
//! - [`Store::commit`] is atomic and durable on return, and compares the head it is told to follow with the one it has: of
//!   two writers one is refused, and nothing of the other's is kept.
//! - an error of `commit` says nothing about whether it took place; the caller asks [`Store::reload`], which shows only what is durable.
//! - all else reads, and never sees a part of a commit.

use countersign_verifier::{hash::Hash, tile::Tile};

use crate::judge::Key;

pub mod blobs;
pub mod memory;
pub mod rocks;
pub mod suite;
mod tidemark;

/// For openings: what waits for another end is not waited for. OK because these bits are an int in the system's own call.
const NONBLOCK: i32 = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();

/// A committed tree: how many leaves it has, and their RFC 6962 root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The number of leaves.
    pub size: u64,
    /// The root of these leaves.
    pub root: Hash,
}

impl Head {
    /// The head of a log without leaves.
    pub const EMPTY: Head = Head {
        size: 0,
        root: countersign_verifier::hash::EMPTY_ROOT,
    };
}

/// What one commit adds: everything of it is durable, or nothing.
#[derive(Clone, Debug)]
pub struct Growth {
    /// The leaves from index `previous.size` on, in order; each at most 65,535 bytes.
    pub entries: Vec<Vec<u8>>,
    /// The tiles that these leaves completed, 8,192 bytes each. Unfinished tiles are not stored: they are hashes of
    /// stored leaves and tiles, and computed again at start.
    pub tiles: Vec<(Tile, Vec<u8>)>,
    /// Lookup keys that name one leaf; a later one replaces an earlier one of the same 16 bytes.
    pub unique: Vec<(Key, u64)>,
    /// Lookup keys that may name many leaves.
    pub postings: Vec<(Key, u64)>,
    /// The head after them.
    pub head: Head,
    /// The log time of the last leaf, in milliseconds since 1970.
    pub at: u64,
    /// A checkpoint of `head` that is kept as published with these leaves, so that one synced write does for both. It must not
    /// be shown before [`Store::mark`] has taken it.
    pub published: Option<Kept>,
}

/// The state above the log, as it was at a size: a cache that replay can always remake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// How many leaves it reflects.
    pub size: u64,
    /// The bytes that the judge gave.
    pub bytes: Vec<u8>,
}

/// A signed checkpoint as it was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The tree that it names.
    pub head: Head,
    /// The whole signed note.
    pub note: String,
}

/// How far a checkpoint has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Signed by the log: it may have left the process, towards witnesses or clients.
    Signed {
        /// The size of an earlier one that no witness was asked for, which this one makes needless.
        replaces: Option<u64>,
    },
    /// Shown to readers.
    Published,
}

/// Why a store did not do as asked.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum StoreError {
    /// The head is not the one that the commit was to follow: another writer was here.
    #[error("the store is at size {}, the commit was to follow size {}", found.size, expected.size)]
    Conflict {
        /// What the caller believed.
        expected: Head,
        /// What the store holds.
        found: Head,
    },
    /// Stored bytes are missing or are not what they must be. Never repaired silently.
    #[error("damaged: {what}")]
    Damaged {
        /// Which object, and how it is wrong.
        what: String,
    },
    /// Another process or another opening of this store holds it.
    #[error("in use: {0}")]
    InUse(String),
    /// Written by a newer release.
    #[error("the store has format {found}, this release knows {known}")]
    TooNew {
        /// The format number found.
        found: u32,
        /// The newest format number known here.
        known: u32,
    },
    /// Written by an older release, and asked for where nothing is written.
    #[error(
        "the store has format {found}, and this release {known}: a start of the service migrates it"
    )]
    Older {
        /// The format number found.
        found: u32,
        /// The format number of this release.
        known: u32,
    },
    /// The disk, the file system or the database said no; it may say yes later.
    #[error("unavailable: {0}")]
    Unavailable(String),
}

/// A place for one log's bytes. See the module for what it promises.
pub trait Store: Send + Sync + 'static {
    /// The committed head and the log time of its last leaf (milliseconds; 0 without leaves).
    ///
    /// # Errors
    /// `Unavailable` or `Damaged`.
    fn head(&self) -> Result<(Head, u64), StoreError>;

    /// Adds `growth` after `previous`: atomic, durable on return.
    ///
    /// # Errors
    /// `Conflict` if the head is not `previous`. After any error the outcome is unknown until [`Store::reload`].
    fn commit(&self, previous: &Head, growth: &Growth) -> Result<(), StoreError>;

    /// The leaf at `index`, or `None` at or beyond the committed size.
    ///
    /// # Errors
    /// `Damaged` where a committed leaf is missing; `Unavailable`.
    fn entry(&self, index: u64) -> Result<Option<Vec<u8>>, StoreError>;

    /// Up to `count` consecutive leaves from `first`; fewer only at the end of the log.
    ///
    /// # Errors
    /// `Damaged` where a committed leaf is missing; `Unavailable`.
    fn entries(&self, first: u64, count: usize) -> Result<Vec<Vec<u8>>, StoreError>;

    /// The 8,192 bytes of a full tile, or `None` if the log has not completed it.
    ///
    /// # Errors
    /// `Damaged` where the tile has another length; `Unavailable`.
    fn tile(&self, level: u8, index: u64) -> Result<Option<Vec<u8>>, StoreError>;

    /// The leaf last stored under a unique key.
    ///
    /// # Errors
    /// `Unavailable`.
    fn find(&self, key: &Key) -> Result<Option<u64>, StoreError>;

    /// Up to `limit` leaves under a key, in rising order, beyond index `after`.
    ///
    /// # Errors
    /// `Unavailable`.
    fn postings(&self, key: &Key, after: Option<u64>, limit: usize)
    -> Result<Vec<u64>, StoreError>;

    /// Keeps a checkpoint, durable on return. `Published` forgets the signed ones up to its size, and marks it.
    ///
    /// # Errors
    /// `Unavailable`.
    fn keep(&self, stage: Stage, kept: &Kept) -> Result<(), StoreError>;

    /// Raises the mark that [`Store::tidemark`] reads, if `head` is larger. It survives the process at once and the machine
    /// after [`Store::settle`]: a mark that is behind refuses nothing wrongly, and what it guards is synced by itself.
    ///
    /// # Errors
    /// `Unavailable`.
    fn mark(&self, head: &Head) -> Result<(), StoreError>;

    /// Makes the mark durable.
    ///
    /// # Errors
    /// `Unavailable`.
    fn settle(&self) -> Result<(), StoreError>;

    /// The newest checkpoint kept as published.
    ///
    /// # Errors
    /// `Unavailable`.
    fn published(&self) -> Result<Option<Kept>, StoreError>;

    /// The checkpoints kept as signed and not yet overtaken by a published one, smallest first.
    ///
    /// # Errors
    /// `Unavailable`.
    fn signed(&self) -> Result<Vec<Kept>, StoreError>;

    /// The largest head published so far, as recorded apart from the database: what a store that lost its end, or was put
    /// back from an older copy, is found out by. `None` where nothing was recorded.
    ///
    /// # Errors
    /// `Unavailable`; `Damaged` where the record cannot be read.
    fn tidemark(&self) -> Result<Option<Head>, StoreError>;

    /// Keeps the checkpoint that a witness showed and that is not here, durable on return: no later start may forget it.
    ///
    /// # Errors
    /// `Unavailable`.
    fn keep_ahead(&self, ahead: &Kept) -> Result<(), StoreError>;

    /// The checkpoint that [`Store::keep_ahead`] kept last.
    ///
    /// # Errors
    /// `Unavailable`.
    fn ahead(&self) -> Result<Option<Kept>, StoreError>;

    /// Keeps a snapshot of committed leaves in the place of the one before. A cache: whatever happens meanwhile, the one or the
    /// other is there afterwards. It may have hundreds of megabytes, and commits go on while it is written.
    ///
    /// # Errors
    /// `Unavailable`.
    fn keep_snapshot(&self, snapshot: &Snapshot) -> Result<(), StoreError>;

    /// The newest snapshot.
    ///
    /// # Errors
    /// `Unavailable`.
    fn snapshot(&self) -> Result<Option<Snapshot>, StoreError>;

    /// Closes and opens again, so that only what is durable is seen. Readers wait meanwhile.
    ///
    /// # Errors
    /// As at the first opening; until a later call succeeds the store takes no commit, and reads as far as it can.
    fn reload(&self) -> Result<(), StoreError>;
}
