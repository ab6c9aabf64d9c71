//! What the parts of a running log share, and why it may not start.

use std::sync::{Arc, atomic::AtomicI64};

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::watch;

use crate::{
    clock::Clocks,
    grow::Edge,
    guard::GuardError,
    publish::Published,
    store::{Head, Store, StoreError},
    witnesses::WitnessesStatus,
    writer::Stop,
};

/// Why a log did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store failed or is damaged.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What was published is not what is stored.
    #[error(transparent)]
    Guard(#[from] GuardError),
    /// A committed leaf is none of this log's.
    #[error("leaf {index}: {why}")]
    Leaf {
        /// Its index.
        index: u64,
        /// What is wrong with it.
        why: String,
    },
}

/// The committed tree and the state that its leaves give, which change together.
pub(crate) struct Committed<V> {
    pub edge: Edge,
    /// Of this edge: kept, because a root costs hundreds of hashes.
    pub head: Head,
    pub version: Arc<V>,
}

impl<V> Committed<V> {
    pub(crate) fn new(edge: Edge, version: V) -> Committed<V> {
        Committed {
            head: edge.head(),
            edge,
            version: Arc::new(version),
        }
    }
}

/// How far a log has come. Neither number ever falls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Leaves that are committed.
    pub committed: u64,
    /// Leaves under the newest published checkpoint.
    pub published: u64,
}

/// What the writer, the publisher and readers share.
pub(crate) struct Shared<V> {
    pub store: Arc<dyn Store>,
    /// What is committed: readers take unfinished tiles from its edge.
    pub committed: ArcSwap<Committed<V>>,
    /// The newest head that the log has signed: what it is included under, where witnesses have not come so far.
    pub signed: ArcSwap<Published>,
    pub published: ArcSwap<Published>,
    /// Told after each of the two above was stored: whoever is woken finds what woke him.
    pub progress: watch::Sender<Progress>,
    /// Why nothing may be written, whatever the clock and the store say: set and cleared by the guard.
    pub gate: ArcSwapOption<Stop>,
    pub witnesses: ArcSwap<WitnessesStatus>,
    /// How far the wall clock is from those of a quorum of witnesses, milliseconds; 0 where that is no reason to stop.
    pub disputed_ms: AtomicI64,
    pub clocks: Arc<dyn Clocks>,
    /// Why nothing is written just now.
    pub stop: ArcSwapOption<Stop>,
    /// Why nothing is published just now.
    pub published_trouble: ArcSwapOption<StoreError>,
    /// Wall clock minus log time, milliseconds.
    pub clock_offset_ms: AtomicI64,
}

impl<V> Shared<V> {
    /// Shows readers what is committed, and wakes those who wait for it.
    pub(crate) fn show_committed(&self, committed: Committed<V>) {
        let size = committed.head.size;
        self.committed.store(Arc::new(committed));
        self.progress
            .send_if_modified(|p| std::mem::replace(&mut p.committed, size) != size);
    }

    /// Shows readers a checkpoint, and wakes those who wait for it.
    pub(crate) fn show_published(&self, published: Published) {
        let size = published.head.size;
        self.published.store(Arc::new(published));
        self.progress
            .send_if_modified(|p| std::mem::replace(&mut p.published, size) != size);
    }

    /// The wall clock, POSIX milliseconds.
    pub(crate) fn wall_ms(&self) -> u64 {
        crate::clock::wall_ms(&*self.clocks)
    }
}
