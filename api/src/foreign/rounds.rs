//! The way through a log's bundles: the next ones are fetched while those before are worked on.

use countersign_verifier::tile::{Bundle, WIDTH};

use super::{Ahead, Foreign, ForeignError, Piece};

/// Bundles a round. Two rounds are in memory, each of at most 8 × 16 MiB of entries; of leaves of a kilobyte it is 2 MiB.
const ROUND: u64 = 8;

/// The bundles that hold the leaves `[from, end)` of a tree, in order.
pub struct Rounds<'a> {
    log: &'a Foreign,
    /// Leaves of the tree: bundles are as wide as that makes them.
    size: u64,
    /// The next bundle that is not asked for yet, and the one after the last.
    queue: (u64, u64),
    ahead: Ahead,
}

impl<'a> Rounds<'a> {
    /// Begins to fetch. `end` is at most `size`; the first bundle begins before `from` where that is none's beginning.
    #[must_use]
    pub fn new(log: &'a Foreign, size: u64, from: u64, end: u64) -> Rounds<'a> {
        let width = u64::from(WIDTH);
        let mut rounds = Rounds {
            log,
            size,
            queue: (from / width, end.div_ceil(width)),
            ahead: log.ahead([]),
        };
        if from < end {
            rounds.ahead = rounds.ask();
        }
        rounds
    }

    /// The next round, none when all are through; and why it ends early, where one cannot be had.
    pub fn arrive(&mut self) -> (Vec<Piece>, Option<ForeignError>) {
        let ahead = std::mem::replace(&mut self.ahead, self.log.ahead([]));
        let arrived = self.log.arrived(ahead);
        self.ahead = self.ask();
        arrived
    }

    fn ask(&mut self) -> Ahead {
        let (next, end) = self.queue;
        let after = end.min(next + ROUND);
        self.queue.0 = after;
        let bundle = |index: u64| Bundle {
            index,
            // OK because a bundle has at most 256 entries.
            width: u16::try_from((self.size - index * u64::from(WIDTH)).min(WIDTH.into()))
                .unwrap_or(WIDTH),
        };
        self.log.ahead((next..after).map(bundle))
    }
}
