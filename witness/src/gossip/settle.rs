//! Heads of two sizes, settled: by the log's consistency proof, or by the nodes that the smaller tree is made of.
//!
//! Two trees agree in their first `n` leaves exactly when they agree in the complete nodes that a tree of `n` is made of, at most
//! 62. Each is asked for under either head, with its path: where all agree the heads are consistent, where one differs that is
//! evidence, and where one cannot be had nothing is known.

use countersign_verifier::fork::Fork;
use countersign_verifier::hash::Hash;
use countersign_verifier::tree::{complete_nodes, verify_consistency};

use super::compare::{Compared, Seen, Shown, compare, differ};

/// Who can be asked about a log. Answers are hashes that nobody has checked; `None` is no answer.
pub trait View: Sync {
    /// How many can be asked for nodes, from 0, best first.
    fn sources(&self) -> usize;

    /// The log's consistency proof.
    fn consistency(&self, from: u64, to: u64) -> impl Future<Output = Option<Vec<Hash>>> + Send;

    /// A node of the tree of `size` leaves, and its path, as this source has it.
    fn node(
        &self,
        source: usize,
        size: u64,
        level: u8,
        index: u64,
    ) -> impl Future<Output = Option<Vec<Hash>>> + Send;
}

/// What became of two heads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// One head.
    Same,
    /// The larger tree extends the smaller one.
    Consistent,
    /// Evidence.
    Fork(Box<Fork>),
    /// Nothing is known: what would settle it was not given.
    Unresolved,
}

/// Settles two signed heads of one log, asking no more than is needed: one proof, and at most 4 * 62 * sources nodes.
pub async fn settle(ours: &Seen, theirs: &Seen, view: &impl View) -> Settled {
    let heads = match compare(ours, theirs) {
        Compared::Same => return Settled::Same,
        Compared::Consistent => return Settled::Consistent,
        Compared::Fork(fork) => return Settled::Fork(Box::new(fork)),
        Compared::NeedProof(heads) => heads,
    };
    let [old, new] = heads.each_ref().map(|seen| seen.head);
    if let Some(proof) = view.consistency(old.size, new.size).await
        && verify_consistency(old.size, &old.root, new.size, &new.root, &proof).is_ok()
    {
        return Settled::Consistent;
    }
    let mut all = true;
    for place in complete_nodes(old.size) {
        let smaller = shown(view, &heads[0], place).await;
        // Without one the other would settle nothing.
        let larger = match &smaller {
            Some(_) => shown(view, &heads[1], place).await,
            None => None,
        };
        match (smaller, larger) {
            (Some(one), Some(other)) => {
                if let Some(fork) = differ(&heads, place, [one, other]) {
                    return Settled::Fork(Box::new(fork));
                }
            }
            _ => all = false,
        }
    }
    if all {
        Settled::Consistent
    } else {
        Settled::Unresolved
    }
}

/// The node of a head from the first source that can show it.
async fn shown(view: &impl View, seen: &Seen, (level, index): (u8, u64)) -> Option<Shown> {
    for source in 0..view.sources() {
        let answer = view.node(source, seen.head.size, level, index).await;
        let shown = answer.and_then(|hashes| Shown::check(&hashes, (level, index), &seen.head));
        if shown.is_some() {
            return shown;
        }
    }
    None
}
