//! Log time for the next leaves, and what a dispute about it means.

use std::sync::atomic::Ordering;

use super::Writer;
use crate::{
    clock::{ClockFault, LogClock, Reading},
    judge::Judge,
};

/// What becomes of writing while the clocks of a quorum of witnesses dispute ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dispute {
    /// It would stop.
    Stops,
    /// It has stopped.
    Stopped,
    /// It would go on: the operator has said so.
    Accepts,
    /// It goes on, and a leaf says so.
    Accepted,
}

impl<J: Judge> Writer<J> {
    /// Log time now, in milliseconds since 1970.
    pub(super) fn now(&mut self) -> Result<u64, ClockFault> {
        let reading = self.clocks.read();
        let apart_ms = self.shared.disputed_ms.load(Ordering::Relaxed);
        if apart_ms != 0 {
            match self.dispute {
                Dispute::Stops | Dispute::Stopped => {
                    self.dispute = Dispute::Stopped;
                    return Err(ClockFault::Disputed { apart_ms });
                }
                Dispute::Accepts => {
                    self.accept(reading);
                    self.dispute = Dispute::Accepted;
                }
                Dispute::Accepted => {}
            }
        } else if self.dispute == Dispute::Stopped
            && let Ok((_, last_at)) = self.shared.store.head()
        {
            // A quorum agrees with the wall clock, set right meanwhile or not: log time goes on from the last leaf, as at a start.
            self.clock = LogClock::start(last_at, reading).0;
            self.dispute = Dispute::Stops;
        }
        self.clock.now(reading)
    }

    /// Takes the wall clock as it is; the next leaf says so.
    pub(super) fn accept(&mut self, reading: Reading) {
        let (from, to) = self.clock.accept(reading);
        let from = self.adjusted.map_or(from, |(first, _)| first);
        self.adjusted = Some((from, to));
    }
}
