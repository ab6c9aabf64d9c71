//! What is asked of identities: the arguments of their tools.

use schemars::JsonSchema;
use serde::Deserialize;

/// What an identity may be where its enrolment names no role.
pub const ROLE_BY_DEFAULT: &str = "agent";

/// An identity has at most so many roles, of at most so many characters each.
const ROLES_MAX: usize = 16;
const ROLE_BYTES_MAX: usize = 32;

/// Names are 1 to 64 of these: nothing that looks like something else, nothing that changes direction.
const NAME_BYTES_MAX: usize = 64;

/// Arguments of `identity_enroll`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Enroll {
    /// A label, unique in the account whatever its case: 1 to 64 of `A-Z a-z 0-9 . _ - @`.
    pub name: String,
    /// Base64 of the new key's SPKI (DER): Ed25519, ECDSA P-256 or P-384.
    pub public_key: String,
    /// Where the key lives: `agent_key` (the default), or `seat_key` for one that the service keeps (`seat_get`).
    pub class: Option<String>,
    /// What it may be, by the account's policy: up to 16 names of `a-z 0-9 _ -`; `agent` if absent.
    pub roles: Option<Vec<String>>,
    /// Base64 of the new key's own signature over (origin, identity, class): `countersign key prove`. Without it the key may sign
    /// receipts and no operation; a `seat_key` needs it.
    pub possession: Option<String>,
}

impl Enroll {
    /// Whether the name can be one.
    ///
    /// # Errors
    /// A sentence that says what a name is.
    pub fn check_name(&self) -> Result<(), String> {
        is_name(&self.name)
    }

    /// The roles asked for, sorted, none twice.
    ///
    /// # Errors
    /// A sentence that says what a role is.
    pub fn roles(&self) -> Result<Vec<String>, String> {
        let Some(asked) = &self.roles else {
            return Ok(vec![ROLE_BY_DEFAULT.into()]);
        };
        let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b);
        let good =
            |role: &String| (1..=ROLE_BYTES_MAX).contains(&role.len()) && role.bytes().all(fits);
        let mut roles = asked.clone();
        roles.sort_unstable();
        roles.dedup();
        if roles.len() > ROLES_MAX || !roles.iter().all(good) {
            return Err(format!(
                "roles: up to {ROLES_MAX} names of 1 to {ROLE_BYTES_MAX} of a-z 0-9 _ -"
            ));
        }
        Ok(roles)
    }
}

/// Whether an identity can have this name.
///
/// # Errors
/// A sentence that says what a name is.
pub fn is_name(name: &str) -> Result<(), String> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b".-_@".contains(&b);
    if (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(fits) {
        return Ok(());
    }
    Err(format!(
        "name: 1 to {NAME_BYTES_MAX} of A-Z a-z 0-9 . _ - @"
    ))
}

/// Arguments of `identity_rotate`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rotate {
    /// Whose key changes: `id_` and 64 hexadecimal digits.
    pub identity: String,
    /// Base64 of the new key's SPKI (DER): Ed25519, ECDSA P-256 or P-384.
    pub public_key: String,
    /// Base64 of the new key's own signature over (origin, identity, class): `countersign key prove`. Without it the key may sign
    /// receipts and no operation.
    pub possession: Option<String>,
}

/// Arguments of `identity_revoke`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Revoke {
    /// Whose signatures count no more: `id_` and 64 hexadecimal digits.
    pub identity: String,
    /// Why, at most 256 bytes; stays in the log for ever.
    pub reason: Option<String>,
}
