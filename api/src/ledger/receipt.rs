//! Receipts: which signatures count, and whether it is there already.

use countersign_log::{Context, Entry, Key, Ruling, StoreError};
use countersign_verifier::{
    hash::{Hash, sha256},
    leaf::{By, Leaf, Millis, Signed, write_receipt},
};

use super::{
    Ledger, ReceiptRequest, Verified,
    caller::{retired, revoked},
    operation::is_closed,
    space,
};
use crate::{
    error::{Code, Problem},
    state::State,
};

impl Ledger {
    pub(super) fn judge_receipt(
        &mut self,
        request: &ReceiptRequest,
        context: &Context<'_>,
    ) -> Result<Ruling<Problem>, StoreError> {
        if let Some(index) = find_receipt(context, request, &request.verified)? {
            return Ok(Ruling::Existing(index));
        }
        if let Some(closed) = &self.state.closed {
            return Ok(Ruling::Refuse(is_closed(closed)));
        }
        let counted = match admit(&self.state, request) {
            Ok(counted) => counted,
            Err(problem) => return Ok(Ruling::Refuse(problem)),
        };
        if counted.len() < request.verified.len()
            && let Some(index) = find_receipt(context, request, &counted)?
        {
            return Ok(Ruling::Existing(index));
        }
        // OK because `admit` gives at least one.
        let first = self
            .state
            .identities
            .get(&counted[0].identity)
            .expect("Ledger::judge_receipt: an admitted signer");
        let by = By {
            identity: first.id,
            class: first.class,
            session: None,
        };
        let signatures: Vec<_> = counted
            .iter()
            .map(|v| (v.identity, v.signature.as_slice()))
            .collect();
        let signed = Signed {
            payload_type: &request.payload_type,
            payload: &request.payload,
            signatures: &signatures,
        };
        let mut leaf = Vec::new();
        if let Err(error) = write_receipt(&mut leaf, Millis(context.at), &by, signed) {
            return Ok(Ruling::Refuse(Problem::new(
                Code::TooLarge,
                format!("the receipt does not fit a leaf: {error}"),
            )));
        }
        // Base64 and hexadecimal can be read back as they are; a type of unusual characters is tried, because a leaf that cannot
        // be read would keep the account from ever starting again.
        let plain = request
            .payload_type
            .bytes()
            .all(|b| (b' '..=b'~').contains(&b) && b != b'"' && b != b'\\');
        if !plain && let Err(error) = Leaf::parse(&leaf) {
            return Ok(Ruling::Refuse(Problem::internal(&error)));
        }
        self.state.receipt_taken(context.at);
        Ok(Ruling::Append(Entry {
            leaf,
            unique: vec![receipt_key(&request.pae_sha256, &counted)],
            postings: request.postings.clone(),
        }))
    }
}

/// The signatures that count, or why the receipt is not taken.
pub(super) fn admit(state: &State, request: &ReceiptRequest) -> Result<Vec<Verified>, Problem> {
    let mut counted = Vec::with_capacity(request.verified.len());
    let mut stale = None;
    for verified in &request.verified {
        match state.identities.get(&verified.identity) {
            Some(identity) if let Some(index) = identity.revoked => {
                stale = Some(revoked(identity, index))
            }
            Some(identity) if identity.key.sha256 != verified.key => {
                stale = Some(retired(identity))
            }
            Some(_) => counted.push(verified.clone()),
            None => {}
        }
    }
    if counted.is_empty() {
        return Err(stale.unwrap_or_else(|| {
            Problem::new(Code::SignerUnknown, "no signature by an enrolled key")
        }));
    }
    if let Err(why) = state.receipts.check_type(&request.payload_type) {
        return Err(Problem::new(Code::TypeNotAllowed, why)
            .with("payload_type", request.payload_type.as_str()));
    }
    let need = state.receipts.threshold_for(&request.payload_type);
    if counted.len() < need {
        let have = counted.len();
        let why =
            format!("{have} distinct enrolled key(s) signed; the receipt policy asks for {need}");
        return Err(Problem::new(Code::ThresholdNotMet, why)
            .with("have", have)
            .with("need", need));
    }
    Ok(counted)
}

/// What is unique of a receipt: what was signed, and the keys that signed.
#[must_use]
pub fn receipt_key(pae_sha256: &Hash, signers: &[Verified]) -> Key {
    let mut text = Vec::with_capacity(32 * (1 + signers.len()));
    text.extend(pae_sha256.0);
    for signer in signers {
        text.extend(signer.key.0);
    }
    Key::new(space::RECEIPT, &sha256(&text))
}

/// The leaf of the same PAE under the same keys.
fn find_receipt(
    context: &Context<'_>,
    request: &ReceiptRequest,
    signers: &[Verified],
) -> Result<Option<u64>, StoreError> {
    if signers.is_empty() {
        return Ok(None);
    }
    let Some(index) = context.find(&receipt_key(&request.pae_sha256, signers))? else {
        return Ok(None);
    };
    let Some(leaf) = context.leaf(index)? else {
        return Ok(None);
    };
    let same = match Leaf::parse(&leaf) {
        Ok(Leaf::Receipt(receipt)) => {
            receipt.envelope.payload_type == request.payload_type
                && receipt.envelope.payload == request.payload
                && receipt
                    .signers
                    .iter()
                    .eq(signers.iter().map(|s| &s.identity))
        }
        _ => false,
    };
    Ok(same.then_some(index))
}
