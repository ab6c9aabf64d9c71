//! Leaves that were lost and come back from somebody who kept them.
//!
//! They were judged when they were written, so nothing is judged again: each is replayed, gets the lookup keys that judging had
//! given it, and is committed. That they belong here is for the caller to prove, before he has anything committed: by a head
//! that this log has signed and its witnesses have cosigned, of which what is here must be a part.

use std::sync::Arc;

use countersign_verifier::hash::Hash;

use crate::{
    grow::Edge,
    guard,
    judge::{Entry, Judge},
    prove::Prover,
    shared::StartError,
    store::{Growth, Head, Kept, Snapshot, Stage, Store, StoreError},
    writer::{Batch, append, load},
};

/// A judge that can tell of a stored leaf what judging it had given.
pub trait Restore: Judge {
    /// The log time of a leaf, in milliseconds since 1970, and the entry that judging it gave. Asked before [`Judge::replay`]
    /// takes the leaf in: keys may depend on the state that it was judged in.
    ///
    /// # Errors
    /// Why these bytes cannot be a leaf of this log.
    fn stored(&self, leaf: &[u8]) -> Result<(u64, Entry), String>;
}

/// Why leaves were not taken.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// One of them is none of this log's.
    #[error("leaf {index}: {why}")]
    Leaf {
        /// Its index.
        index: u64,
        /// What is wrong with it.
        why: String,
    },
    /// They lead to another head than they did when they were proved.
    #[error("the leaves up to size {size} are not those that were proved")]
    Changed {
        /// The size after them.
        size: u64,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A log to which leaves come back. No writer may run on its store.
pub struct Import<J> {
    store: Arc<dyn Store>,
    judge: J,
    edge: Edge,
    committed: Head,
}

impl<J: Restore> Import<J> {
    /// Loads what is durable, as a start does.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn begin(store: Arc<dyn Store>, mut judge: J) -> Result<Import<J>, StartError> {
        let loaded = load(&*store, &mut judge)?;
        Ok(Import {
            store,
            judge,
            committed: loaded.edge.head(),
            edge: loaded.edge,
        })
    }

    /// What is committed.
    #[must_use]
    pub fn committed(&self) -> Head {
        self.committed
    }

    /// The newest checkpoint kept as published.
    ///
    /// # Errors
    /// What the store says.
    pub fn published(&self) -> Result<Option<Kept>, StoreError> {
        self.store.published()
    }

    /// The state that the leaves give.
    #[must_use]
    pub fn version(&self) -> J::Version {
        self.judge.version()
    }

    /// The largest head that was published here, as the mark beside the database says.
    ///
    /// # Errors
    /// What the store says.
    pub fn mark(&self) -> Result<Option<Head>, StoreError> {
        self.store.tidemark()
    }

    /// The checkpoint of this log that a witness once showed and that was not here.
    ///
    /// # Errors
    /// What the store says.
    pub fn ahead(&self) -> Result<Option<Kept>, StoreError> {
        self.store.ahead()
    }

    /// Every head that is known to have left the process, with what it is known from.
    ///
    /// # Errors
    /// What the store says.
    pub fn known(&self) -> Result<Vec<(&'static str, Head)>, StoreError> {
        guard::known(&*self.store)
    }

    /// The root of the first `size` leaves that are committed; `size` is at most their number.
    ///
    /// # Errors
    /// What the store says.
    pub fn root_at(&self, size: u64) -> Result<Hash, StoreError> {
        Prover::new(&guard::Stored(&*self.store, &self.edge), size).root()
    }

    /// Takes leaves in without storing them: whether they can be leaves of this log at this place, and the head after them.
    ///
    /// # Errors
    /// [`ImportError::Leaf`].
    pub fn rehearse(&mut self, leaves: &[&[u8]]) -> Result<Head, ImportError> {
        self.grow(leaves).map(|growth| growth.head)
    }

    /// Raises the mark to the head that will be reached, durable on return: a log that got some of its leaves back and not all
    /// does not start.
    ///
    /// # Errors
    /// What the store says.
    pub fn promise(&self, head: &Head) -> Result<(), StoreError> {
        self.store.mark(head)?;
        self.store.settle()
    }

    /// Commits leaves that were rehearsed, up to the head that this had given. `last`: the state after them is kept, so that the
    /// next start need not replay them.
    ///
    /// # Errors
    /// [`ImportError`]; what was committed before stays.
    pub fn commit(&mut self, leaves: &[&[u8]], head: &Head, last: bool) -> Result<(), ImportError> {
        let growth = self.grow(leaves)?;
        if growth.head != *head {
            return Err(ImportError::Changed { size: head.size });
        }
        self.store.commit(&self.committed, &growth)?;
        self.committed = *head;
        if last {
            self.store.keep_snapshot(&Snapshot {
                size: head.size,
                bytes: self.judge.snapshot()(),
            })?;
        }
        Ok(())
    }

    /// Keeps the checkpoint of a head that is reached as published, and the mark with it.
    ///
    /// # Errors
    /// What the store says.
    pub fn finish(&self, kept: &Kept) -> Result<(), StoreError> {
        self.store.keep(Stage::Published, kept)?;
        self.store.settle()
    }

    fn grow(&mut self, leaves: &[&[u8]]) -> Result<Growth, ImportError> {
        let mut batch = Batch::default();
        let mut last_at = 0;
        for leaf in leaves {
            let index = self.edge.size();
            let wrong = |why| ImportError::Leaf { index, why };
            let (at, entry) = self.judge.stored(leaf).map_err(wrong)?;
            self.judge.replay(index, leaf).map_err(wrong)?;
            append(&mut self.edge, &mut batch, entry);
            last_at = at;
        }
        Ok(Growth {
            entries: batch.pending.entries,
            tiles: batch.growth.tiles,
            unique: batch.growth.unique,
            postings: batch.growth.postings,
            head: self.edge.head(),
            at: last_at,
            published: None,
        })
    }
}
