//! Attestations: what a session says of itself, so that any peer can have it checked.

use countersign_verifier::{base64, hash::Hash};
use serde::{Deserialize, Serialize};

use crate::seat::Seats;

/// Every attestation begins so.
const PREFIX: &str = "csa1.";

/// What an attestation says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The origin of the account's log.
    pub account: String,
    /// The session.
    pub session: String,
    /// Whose it is.
    pub identity: String,
    /// As what.
    pub role: String,
    /// Where the key lives that signs in it.
    pub class: String,
    /// The leaf that says the same, for whoever checks without the service.
    pub index: u64,
    /// When the session ends unless it is renewed.
    pub expires_at: String,
}

impl Claim {
    /// As a text: `csa1.`, the claim and the account's tag on it, both in base64 for addresses.
    #[must_use]
    pub fn to_token(&self, seats: &Seats) -> String {
        // OK because a struct of texts and a number has no key that is not a text.
        let claim = serde_json::to_vec(self).expect("Claim::to_token");
        let tag = seats.tag(&claim);
        format!("{PREFIX}{}.{}", plain(&claim), plain(&tag.0))
    }

    /// The claim of a text, and whether its tag is this account's.
    ///
    /// # Errors
    /// A sentence that says why it is no attestation.
    pub fn read(token: &str, seats: &Seats) -> Result<(Claim, bool), String> {
        let parts = token
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split_once('.'));
        let (claim, tag) = parts.ok_or("not an attestation: csa1.<claim>.<tag>")?;
        let (claim, tag) = (bytes(claim)?, bytes(tag)?);
        let tag: [u8; 32] = tag.try_into().map_err(|_| "the tag is not 32 bytes")?;
        let due = seats.tag(&claim);
        let read = serde_json::from_slice(&claim).map_err(|e| format!("the claim: {e}"))?;
        Ok((read, same(&due, &Hash(tag))))
    }
}

/// In the same time wherever they differ.
fn same(a: &Hash, b: &Hash) -> bool {
    a.0.iter().zip(b.0).fold(0, |d, (a, b)| d | (a ^ b)) == 0
}

fn plain(bytes: &[u8]) -> String {
    let text = base64::encode(bytes);
    text.trim_end_matches('=')
        .replace('+', "-")
        .replace('/', "_")
}

fn bytes(text: &str) -> Result<Vec<u8>, String> {
    let mut text = text.replace('-', "+").replace('_', "/");
    while text.len() % 4 != 0 {
        text.push('=');
    }
    base64::decode(&text).map_err(|e| e.to_string())
}
