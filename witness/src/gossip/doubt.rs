//! Heads that their log signed and whose proof failed at add-checkpoint. A failed proof is never evidence; it is a reason to ask
//! the log, as for a head that a peer showed, and whoever sent it does not wait for that.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use countersign_verifier::checkpoint::origin_hash;
use countersign_verifier::hash::Hash;

use super::client::{Asking, Client};
use super::weigh::{Glance, glance, weigh};
use crate::Witness;
use crate::blocking::{block, panicked};
use crate::decide::first_line;

/// Logs that are asked at once, one head of each; what comes meanwhile is passed over and counted. Whoever holds a checkpoint
/// can send it with a wrong proof: it costs the log one request, and this witness no more than that.
const AT_ONCE: usize = 8;

/// The logs that are being asked.
pub struct Doubts {
    witness: Arc<Witness>,
    client: Arc<Client>,
    open: Mutex<BTreeSet<Hash>>,
}

/// A log's place among them, until it is dropped.
struct Open {
    doubts: Arc<Doubts>,
    log: Hash,
}

impl Doubts {
    /// None yet.
    #[must_use]
    pub fn new(witness: Arc<Witness>, client: Arc<Client>) -> Arc<Doubts> {
        Arc::new(Doubts {
            witness,
            client,
            open: Mutex::default(),
        })
    }

    /// Settles the head of a request (its whole body) with the one that is stored, in a task of its own.
    pub fn settle(self: &Arc<Doubts>, body: Bytes) {
        let Some(at) = body.windows(2).position(|two| two == b"\n\n") else {
            return;
        };
        let note = body.slice(at + 2..);
        let Ok(text) = std::str::from_utf8(&note) else {
            return;
        };
        let log = origin_hash(first_line(text));
        let Some(place) = self.enter(log) else {
            self.witness.metrics().weighed("passed_over");
            return;
        };
        let witness = self.witness.clone();
        tokio::spawn(async move {
            let settled = tokio::spawn(place.settle(note)).await;
            panicked(&witness, "settling a head whose proof failed", settled);
        });
    }

    fn enter(self: &Arc<Doubts>, log: Hash) -> Option<Open> {
        let mut open = self.open();
        let entered = open.len() < AT_ONCE && open.insert(log);
        entered.then(|| Open {
            doubts: self.clone(),
            log,
        })
    }

    fn open(&self) -> MutexGuard<'_, BTreeSet<Hash>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    async fn settle(self, note: Bytes) {
        let Doubts {
            witness, client, ..
        } = &*self.doubts;
        let looked_at = {
            let witness = witness.clone();
            block(move || glance(&witness, &note)).await
        };
        let pair = match looked_at {
            Ok(Glance::Other(pair)) => pair,
            Ok(_) => return,
            Err(error) => {
                tracing::error!(%error, "the store cannot be read");
                return;
            }
        };
        let Some(url) = pair.entry.url.clone() else {
            return;
        };
        let asking = Asking::new(client, Some(&url), None);
        let weighed = weigh(witness, &pair, None, &asking).await;
        witness.metrics().weighed(weighed.word());
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.doubts.open().remove(&self.log);
    }
}
