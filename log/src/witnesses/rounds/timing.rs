//! When the rounds have something to do next, and when they are done.

use std::time::{Duration, Instant};

use super::{Guard, Round, Rounds};

/// The longest sleep of a log that has nothing to do.
const IDLE: Duration = Duration::from_secs(30);

impl<V: Send + Sync + 'static> Rounds<V> {
    /// At a clean end the last head gets one round's time; it is published at the next start otherwise.
    pub(super) fn finished(&mut self) -> bool {
        let since = *self.closing_since.get_or_insert_with(Instant::now);
        let published = self.shared.published.load().head.size;
        published >= self.wanted.size
            || !matches!(self.guard, Guard::Passed)
            || since.elapsed() >= self.pace.round_timeout
    }

    pub(super) fn until_next(&self) -> Duration {
        let now = Instant::now();
        let mut next = now + IDLE;
        let mut at_latest = |at: Option<Instant>| next = next.min(at.unwrap_or(next));
        match &self.guard {
            Guard::Asking { .. } => at_latest(self.peers.next(|peer| !peer.same)),
            Guard::Refused => {}
            Guard::Passed => {
                at_latest(
                    self.target()
                        .and_then(|round| self.peers.next(|peer| round.lacks(peer))),
                );
                if let Some(round) = &self.round {
                    let lost = round.began + self.pace.round_timeout;
                    at_latest(Some(lost).filter(|at| *at > now));
                    at_latest(self.asks_again(round));
                } else {
                    // While a round is open a refresh that is due must wait for it, and so must not wake anybody.
                    let refresh = self.last.as_ref().map(|last| last.began + self.refresh());
                    at_latest(refresh);
                    if self.wanted.size > self.shared.published.load().head.size {
                        at_latest(Some(self.next_head));
                    }
                }
            }
        }
        if !self.open {
            at_latest(Some(now + self.pace.round_timeout / 4));
        }
        next.saturating_duration_since(now)
    }

    /// The head that witnesses are asked for: the next one, or the published one by those that have not cosigned it yet.
    pub(super) fn target(&self) -> Option<&Round> {
        self.round.as_ref().or(self.last.as_ref())
    }
}
