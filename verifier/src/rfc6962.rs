//! Tree heads of Certificate Transparency as note signatures, type 0x05 (c2sp.org/static-ct-api, RFC 6962 section 3.5).
//!
//! The line holds a time and a `digitally-signed` structure; what is signed is rebuilt from the time and the text's size and
//! root. Neither the origin nor an extension line is covered, and a text with extension lines is refused.

use alloc::vec::Vec;

use p256::ecdsa::signature::Verifier as _;
use p256::ecdsa::{Signature, VerifyingKey};

use crate::checkpoint::Checkpoint;

/// `hash_algorithm` sha256 and `signature_algorithm` ecdsa (RFC 5246 section 7.4.1.4.1).
const ECDSA_SHA256: [u8; 2] = [4, 3];

/// Checks the bytes behind the key ID against a checkpoint's text. The time that it was signed at, in milliseconds since 1970;
/// `None` where it does not verify.
#[must_use]
pub fn verify(key: &VerifyingKey, text: &str, body: &[u8]) -> Option<u64> {
    let (time, signed) = body.split_first_chunk::<8>()?;
    let (algorithm, signed) = signed.split_first_chunk::<2>()?;
    let (length, der) = signed.split_first_chunk::<2>()?;
    if *algorithm != ECDSA_SHA256 || usize::from(u16::from_be_bytes(*length)) != der.len() {
        return None;
    }
    let checkpoint = Checkpoint::parse(text).ok()?;
    if !checkpoint.extensions.is_empty() {
        return None;
    }
    let signature = Signature::from_der(der).ok()?;
    let time = u64::from_be_bytes(*time);
    key.verify(&message(time, &checkpoint), &signature).ok()?;
    Some(time)
}

/// `TreeHeadSignature` of version v1 and type tree_hash.
fn message(time: u64, checkpoint: &Checkpoint) -> Vec<u8> {
    [
        &[0, 1][..],
        &time.to_be_bytes(),
        &checkpoint.size.to_be_bytes(),
        &checkpoint.root.0,
    ]
    .concat()
}
