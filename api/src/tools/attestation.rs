//! Attestations: what a session says of itself, so that any peer can have it checked.

use countersign_verifier::{base64, hash::Hash};
use serde::{Deserialize, Serialize};

mod shape;
mod verify;

pub use verify::VERIFY;

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
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    base64::decode(&text).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;

    #[test]
    fn only_the_account_that_made_it_takes_an_attestation_for_its_own() {
        let seats = |secret| Seats::new(Zeroizing::new([secret; 32]), "example.com/a".into());
        let claim = Claim {
            account: "example.com/a".into(),
            session: "s_5".into(),
            identity: "id_0".into(),
            role: "agent".into(),
            class: "agent_key".into(),
            index: 5,
            expires_at: "2026-11-29T13:00:00.000Z".into(),
        };
        let token = claim.to_token(&seats(1));
        assert_eq!(Claim::read(&token, &seats(1)), Ok((claim.clone(), true)));
        assert_eq!(Claim::read(&token, &seats(2)), Ok((claim.clone(), false)));
        let other = Claim {
            role: "owner".into(),
            ..claim
        };
        let tag = token.rsplit_once('.').unwrap().1;
        let forged = other.to_token(&seats(2));
        let forged = format!("{}.{tag}", forged.rsplit_once('.').unwrap().0);
        assert_eq!(Claim::read(&forged, &seats(1)), Ok((other, false)));
        for bad in [
            "",
            "csa1.",
            "csa1.a.b",
            "csa1.e30.AAAA",
            "cst_x",
            "csa1.&.&",
        ] {
            assert!(Claim::read(bad, &seats(1)).is_err(), "{bad}");
        }
    }
}
