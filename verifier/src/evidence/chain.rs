//! Which key each identity had at which leaf, shown by the leaves that enrolled it.
//!
//! Every link is a leaf under the same checkpoint: leaf 0 names the owner and the service; each
//! `identity_enroll` is signed by the owner, each `identity_rotate` and `identity_revoke` by the identity
//! itself or the owner, with a key that has proved itself. That no link is missing (a later rotation, a
//! revocation) a single file cannot show: it is the operator's word until an audit of the whole log.

mod follow;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::Support;
use crate::checkpoint::Checkpoint;
use crate::json::{Fault, JsonError};
use crate::key::{IdentityId, KeyError, PublicKey};
use crate::leaf::{Class, LeafError, Millis};
use crate::predecessor::{Predecessor, PredecessorError};
use crate::tree::ProofError;

/// Why support leaves show nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("support leaf {index}: {what}")]
pub struct ChainError {
    /// Index of the leaf at fault.
    pub index: u64,
    /// What is wrong with it.
    pub what: ChainFault,
}

/// What is wrong with a support leaf.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainFault {
    /// It stands twice with different content.
    #[error("two leaves at this index")]
    Twice,
    /// It is not in the tree.
    #[error("{0}")]
    Inclusion(#[from] ProofError),
    /// It is no leaf.
    #[error("{0}")]
    Leaf(#[from] LeafError),
    /// It stands at 0 and opens no log, or opens one elsewhere.
    #[error("not the opening of a log, which stands at 0 and nowhere else")]
    Opening,
    /// It names a log before this one in another form than leaf 0 does.
    #[error("{0}")]
    Predecessor(#[from] PredecessorError),
    /// Its event, arguments or effect lack something or are of another form.
    #[error("{0} is missing or malformed")]
    Member(&'static str),
    /// Its payload is not an operation's.
    #[error("payload: {0}")]
    Payload(#[from] JsonError),
    /// It holds a key that cannot be used.
    #[error("{0}")]
    Key(#[from] KeyError),
    /// It is for another log.
    #[error("it is for log {0:?}")]
    Log(String),
    /// Its signature fails under the key that earlier leaves show.
    #[error("the signature of {0} does not verify")]
    Signature(IdentityId),
    /// The signer, or the class, may not do this.
    #[error("{0} may not: {1}")]
    Reach(IdentityId, &'static str),
    /// The effect names another identity than the one that was signed for: the new key's, or the argument.
    #[error("the effect names {0}, which is not this key's identity or not the one asked for")]
    Identity(IdentityId),
    /// It binds a key to a session, and the binding is not by the identity whose session it is.
    #[error("the binding of the session's key is not by {0}")]
    Binding(IdentityId),
    /// The new key's own signature is said to be there and fails.
    #[error("the possession of the new key is not proved")]
    Possession,
    /// It enrols an identity that has been enrolled.
    #[error("{0} had been enrolled before")]
    Again(IdentityId),
}

/// How an identity came into the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Named in leaf 0 as the owner.
    Owner,
    /// Named in leaf 0 as the service.
    Service,
    /// Enrolled by the owner.
    Enrolled,
}

/// A key of an identity, from one leaf on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Span {
    /// The leaf that brought it; it signs later ones.
    from: u64,
    key: PublicKey,
    proved: bool,
}

/// An identity, as the support leaves show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its label.
    pub name: String,
    /// Where its key lives.
    pub class: Class,
    /// How it came in.
    pub how: How,
    /// The leaf that revoked it.
    pub revoked: Option<u64>,
    spans: Vec<Span>,
}

/// The key with which an identity signed a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held<'c> {
    /// The key.
    pub key: &'c PublicKey,
    /// The leaf that brought it.
    pub from: u64,
    /// Whether it signed for itself when it came.
    pub proved: bool,
    /// The leaf that replaced it later, where the evidence shows one.
    pub until: Option<u64>,
}

impl Identity {
    /// The key it had at the leaf of this index: of the last leaf before it.
    #[must_use]
    pub fn key_at(&self, index: u64) -> Option<Held<'_>> {
        let after = self.spans.partition_point(|span| span.from < index);
        let span = &self.spans[after.checked_sub(1)?];
        let until = self.spans.get(after).map(|next| next.from);
        Some(Held {
            key: &span.key,
            from: span.from,
            proved: span.proved,
            until,
        })
    }

    /// The leaf that enrolled it.
    #[must_use]
    pub fn enrolled(&self) -> u64 {
        self.spans[0].from
    }
}

/// The key of a session, bound by an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Whose session it is.
    pub identity: IdentityId,
    /// The key.
    pub key: PublicKey,
    /// When the binding ends.
    pub until: Millis,
}

