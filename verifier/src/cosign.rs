//! cosignature/v1, type 0x04: a witness's word that at a time it knew no larger consistent tree
//! (c2sp.org/tlog-cosignature). What ML-DSA-44 signs is in [`subtree`].
//!
//! The time stands in the line and in the signed message; the message is always rebuilt from the line.
//! Whether a time is fresh is a policy's question, not the format's.

pub mod subtree;

use alloc::string::String;
use alloc::vec::Vec;

use ed25519_dalek::{Signature, VerifyingKey};

/// Latest time a cosignature can state, POSIX seconds: 2^63 - 1.
pub const TIME_MAX: u64 = i64::MAX as u64;

/// Why a cosignature's bytes show nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CosignError {
    /// Not 8 bytes of time and 64 of signature.
    #[error("a cosignature has 72 bytes behind the key ID, not {bytes}")]
    Length {
        /// Bytes found.
        bytes: usize,
    },
    /// The time is beyond 2^63 - 1.
    #[error("cosignature time {time} is beyond 2^63 - 1")]
    Time {
        /// The time, POSIX seconds.
        time: u64,
    },
    /// The signature does not verify over the time and the text.
    #[error("cosignature does not verify")]
    Signature,
}

/// The signed message for a checkpoint's whole `text`, extension lines and final LF included, at `time`,
/// POSIX seconds.
#[must_use]
pub fn message(text: &str, time: u64) -> String {
    alloc::format!("cosignature/v1\ntime {time}\n{text}")
}

/// The 72 bytes behind the key ID: time, big-endian, and signature.
#[must_use]
pub fn body(time: u64, signature: &[u8; 64]) -> Vec<u8> {
    [&time.to_be_bytes()[..], signature].concat()
}

/// Time, POSIX seconds, and signature of the 72 bytes behind the key ID.
///
/// # Errors
/// [`CosignError::Length`], [`CosignError::Time`].
pub fn parse_body(body: &[u8]) -> Result<(u64, [u8; 64]), CosignError> {
    let length = CosignError::Length { bytes: body.len() };
    let (time, signature) = body.split_first_chunk().ok_or(length)?;
    let signature = signature.try_into().map_err(|_| length)?;
    let time = u64::from_be_bytes(*time);
    if time > TIME_MAX {
        Err(CosignError::Time { time })
    } else {
        Ok((time, signature))
    }
}

/// The time that a cosignature of either kind begins with, POSIX seconds; `None` where there are not even
/// 8 bytes.
#[must_use]
pub fn time(body: &[u8]) -> Option<u64> {
    body.first_chunk().map(|time| u64::from_be_bytes(*time))
}

/// Checks a cosignature over a checkpoint's whole `text` and returns its time, POSIX seconds.
///
/// # Errors
/// [`CosignError`].
pub fn verify(key: &VerifyingKey, text: &str, body: &[u8]) -> Result<u64, CosignError> {
    let (time, signature) = parse_body(body)?;
    let signed = message(text, time);
    key.verify_strict(signed.as_bytes(), &Signature::from_bytes(&signature))
        .map_err(|_| CosignError::Signature)?;
    Ok(time)
}
