//! The keys that an authorization server publishes (RFC 7517).

use jsonwebtoken::{
    Algorithm, AlgorithmFamily, DecodingKey, Validation, decode,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse},
};
use serde::Deserialize as _;
use serde_json::Value;

use super::token::{ALGORITHMS, Claims, Denied};

/// A set has at most so many keys that are looked at: each may be tried for a token that names none.
const KEYS_MAX: usize = 32;

/// By what a token says that it is signed.
#[derive(Clone, Debug)]
pub(super) struct Signer {
    pub algorithm: Algorithm,
    pub kid: Option<String>,
}

pub(super) struct Keys(Vec<Key>);

struct Key {
    kid: Option<String>,
    /// What may be signed with it.
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
}

impl Key {
    fn of(row: &Value) -> Option<Key> {
        let jwk = Jwk::deserialize(row).ok()?;
        let use_ = jwk.common.public_key_use.as_ref();
        if use_.is_some_and(|of| *of != PublicKeyUse::Signature) {
            return None;
        }
        let fits: &[Algorithm] = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => &ALGORITHMS[..6],
            AlgorithmParameters::EllipticCurve(key) => match key.curve {
                EllipticCurve::P256 => &[Algorithm::ES256],
                EllipticCurve::P384 => &[Algorithm::ES384],
                _ => return None,
            },
            AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
                &[Algorithm::EdDSA]
            }
            // A secret that is published is none.
            _ => return None,
        };
        let key = DecodingKey::from_jwk(&jwk).ok()?;
        if key.family() == AlgorithmFamily::Hmac {
            return None;
        }
        // Where a key says what it is for, it is for nothing else.
        let own = row.get("alg").and_then(Value::as_str);
        let algorithms = fits
            .iter()
            .filter(|one| own.is_none_or(|own| own == format!("{one:?}")));
        Some(Key {
            algorithms: algorithms.copied().collect(),
            kid: jwk.common.key_id,
            key,
        })
    }

    fn fits(&self, signer: &Signer) -> bool {
        let named = signer.kid.is_none() || signer.kid == self.kid;
        named && self.algorithms.contains(&signer.algorithm)
    }
}

impl Keys {
    /// The keys of a set that can sign tokens; what is not known is passed over.
    pub(super) fn of(set: &Value) -> Result<Keys, &'static str> {
        let rows = set.get("keys").and_then(Value::as_array);
        let rows = rows.ok_or("what is at its `jwks_uri` is no set of keys")?;
        let keys: Vec<Key> = rows.iter().filter_map(Key::of).take(KEYS_MAX).collect();
        match keys.is_empty() {
            true => Err("none of its keys is of a kind that is taken"),
            false => Ok(Keys(keys)),
        }
    }

    /// Whether one of them may be the one that signed.
    pub(super) fn has(&self, signer: &Signer) -> bool {
        self.0.iter().any(|key| key.fits(signer))
    }

    /// What a token says, its signature verified.
    pub(super) fn open(&self, token: &str, signer: &Signer) -> Result<Claims, Denied> {
        let mut signature = Validation::new(signer.algorithm);
        // Everything else is judged in `token`, against this service's clock.
        signature.required_spec_claims.clear();
        signature.validate_exp = false;
        signature.validate_aud = false;
        let mut fitting = self.0.iter().filter(|key| key.fits(signer));
        let opened = fitting.find_map(|key| decode::<Claims>(token, &key.key, &signature).ok());
        let why = "its signature does not hold, or its claims cannot be read";
        opened.map(|token| token.claims).ok_or(Denied::Invalid(why))
    }
}
