//! After the commit: everybody in the batch is told, and the publisher hears of the head.

use countersign_verifier::hash::leaf_hash;

use super::{Batch, Job, Judged, Outcome, Sequenced, Stop, Writer};
use crate::{
    judge::Judge,
    publish::{Notice, Waiter},
    store::{Kept, StoreError},
};

impl<J: Judge> Writer<J> {
    /// Answers what the commit made true, and hands on who waits for more.
    pub(super) fn answer(
        &self,
        batch: Batch,
        jobs: Vec<Job<J>>,
        judged: Vec<Vec<Judged<J::Refusal>>>,
        signed: Option<Kept>,
    ) {
        let mut waiters = Vec::with_capacity(jobs.len());
        for (job, answers) in jobs.into_iter().zip(judged) {
            let mut last = None;
            let outcomes = answers
                .into_iter()
                .map(|answer| match answer {
                    Judged::Refused(refusal) => Outcome::Refused(refusal),
                    Judged::Unread(error) => Outcome::Stopped(Stop::Store(error)),
                    Judged::At(index, existing) => {
                        last = last.max(Some(index));
                        self.outcome(&batch, index, existing)
                    }
                })
                .collect();
            // Who no longer listens loses nothing but the answer.
            let _ = job.sequenced.send(outcomes);
            if let (Some(index), Some((until, wake))) = (last, job.further) {
                waiters.push(Waiter { index, until, wake });
            }
        }
        self.tell(signed, waiters);
    }

    fn outcome(&self, batch: &Batch, index: u64, existing: bool) -> Outcome<J::Refusal> {
        let first = batch.pending.first;
        let (leaf, hash) = match index
            .checked_sub(first)
            .and_then(|i| usize::try_from(i).ok())
        {
            Some(i) => (
                Ok(Some(batch.pending.entries[i].clone())),
                Some(batch.growth.hashes[i]),
            ),
            None => (self.shared.store.entry(index), None),
        };
        match leaf {
            Ok(Some(leaf)) => Outcome::Sequenced(Sequenced {
                index,
                leaf_hash: hash.unwrap_or_else(|| leaf_hash(&leaf)),
                leaf,
                existing,
            }),
            Ok(None) => Outcome::Stopped(Stop::Store(StoreError::Damaged {
                what: format!("entry {index} is missing"),
            })),
            Err(error) => Outcome::Stopped(Stop::Store(error)),
        }
    }

    pub(super) fn tell(&self, kept: Option<Kept>, waiters: Vec<Waiter>) {
        let head = self.shared.committed.load().head;
        let notice = Notice::Grown {
            head,
            kept,
            waiters,
        };
        // The publisher is gone only if it panicked, and has then said so.
        let _ = self.notices.send(notice);
    }
}
