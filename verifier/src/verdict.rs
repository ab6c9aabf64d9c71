//! The whole chain, offline: from a file to an answer, each step said in plain words.
//!
//! A [`Verifier`] holds what the reader trusts: policies, and keys if the reader has pinned some. It asks
//! nobody. What a single file cannot show (that nothing was revoked later, that the decision follows the
//! rules) is said to be the operator's word until an audit of the whole log.

mod body;
mod checkpoint;
mod head;
mod leaf;
mod render;
mod signers;
mod verifier;

use alloc::string::String;
use alloc::vec::Vec;

use crate::hash::Hash;
use crate::key::PublicKey;
use crate::leaf::{By, Millis};

pub use self::body::{Body, Erasure};
pub use self::checkpoint::{JudgedCheckpoint, judge_checkpoint};
pub use self::verifier::Verifier;

/// How one check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It was checked and holds.
    Pass,
    /// It was checked and does not hold.
    Fail,
    /// What it takes to check it is not at hand.
    Unknown,
    /// There is nothing to check, or nobody asked.
    Skipped,
}

/// What is checked, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// The leaf is one, in its one spelling.
    Leaf,
    /// Each signature verifies over the payload and its type.
    Envelope,
    /// Whose keys those are.
    Signers,
    /// The payload is what the reader holds, or speaks of it.
    Payload,
    /// The leaf is in the tree of the checkpoint.
    Inclusion,
    /// A log of the policy signed the checkpoint.
    Checkpoint,
    /// The policy's witnesses cosigned it, and not before the time that the leaf claims.
    Witnesses,
}

/// All names, in order.
pub const NAMES: [Name; 7] = [
    Name::Leaf,
    Name::Envelope,
    Name::Signers,
    Name::Payload,
    Name::Inclusion,
    Name::Checkpoint,
    Name::Witnesses,
];

/// One check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What was checked.
    pub name: Name,
    /// How it came out.
    pub status: Status,
    /// Why, in plain words.
    pub detail: String,
}

/// The answer: `Fail` anywhere does not hold; else `Unknown` anywhere cannot be told; else it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything that was asked holds.
    Holds,
    /// Something does not.
    DoesNotHold,
    /// Something could not be checked, and nothing failed.
    CannotTell,
}

/// What was judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Index of the leaf.
    pub index: u64,
    /// Its leaf hash.
    pub leaf_hash: Hash,
    /// `operation`, `receipt`, `system`, or `other` for bytes of another application.
    pub kind: &'static str,
    /// The time it claims.
    pub at: Option<Millis>,
    /// Type of the signed payload.
    pub payload_type: Option<String>,
    /// Length of the signed payload, in bytes.
    pub payload_bytes: Option<usize>,
    /// SHA-256 of the signed payload.
    pub payload_sha256: Option<Hash>,
}

/// A witness whose cosignature verified and counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cosigner {
    /// Its name in the policy.
    pub name: String,
    /// The name of its key.
    pub key: String,
    /// When it cosigned, POSIX seconds by its own clock.
    pub time: u64,
}

/// The answer about one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The conjunction of the checks.
    pub outcome: Outcome,
    /// One of each name, in order.
    pub checks: Vec<Check>,
    /// Origin of the log, when the checkpoint is signed.
    pub origin: Option<String>,
    /// Size of the tree, when the checkpoint is signed.
    pub size: Option<u64>,
    /// What was judged: one leaf, or those of a set.
    pub subjects: Vec<Subject>,
    /// Who asked for it, where all leaves name the same one.
    pub by: Option<By>,
    /// The witnesses that counted.
    pub cosigners: Vec<Cosigner>,
}

/// What the reader holds beside the file.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The only keys that count as known signers; `None` leaves that to the log's own enrolments.
    pub keys: Option<Vec<PublicKey>>,
    /// Bytes that the signed payload must equal.
    pub payload: Option<Vec<u8>>,
    /// SHA-256 that must be a subject of the signed statement.
    pub artifact: Option<Hash>,
    /// A body beside the log that the signed payload must refer to.
    pub body: Option<Body>,
    /// Bodies that were erased: of a leaf that refers to one it cannot be told what the body was.
    pub erased: Vec<Erasure>,
    /// The reader's clock, POSIX seconds: cosignatures dated more than
    /// [`crate::limits::FUTURE_S_MAX`] after it do not count. `None` lets all count.
    pub now_s: Option<u64>,
}

impl Options {
    /// Whether the reader holds something that one payload must be, or speak of.
    const fn compares(&self) -> bool {
        self.payload.is_some() || self.artifact.is_some() || self.body.is_some()
    }
}

impl Name {
    /// As JSON and people's output write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Leaf => "leaf",
            Self::Envelope => "envelope",
            Self::Signers => "signers",
            Self::Payload => "payload",
            Self::Inclusion => "inclusion",
            Self::Checkpoint => "checkpoint",
            Self::Witnesses => "witnesses",
        }
    }
}

impl Status {
    /// As JSON and people's output write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Unknown => "unknown",
            Self::Skipped => "skipped",
        }
    }

    /// How much it weighs where several come together.
    const fn weight(self) -> u8 {
        match self {
            Self::Skipped => 0,
            Self::Pass => 1,
            Self::Unknown => 2,
            Self::Fail => 3,
        }
    }
}

impl Outcome {
    /// As JSON and people's output write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::DoesNotHold => "does_not_hold",
            Self::CannotTell => "cannot_tell",
        }
    }

    fn of(checks: &[Check]) -> Self {
        match checks.iter().map(|check| check.status.weight()).max() {
            Some(3) => Self::DoesNotHold,
            Some(2) => Self::CannotTell,
            _ => Self::Holds,
        }
    }
}

/// A status and its reason, before it has a name.
type Found = (Status, String);

fn found(status: Status, detail: impl Into<String>) -> Found {
    (status, detail.into())
}
