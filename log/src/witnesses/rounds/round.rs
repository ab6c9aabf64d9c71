//! A head on its way to a quorum.

use std::{collections::BTreeMap, time::Instant};

use countersign_verifier::{policy::Policy, vkey::VerifierKey};

use super::{super::peers::Peer, Line};
use crate::store::Kept;

/// A head that was signed for witnesses, and who has cosigned it.
pub(super) struct Round {
    pub kept: Kept,
    pub began: Instant,
    /// By place in the policy.
    pub lines: BTreeMap<usize, Line>,
}

impl Round {
    pub fn new(kept: Kept) -> Round {
        Round {
            kept,
            began: Instant::now(),
            lines: BTreeMap::new(),
        }
    }

    /// Whether a witness of the policy in force has not cosigned it.
    pub fn lacks(&self, peer: &Peer) -> bool {
        let cosigned = |(at, _): &(usize, VerifierKey)| self.lines.contains_key(at);
        peer.present && !peer.place.keys.iter().any(cosigned)
    }

    /// Whether the quorum has cosigned it.
    pub fn is_met(&self, policy: &Policy) -> bool {
        let mut cosigned = vec![false; policy.witnesses().len()];
        for at in self.lines.keys() {
            cosigned[*at] = true;
        }
        policy.quorum_met(&cosigned)
    }

    /// The log's signed note and the lines of its witnesses.
    pub fn note(&self) -> String {
        let mut note = self.kept.note.clone();
        note.extend(self.lines.values().map(|line| line.line.as_str()));
        note
    }
}
