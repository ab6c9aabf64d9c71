//! Whom a verifier trusts: logs, witnesses, and which of them must agree (c2sp.org/tlog-policy).
//!
//! A checkpoint is accepted when a listed log has signed it and the quorum's witnesses have cosigned it.
//! Witnesses are counted, not lines. How old a cosignature may be is not a policy's business.

mod eras;
mod meaning;
mod parse;
mod stolen;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::checkpoint::{Checkpoint, CheckpointError};
use crate::cosign;
use crate::note::{self, Note, NoteError, Verified};
use crate::vkey::{Algorithm, KeyId, VerifierKey};

pub use eras::{Eras, ErasError};
pub use meaning::Meaning;
pub use parse::{PolicyFault, PolicySyntax};

/// A policy file's content. [`Policy::parse`] reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    logs: Vec<Log>,
    witnesses: Vec<Witness>,
    groups: Vec<Group>,
    quorum: Option<Member>,
}

/// A log whose checkpoints are accepted: those whose origin is the key's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Its key, Ed25519 or ECDSA.
    pub key: VerifierKey,
    /// Where it is served, if stated.
    pub url: Option<String>,
}

/// A witness that the policy knows; whether it must cosign is the quorum's matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    /// Its name in the policy, which need not be its key's name.
    pub name: Name,
    /// Its key, cosignature/v1 or ML-DSA-44. A witness with both has two lines here, and counts once
    /// where they are the members of a group `any`.
    pub key: VerifierKey,
    /// Where it takes requests, if stated.
    pub url: Option<String>,
}

/// The name of a witness or group: octets, compared as they are. `Display` replaces what is not UTF-8.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Vec<u8>);

impl Name {
    /// The octets in the policy file.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

/// A place among the witnesses or among the groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Witness(usize),
    Group(usize),
}

/// Met when `threshold` of its members are; members stand before it in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    name: Name,
    threshold: usize,
    members: Vec<Member>,
}

/// A checkpoint that the policy accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted<'p> {
    /// The tree head.
    pub checkpoint: Checkpoint,
    /// The log's key that signed it; the first in the policy when several did.
    pub log: &'p VerifierKey,
    /// Every cosignature that verified, in the policy's order of witnesses.
    pub cosignatures: Vec<Cosignature>,
    /// Whether the policy asks for a quorum.
    pub quorum: Quorum,
}

/// One witness's verified cosignature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cosignature {
    /// The witness's name in the policy.
    pub name: Name,
    /// The name of its key, as in the signature line.
    pub key_name: String,
    /// The ID of its key.
    pub key_id: KeyId,
    /// When it cosigned, POSIX seconds, by its own clock.
    pub time: u64,
}

/// What a policy asks of witnesses, where it accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quorum {
    /// A quorum, and it is met.
    Met,
    /// `quorum none`: nothing.
    None,
}

/// A checkpoint that a listed log has signed and too few witnesses have cosigned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmet {
    /// The tree head.
    pub checkpoint: Checkpoint,
    /// The log's key that signed it.
    pub log: VerifierKey,
    /// Every cosignature that verified, in the policy's order of witnesses.
    pub cosignatures: Vec<Cosignature>,
    /// The quorum's name.
    pub quorum: Name,
    /// Members of the quorum that are met.
    pub have: usize,
    /// Members that must be.
    pub need: usize,
}

/// Why a policy does not accept a note.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// No log of the policy is named as the origin.
    #[error("log {origin:?} is not in the policy")]
    UnknownLog {
        /// The note's first line.
        origin: String,
    },
    /// No policy holds at this size.
    #[error("no policy holds at tree size {size}")]
    NoEra {
        /// The size that the checkpoint states.
        size: u64,
    },
    /// A trusted key's line is bad; never [`NoteError::Untrusted`].
    #[error(transparent)]
    Note(#[from] NoteError),
    /// No key of the origin has signed, whoever else has.
    #[error(
        "no signature from a trusted key of log {origin:?}: the policy has {trusted}, the note is signed by {signed}"
    )]
    Unsigned {
        /// The note's first line.
        origin: String,
        /// Name and ID of each key that the policy has for it.
        trusted: String,
        /// Name and ID of the first keys that are said to have signed.
        signed: String,
    },
    /// The signed text is not an acceptable checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The log has signed, but the quorum is not met.
    #[error("signed by {}, but quorum {} has {} of {}", .0.log.name, .0.quorum, .0.have, .0.need)]
    Quorum(Box<Unmet>),
}

/// Names and IDs of the first few keys.
fn listed<'a>(keys: impl Iterator<Item = (&'a str, KeyId)>) -> String {
    let mut text = String::new();
    for (n, (name, id)) in keys.enumerate() {
        match n {
            0 => text += &format!("{name}+{id}"),
            1..4 => text += &format!(", {name}+{id}"),
            _ => {
                text += ", …";
                break;
            }
        }
    }
    text
}

impl Policy {
    /// The logs, in the file's order.
    #[must_use]
    pub fn logs(&self) -> &[Log] {
        &self.logs
    }

    /// The witnesses, in the file's order.
    #[must_use]
    pub fn witnesses(&self) -> &[Witness] {
        &self.witnesses
    }

