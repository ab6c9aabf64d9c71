//! Writing leaves: each byte once.

use alloc::vec::Vec;

use super::{By, Decision, LeafError, Millis};
use crate::dsse::push_envelope;
use crate::key::IdentityId;
use crate::limits;
use crate::scan::push_string;

/// What was signed, and the signatures that verified under enrolled keys.
#[derive(Clone, Copy, Debug)]
pub struct Signed<'a> {
    /// The envelope's payloadType.
    pub payload_type: &'a str,
    /// The envelope's payload.
    pub payload: &'a [u8],
    /// Signer and signature, one a signer, in any order: they are stored sorted by signer.
    pub signatures: &'a [(IdentityId, &'a [u8])],
}

/// Appends a `receipt` leaf. `by` must name the lowest of the signers.
///
/// # Errors
/// [`LeafError::TooLarge`]; `out` is then as it was.
pub fn write_receipt(
    out: &mut Vec<u8>,
    at: Millis,
    by: &By,
    signed: Signed<'_>,
) -> Result<(), LeafError> {
    let start = out.len();
    let order = head(out, "receipt", at, by, signed);
    debug_assert_eq!(
        order.first().map(|one| one.signer),
        Some(by.identity),
        "by is the first signer"
    );
    out.extend_from_slice(b",\"decision\":{\"outcome\":\"applied\",\"effect\":{\"signers\":[");
    for (i, one) in order.iter().enumerate() {
        out.extend_from_slice(if i > 0 { b",\"" } else { b"\"" });
        out.extend_from_slice(&one.id);
        out.push(b'"');
    }
    out.extend_from_slice(b"]}}}");
    bounded(out, start)
}

/// Appends an `operation` leaf. The texts in `decision` must each be one compact JSON object.
///
/// # Errors
/// [`LeafError::TooLarge`]; `out` is then as it was.
pub fn write_operation(
    out: &mut Vec<u8>,
    at: Millis,
    by: &By,
    signed: Signed<'_>,
    decision: Decision<'_>,
) -> Result<(), LeafError> {
    let start = out.len();
    head(out, "operation", at, by, signed);
    match decision {
        Decision::Applied { effect } => {
            out.extend_from_slice(b",\"decision\":{\"outcome\":\"applied\",\"effect\":");
            out.extend_from_slice(effect.as_bytes());
        }
        Decision::Refused { code, detail } => {
            out.extend_from_slice(b",\"decision\":{\"outcome\":\"refused\",\"code\":");
            push_string(out, code);
            out.extend_from_slice(b",\"detail\":");
            out.extend_from_slice(detail.as_bytes());
        }
    }
    out.extend_from_slice(b"}}");
    bounded(out, start)
}

/// Appends a `system` leaf. `event` must be one compact JSON object that begins with its `type`.
///
/// # Errors
/// [`LeafError::TooLarge`]; `out` is then as it was.
pub fn write_system(out: &mut Vec<u8>, at: Millis, event: &str) -> Result<(), LeafError> {
    let start = out.len();
    push_kind(out, "system", at);
    out.extend_from_slice(b",\"event\":");
    out.extend_from_slice(event.as_bytes());
    out.push(b'}');
    bounded(out, start)
}

fn bounded(out: &mut Vec<u8>, start: usize) -> Result<(), LeafError> {
    let bytes = out.len() - start;
    if bytes > limits::ENTRY_BYTES_MAX {
        out.truncate(start);
        return Err(LeafError::TooLarge { bytes });
    }
    Ok(())
}

fn push_kind(out: &mut Vec<u8>, kind: &str, at: Millis) {
    out.extend_from_slice(b"{\"v\":1,\"kind\":\"");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\",\"at\":\"");
    out.extend_from_slice(&at.spell());
    out.push(b'"');
}

/// A signature in the order stored, with its signer spelled once for the three places it stands in.
struct Stored<'a> {
    signer: IdentityId,
    id: [u8; 67],
    sig: &'a [u8],
}

/// Everything up to the envelope's end; gives the signatures in the order stored.
fn head<'a>(
    out: &mut Vec<u8>,
    kind: &str,
    at: Millis,
    by: &By,
    signed: Signed<'a>,
) -> Vec<Stored<'a>> {
    // Base64 takes 4 bytes for 3; the rest of a leaf with one signer is less than 700 bytes.
    out.reserve(signed.payload.len().div_ceil(3) * 4 + 700 + signed.signatures.len() * 250);
    let stored = |&(signer, sig): &(IdentityId, &'a [u8])| Stored {
        signer,
        id: spell_id(signer),
        sig,
    };
    let mut order: Vec<Stored<'a>> = signed.signatures.iter().map(stored).collect();
    order.sort_unstable_by_key(|one| one.signer);
    push_kind(out, kind, at);
    out.extend_from_slice(b",\"by\":{\"identity\":\"");
    match order.first() {
        Some(first) if first.signer == by.identity => out.extend_from_slice(&first.id),
        _ => out.extend_from_slice(&spell_id(by.identity)),
    }
    out.extend_from_slice(b"\",\"class\":\"");
    out.extend_from_slice(by.class.name().as_bytes());
    out.push(b'"');
    if let Some(session) = &by.session {
        out.extend_from_slice(b",\"session\":");
        push_string(out, session);
    }
    out.extend_from_slice(b"},\"envelope\":");
    let signatures = order.iter().map(|one| (&one.id[..], one.sig));
    push_envelope(out, signed.payload_type, signed.payload, signatures);
    order
}

/// `id_` and 64 lowercase hexadecimal digits.
fn spell_id(id: IdentityId) -> [u8; 67] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut out = *b"id_0000000000000000000000000000000000000000000000000000000000000000";
    for (pair, byte) in out[3..].chunks_exact_mut(2).zip(id.0.0) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    out
}
