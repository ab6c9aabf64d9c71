//! What came in, its form and its signatures: shown is only that a key signed, never that it may.

use std::sync::atomic::{AtomicUsize, Ordering};

use countersign_log::Stop;
use countersign_verifier::{
    dsse::{Envelope, Signature},
    hash::sha256,
    json::{Fault, JsonError},
    key::IdentityId,
    leaf::Leaf,
    operation::{Operation, PAYLOAD_TYPE},
};

use crate::{
    error::{Code, Problem},
    ledger::{OperationRequest, ReceiptRequest, Verified, receipt_postings},
    state::{Identity, State, session},
};

/// One envelope may cost at most this many signature checks: 16 signatures without a keyid against 16 keys each. More is
/// somebody who wants to spend our time; a keyid makes one check of it.
const TRIES_MAX: usize = 256;
/// In a body of many envelopes, so many checks an envelope on average: those that name their keys need one a signature.
const TRIES_EACH: usize = 8;

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

/// How many signature checks a request may still cost. Shared by the cores that check one body.
pub struct Budget(AtomicUsize);

impl Budget {
    /// For a body of so many envelopes.
    #[must_use]
    pub fn of(envelopes: usize) -> Budget {
        Budget(AtomicUsize::new(TRIES_MAX + TRIES_EACH * envelopes))
    }

    fn take(&self) -> bool {
        let less = |left: usize| left.checked_sub(1);
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
            .is_ok()
    }
}

/// A receipt ready for the writer.
pub struct PreparedReceipt {
    /// For the writer.
    pub request: ReceiptRequest,
    /// What the answer must say of its signatures.
    pub signatures: Signatures,
}

/// The signatures of a receipt as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signatures {
    /// Left out already: nothing that verifies.
    dropped: Vec<Dropped>,
    /// Verified: by whom, where in the envelope, under which keyid. The judge may still pass one over.
    verified: Vec<(IdentityId, usize, String)>,
    /// Whose receipts of this minute it was counted among.
    pub(super) charged: Option<IdentityId>,
}

impl Signatures {
    /// Those that the leaf does not have: dropped by the check, or passed over because the identity was revoked or had another
    /// key by the time that it was judged.
    #[must_use]
    pub fn left_out(self, leaf: &[u8]) -> Vec<Dropped> {
        let mut all = self.dropped;
        // One signature that verified is the one that the leaf has, or there would be none.
        if self.verified.len() > 1
            && let Ok(Leaf::Receipt(stored)) = Leaf::parse(leaf)
        {
            let missing = self
                .verified
                .into_iter()
                .filter(|(id, ..)| !stored.signers.contains(id));
            all.extend(missing.map(|(_, position, keyid)| Dropped {
                position,
                keyid,
                reason: "its key is revoked or retired",
            }));
        }
        all.sort_by_key(|d| d.position);
        all
    }
}

/// Checks a receipt's signatures.
///
/// # Errors
/// By the table of receipts: malformed, too large, nobody we know, or nothing that verifies.
pub fn prepare_receipt(
    state: &State,
    body: &[u8],
    has_token: bool,
    budget: &Budget,
) -> Result<PreparedReceipt, Problem> {
    let envelope = Envelope::parse(body).map_err(|e| malformed(&e))?;
    let pae = envelope.pae();
    let (verified, signatures) = check_signatures(state, &pae, &envelope.signatures, budget);
    if verified.is_empty() {
        return Err(nobody(state, &envelope, has_token));
    }
    let postings = receipt_postings(&envelope);
    Ok(PreparedReceipt {
        request: ReceiptRequest {
            pae_sha256: sha256(&pae),
            payload_type: envelope.payload_type,
            payload: envelope.payload,
            verified,
            postings,
        },
        signatures,
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
    let signer = match by_session(state, &envelope) {
        Some(signer) => signer,
        None => {
            let (mut verified, _) =
                check_signatures(state, &envelope.pae(), &envelope.signatures, &Budget::of(1));
            verified
                .pop()
                .ok_or_else(|| nobody(state, &envelope, false))?
        }
    };
    let operation = Operation::parse(&envelope.payload)
        .map_err(|e| malformed(&e).with("in", "the signed payload"))?;
    Ok(OperationRequest {
        operation,
        payload: envelope.payload,
        signer,
    })
}

/// The signature of the key of the session that the operation names, ended or not: whether it still counts is judged in order.
fn by_session(state: &State, envelope: &Envelope) -> Option<Verified> {
    let named = Operation::parse(&envelope.payload).ok()?.session?;
    let session = state.sessions.get(session::parse_id(&named)?)?;
    let key = &session.key.as_ref()?.named;
    let signature = &envelope.signatures.first()?.sig;
    let signed = key.public.verify(&envelope.pae(), signature);
    signed.then(|| Verified {
        identity: session.identity,
        key: key.sha256,
        signature: signature.clone(),
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

/// The keys that verify, one signature each, in order of identity; and what became of each signature.
fn check_signatures(
    state: &State,
    pae: &[u8],
    signatures: &[Signature],
    budget: &Budget,
) -> (Vec<Verified>, Signatures) {
    let mut verified: Vec<Verified> = Vec::with_capacity(signatures.len());
    let mut of = Signatures {
        dropped: Vec::new(),
        verified: Vec::with_capacity(signatures.len()),
        charged: None,
    };
    let mut tries = 0;
    for (position, signature) in signatures.iter().enumerate() {
        let keyid: String = signature.keyid.chars().take(128).collect();
        let hinted = state.identities.hinted(&signature.keyid);
        let may_try = || {
            tries += 1;
            tries <= TRIES_MAX && budget.take()
        };
        let reason = match find_key(state, pae, signature, hinted, may_try) {
            Found::Key(new) if verified.iter().all(|v| v.identity != new.identity) => {
                of.verified.push((new.identity, position, keyid));
                verified.push(new);
                continue;
            }
            Found::Key(_) => "this identity has signed already",
            Found::GaveUp => "too many keys would have to be tried: name the key in keyid",
            Found::None if hinted.is_some() => {
                "it does not verify under the key that its keyid names"
            }
            Found::None => "it verifies under no enrolled key",
        };
        of.dropped.push(Dropped {
            position,
            keyid,
            reason,
        });
    }
    verified.sort_unstable_by_key(|v| v.identity);
    (verified, of)
}

enum Found {
    Key(Verified),
    None,
    GaveUp,
}

/// Tries the keys that it may be by. Keys of revoked identities and retired keys are tried too: who signed with one is to be told so.
fn find_key(
    state: &State,
    pae: &[u8],
    signature: &Signature,
    hinted: Option<&Identity>,
    mut may_try: impl FnMut() -> bool,
) -> Found {
    for (identity, key) in state.identities.tried(hinted) {
        if !may_try() {
            return Found::GaveUp;
        }
        if key.public.verify(pae, &signature.sig) {
            return Found::Key(Verified {
                identity: identity.id,
                key: key.sha256,
                signature: signature.sig.clone(),
            });
        }
    }
    Found::None
}

fn nobody(state: &State, envelope: &Envelope, has_token: bool) -> Problem {
    // Leaf 0 names the first keys: until a new log's witnesses let it write that, nobody can be told to enroll.
    if state.opened.is_none() {
        return super::stopped(&Stop::Unguarded(String::new()));
    }
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