    /// Name of the quorum; `None` for `quorum none`.
    #[must_use]
    pub fn quorum(&self) -> Option<&Name> {
        Some(match self.quorum? {
            Member::Witness(i) => &self.witnesses[i].name,
            Member::Group(i) => &self.groups[i].name,
        })
    }

    /// Whether these witnesses meet the quorum: `cosigned[i]` says that of [`witnesses`](Self::witnesses)
    /// the `i`th has; a missing one has not.
    #[must_use]
    pub fn quorum_met(&self, cosigned: &[bool]) -> bool {
        let (have, need) = self.progress(cosigned);
        have >= need
    }

    /// Whether every set that meets the quorum has one of these witnesses in it: whether those that are
    /// left cannot meet it. False for `quorum none`, which the empty set meets.
    #[must_use]
    pub fn in_every_quorum(&self, witnesses: &[bool]) -> bool {
        let others: Vec<bool> = (0..self.witnesses.len())
            .map(|i| !witnesses.get(i).copied().unwrap_or(false))
            .collect();
        !self.quorum_met(&others)
    }

    /// Members of the quorum that are met, and how many must be.
    fn progress(&self, cosigned: &[bool]) -> (usize, usize) {
        // A group's members stand before it, so that one pass in order decides all.
        let mut groups: Vec<(usize, usize)> = Vec::with_capacity(self.groups.len());
        let state = |groups: &[(usize, usize)], member: Member| match member {
            Member::Witness(i) => (usize::from(cosigned.get(i) == Some(&true)), 1),
            Member::Group(i) => groups[i],
        };
        for group in &self.groups {
            let met = group.members.iter().map(|&member| state(&groups, member));
            let have = met.filter(|(have, need)| have >= need).count();
            groups.push((have, group.threshold));
        }
        self.quorum.map_or((0, 0), |quorum| state(&groups, quorum))
    }

    /// Judges a checkpoint: the log's signature first, then the cosignatures, then the quorum.
    ///
    /// Only logs named as the origin can have signed. A bad line of a listed witness refuses the note, as
    /// one of the log does; lines of keys that the policy does not list are ignored. An ML-DSA-44 line of
    /// time 0 does not count: it says that the tree is consistent with others, not that the witness saw no
    /// larger one, nor when (c2sp.org/tlog-cosignature).
    ///
    /// # Errors
    /// [`PolicyError`]; [`PolicyError::Quorum`] tells what did verify.
    pub fn check(&self, note: &Note<'_>) -> Result<Accepted<'_>, PolicyError> {
        let origin = note.text.split('\n').next().unwrap_or_default();
        let logs = || {
            self.logs
                .iter()
                .map(|log| &log.key)
                .filter(|key| key.name == origin)
        };
        if logs().next().is_none() {
            return Err(PolicyError::UnknownLog {
                origin: origin.into(),
            });
        }
        let unsigned = || PolicyError::Unsigned {
            origin: origin.into(),
            trusted: listed(logs().map(|key| (&*key.name, key.id))),
            signed: listed(note.signatures.iter().map(|line| (line.name, line.id))),
        };
        let verified = match note::open(note, logs().chain(self.witnesses.iter().map(|w| &w.key))) {
            Err(NoteError::Untrusted) => return Err(unsigned()),
            other => other?,
        };
        let signed = |key: &VerifierKey| verified.iter().find(|line| core::ptr::eq(line.key, key));
        let log = logs()
            .find(|key| signed(key).is_some())
            .ok_or_else(unsigned)?;
        let checkpoint = Checkpoint::parse(note.text)?;
        checkpoint.check_size()?;
        let lines: Vec<_> = self
            .witnesses
            .iter()
            .map(|witness| signed(&witness.key).filter(|line| counts(line)))
            .collect();
        let pairs = self.witnesses.iter().zip(&lines);
        let cosignatures = pairs
            .filter_map(|(w, line)| cosignature(w, (*line)?))
            .collect();
        let cosigned: Vec<bool> = lines.iter().map(Option::is_some).collect();
        let (have, need) = self.progress(&cosigned);
        match self.quorum() {
            Some(quorum) if have < need => {
                let (log, quorum) = (log.clone(), quorum.clone());
                let unmet = Unmet {
                    checkpoint,
                    log,
                    cosignatures,
                    quorum,
                    have,
                    need,
                };
                Err(PolicyError::Quorum(Box::new(unmet)))
            }
            Some(_) => Ok(Accepted {
                checkpoint,
                log,
                cosignatures,
                quorum: Quorum::Met,
            }),
            None => Ok(Accepted {
                checkpoint,
                log,
                cosignatures,
                quorum: Quorum::None,
            }),
        }
    }
}

/// Whether a witness's line states a time: cosignature/v1 always does.
fn counts(line: &Verified<'_, '_>) -> bool {
    !matches!(line.key.algorithm, Algorithm::MlDsa44(_))
        || cosign::time(&line.signature.signature) != Some(0)
}

fn cosignature(witness: &Witness, line: &Verified<'_, '_>) -> Option<Cosignature> {
    let time = cosign::time(&line.signature.signature)?; // verified, so it has one
    let (name, key_name) = (witness.name.clone(), witness.key.name.clone());
    Some(Cosignature {
        name,
        key_name,
        key_id: witness.key.id,
        time,
    })
}
