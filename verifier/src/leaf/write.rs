//! Writing leaves: each byte once.

use alloc::string::String;
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
        order.first().map(|s| s.0),
        Some(by.identity),
        "by is the first signer"
    );
    out.extend_from_slice(b",\"decision\":{\"outcome\":\"applied\",\"effect\":{\"signers\":[");
    for (i, (signer, _)) in order.iter().enumerate() {
        out.extend_from_slice(if i > 0 { b",\"" } else { b"\"" });
        push_id(out, *signer);
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

/// Everything up to the envelope's end; gives the signatures in the order stored.
fn head<'a>(
    out: &mut Vec<u8>,
    kind: &str,
    at: Millis,
    by: &By,
    signed: Signed<'a>,
) -> Vec<(IdentityId, &'a [u8])> {
    // Base64 takes 4 bytes for 3; the rest of a leaf with one signer is less than 700 bytes.
    out.reserve(signed.payload.len().div_ceil(3) * 4 + 700 + signed.signatures.len() * 250);
    push_kind(out, kind, at);
    out.extend_from_slice(b",\"by\":{\"identity\":\"");
    push_id(out, by.identity);
    out.extend_from_slice(b"\",\"class\":\"");
    out.extend_from_slice(by.class.name().as_bytes());
    out.push(b'"');
    if let Some(session) = &by.session {
        out.extend_from_slice(b",\"session\":");
        push_string(out, session);
    }
    out.extend_from_slice(b"},\"envelope\":");
    let mut order = signed.signatures.to_vec();
    order.sort_unstable_by_key(|(signer, _)| *signer);
    let ids: Vec<String> = order.iter().map(|(signer, _)| spell_id(*signer)).collect();
    let signatures = ids
        .iter()
        .zip(&order)
        .map(|(id, (_, sig))| (id.as_str(), *sig));
    push_envelope(out, signed.payload_type, signed.payload, signatures);
    order
}

fn spell_id(id: IdentityId) -> String {
    let mut out = String::with_capacity(67);
    out.push_str("id_");
    out.push_str(&id.0.to_hex());
    out
}

fn push_id(out: &mut Vec<u8>, id: IdentityId) {
    out.extend_from_slice(spell_id(id).as_bytes());
}
