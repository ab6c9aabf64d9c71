//! What a token says: who signed it, and, once that is verified, for whom, for what and how long.

use jsonwebtoken::{Algorithm, decode_header};
use serde::Deserialize;
use serde_json::{Map, Number, Value};

use super::{Settings, keys::Signer};

/// How far the clocks of the server that signs and of this one may be apart, in seconds.
const SKEW_S: u64 = 60;
/// The longest name of a subject, in bytes.
const SUBJECT_BYTES_MAX: usize = 512;
/// What signs: each by a private key that only the server has. A list, so that what a library learns is not taken by itself; no
/// `none`, and nothing whose verifier could sign.
pub(super) const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// Why a token is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denied {
    /// It is none, or none for here and now.
    Invalid(&'static str),
    /// It is good, and not for this: the scope that it lacks.
    Scope(String),
    /// Whether it is good cannot be told: the server gives no keys.
    Unavailable,
}

/// Who has signed it, as it says.
///
/// # Errors
/// [`Denied::Invalid`].
pub(super) fn signer(token: &str) -> Result<Signer, Denied> {
    let malformed =
        Denied::Invalid("it is no signed JSON Web Token, or by an algorithm that is not taken");
    let header = decode_header(token).map_err(|_| malformed.clone())?;
    if !ALGORITHMS.contains(&header.alg) {
        return Err(malformed);
    }
    // RFC 7515 section 4.1.11: whoever does not know an extension that must be understood refuses.
    if header.extras.inner().contains_key("crit") {
        return Err(Denied::Invalid(
            "its header asks for what is not known here",
        ));
    }
    let is_access = |kind: &str| {
        let kind = kind.to_ascii_lowercase();
        ["jwt", "at+jwt", "application/at+jwt"].contains(&kind.as_str())
    };
    if !header.typ.as_deref().is_none_or(is_access) {
        return Err(Denied::Invalid("it is a token for something else (`typ`)"));
    }
    Ok(Signer {
        algorithm: header.alg,
        kid: header.kid,
    })
}

/// What a verified token says.
#[derive(Deserialize)]
pub(super) struct Claims {
    iss: Option<String>,
    aud: Option<OneOrMany>,
    exp: Option<Number>,
    nbf: Option<Number>,
    scope: Option<OneOrMany>,
    scp: Option<OneOrMany>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    fn texts(&self) -> &[String] {
        match self {
            OneOrMany::One(text) => std::slice::from_ref(text),
            OneOrMany::Many(texts) => texts,
        }
    }
}

/// Seconds since 1970, what is behind the point left out.
fn seconds(number: &Number) -> Option<u64> {
    let whole = number.to_string();
    number
        .as_u64()
        .or_else(|| whole.split('.').next()?.parse().ok())
}

impl Claims {
    /// The subject of a token that is by this issuer, for this resource, and good at this time (milliseconds since 1970).
    pub(super) fn judge(
        &self,
        settings: &Settings,
        resource: &str,
        wall_ms: u64,
    ) -> Result<String, Denied> {
        let now = wall_ms / 1_000;
        if self.iss.as_deref() != Some(settings.issuer.as_str()) {
            return Err(Denied::Invalid("it is by another issuer (`iss`)"));
        }
        let audience = self.aud.as_ref().map_or(&[][..], OneOrMany::texts);
        if !audience.iter().any(|one| one == resource) {
            return Err(Denied::Invalid("it is for another resource (`aud`)"));
        }
        let Some(ends) = self.exp.as_ref().and_then(seconds) else {
            return Err(Denied::Invalid("it does not say when it ends (`exp`)"));
        };
        if ends.saturating_add(SKEW_S) <= now {
            return Err(Denied::Invalid("it has ended (`exp`)"));
        }
        let begins = self
            .nbf
            .as_ref()
            .map(|nbf| seconds(nbf).unwrap_or(u64::MAX));
        if begins.is_some_and(|begins| begins > now.saturating_add(SKEW_S)) {
            return Err(Denied::Invalid("it is not good yet (`nbf`)"));
        }
        let subject = self.others.get(&settings.claim).and_then(Value::as_str);
        let subject = subject.filter(|subject| {
            (1..=SUBJECT_BYTES_MAX).contains(&subject.len())
                && !subject.chars().any(char::is_control)
        });
        let Some(subject) = subject else {
            return Err(Denied::Invalid("it names no subject (`mcp.subject_claim`)"));
        };
        let given = [&self.scope, &self.scp];
        let given = given.into_iter().flatten().flat_map(OneOrMany::texts);
        let given: Vec<&str> = given.flat_map(|text| text.split(' ')).collect();
        let lacking = settings
            .scopes
            .iter()
            .find(|scope| !given.contains(&scope.as_str()));
        match lacking {
            Some(scope) => Err(Denied::Scope(scope.clone())),
            None => Ok(subject.to_owned()),
        }
    }
}
