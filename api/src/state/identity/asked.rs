//! What is asked of identities: the arguments of their tools.

use serde::Deserialize;

/// Names are 1 to 64 of these: nothing that looks like something else, nothing that changes direction.
const NAME_BYTES_MAX: usize = 64;

/// Arguments of `identity_enroll`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enroll {
    /// A label, unique in the account: 1 to 64 of `A-Z a-z 0-9 . _ - @`.
    pub name: String,
    /// Base64 of the new key's SPKI.
    pub public_key: String,
    /// Where the key lives; `agent_key` if absent.
    pub class: Option<String>,
    /// Base64 of the new key's signature over (origin, identity, class).
    pub possession: Option<String>,
}

impl Enroll {
    /// Whether the name can be one.
    ///
    /// # Errors
    /// A sentence that says what a name is.
    pub fn check_name(&self) -> Result<(), String> {
        let fits = |b: u8| b.is_ascii_alphanumeric() || b".-_@".contains(&b);
        if (1..=NAME_BYTES_MAX).contains(&self.name.len()) && self.name.bytes().all(fits) {
            return Ok(());
        }
        Err(format!(
            "name: 1 to {NAME_BYTES_MAX} of A-Z a-z 0-9 . _ - @"
        ))
    }
}

/// Arguments of `identity_rotate`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rotate {
    /// Whose key changes.
    pub identity: String,
    /// Base64 of the new key's SPKI.
    pub public_key: String,
    /// Base64 of the new key's signature over (origin, identity, class).
    pub possession: Option<String>,
}

/// Arguments of `identity_revoke`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revoke {
    /// Whose signatures count no more.
    pub identity: String,
    /// Why, at most 256 bytes.
    pub reason: Option<String>,
}
