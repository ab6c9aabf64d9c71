//! Judging a checkpoint alone.

use alloc::vec::Vec;

use super::head::Head;
use super::{Check, Cosigner, Name};
use crate::checkpoint::Checkpoint;
use crate::leaf::Millis;
use crate::policy::Eras;

/// What the policies say of one checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgedCheckpoint {
    /// The tree head, when a log of the policy signed it.
    pub checkpoint: Option<Checkpoint>,
    /// [`Name::Checkpoint`] and [`Name::Witnesses`], in this order.
    pub checks: [Check; 2],
    /// The witnesses that counted.
    pub cosigners: Vec<Cosigner>,
}

/// Judges a checkpoint's note by the policy of its size: who signed, and whether the quorum cosigned.
/// Cosignatures dated more than [`crate::limits::FUTURE_S_MAX`] after `now_s` (POSIX seconds) do not count. `at` is the
/// time that the newest leaf claims, where leaves claim one: it cannot be long after the witnesses saw it.
#[must_use]
pub fn judge_checkpoint(
    note: &str,
    eras: &Eras,
    now_s: Option<u64>,
    at: Option<Millis>,
) -> JudgedCheckpoint {
    let head = Head::judge(note, eras, now_s);
    let witnesses = head.witnesses(at);
    let check = |name, (status, detail)| Check {
        name,
        status,
        detail,
    };
    JudgedCheckpoint {
        checks: [
            check(Name::Checkpoint, head.signed),
            check(Name::Witnesses, witnesses),
        ],
        checkpoint: head.checkpoint,
        cosigners: head.cosigners,
    }
}
