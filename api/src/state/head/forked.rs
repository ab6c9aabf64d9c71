//! A fork that somebody else has found: two heads with the log's own signature that cannot both be its history.

use countersign_verifier::{
    fork::{Differs, Fork, NotProven},
    hash::{Hash, sha256},
};
use serde_json::{Map, Value, json};

use super::{Outcome, Tracked, verbs::untracked};
use crate::{
    code::Code,
    state::{Decided, State, verb::malformed},
};

/// Two checkpoints of a few lines and two paths of at most 63 hashes: an operation has room for it.
const EVIDENCE_BYTES_MAX: usize = 24 << 10;

/// Judges evidence by the tracked key alone, as anybody could offline. Its effect is that of the second head, a fork against the
/// first.
pub(super) fn decide(state: &State, evidence: &str) -> Result<Decided, Decided> {
    let fork = parse(evidence).map_err(malformed)?;
    let tracked = tracked(state, &fork)?;
    let proven = fork.verify(&tracked.origin, [&tracked.key]);
    let proven = proven.map_err(|error| {
        let code = match &error {
            NotProven::Note { .. } | NotProven::Checkpoint { .. } | NotProven::Origin { .. } => {
                Code::CheckpointInvalid
            }
            NotProven::NoNode { .. }
            | NotProven::Same { .. }
            | NotProven::Needless
            | NotProven::SameNode
            | NotProven::Node { .. } => Code::ProofInvalid,
        };
        Decided::refuse(code, error.to_string())
    })?;
    let [first, second] = proven.heads.map(|head| head.checkpoint);
    let mut effect = Map::new();
    let against = json!({"size": first.size, "root": first.root.to_base64()});
    for (name, value) in [
        ("against", against),
        ("outcome", Outcome::Fork.name().into()),
        ("origin", tracked.origin.as_str().into()),
        ("size", second.size.into()),
        ("root", second.root.to_base64().into()),
    ] {
        effect.insert(name.into(), value);
    }
    if let Differs::Leaves { start, end } = proven.differs {
        effect.insert("leaves".into(), json!({"start": start, "end": end}));
    }
    tracked.forgets(&mut effect);
    Ok(Decided::Applied(effect))
}

fn parse(evidence: &str) -> Result<Fork, String> {
    if evidence.len() > EVIDENCE_BYTES_MAX {
        return Err(format!("evidence: more than {EVIDENCE_BYTES_MAX} bytes"));
    }
    Fork::parse(evidence.as_bytes()).map_err(|error| format!("evidence: {error}"))
}

fn tracked<'s>(state: &'s State, fork: &Fork) -> Result<&'s Tracked, Decided> {
    let origin = fork.origin();
    state.heads.get(origin).ok_or_else(|| untracked(origin))
}

/// What such a leaf is found by.
pub(super) fn digest(evidence: &str) -> Hash {
    sha256(evidence.as_bytes())
}

impl State {
    /// The leaf that records a fork of the log that evidence is of. One fork is enough: the node that two trees differ in can be
    /// chosen in many ways, and each would make another leaf.
    #[must_use]
    pub fn fork_recorded(&self, fork: &Fork) -> Option<u64> {
        let (_, index) = self.heads.get(fork.origin())?.fork?;
        Some(index)
    }
}

/// The other leaf of a fork: the leaf itself where its evidence stands alone.
pub(super) fn pair(against: Option<&Value>, index: u64) -> u64 {
    let other = against.and_then(|other| other["index"].as_u64());
    other.unwrap_or(index)
}
