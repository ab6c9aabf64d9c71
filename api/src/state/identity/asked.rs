//! What is asked of identities: the arguments of their tools.

use serde::Deserialize;

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
