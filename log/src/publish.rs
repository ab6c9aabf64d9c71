//! One thread an account: shows the newest committed head, and wakes whoever waited for it.
//!
//! A checkpoint is durable before any byte of it leaves the process; a head is signed once, and none is signed while nothing
//! was written: an idle log writes nothing. A policy without witnesses is met by the log's own signature, so its checkpoint is
//! stored with the leaves that it covers; where there are witnesses, `witnesses` publishes.

use std::{
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use countersign_verifier::{checkpoint::Checkpoint, note, vkey::NoteSigner};
use tokio::sync::oneshot;

use crate::{
    shared::Shared,
    store::{Head, Kept, Stage, Store, StoreError},
    witnesses::{Answer, Probe},
    writer::Until,
};

/// How long a store that refuses a checkpoint is left alone before it is asked again.
const RETRY: Duration = Duration::from_millis(250);
/// The mark is synced this long after it was raised.
const SETTLE: Duration = Duration::from_secs(1);
/// Or after so many publications.
const SETTLE_AFTER: u32 = 64;

/// A published checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The tree that it names.
    pub head: Head,
    /// The signed note; empty only in a log that has never published.
    pub note: String,
}

impl From<Option<Kept>> for Published {
    fn from(kept: Option<Kept>) -> Published {
        let (head, note) = kept.map_or((Head::EMPTY, String::new()), |k| (k.head, k.note));
        Published { head, note }
    }
}

/// Somebody who waits until the leaf at `index` is as far as `until`.
pub(crate) struct Waiter {
    pub index: u64,
    pub until: Until,
    pub wake: oneshot::Sender<()>,
}

/// What the writer tells the publisher.
pub(crate) enum Notice {
    /// There is a new committed head.
    Grown {
        head: Head,
        /// Its checkpoint, where that was stored as published with the leaves.
        kept: Option<Kept>,
        /// Who waits for it, or for an older one.
        waiters: Vec<Waiter>,
    },
    /// A witness answered.
    Answered {
        peer: usize,
        /// The size that it was asked for.
        size: u64,
        answer: Answer,
    },
    /// A witness answered the guard.
    Probed { peer: usize, probe: Probe },
    /// Stop once everything said so far is published.
    Close,
}

/// Signs checkpoints of one origin.
pub(crate) struct HeadSigner {
    pub origin: String,
    pub signer: NoteSigner,
}

impl HeadSigner {
    /// The signed checkpoint of a head.
    pub(crate) fn sign(&self, head: &Head) -> Kept {
        let checkpoint = Checkpoint {
            origin: self.origin.clone(),
            size: head.size,
            root: head.root,
            extensions: Vec::new(),
        };
        let text = checkpoint.to_text();
        let note = note::join(&text, [self.signer.sign(&text).as_str()]);
        Kept { head: *head, note }
    }
}

/// What is wanted, what is stored for it already, and who waits.
struct Work {
    wanted: Head,
    kept: Option<Kept>,
    waiting: Vec<Waiter>,
    open: bool,
}

impl Work {
    fn take(&mut self, notice: Notice) {
        match notice {
            Notice::Grown {
                head,
                kept,
                waiters,
            } => {
                if head.size > self.wanted.size {
                    self.wanted = head;
                    self.kept = kept;
                }
                self.waiting.extend(waiters);
            }
            Notice::Close => self.open = false,
            // Nobody was asked.
            Notice::Answered { .. } | Notice::Probed { .. } => {}
        }
    }
}

/// Shows heads that are durable.
pub(crate) struct Publisher(Arc<HeadSigner>);

impl Publisher {
    pub(crate) fn new(signer: Arc<HeadSigner>) -> Publisher {
        Publisher(signer)
    }

