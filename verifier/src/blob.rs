//! Bodies beside a log: what stands in a leaf of one that is too large to stand there itself.
//!
//! A reference is `{"commitment":…,"bytes":…,"media_type":…}`, somewhere in a signed payload. The commitment is the SHA-256 of 32
//! bytes of chance, the salt, and the body. Whoever has neither learns nothing of a body by its commitment, however short it is; and
//! once both are erased nobody can say any more what it was.

use alloc::string::String;
use alloc::vec::Vec;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::hash::Hash;

/// Bytes of a salt.
pub const SALT_BYTES: usize = 32;

/// A payload is searched so deep; nesting of signed payloads of our own ends at 32.
const DEPTH_MAX: usize = 64;

/// The commitment to `body` under `salt`: SHA-256(salt ‖ body).
#[must_use]
pub fn commitment(salt: &[u8; SALT_BYTES], body: &[u8]) -> Hash {
    Hash(
        Sha256::new()
            .chain_update(salt)
            .chain_update(body)
            .finalize()
            .into(),
    )
}

/// What a payload says of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// SHA-256(salt ‖ body).
    pub commitment: Hash,
    /// How many bytes the body has, where that is said.
    pub bytes: Option<u64>,
    /// What the body is, where that is said.
    pub media_type: Option<String>,
}

/// Every reference in a payload, in its order: each object, however deep, with a `commitment` of 64 lowercase hexadecimal digits.
/// A payload that is no JSON has none.
///
/// Read leniently, unlike what we act on: a receipt's payload is its signer's own, and may hold numbers or names that our own may not.
#[must_use]
pub fn references(payload: &[u8]) -> Vec<Reference> {
    let mut found = Vec::new();
    if let Ok(value) = serde_json::from_slice(payload) {
        collect(&value, 0, &mut found);
    }
    found
}

fn collect(value: &Value, depth: usize, found: &mut Vec<Reference>) {
    if depth > DEPTH_MAX {
        return;
    }
    match value {
        Value::Object(members) => {
            let commitment = members.get("commitment").and_then(Value::as_str);
            if let Some(Ok(commitment)) = commitment.map(Hash::from_hex) {
                found.push(Reference {
                    commitment,
                    bytes: members.get("bytes").and_then(Value::as_u64),
                    media_type: members
                        .get("media_type")
                        .and_then(Value::as_str)
                        .map(String::from),
                });
            }
            members
                .values()
                .for_each(|value| collect(value, depth + 1, found));
        }
        Value::Array(elements) => elements
            .iter()
            .for_each(|value| collect(value, depth + 1, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    #[test]
    fn the_commitment_is_that_of_salt_and_body() {
        let salted = [&[0; 32][..], b"body"].concat();
        assert_eq!(commitment(&[0; 32], b"body"), crate::hash::sha256(&salted));
        assert_ne!(commitment(&[1; 32], b"body"), commitment(&[0; 32], b"body"));
    }

    #[test]
    fn references_are_found_wherever_they_stand() {
        let a = commitment(&[0; 32], b"a");
        let b = commitment(&[0; 32], b"b");
        let text = format!(
            "{{\"x\":[{{\"commitment\":\"{a}\",\"bytes\":1,\"media_type\":\"text/plain\"}},1.5],\"commitment\":\"{b}\"}}"
        );
        let mut found = references(text.as_bytes());
        found.sort_by_key(|reference| reference.bytes);
        let expected = [
            Reference {
                commitment: b,
                bytes: None,
                media_type: None,
            },
            Reference {
                commitment: a,
                bytes: Some(1),
                media_type: Some("text/plain".into()),
            },
        ];
        assert_eq!(found, expected);
        for none in [
            "",
            "{",
            "[]",
            "{\"commitment\":7}",
            "{\"commitment\":\"ABC\"}",
        ] {
            assert_eq!(references(none.as_bytes()), [], "{none}");
        }
        let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
        assert_eq!(references(deep.as_bytes()), []);
    }
}
