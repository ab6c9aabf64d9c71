//! What a witness says to a request, in the order of c2sp.org/tlog-witness: 400, 404, 403, 400, 409, 422. Pure: no clock, no store.
//!
//! [`admit`] asks what can be asked without the log's state, [`judge`] compares with it; [`decide`] is both. Numbers are bounded
//! (2^62) before any arithmetic on trees.

use countersign_verifier::add_checkpoint::{AddCheckpoint, AddCheckpointError};
use countersign_verifier::base64::Base64Error;
use countersign_verifier::checkpoint::{Checkpoint, CheckpointError, MAX_SIZE};
use countersign_verifier::cosign::subtree::SubtreeCosignError;
use countersign_verifier::hash::{EMPTY_ROOT, Hash};
use countersign_verifier::note::{self, LineError, NoteError};
use countersign_verifier::sign_subtree::{SignSubtreeError, SubtreeRefused};
use countersign_verifier::tree::{self, ProofError};

use crate::roster::LogEntry;
use crate::store::StoreError;

/// Longest text of a checkpoint, in bytes. With 8 lines of a log and two of ours, none above 4,096 bytes, the note that is kept
/// has at most 65,536 + 10 * 4,096 = 106,496 bytes, below the 131,072 that a note may have.
pub const TEXT_BYTES_MAX: usize = 64 * 1024;

/// Size and root of the newest head that was cosigned for a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Number of leaves.
    pub size: u64,
    /// Root of the tree of `size` leaves.
    pub root: Hash,
}

/// A request whose log is known and whose signature holds: what is left is to compare it with what was cosigned before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// The signed checkpoint; printed again it is the very text that was signed.
    pub checkpoint: Checkpoint,
    /// Size that the proof starts from, at most the checkpoint's.
    pub old: u64,
    /// Consistency proof, 0..=63 hashes.
    pub proof: Vec<Hash>,
    /// The signature lines that verified under the log's keys, each ending in LF. No other line is ever kept.
    pub log_lines: String,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A first or a larger head, proved: store it, cosign it.
    Advance,
    /// The stored head once more: cosign it with a fresh time.
    Same,
    /// `old` is not the stored size, which is this; 0 if nothing was ever cosigned.
    Conflict(u64),
    /// No.
    Refuse(Refusal),
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The request cannot be read.
    #[error("{0}")]
    Malformed(#[from] AddCheckpointError),
    /// No log of this origin is configured.
    #[error("no log of this origin is known here")]
    UnknownLog,
    /// There is evidence that the log showed two histories.
    #[error(
        "this log is quarantined here, for ever: it signed two histories. The evidence is below gossip/forks/{log}"
    )]
    Forked {
        /// SHA-256 of the origin.
        log: Hash,
    },
    /// A signature line that is base64 of nothing but for a lenient reader.
    #[error("{0}")]
    Misspelled(AddCheckpointError),
    /// No signature by a key of this origin, or a line of one that does not verify.
    #[error("{0}")]
    Signature(NoteError),
    /// What was signed is no checkpoint.
    #[error("{0}")]
    Checkpoint(#[from] CheckpointError),
    /// What was read, printed again, is other than what was signed.
    #[error("the checkpoint is not in its canonical form")]
    Form,
    /// The text is longer than what can be kept with all its signatures.
    #[error("a checkpoint of {bytes} bytes is beyond the largest kept here, {TEXT_BYTES_MAX}")]
    TextTooLong {
        /// Bytes of the signed text.
        bytes: usize,
    },
    /// Extension lines, where the log's signature or one of the witness's is of ML-DSA-44 and does not cover them.
    #[error("extension lines are not taken here: ML-DSA-44 signatures do not cover them")]
    Extensions,
    /// `old` is beyond the checkpoint.
    #[error("old size {old} is beyond the checkpoint's size {size}")]
    OldBeyond {
        /// Size that the proof would start from.
        old: u64,
        /// Size of the checkpoint.
        size: u64,
    },
    /// Size 0 with another root than that of the empty tree.
    #[error("a tree of size 0 has the root of the empty tree")]
    EmptyRoot,
    /// Hashes where there is nothing to prove: `old` is 0, or equals the size.
    #[error("the proof must be empty: from size {old} to {size} there is nothing to prove")]
    NothingToProve {
        /// Size that the proof would start from.
        old: u64,
        /// Size of the checkpoint.
        size: u64,
    },
    /// The stored size with another root.
    #[error("another root was cosigned for size {size}")]
    OtherRoot {
        /// The size.
        size: u64,
    },
    /// The proof does not lead from the stored head to the checkpoint.
    #[error("{0}")]
    Proof(#[from] ProofError),
}

impl Refusal {
    /// The status of HTTP that says it (c2sp.org/tlog-witness; 400 for what cannot be read is convention).
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Refusal::Malformed(AddCheckpointError::TooLarge { .. }) => 413,
            Refusal::Malformed(_)
            | Refusal::Checkpoint(_)
            | Refusal::Form
            | Refusal::TextTooLong { .. }
            | Refusal::Extensions
            | Refusal::OldBeyond { .. } => 400,
            Refusal::UnknownLog => 404,
            Refusal::Forked { .. } | Refusal::Misspelled(_) | Refusal::Signature(_) => 403,
            Refusal::EmptyRoot
            | Refusal::NothingToProve { .. }
            | Refusal::OtherRoot { .. }
            | Refusal::Proof(_) => 422,
        }
    }
}

