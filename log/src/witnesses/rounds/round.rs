//! A head on its way to a quorum.

use std::{collections::BTreeMap, time::Instant};

use countersign_verifier::{policy::Policy, vkey::VerifierKey};

use super::{super::peers::Peer, Line};
use crate::store::Kept;

/// A head that was signed for witnesses, and who has cosigned it.
pub(super) struct Round {
    pub kept: Kept,
    pub began: Instant,
    /// When it was last begun to be asked for.
    pub asked: Instant,
    /// By place in the policy.
    pub lines: BTreeMap<usize, Line>,
    /// A witness says that it holds a later head of this log.
    pub passed: bool,
}

impl Round {
    pub fn new(kept: Kept) -> Round {
        let now = Instant::now();
        Round {
            kept,
            began: now,
            asked: now,
            lines: BTreeMap::new(),
            passed: false,
        }
    }

    /// Forgets who has cosigned it, so that all are asked again.
    pub fn ask_again(&mut self) {
        self.lines.clear();
        self.asked = Instant::now();
    }

    /// Whether a witness of the policy in force has not cosigned it.
    pub fn lacks(&self, peer: &Peer) -> bool {
        let cosigned = |(at, _): &(usize, VerifierKey)| self.lines.contains_key(at);
        peer.present && !peer.place.keys.iter().any(cosigned)
    }

    /// Whether the quorum has cosigned it, by cosignatures that verifiers count.
    pub fn is_met(&self, policy: &Policy) -> bool {
        self.meets(policy, |line| !line.ahead)
    }

    /// Whether the quorum has cosigned it, whatever the time.
    pub fn is_met_at_any_time(&self, policy: &Policy) -> bool {
        self.meets(policy, |_| true)
    }

    /// Whether the cosignatures that count meet the quorum.
    pub fn meets(&self, policy: &Policy, counts: impl Fn(&Line) -> bool) -> bool {
        let mut cosigned = vec![false; policy.witnesses().len()];
        for (at, _) in self.lines.iter().filter(|(_, line)| counts(line)) {
            cosigned[*at] = true;
        }
        policy.quorum_met(&cosigned)
    }

    /// The log's signed note and the lines of its witnesses.
    pub fn note(&self) -> String {
        let mut note = self.kept.note.clone();
        let counted = self.lines.values().filter(|line| !line.ahead);
        note.extend(counted.map(|line| line.line.as_str()));
        note
    }
}
