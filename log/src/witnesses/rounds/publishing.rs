//! Signing, and showing what a quorum has cosigned.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use super::{Line, Round, Rounds, WitnessesStatus, millis};
use crate::{
    clock::TOLERANCE_MS,
    publish::{Published, Waiter},
    store::{Head, Kept, Stage, StoreError},
    writer::Until,
};

impl<V: Send + Sync + 'static> Rounds<V> {
    /// Whoever waits for no more than the log's own signature does not wait for a round.
    pub(super) fn sign_for_included(&mut self) -> Result<(), StoreError> {
        let signed = self.shared.signed.load().head.size;
        let newest = self.shared.published.load().head.size.max(signed);
        let asked = |w: &Waiter| w.until == Until::Included && w.index >= newest;
        if self.waiting.iter().any(asked) && self.wanted.size > newest {
            let head = self.wanted;
            self.sign(&head)?;
            self.spare = Some(head.size);
        }
        Ok(())
    }

    /// Signs a head for witnesses.
    pub(super) fn sign_for_round(&mut self) -> Result<Kept, StoreError> {
        let head = self.wanted;
        let signed = self.shared.signed.load();
        let kept = if signed.head == head && !signed.note.is_empty() {
            Kept {
                head,
                note: signed.note.clone(),
            }
        } else {
            self.sign(&head)?
        };
        // From here on a witness may hold it, and the guard must be able to name it.
        self.spare = None;
        Ok(kept)
    }

    /// Signs a head and stores that before anybody sees it. One that was signed for clients alone need not be remembered beside
    /// a larger one: its tree is a part of that.
    fn sign(&mut self, head: &Head) -> Result<Kept, StoreError> {
        let kept = self.signer.sign(head);
        let replaces = self.spare;
        self.shared.store.keep(Stage::Signed { replaces }, &kept)?;
        self.shared.signed.store(Arc::new(Published {
            head: kept.head,
            note: kept.note.clone(),
        }));
        Ok(kept)
    }

    /// Publishes the head whose quorum is met, and again with each line that comes late.
    pub(super) fn publish_met(&mut self) -> Result<(), StoreError> {
        if let Some(round) = &self.round
            && round.is_met(&self.policy)
        {
            self.publish(round)?;
            self.unsettled.raised();
            self.last = self.round.take();
            return Ok(());
        }
        if let Some(last) = &self.last
            && self.shared.published.load().note != last.note()
        {
            self.publish(last)?;
            self.unsettled.raised();
        }
        Ok(())
    }

    fn publish(&self, round: &Round) -> Result<(), StoreError> {
        let kept = Kept {
            head: round.kept.head,
            note: round.note(),
        };
        self.shared.store.keep(Stage::Published, &kept)?;
        self.shared.published_trouble.store(None);
        self.shared.show_published(Published {
            head: kept.head,
            note: kept.note,
        });
        tracing::debug!(
            size = kept.head.size,
            cosignatures = round.lines.len(),
            "published"
        );
        Ok(())
    }

    /// Not one witness's clock but all of a quorum's say that ours is wrong: leaves stamped by it would not be believed. It ends once
    /// those whose clocks agree with ours are a quorum again.
    pub(super) fn check_clock(&self) {
        let Some(round) = self.target() else { return };
        let near = |line: &Line| line.apart_ms.unsigned_abs() <= TOLERANCE_MS;
        let all = round.lines.values();
        let disputed = if round.meets(&self.policy, near) {
            Some(0)
        } else if round.is_met_at_any_time(&self.policy) && !all.clone().any(near) {
            all.map(|l| l.apart_ms).min_by_key(|ms| ms.unsigned_abs())
        } else {
            // Some say so and some do not: it stays as it was.
            None
        };
        if let Some(apart_ms) = disputed {
            self.shared.disputed_ms.store(apart_ms, Ordering::Relaxed);
        }
    }

    /// Whether it is time to ask for the same head once more: a quorum has cosigned it, by clocks that do not agree with ours. Nobody
    /// else would ask again, and one of the two clocks may be set right.
    pub(super) fn asks_again(&self, round: &Round) -> Option<Instant> {
        let waits = !round.is_met(&self.policy) && round.is_met_at_any_time(&self.policy);
        waits.then(|| round.asked + self.clock_look())
    }

    /// How long published cosignatures are good enough.
    pub(super) fn refresh(&self) -> Duration {
        match self.shared.disputed_ms.load(Ordering::Relaxed) {
            0 => self.pace.refresh,
            _ => self.clock_look().min(self.pace.refresh),
        }
    }

    /// How soon clocks that did not agree are looked at again: some rounds, so that witnesses are not asked without a pause.
    fn clock_look(&self) -> Duration {
        5 * self.pace.round_timeout
    }

    pub(super) fn note_quorum(&mut self) {
        let late = self
            .round
            .as_ref()
            .filter(|r| r.began.elapsed() >= self.pace.round_timeout && self.last_is_older(r));
        let lost = late.map(|r| {
            self.shared
                .wall_ms()
                .saturating_sub(millis(r.began.elapsed()))
        });
        let known = self.shared.witnesses.load().quorum_lost_since;
        if lost.is_some() != known.is_some() {
            match lost {
                Some(_) => tracing::warn!(
                    "the quorum of witnesses is lost: the last witnessed checkpoint stays published"
                ),
                None => tracing::info!("the quorum of witnesses is met again"),
            }
            self.show(lost);
        }
    }

    /// Whether a round is for more than what is published: a refresh that takes long loses nothing.
    fn last_is_older(&self, round: &Round) -> bool {
        round.kept.head.size > self.shared.published.load().head.size
    }

    pub(super) fn show_status(&self) {
        self.show(self.shared.witnesses.load().quorum_lost_since);
    }

    pub(super) fn show(&self, quorum_lost_since: Option<u64>) {
        self.shared.witnesses.store(Arc::new(WitnessesStatus {
            witnesses: self.peers.statuses(),
            quorum_lost_since,
        }));
    }
}
