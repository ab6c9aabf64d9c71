//! What came in, its form and its signatures: shown is only that a key signed, never that it may.

use countersign_log::Key;
use countersign_verifier::{
    dsse::{Envelope, Signature},
    hash::{Hash, sha256},
    json::{Fault, JsonError},
    key::IdentityId,
    leaf::Leaf,
    operation::{Operation, PAYLOAD_TYPE},
    statement::{self, Statement},
};

use crate::{
    error::{Code, Problem},
    ledger::{OperationRequest, ReceiptRequest, Verified, space},
    state::{Identity, State},
};

/// One envelope may cost at most this many signature checks: 16 signatures without a keyid against 16 keys each. More is
/// somebody who wants to spend our time; a keyid makes one check of it.
const TRIES_MAX: usize = 256;
/// A signature of an envelope that is not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Its place in the envelope, from 0.
    pub position: usize,
    /// Its keyid as it came, cut to 128 characters.
    pub keyid: String,
    /// Why.
    pub reason: &'static str,
}

/// A receipt ready for the writer.
pub struct PreparedReceipt {
    /// For the writer.
    pub request: ReceiptRequest,
    /// What is left out of the leaf already; more can follow when it is judged.
    pub dropped: Vec<Dropped>,
}

/// Checks a receipt's signatures.
///
/// # Errors
/// By the table of receipts: malformed, too large, nobody we know, or nothing that verifies.
pub fn prepare_receipt(
    state: &State,
    body: &[u8],
    has_token: bool,
) -> Result<PreparedReceipt, Problem> {
    let envelope = Envelope::parse(body).map_err(|e| malformed(&e))?;
    let pae = envelope.pae();
    let (verified, dropped) = check_signatures(state, &pae, &envelope.signatures);
    if verified.is_empty() {
        return Err(nobody(state, &envelope, has_token));
    }
    let mut postings = vec![Key::new(space::PAYLOAD, &sha256(&envelope.payload))];
    postings.extend(subjects(&envelope).map(|digest| Key::new(space::SUBJECT, &digest)));
    postings.sort_unstable();
    postings.dedup();
    Ok(PreparedReceipt {
        request: ReceiptRequest {
            pae_sha256: sha256(&pae),
            payload_type: envelope.payload_type,
            payload: envelope.payload,
            verified,
            postings,
        },
        dropped,
    })
}

/// Checks an operation's signature and reads what it asks.
///
/// # Errors
/// `Malformed` with the place, `SignerUnknown`, `SignatureInvalid`.
pub fn prepare_operation(state: &State, envelope: Envelope) -> Result<OperationRequest, Problem> {
    if envelope.payload_type != PAYLOAD_TYPE {
        let why = format!("payloadType of an operation is {PAYLOAD_TYPE}");
        return Err(Problem::new(Code::Malformed, why).with("pointer", "/signed/payloadType"));
    }
    if envelope.signatures.len() != 1 {
        let why = format!(
            "an operation has one signature, by who asks; this has {}",
            envelope.signatures.len()
        );
        return Err(Problem::new(Code::Malformed, why).with("pointer", "/signed/signatures"));
    }
    let (mut verified, _) = check_signatures(state, &envelope.pae(), &envelope.signatures);
    let Some(signer) = verified.pop() else {
        return Err(nobody(state, &envelope, false));
    };
    let operation = Operation::parse(&envelope.payload)
        .map_err(|e| malformed(&e).with("in", "the signed payload"))?;
    Ok(OperationRequest {
        operation,
        payload: envelope.payload,
        signer,
    })
}

/// A JSON fault as a client sees it: what, and where.
#[must_use]
pub fn malformed(error: &JsonError) -> Problem {
    let at = |problem: Problem| {
        let problem = problem
            .with("pointer", error.pointer.as_str())
            .with("offset", error.offset);
        if error.line > 1 {
            problem.with("line", error.line)
        } else {
            problem
        }
    };
    match &error.what {
        Fault::TooLarge { limit, bytes } => at(Problem::new(Code::TooLarge, error.to_string())
            .with("limit", *limit)
            .with("bytes", *bytes)),
        _ => at(Problem::new(Code::Malformed, error.to_string())),
    }
}

