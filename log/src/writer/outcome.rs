//! What goes into the writer's queue, and what comes back.

use countersign_verifier::hash::Hash;
use tokio::sync::oneshot;

use crate::{clock::ClockFault, judge::Judge, store::StoreError};

/// Why nothing is written just now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// The clock moved in a way that only an operator can accept.
    #[error("{0}")]
    Clock(ClockFault),
    /// The store failed; it is opened again until it answers. Whether the last writes were committed is unknown to who waited for them.
    #[error("the store failed: {0}")]
    Store(StoreError),
    /// What is durable contradicts what was published: nothing will ever be written here again without an operator.
    #[error("{0}")]
    Guard(String),
    /// A thread of the log ended in a panic: a bug. A new start reads what is durable.
    #[error("a thread of the log ended in a panic; the service must be started again")]
    Died,
    /// The witnesses have not yet shown that nothing is missing here.
    #[error("the log is not writing yet: {0}")]
    Unguarded(String),
    /// The log is closing.
    #[error("the log is being closed")]
    Closed,
}

/// A leaf that is committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequenced {
    /// Its index.
    pub index: u64,
    /// Its RFC 6962 leaf hash.
    pub leaf_hash: Hash,
    /// Its bytes.
    pub leaf: Vec<u8>,
    /// It was there before this request.
    pub existing: bool,
}

/// What became of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<R> {
    /// It is, or was already, a committed leaf.
    Sequenced(Sequenced),
    /// The judge answered it without a leaf.
    Refused(R),
    /// Writing has stopped; whether an earlier attempt took place is not known where the store failed.
    Stopped(Stop),
}

/// How far a write is to have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Until {
    /// It has an index.
    Sequenced,
    /// It is under a head that the log has signed.
    Included,
    /// It is under a published head: one that meets the policy.
    Witnessed,
}

/// A submission in the queue.
pub(crate) struct Job<J: Judge> {
    pub requests: Vec<J::Request>,
    pub sequenced: oneshot::Sender<Vec<Outcome<J::Refusal>>>,
    /// How far, where that is more than sequenced, and who is told.
    pub further: Option<(Until, oneshot::Sender<()>)>,
}
