//! Where a witness remembers. Everything is keyed by the SHA-256 of a log's origin.
//!
//! Cut by guarantee: records are compared and stored in one durable step, many logs at once; entries of the roster are only
//! ever put; tallies are never waited for.

mod memory;
mod rocks;
pub mod suite;

pub use self::memory::{Fault, Memory, Step};
pub use self::rocks::RocksStore;

use countersign_verifier::hash::Hash;

use crate::record::Record;
use crate::tally::Tally;

/// A head that takes the place of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// SHA-256 of the origin.
    pub log: Hash,
    /// What must be stored now; `None` if nothing.
    pub expected: Option<Record>,
    /// What is stored afterwards.
    pub next: Record,
}

/// Why a store did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// What is stored is not what a change expects; nothing was changed.
    #[error("the stored head of log {log} is not the one expected")]
    Conflict {
        /// Of which log.
        log: Hash,
    },
    /// Another process has it.
    #[error("{0}")]
    InUse(String),
    /// A newer version made it.
    #[error("format {found} is newer than {known}, the newest known here")]
    TooNew {
        /// The format.
        found: u32,
        /// The newest known.
        known: u32,
    },
    /// It is not whole, and must not be signed on.
    #[error("{0}")]
    Damaged(String),
    /// It did not work; after a commit the outcome is unknown until [`Store::reload`].
    #[error("{0}")]
    Unavailable(String),
}

/// A store. Safe for use from many threads; records and entries are durable when a call returns.
pub trait Store: Send + Sync {
    /// The newest record of a log.
    ///
    /// # Errors
    /// `Damaged`, `Unavailable`.
    fn record(&self, log: &Hash) -> Result<Option<Record>, StoreError>;

    /// Compares all and stores all, or nothing. At most one change a log.
    ///
    /// # Errors
    /// `Conflict`; after any other the outcome is unknown.
    fn commit(&self, changes: &[Change]) -> Result<(), StoreError>;

    /// The roster's entry of a log, as it was put.
    ///
    /// # Errors
    /// `Unavailable`.
    fn entry(&self, log: &Hash) -> Result<Option<Vec<u8>>, StoreError>;

    /// Puts entries, all or none.
    ///
    /// # Errors
    /// `Unavailable`.
    fn put_entries(&self, entries: &[(Hash, Vec<u8>)]) -> Result<(), StoreError>;

    /// Up to `limit` entries behind `after`, by key.
    ///
    /// # Errors
    /// `Damaged`, `Unavailable`.
    fn entries(
        &self,
        after: Option<&Hash>,
        limit: usize,
    ) -> Result<Vec<(Hash, Vec<u8>)>, StoreError>;

    /// What was counted of a log.
    ///
    /// # Errors
    /// `Unavailable`.
    fn tally(&self, log: &Hash) -> Result<Tally, StoreError>;

    /// Stores counts; they may be lost by a crash.
    ///
    /// # Errors
    /// `Unavailable`.
    fn put_tallies(&self, tallies: &[(Hash, Tally)]) -> Result<(), StoreError>;

    /// Finds out what is durable after a commit whose outcome is unknown.
    ///
    /// # Errors
    /// `Damaged`, `Unavailable`: try again before anything else.
    fn reload(&self) -> Result<(), StoreError>;
}
