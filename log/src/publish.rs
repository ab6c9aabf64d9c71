//! One thread an account: signs the newest committed head, stores it, shows it, and wakes whoever waited for it.
//!
//! A checkpoint is durable before any byte of it leaves the process; a head is signed once, and none is signed while nothing
//! was written: an idle log writes nothing. Witnesses will be asked between signing and showing; a policy without witnesses
//! is met by the log's own signature.

use std::{
    sync::{Arc, mpsc},
    time::Duration,
};

use countersign_verifier::{checkpoint::Checkpoint, note, vkey::NoteSigner};
use tokio::sync::oneshot;

use crate::{
    log::Shared,
    store::{Head, Kept, Stage, StoreError},
};

/// How long a store that refuses a checkpoint is left alone before it is asked again.
const RETRY: Duration = Duration::from_millis(250);

/// A published checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The tree that it names.
    pub head: Head,
    /// The signed note; empty only in a log that has never published.
    pub note: String,
}

/// Somebody who waits until the published size is above `index`.
pub(crate) struct Waiter {
    pub index: u64,
    pub wake: oneshot::Sender<()>,
}

/// What the writer tells the publisher.
pub(crate) enum Notice {
    /// There is a new committed head; these wait for it (or for an older one).
    Grown(Head, Vec<Waiter>),
    /// Stop once everything said so far is published.
    Close,
}

/// Signs checkpoints of one origin.
pub(crate) struct Publisher {
    pub origin: String,
    pub signer: NoteSigner,
}

impl Publisher {
    /// Runs until told to close, or until the writer is gone.
    pub(crate) fn run<V>(self, shared: &Shared<V>, notices: &mpsc::Receiver<Notice>) {
        let mut waiting: Vec<Waiter> = Vec::new();
        let mut wanted = shared.published.load().head;
        let mut open = true;
        while open {
            let behind = shared.published.load().head.size < wanted.size;
            let first = if behind {
                notices.try_recv().ok()
            } else {
                notices.recv().ok().or(Some(Notice::Close))
            };
            for notice in first.into_iter().chain(notices.try_iter()) {
                match notice {
                    Notice::Grown(head, more) => {
                        if head.size > wanted.size {
                            wanted = head;
                        }
                        waiting.extend(more);
                    }
                    Notice::Close => open = false,
                }
            }
            if shared.published.load().head.size < wanted.size
                && let Err(error) = self.publish(shared, &wanted)
            {
                tracing::error!(size = wanted.size, %error, "the checkpoint could not be stored; trying again");
                shared.published_trouble.store(Some(Arc::new(error)));
                if open {
                    std::thread::sleep(RETRY);
                }
                continue;
            }
            let size = shared.published.load().head.size;
            let (ready, rest) = waiting.into_iter().partition(|waiter| waiter.index < size);
            waiting = rest;
            for waiter in ready {
                // Who no longer listens has got his answer by deadline.
                let _ = waiter.wake.send(());
            }
        }
    }

    /// Signs a committed head, stores it, and shows it.
    pub(crate) fn publish<V>(&self, shared: &Shared<V>, head: &Head) -> Result<(), StoreError> {
        let checkpoint = Checkpoint {
            origin: self.origin.clone(),
            size: head.size,
            root: head.root,
            extensions: Vec::new(),
        };
        let text = checkpoint.to_text();
        let note = note::join(&text, [self.signer.sign(&text).as_str()]);
        let kept = Kept { head: *head, note };
        shared.store.keep(Stage::Published, &kept)?;
        shared.published_trouble.store(None);
        shared.published.store(Arc::new(Published {
            head: kept.head,
            note: kept.note,
        }));
        tracing::debug!(size = head.size, "published");
        Ok(())
    }
}
