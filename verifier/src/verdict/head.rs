//! Judging a checkpoint once, for all files under it.

use alloc::borrow::ToOwned as _;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Cosigner, Found, Status, found};
use crate::checkpoint::Checkpoint;
use crate::evidence::{Chain, ChainError, Support};
use crate::json::JsonError;
use crate::leaf::Millis;
use crate::limits;
use crate::note::Note;
use crate::policy::{Cosignature, Eras, Policy, PolicyError, Quorum};

pub(super) type Shown = Result<Chain, ChainError>;

/// A checkpoint and what the policy says of it.
pub(super) struct Head {
    /// Only when a log of the policy signed it.
    pub(super) checkpoint: Option<Checkpoint>,
    pub(super) signed: Found,
    witnessed: Found,
    pub(super) cosigners: Vec<Cosigner>,
    /// When the first of the witnesses that make up the quorum cosigned, POSIX seconds.
    earliest_s: Option<u64>,
    chains: BTreeMap<String, Arc<Shown>>,
}

impl Head {
    pub(super) fn judge(note: &str, eras: &Eras, now_s: Option<u64>) -> Self {
        match Self::try_judge(note, eras, now_s) {
            Ok(head) => head,
            Err(error) => {
                // Nothing is known about a log that the policy does not name, nor against it.
                let status = match error {
                    PolicyError::UnknownLog { .. } | PolicyError::NoEra { .. } => Status::Unknown,
                    _ => Status::Fail,
                };
                Self {
                    checkpoint: None,
                    signed: found(status, error.to_string()),
                    witnessed: found(Status::Skipped, "the checkpoint is not accepted"),
                    cosigners: Vec::new(),
                    earliest_s: None,
                    chains: BTreeMap::new(),
                }
            }
        }
    }

    fn try_judge(note: &str, eras: &Eras, now_s: Option<u64>) -> Result<Self, PolicyError> {
        let note = Note::parse(note.as_bytes())?;
        let size = Checkpoint::parse(note.text)?.size;
        let policy = eras.for_size(size).ok_or(PolicyError::NoEra { size })?;
        let (checkpoint, log, cosignatures, asked) = match policy.check(&note) {
            Ok(accepted) => {
                let asked = accepted.quorum == Quorum::Met;
                (
                    accepted.checkpoint,
                    accepted.log.clone(),
                    accepted.cosignatures,
                    asked,
                )
            }
            Err(PolicyError::Quorum(unmet)) => {
                (unmet.checkpoint, unmet.log, unmet.cosignatures, true)
            }
            Err(error) => return Err(error),
        };
        let root = checkpoint.root.to_base64();
        let signed = format!(
            "tree of {size} leaves with root {root}, signed by {}+{}",
            log.name, log.id
        );
        let limit = now_s.map(|now| now.saturating_add(limits::FUTURE_S_MAX));
        let (counted, ahead): (Vec<_>, Vec<_>) = cosignatures
            .into_iter()
            .partition(|c| limit.is_none_or(|limit| c.time <= limit));
        let times = quorum_times(policy, &counted);
        let witnessed = witnessed(policy, &counted, &ahead, asked, times.map(|(_, last)| last));
        let earliest_s = times.map(|(first, _)| first);
        let cosigners = counted.into_iter().map(cosigner).collect();
        let signed = found(Status::Pass, signed);
        Ok(Self {
            checkpoint: Some(checkpoint),
            signed,
            witnessed,
            cosigners,
            earliest_s,
            chains: BTreeMap::new(),
        })
    }

    /// The witnesses' check for a leaf that claims the time `at`.
    pub(super) fn witnesses(&self, at: Option<Millis>) -> Found {
        let (status, mut detail) = self.witnessed.clone();
        let (Status::Pass, Some(earliest_s), Some(at)) = (status, self.earliest_s, at) else {
            return (status, detail);
        };
        let earliest_ms = earliest_s.saturating_mul(1000);
        let allowed_ms = earliest_ms.saturating_add(limits::AT_AHEAD_S_MAX * 1000);
        let (apart_ms, side) = match at.0.checked_sub(earliest_ms) {
            Some(after) => (after, "after"),
            None => (earliest_ms - at.0, "before"),
        };
        detail.push_str("; the leaf claims ");
        detail.push_str(&at.to_string());
        detail.push_str(&format!(
            ", {}.{:03} s {side} the earliest of them",
            apart_ms / 1000,
            apart_ms % 1000
        ));
        if at.0 > allowed_ms {
            detail.push_str(": a later time than its witnesses can have seen it at");
            return (Status::Fail, detail);
        }
        (status, detail)
    }