    /// Runs until told to close, or until the writer is gone.
    pub(crate) fn run<V>(self, shared: &Shared<V>, notices: &mpsc::Receiver<Notice>) {
        let mut work = Work {
            // What could not be shown at the start is tried again here.
            wanted: shared.committed.load().head,
            kept: None,
            waiting: Vec::new(),
            open: true,
        };
        let mut unsettled = Unsettled::default();
        while work.open {
            if shared.published.load().head.size == work.wanted.size {
                match notices.recv_timeout(unsettled.patience()) {
                    Ok(notice) => work.take(notice),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => work.open = false,
                }
            }
            notices.try_iter().for_each(|notice| work.take(notice));
            if shared.published.load().head.size < work.wanted.size {
                if let Err(error) = self.publish(shared, &work.wanted, work.kept.as_ref()) {
                    tracing::error!(size = work.wanted.size, %error, "the checkpoint could not be stored; trying again");
                    shared.published_trouble.store(Some(Arc::new(error)));
                    // Of those that have gone, none is kept.
                    work.waiting.retain(|waiter| !waiter.wake.is_closed());
                    if work.open {
                        std::thread::sleep(RETRY);
                    }
                    continue;
                }
                unsettled.raised();
            }
            let size = shared.published.load().head.size;
            for ready in work.waiting.extract_if(.., |waiter| waiter.index < size) {
                // Who no longer listens has got his answer by deadline.
                let _ = ready.wake.send(());
            }
            unsettled.settle(&*shared.store);
        }
        unsettled.settle_now(&*shared.store);
    }

    /// Shows a committed head, stored before: with its leaves (`kept`), or here.
    pub(crate) fn publish<V>(
        &self,
        shared: &Shared<V>,
        head: &Head,
        kept: Option<&Kept>,
    ) -> Result<(), StoreError> {
        let kept = match kept {
            Some(kept) => {
                shared.store.mark(head)?;
                kept.clone()
            }
            None => {
                let kept = self.0.sign(head);
                shared.store.keep(Stage::Published, &kept)?;
                kept
            }
        };
        shared.published_trouble.store(None);
        shared.show_published(Published {
            head: kept.head,
            note: kept.note,
        });
        tracing::debug!(size = head.size, "published");
        Ok(())
    }
}

/// How often the mark was raised since it was synced, and since when.
#[derive(Default)]
pub(crate) struct Unsettled {
    count: u32,
    since: Option<Instant>,
}

impl Unsettled {
    /// It was raised.
    pub(crate) fn raised(&mut self) {
        self.count += 1;
        self.since.get_or_insert_with(Instant::now);
    }

    /// How long it may still be left.
    pub(crate) fn patience(&self) -> Duration {
        let left = |since: Instant| SETTLE.saturating_sub(since.elapsed());
        self.since.map_or(Duration::from_secs(3_600), left)
    }

    /// Makes the mark durable where it is time.
    pub(crate) fn settle(&mut self, store: &dyn Store) {
        if self.count >= SETTLE_AFTER || self.patience().is_zero() {
            self.settle_now(store);
        }
    }

    /// Makes it durable. A failure is no reason to stop: it is tried again, and the database is synced by itself.
    pub(crate) fn settle_now(&mut self, store: &dyn Store) {
        if self.since.is_none() {
            return;
        }
        *self = Unsettled::default();
        if let Err(error) = store.settle() {
            tracing::warn!(%error, "the mark of the largest published head could not be synced");
            self.raised();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::memory::MemoryStore;

    #[test]
    fn the_mark_is_synced_after_many_publications_or_a_second() {
        let store = MemoryStore::new();
        let mut unsettled = Unsettled::default();
        assert!(unsettled.patience() > SETTLE);
        for _ in 1..SETTLE_AFTER {
            unsettled.raised();
            unsettled.settle(&store);
        }
        assert!(unsettled.count > 0 && unsettled.patience() <= SETTLE);
        unsettled.raised();
        unsettled.settle(&store);
        assert_eq!((unsettled.count, unsettled.since), (0, None));
        // However rare they are.
        unsettled.raised();
        unsettled.since = Instant::now().checked_sub(SETTLE);
        unsettled.settle(&store);
        assert_eq!(unsettled.count, 0);
    }
}
