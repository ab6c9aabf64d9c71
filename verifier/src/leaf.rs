//! Leaves: the bytes of one entry of a log, in one spelling.
//!
//! A leaf is compact UTF-8 JSON of at most 65,535 bytes. The service writes it once; from then on its
//! bytes are only copied and hashed. Reading is as strict as writing: the order of the members, the
//! spelling of strings, times and base64 are fixed, so that what is read could only have been written
//! in one way. Effects, details and events are kept as raw text; they are read by [`crate::json`].

mod read;
mod write;

use alloc::string::String;
use alloc::vec::Vec;

use crate::dsse::Envelope;
use crate::json::JsonError;
use crate::key::IdentityId;

pub use self::write::{Signed, write_operation, write_receipt, write_system};
pub use crate::millis::{Millis, MillisError};

/// Why something is not a leaf.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeafError {
    /// Not of the form that leaves have.
    #[error("{0}")]
    Form(#[from] JsonError),
    /// Larger than an entry of a log can be.
    #[error(
        "a leaf of {bytes} bytes; a log takes {} at most",
        crate::limits::ENTRY_BYTES_MAX
    )]
    TooLarge {
        /// What was there, in bytes.
        bytes: usize,
    },
    /// Of a version or a kind that this release does not know.
    #[error("a leaf of a newer form than this release reads")]
    Newer,
}

/// Where the key of an identity lives, and so whether the service could have signed for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// With the agent or human: the service cannot forge it.
    AgentKey,
    /// With the local shim, bound to an `agent_key` identity: the service cannot forge it.
    SessionKey,
    /// With the service, for a client that holds only a token: the service can forge it.
    SeatKey,
    /// The service's own: the operator's word.
    ServiceKey,
}

impl Class {
    /// As leaves write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AgentKey => "agent_key",
            Self::SessionKey => "session_key",
            Self::SeatKey => "seat_key",
            Self::ServiceKey => "service_key",
        }
    }

    /// The class of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [
            Self::AgentKey,
            Self::SessionKey,
            Self::SeatKey,
            Self::ServiceKey,
        ]
        .into_iter()
        .find(|class| class.name() == name)
    }
}

/// Who asked for what a leaf records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct By {
    /// The identity whose key signed.
    pub identity: IdentityId,
    /// Where that key lives.
    pub class: Class,
    /// The session that it was part of.
    pub session: Option<String>,
}

/// What the service decided; the raw text is one compact JSON object each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision<'a> {
    /// Done, with this effect.
    Applied {
        /// The effect.
        effect: &'a str,
    },
    /// Said no.
    Refused {
        /// The code: capitals, digits and `_`.
        code: &'a str,
        /// More about it.
        detail: &'a str,
    },
}

/// A signed request to run a tool, and what was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationLeaf<'a> {
    /// Log time.
    pub at: Millis,
    /// Who asked.
    pub by: By,
    /// The envelope as stored: each keyid is an identity, in ascending order, and `by` is among them.
    pub envelope: Envelope,
    /// What was decided.
    pub decision: Decision<'a>,
}

/// A receipt that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiptLeaf {
    /// Log time.
    pub at: Millis,
    /// The first of the signers.
    pub by: By,
    /// The envelope as stored: each keyid is an identity, in ascending order.
    pub envelope: Envelope,
    /// The identities whose signatures the envelope carries, in its order.
    pub signers: Vec<IdentityId>,
}

/// What the service itself states or derives; nobody signed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemLeaf<'a> {
    /// Log time.
    pub at: Millis,
    /// The `type` of the event, which stands first in it.
    pub event_type: &'a str,
    /// The event: one compact JSON object.
    pub event: &'a str,
}

/// One leaf of any kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leaf<'a> {
    /// `operation`.
    Operation(OperationLeaf<'a>),
    /// `receipt`.
    Receipt(ReceiptLeaf),
    /// `system`.
    System(SystemLeaf<'a>),
}

impl Leaf<'_> {
    /// Log time: the operator's claim.
    #[must_use]
    pub const fn at(&self) -> Millis {
        match self {
            Self::Operation(leaf) => leaf.at,
            Self::Receipt(leaf) => leaf.at,
            Self::System(leaf) => leaf.at,
        }
    }

    /// `operation`, `receipt` or `system`.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Operation(_) => "operation",
            Self::Receipt(_) => "receipt",
            Self::System(_) => "system",
        }
    }

    /// Who asked; none for a system leaf.
    #[must_use]
    pub const fn by(&self) -> Option<&By> {
        match self {
            Self::Operation(leaf) => Some(&leaf.by),
            Self::Receipt(leaf) => Some(&leaf.by),
            Self::System(_) => None,
        }
    }

    /// The stored envelope; none for a system leaf.
    #[must_use]
    pub const fn envelope(&self) -> Option<&Envelope> {
        match self {
            Self::Operation(leaf) => Some(&leaf.envelope),
            Self::Receipt(leaf) => Some(&leaf.envelope),
            Self::System(_) => None,
        }
    }
}