    /// What these support leaves show, worked out once a text.
    pub(super) fn chain(
        &mut self,
        text: &str,
        support: impl FnOnce() -> Result<Vec<Support>, JsonError>,
    ) -> Result<Arc<Shown>, JsonError> {
        if let Some(shown) = self.chains.get(text) {
            return Ok(shown.clone());
        }
        let support = support()?;
        let shown = Arc::new(match &self.checkpoint {
            Some(checkpoint) => Chain::build(&support, checkpoint),
            None => Ok(Chain::default()),
        });
        if self.chains.len() >= limits::CACHED_CHAINS_MAX {
            self.chains.clear();
        }
        self.chains.insert(text.to_owned(), shown.clone());
        Ok(shown)
    }
}

/// When the first and the last witness of a smallest quorum cosigned: later cosignatures are left out as long as
/// the quorum is met without them, so that a witness that no quorum needs has no say.
fn quorum_times(policy: &Policy, counted: &[Cosignature]) -> Option<(u64, u64)> {
    policy.quorum()?;
    let met = |kept: &[&Cosignature]| policy.quorum_met(&marks(policy, kept));
    let mut kept: Vec<&Cosignature> = counted.iter().collect();
    if !met(&kept) {
        return None;
    }
    kept.sort_by_key(|c| core::cmp::Reverse(c.time));
    let mut at = 0;
    while at < kept.len() {
        let one = kept.remove(at);
        if !met(&kept) {
            kept.insert(at, one);
            at += 1;
        }
    }
    let times = || kept.iter().map(|c| c.time);
    times().min().zip(times().max())
}

fn marks(policy: &Policy, cosignatures: &[&Cosignature]) -> Vec<bool> {
    policy
        .witnesses()
        .iter()
        .map(|w| cosignatures.iter().any(|c| c.name == w.name))
        .collect()
}

fn witnessed(
    policy: &Policy,
    counted: &[Cosignature],
    ahead: &[Cosignature],
    asked: bool,
    met_s: Option<u64>,
) -> Found {
    let dated = |c: &Cosignature| format!("{} at {}", c.name, Millis(c.time.saturating_mul(1000)));
    let list = |of: &[Cosignature]| of.iter().map(dated).collect::<Vec<_>>().join(", ");
    let mut detail = match policy.quorum().filter(|_| asked) {
        None => {
            return found(
                Status::Skipped,
                "the policy asks for no witness (quorum none)",
            );
        }
        Some(quorum) if let Some(met_s) = met_s => format!(
            "quorum {quorum} met by {}; so this tree and all in it existed by {}",
            list(counted),
            Millis(met_s.saturating_mul(1000))
        ),
        Some(quorum) if counted.is_empty() => {
            format!("signed by the log, but by no witness of quorum {quorum}")
        }
        Some(quorum) => format!(
            "signed by the log, but {} of the policy's {} witnesses do not meet quorum {quorum}: {}",
            counted.len(),
            policy.witnesses().len(),
            list(counted)
        ),
    };
    if !ahead.is_empty() {
        detail += &format!(
            "; not counted, as dated ahead of this clock: {}",
            list(ahead)
        );
    }
    (
        if met_s.is_some() {
            Status::Pass
        } else {
            Status::Fail
        },
        detail,
    )
}

fn cosigner(cosignature: Cosignature) -> Cosigner {
    let Cosignature {
        name,
        key_name,
        time,
        ..
    } = cosignature;
    Cosigner {
        name: name.to_string(),
        key: key_name,
        time,
    }
}