/// Why no subtree is signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubtreeRefusal {
    /// The request cannot be read.
    #[error("{0}")]
    Malformed(#[from] SignSubtreeError),
    /// No log of this origin is configured.
    #[error("no log of this origin is known here")]
    UnknownLog,
    /// There is evidence that the log showed two histories.
    #[error(
        "this log is quarantined here, for ever: it signed two histories. The evidence is below gossip/forks/{log}"
    )]
    Forked {
        /// SHA-256 of the origin.
        log: Hash,
    },
    /// The reference checkpoint or the proof does not show what is asked for.
    #[error("{0}")]
    Refused(#[from] SubtreeRefused),
    /// The line cannot be made.
    #[error("{0}")]
    Unsignable(#[from] SubtreeCosignError),
    /// The roster cannot be read.
    #[error("the roster cannot be read: {0}")]
    Store(#[from] StoreError),
}

impl SubtreeRefusal {
    /// The status of HTTP that says it (c2sp.org/tlog-witness).
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            SubtreeRefusal::Malformed(SignSubtreeError::TooLarge { .. }) => 413,
            SubtreeRefusal::Malformed(_)
            | SubtreeRefusal::Unsignable(_)
            | SubtreeRefusal::Refused(
                SubtreeRefused::Checkpoint(_) | SubtreeRefused::NotInTree { .. },
            ) => 400,
            SubtreeRefusal::UnknownLog => 404,
            SubtreeRefusal::Forked { .. } | SubtreeRefusal::Refused(SubtreeRefused::Unsigned) => {
                403
            }
            SubtreeRefusal::Refused(SubtreeRefused::Proof(_)) => 422,
            SubtreeRefusal::Store(_) => 500,
        }
    }
}

/// The first line of a note's text: it chooses the keys to try, and nothing else before a signature holds.
#[must_use]
pub fn origin<'n>(request: &AddCheckpoint<'n>) -> &'n str {
    first_line(request.note.text)
}

/// The origin of a request that cannot be read for one reason: bits behind the last byte of a signature line. Lenient readers
/// decode such a line to a signature that does not verify, and the specification's order asks for the origin before that: it is
/// answered with 404 or 403, as they do, and not with 400.
#[must_use]
pub fn misspelled<'b>(body: &'b [u8], why: &AddCheckpointError) -> Option<&'b str> {
    let AddCheckpointError::Note {
        what:
            NoteError::Line {
                what: LineError::Base64(Base64Error::TrailingBits { .. }),
                ..
            },
        ..
    } = why
    else {
        return None;
    };
    // OK because everything before the line was read: it is UTF-8, and has an empty line.
    let (_, note) = std::str::from_utf8(body).ok()?.split_once("\n\n")?;
    Some(first_line(note))
}

/// The first line of a text, without LF.
pub(crate) fn first_line(text: &str) -> &str {
    text.split('\n').next().unwrap_or_default()
}

/// Everything that is asked before the stored head. `log` is the entry of [`origin`]; `extensions` says whether further lines are
/// taken.
///
/// # Errors
/// [`Refusal`], those of status 400, 403 and 404.
pub fn admit(
    request: AddCheckpoint<'_>,
    log: Option<&LogEntry>,
    extensions: bool,
) -> Result<Admitted, Refusal> {
    let log = log.ok_or(Refusal::UnknownLog)?;
    let lines = note::open(&request.note, &log.keys).map_err(Refusal::Signature)?;
    let log_lines = lines.iter().map(|l| l.signature.to_string()).collect();
    let bytes = request.note.text.len();
    if bytes > TEXT_BYTES_MAX {
        return Err(Refusal::TextTooLong { bytes });
    }
    let checkpoint = Checkpoint::parse(request.note.text)?;
    if checkpoint.to_text() != request.note.text || checkpoint.origin != log.origin {
        return Err(Refusal::Form);
    }
    if checkpoint.size > MAX_SIZE {
        let size = checkpoint.size;
        return Err(CheckpointError::TooLarge { size }.into());
    }
    let covered = extensions && lines.iter().any(|line| line.key.covers_text());
    if !covered && !checkpoint.extensions.is_empty() {
        return Err(Refusal::Extensions);
    }
    let (old, size) = (request.old, checkpoint.size);
    if old > size {
        return Err(Refusal::OldBeyond { old, size });
    }
    Ok(Admitted {
        checkpoint,
        old,
        proof: request.proof,
        log_lines,
    })
}

/// Compares with the stored head, `None` if nothing was ever cosigned. The proof starts at the *stored* root.
#[must_use]
pub fn judge(known: Option<&Head>, asked: &Admitted) -> Verdict {
    let stored = known.map_or(0, |head| head.size);
    let Checkpoint { size, root, .. } = asked.checkpoint;
    let old = asked.old;
    if old != stored {
        return Verdict::Conflict(stored);
    }
    if size == 0 && root != EMPTY_ROOT {
        return Verdict::Refuse(Refusal::EmptyRoot);
    }
    if (old == 0 || old == size) && !asked.proof.is_empty() {
        return Verdict::Refuse(Refusal::NothingToProve { old, size });
    }
    match known {
        None => Verdict::Advance,
        Some(head) if head.size == size && head.root == root => Verdict::Same,
        Some(head) if head.size == size => Verdict::Refuse(Refusal::OtherRoot { size }),
        // Everything is consistent with the empty tree, which is no proof; the specification asks for none.
        Some(head) if head.size == 0 => Verdict::Advance,
        Some(head) => {
            match tree::verify_consistency(head.size, &head.root, size, &root, &asked.proof) {
                Ok(()) => Verdict::Advance,
                Err(why) => Verdict::Refuse(why.into()),
            }
        }
    }
}

/// The whole decision: [`admit`], then [`judge`].
#[must_use]
pub fn decide(
    known: Option<&Head>,
    request: AddCheckpoint<'_>,
    log: Option<&LogEntry>,
    extensions: bool,
) -> Verdict {
    match admit(request, log, extensions) {
        Ok(asked) => judge(known, &asked),
        Err(why) => Verdict::Refuse(why),
    }
}