/// All identities that the support leaves show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    identities: BTreeMap<IdentityId, Identity>,
    /// Enrolments without leaf 0: where, and by whom, by what was enrolled.
    loose: BTreeMap<IdentityId, (u64, IdentityId)>,
    /// The log that this one goes on from.
    predecessor: Option<Predecessor>,
    /// By the leaf that began it.
    sessions: BTreeMap<u64, Bound>,
}

impl Chain {
    /// The log that this one goes on from, as leaf 0 names it.
    #[must_use]
    pub fn predecessor(&self) -> Option<&Predecessor> {
        self.predecessor.as_ref()
    }

    /// Checks each support leaf, in the order of the log, and follows what it says.
    ///
    /// # Errors
    /// [`ChainError`] for a leaf that is not in the tree of `checkpoint` or says what it cannot. An
    /// enrolment without leaf 0, which names the owner, is no error; it shows nothing.
    pub fn build(support: &[Support], checkpoint: &Checkpoint) -> Result<Self, ChainError> {
        let mut order: Vec<&Support> = support.iter().collect();
        order.sort_by_key(|support| support.index);
        let mut chain = Self::default();
        let mut last: Option<&Support> = None;
        for support in order {
            if last.is_some_and(|last| last.index == support.index) {
                if last == Some(support) {
                    continue;
                }
                return Err(ChainError {
                    index: support.index,
                    what: ChainFault::Twice,
                });
            }
            last = Some(support);
            chain
                .follow(support, checkpoint)
                .map_err(|what| ChainError {
                    index: support.index,
                    what,
                })?;
        }
        Ok(chain)
    }

    /// The key that signs in the session of this id, which is `s_` and the index of the leaf that began it.
    #[must_use]
    pub fn session_key(&self, id: &str) -> Option<&Bound> {
        self.sessions.get(&id.strip_prefix("s_")?.parse().ok()?)
    }

    /// The identity of this id.
    #[must_use]
    pub fn get(&self, id: IdentityId) -> Option<&Identity> {
        self.identities.get(&id)
    }

    /// `enrolled at 5 by the owner in leaf 0`, for people.
    #[must_use]
    pub fn story(&self, id: IdentityId) -> String {
        if let Some(identity) = self.identities.get(&id) {
            return match identity.how {
                How::Owner => String::from("the owner in leaf 0"),
                How::Service => String::from("the service in leaf 0"),
                How::Enrolled => {
                    format!("enrolled at {} by the owner in leaf 0", identity.enrolled())
                }
            };
        }
        match self.loose.get(&id) {
            Some((index, by)) => format!("enrolled at {index} by {by}, whom no leaf here shows"),
            None => String::from("no leaf here enrols it"),
        }
    }
}

impl ChainError {
    /// Whether the leaf may be sound and is only unknown to this release.
    #[must_use]
    pub const fn is_newer(&self) -> bool {
        matches!(
            self.what,
            ChainFault::Leaf(LeafError::Newer)
                | ChainFault::Payload(JsonError {
                    what: Fault::Unknown,
                    ..
                })
                | ChainFault::Key(KeyError::Algorithm)
        )
    }
}
