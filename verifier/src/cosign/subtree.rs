//! ML-DSA-44 cosignatures, type 0x06: a cosigner's word about a tree, or a subtree of one, of a log
//! (c2sp.org/tlog-cosignature).
//!
//! The message holds the cosigner's name, a time, the log's origin, and the hash of the leaves
//! `[start, end)`; for a checkpoint those are `[0, size)` and the root. Extension lines are not in it.
//! A time other than 0 says that the cosigner knew no larger tree then, and only a whole tree has one.

use alloc::vec::Vec;

use crate::checkpoint::{Checkpoint, CheckpointError};
use crate::cosign::{self, TIME_MAX};
use crate::hash::Hash;
use crate::mldsa::{PublicKey, SIGNATURE_BYTES};
use crate::subtree::is_subtree;

/// Longest name of a cosigner and longest origin of a log that the message can hold, in bytes: their
/// lengths are one byte each.
pub const NAME_BYTES_MAX: usize = 255;

const LABEL: &[u8; 12] = b"subtree/v1\n\0";

/// What is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Name of the cosigner's key, 1..=255 bytes.
    pub cosigner: &'a str,
    /// POSIX seconds, to 2^63 - 1; 0 for none.
    pub time: u64,
    /// Origin of the log, 1..=255 bytes.
    pub origin: &'a str,
    /// First leaf.
    pub start: u64,
    /// The leaf after the last.
    pub end: u64,
    /// Hash of these leaves as a tree of their own.
    pub hash: Hash,
}

/// Why there is no such cosignature, or why it shows nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubtreeCosignError {
    /// The cosigner's name is empty or too long.
    #[error("a cosigner's name of {bytes} bytes; 1 to {NAME_BYTES_MAX} can be signed")]
    Name {
        /// Its bytes.
        bytes: usize,
    },
    /// The origin is empty or too long.
    #[error("an origin of {bytes} bytes; 1 to {NAME_BYTES_MAX} can be signed")]
    Origin {
        /// Its bytes.
        bytes: usize,
    },
    /// Not 8 bytes of time and 2,420 of signature.
    #[error("an ML-DSA-44 cosignature has {} bytes behind the key ID, not {bytes}", 8 + SIGNATURE_BYTES)]
    Length {
        /// Bytes found.
        bytes: usize,
    },
    /// The time is beyond 2^63 - 1, or not 0 for a subtree that begins behind leaf 0, or 0 for a
    /// checkpoint that is to be signed.
    #[error("cosignature time {time} cannot stand with a tree that begins at leaf {start}")]
    Time {
        /// The time, POSIX seconds.
        time: u64,
        /// The first leaf.
        start: u64,
    },
    /// No subtree of any tree has these bounds.
    #[error("[{start}, {end}) is not a subtree")]
    Subtree {
        /// The first leaf.
        start: u64,
        /// The leaf after the last.
        end: u64,
    },
    /// The text is not a checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The checkpoint to be signed has extension lines.
    #[error(
        "checkpoint has {lines} extension lines, which an ML-DSA-44 cosignature does not cover"
    )]
    Extensions {
        /// How many.
        lines: usize,
    },
    /// The signature does not verify.
    #[error("cosignature does not verify")]
    Signature,
}

impl Message<'_> {
    /// The signed bytes, 12 + 1 + name + 8 + 1 + origin + 8 + 8 + 32.
    ///
    /// # Errors
    /// [`SubtreeCosignError::Name`], [`SubtreeCosignError::Origin`].
    pub fn to_bytes(&self) -> Result<Vec<u8>, SubtreeCosignError> {
        let length = |text: &str| u8::try_from(text.len()).ok().filter(|&length| length > 0);
        let name = length(self.cosigner).ok_or(SubtreeCosignError::Name {
            bytes: self.cosigner.len(),
        })?;
        let origin = length(self.origin).ok_or(SubtreeCosignError::Origin {
            bytes: self.origin.len(),
        })?;
        Ok([
            &LABEL[..],
            &[name],
            self.cosigner.as_bytes(),
            &self.time.to_be_bytes(),
            &[origin],
            self.origin.as_bytes(),
            &self.start.to_be_bytes(),
            &self.end.to_be_bytes(),
            &self.hash.0,
        ]
        .concat())
    }

    /// What the layout does not ask: bounds that a subtree can have, and a time that it can.
    ///
    /// # Errors
    /// [`SubtreeCosignError::Subtree`], [`SubtreeCosignError::Time`].
    pub fn check(&self) -> Result<(), SubtreeCosignError> {
        let Self {
            time, start, end, ..
        } = *self;
        if !is_subtree(start, end) {
            return Err(SubtreeCosignError::Subtree { start, end });
        }
        if time > TIME_MAX || (time != 0 && start != 0) {
            return Err(SubtreeCosignError::Time { time, start });
        }
        Ok(())
    }
}

/// The 2,428 bytes behind the key ID: time, big-endian, and signature.
#[must_use]
pub fn body(time: u64, signature: &[u8]) -> Vec<u8> {
    [&time.to_be_bytes()[..], signature].concat()
}

/// Checks the bytes behind the key ID against the message that they make with the other fields; its time
/// is taken from them. Returns the time, POSIX seconds, 0 for none.
///
/// # Errors
/// [`SubtreeCosignError`].
pub fn verify(
    key: &PublicKey,
    message: &Message<'_>,
    body: &[u8],
) -> Result<u64, SubtreeCosignError> {
    let (have, want) = (body.len(), 8 + SIGNATURE_BYTES);
    let time = cosign::time(body).filter(|_| have == want);
    let time = time.ok_or(SubtreeCosignError::Length { bytes: have })?;
    let message = Message { time, ..*message };
    message.check()?;
    if key.verify(&message.to_bytes()?, &body[8..]) {
        Ok(time)
    } else {
        Err(SubtreeCosignError::Signature)
    }
}

/// Checks a cosignature by the key that `cosigner` names over a checkpoint's `text`, of which extension
/// lines are not covered. Returns its time, POSIX seconds; 0 says nothing of larger trees.
///
/// # Errors
/// [`SubtreeCosignError`].
pub fn verify_checkpoint(
    key: &PublicKey,
    cosigner: &str,
    text: &str,
    body: &[u8],
) -> Result<u64, SubtreeCosignError> {
    let checkpoint = Checkpoint::parse(text)?;
    let message = Message {
        cosigner,
        time: 0,
        origin: &checkpoint.origin,
        start: 0,
        end: checkpoint.size,
        hash: checkpoint.root,
    };
    verify(key, &message, body)
}

/// The checkpoint of `text`, if it may be cosigned at `time`.
pub(crate) fn signable(text: &str, time: u64) -> Result<Checkpoint, SubtreeCosignError> {
    let checkpoint = Checkpoint::parse(text)?;
    match checkpoint.extensions.len() {
        0 if time == 0 => Err(SubtreeCosignError::Time { time, start: 0 }),
        0 => Ok(checkpoint),
        lines => Err(SubtreeCosignError::Extensions { lines }),
    }
}
