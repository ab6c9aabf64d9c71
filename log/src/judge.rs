//! The trait that the writer asks about each request, in order.
//!
//! The log knows nothing of what a leaf means. Whoever uses it brings a [`Judge`]: a state that is a pure function of the
//! leaves so far, and the rule by which the next request becomes a leaf, an answer, or nothing.

use std::collections::HashMap;

use countersign_verifier::hash::Hash;

use crate::store::StoreError;

/// A lookup key: a name space and the first 16 bytes of a SHA-256.
///
/// 16 bytes, because whoever reads through a key confirms it by reading the leaf: two leaves with one prefix cost a second
/// read, never a wrong answer, and finding such a pair takes 2^64 hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Which index; 0 is the log's own (leaf hashes).
    pub space: u8,
    /// The start of the hash that is looked up.
    pub prefix: [u8; 16],
}

impl Key {
    /// The name space of leaf hashes, filled by the writer itself.
    pub const LEAF_HASH: u8 = 0;

    /// The key of `hash` in name space `space`.
    #[must_use]
    pub fn new(space: u8, hash: &Hash) -> Key {
        let mut prefix = [0; 16];
        prefix.copy_from_slice(&hash.0[..16]);
        Key { space, prefix }
    }

    /// As stored: the name space, then the prefix.
    #[must_use]
    pub fn bytes(&self) -> [u8; 17] {
        let mut bytes = [0; 17];
        bytes[0] = self.space;
        bytes[1..].copy_from_slice(&self.prefix);
        bytes
    }
}

/// A leaf to append, with what it is to be found by.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// The leaf's bytes, at most 65,535.
    pub leaf: Vec<u8>,
    /// Keys that name this leaf alone.
    pub unique: Vec<Key>,
    /// Keys that may name other leaves too.
    pub postings: Vec<Key>,
}

/// What becomes of a request.
#[derive(Debug)]
pub enum Ruling<R> {
    /// It is the next leaf.
    Append(Entry),
    /// It is answered by a leaf that is there already.
    Existing(u64),
    /// It is answered, and nothing is logged.
    Refuse(R),
}

/// What lies below the leaf that is being judged: committed leaves, and those judged before it in the same batch.
pub struct Context<'a> {
    /// Log time, in milliseconds since 1970.
    pub at: u64,
    /// The index that the leaf would get.
    pub index: u64,
    pub(crate) below: &'a dyn Below,
    pub(crate) pending: &'a PendingBatch,
}

/// The committed and the growing tree, as the writer holds them.
pub(crate) trait Below {
    fn find(&self, key: &Key) -> Result<Option<u64>, StoreError>;
    fn entry(&self, index: u64) -> Result<Option<Vec<u8>>, StoreError>;
    fn root_at(&self, size: u64) -> Result<Hash, StoreError>;
}

/// The leaves of the batch that is being judged: not committed, so neither in the store nor in any answer yet.
#[derive(Default)]
pub(crate) struct PendingBatch {
    pub first: u64,
    pub entries: Vec<Vec<u8>>,
    pub unique: HashMap<Key, u64>,
}

impl Context<'_> {
    /// The leaf last stored under `key`; confirm it by reading the leaf.
    ///
    /// # Errors
    /// What the store says.
    pub fn find(&self, key: &Key) -> Result<Option<u64>, StoreError> {
        match self.pending.unique.get(key) {
            Some(index) => Ok(Some(*index)),
            None => self.below.find(key),
        }
    }

    /// The leaf at `index`, or `None` at or above this context's index.
    ///
    /// # Errors
    /// What the store says.
    pub fn leaf(&self, index: u64) -> Result<Option<Vec<u8>>, StoreError> {
        if index < self.pending.first {
            return self.below.entry(index);
        }
        let offset = usize::try_from(index - self.pending.first).unwrap_or(usize::MAX);
        Ok(self.pending.entries.get(offset).cloned())
    }

    /// The root of the first `size` leaves; `None` if that is above this context's index.
    ///
    /// # Errors
    /// What the store says.
    pub fn root_at(&self, size: u64) -> Result<Option<Hash>, StoreError> {
        if size > self.index {
            return Ok(None);
        }
        self.below.root_at(size).map(Some)
    }
}

/// The state above the log, and its rule.
///
/// Every method is a pure function of the leaves before, the request and the context: replay must arrive at the same state.
pub trait Judge: Send + 'static {
    /// A request whose signatures were checked before it came here. That a key signed is settled; whether it may is judged here.
    type Request: Send + 'static;
    /// An answer that is not a leaf.
    type Refusal: Send + 'static;
    /// A version of the state that readers hold while the writer goes on; a cheap clone.
    type Version: Send + Sync + 'static;

    /// Starts over: from a snapshot that this judge gave, or from nothing. `false`: these bytes are no snapshot of this
    /// release, and the state is empty; the caller replays from the first leaf.
    fn restore(&mut self, snapshot: Option<&[u8]>) -> bool;

    /// Takes in a committed leaf. Uses what the leaf records, judges nothing.
    ///
    /// # Errors
    /// Why these bytes cannot be a leaf of this log.
    fn replay(&mut self, index: u64, leaf: &[u8]) -> Result<(), String>;

    /// The first leaf of a new log.
    fn open(&mut self, at: u64) -> Entry;

    /// Whether nothing may follow the leaves so far: then the log itself states nothing more either.
    fn is_closed(&self) -> bool {
        false
    }

    /// Log time of the next event that falls due by itself, if there is one.
    fn next_due(&self) -> Option<u64>;

    /// The next leaf that is due at or before `context.at`, taken into the state; called until it gives `None`.
    ///
    /// # Errors
    /// What the store says.
    fn due(&mut self, context: &Context<'_>) -> Result<Option<Entry>, StoreError>;

    /// Judges one request and, where it becomes a leaf, takes that leaf into the state.
    ///
    /// # Errors
    /// What the store says; the state must then be as it was, and the request alone is refused.
    fn judge(
        &mut self,
        request: &Self::Request,
        context: &Context<'_>,
    ) -> Result<Ruling<Self::Refusal>, StoreError>;

    /// The leaf that records an accepted change of the clock, taken into the state.
    fn clock_adjusted(&mut self, context: &Context<'_>, from: u64, to: u64) -> Entry;

    /// The leaf that records that writing began without the witnesses' word, taken into the state; `None` of a judge that has no
    /// such leaf.
    fn unguarded(&mut self, context: &Context<'_>) -> Option<Entry> {
        let _ = context;
        None
    }

    /// The state as it is now.
    fn version(&self) -> Self::Version;

    /// The state as it is now, as bytes for [`Judge::restore`]. To take it is cheap; what is returned is the work of writing it out,
    /// which is done beside the writer.
    fn snapshot(&self) -> Box<dyn FnOnce() -> Vec<u8> + Send>;
}
