//! A stored leaf's lookup keys, as judging gave them.

use countersign_log::{Entry, Key, import::Restore};
use countersign_verifier::{
    dsse::Envelope,
    hash::{Hash, sha256},
    leaf::Leaf,
    operation::Operation,
    statement::{self, Statement},
};

use super::{Ledger, Verified, operation::nonce_key, receipt::receipt_key, replay::current, space};
use crate::state::State;

impl Restore for Ledger {
    fn stored(&self, leaf: &[u8]) -> Result<(u64, Entry), String> {
        let parsed = Leaf::parse(leaf).map_err(|e| e.to_string())?;
        let (unique, postings) = keys_of(&self.state, &parsed)?;
        let entry = Entry {
            leaf: leaf.to_vec(),
            unique,
            postings,
        };
        Ok((parsed.at().0, entry))
    }
}

/// The lookup keys of a leaf, in the state of the leaves before it: those that name it alone, and those that may name others too.
///
/// # Errors
/// Why it cannot be a leaf at this place.
pub fn keys_of(state: &State, leaf: &Leaf<'_>) -> Result<(Vec<Key>, Vec<Key>), String> {
    match leaf {
        Leaf::System(_) => Ok((Vec::new(), Vec::new())),
        Leaf::Operation(operation) => {
            let payload = &operation.envelope.payload;
            let asked = Operation::parse(payload).map_err(|e| e.to_string())?;
            let unique = vec![nonce_key(&operation.by.identity, &asked.nonce)];
            Ok((unique, Vec::new()))
        }
        Leaf::Receipt(receipt) => {
            // The keys that the signers have before this leaf are those that they had when it was judged.
            let signers: Result<Vec<Verified>, String> = receipt
                .signers
                .iter()
                .map(|id| current(state, id))
                .collect();
            let pae = sha256(&receipt.envelope.pae());
            let unique = vec![receipt_key(&pae, &signers?)];
            Ok((unique, receipt_postings(&receipt.envelope)))
        }
    }
}

/// What a receipt is to be found by, besides what signed it: its payload, and what that speaks of if it is a statement.
#[must_use]
pub fn receipt_postings(envelope: &Envelope) -> Vec<Key> {
    let mut postings = vec![Key::new(space::PAYLOAD, &sha256(&envelope.payload))];
    postings.extend(subjects(envelope).map(|digest| Key::new(space::SUBJECT, &digest)));
    postings.sort_unstable();
    postings.dedup();
    postings
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