/// The keys that verify, one signature each, in order of identity; and what is dropped.
fn check_signatures(
    state: &State,
    pae: &[u8],
    signatures: &[Signature],
) -> (Vec<Verified>, Vec<Dropped>) {
    let mut verified: Vec<Verified> = Vec::with_capacity(signatures.len());
    let mut dropped = Vec::new();
    let mut tries = 0;
    for (position, signature) in signatures.iter().enumerate() {
        let hinted = state.identities.hinted(&signature.keyid);
        let found = find_key(state, pae, signature, hinted, &mut tries);
        let reason = match found {
            Some(new) if verified.iter().all(|v| v.identity != new.identity) => {
                verified.push(new);
                continue;
            }
            Some(_) => "this identity has signed already",
            None if hinted.is_some() => "it does not verify under the key that its keyid names",
            None => "it verifies under no enrolled key",
        };
        dropped.push(Dropped {
            position,
            keyid: signature.keyid.chars().take(128).collect(),
            reason,
        });
    }
    verified.sort_unstable_by_key(|v| v.identity);
    (verified, dropped)
}

/// Tries the identity that the keyid names, then, where they are few, all others. Keys of revoked identities and retired keys
/// are tried too: who signed with one is to be told so.
fn find_key(
    state: &State,
    pae: &[u8],
    signature: &Signature,
    hinted: Option<&Identity>,
    tries: &mut usize,
) -> Option<Verified> {
    let others = state
        .identities
        .all_if_few()
        .into_iter()
        .flatten()
        .filter(|i| hinted.is_none_or(|h| h.id != i.id));
    for identity in hinted.into_iter().chain(others) {
        for key in [&identity.key].into_iter().chain(&identity.retired) {
            *tries += 1;
            if *tries > TRIES_MAX {
                return None;
            }
            if key.public.verify(pae, &signature.sig) {
                return Some(Verified {
                    identity: identity.id,
                    key: key.sha256,
                    signature: signature.sig.clone(),
                });
            }
        }
    }
    None
}

fn nobody(state: &State, envelope: &Envelope, has_token: bool) -> Problem {
    let named: Vec<IdentityId> = envelope
        .signatures
        .iter()
        .filter_map(|s| Some(state.identities.hinted(&s.keyid)?.id))
        .collect();
    if let Some(id) = named.first() {
        let why = "a keyid names an enrolled key, and the signature does not verify under it: other bytes were signed, or by another key";
        return Problem::new(Code::SignatureInvalid, why).with("identity", id.to_string());
    }
    let code = if has_token {
        Code::SignerNotAllowed
    } else {
        Code::SignerUnknown
    };
    let why = "no signature by a key that is enrolled in this account; a token never replaces one";
    Problem::new(code, why).with(
        "enrol",
        "countersign identity enroll NAME --public-key FILE",
    )
}

/// The SHA-256 digests of what an in-toto statement speaks of; nothing for other payloads, and none for a statement that
/// cannot be read: a receipt's payload is opaque.
fn subjects(envelope: &Envelope) -> impl Iterator<Item = Hash> {
    let statement = statement::is_payload_type(&envelope.payload_type)
        .then(|| Statement::parse(&envelope.payload).ok())
        .flatten();
    let digests = statement
        .map(|s| s.subjects)
        .unwrap_or_default()
        .into_iter()
        .flat_map(|s| s.digests);
    digests
        .filter(|(algorithm, _)| algorithm == "sha256")
        .filter_map(|(_, digest)| Hash::from_hex(&digest).ok())
}

/// All signatures of the envelope that the leaf does not have: those dropped by the check, and those that the judge passed
/// over because their identity was revoked or had another key by then.
#[must_use]
pub fn left_out(envelope: &[u8], leaf: &[u8], dropped: &[Dropped]) -> Vec<Dropped> {
    let Ok(sent) = Envelope::parse(envelope) else {
        return dropped.to_vec();
    };
    if sent.signatures.len() == 1 {
        return Vec::new();
    }
    let Ok(Leaf::Receipt(stored)) = Leaf::parse(leaf) else {
        return dropped.to_vec();
    };
    let mut all = dropped.to_vec();
    for (position, signature) in sent.signatures.iter().enumerate() {
        let known = dropped.iter().any(|d| d.position == position);
        if !known && stored.envelope.signatures.len() + all.len() < sent.signatures.len() {
            let kept = stored
                .envelope
                .signatures
                .iter()
                .any(|s| s.sig == signature.sig);
            if !kept {
                all.push(Dropped {
                    position,
                    keyid: signature.keyid.chars().take(128).collect(),
                    reason: "its key is revoked or retired",
                });
            }
        }
    }
    all.sort_by_key(|d| d.position);
    all
}
