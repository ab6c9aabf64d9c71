//! Keys of agents and humans: reading them, their identity, and the one predicate that judges them.

mod private;
mod text;

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use ed25519_dalek as ed25519;
use p256::ecdsa::signature::Verifier as _;

pub use self::private::PrivateKey;
pub(crate) use self::text::pem_blocks;
use crate::base64;
use crate::hash::{Hash, sha256};

/// The fixed DER before the key bytes of a SubjectPublicKeyInfo (RFC 8410 section 4, RFC 5480
/// section 2). Only these spellings are read, so that one key has one identity.
const ED25519_SPKI: &[u8] = b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00";
const P256_SPKI: &[u8] = b"\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00";
const P384_SPKI: &[u8] =
    b"\x30\x76\x30\x10\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\x00\x22\x03\x62\x00";

/// Why something is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not of any form that is read.
    #[error("not {0}")]
    Malformed(&'static str),
    /// A key of a kind that is not read.
    #[error("a key of another kind than Ed25519, ECDSA P-256 or ECDSA P-384")]
    Algorithm,
    /// An Ed25519 key of small order, or not in its one spelling: it would verify what nobody signed.
    #[error("a weak or ambiguous Ed25519 key")]
    Weak,
    /// A private key behind a passphrase.
    #[error(
        "an encrypted private key; store it without a passphrase, or sign where it can be opened"
    )]
    Encrypted,
    /// A private key where a public one is due.
    #[error("a private key where a public key is due")]
    Private,
    /// A file with no key, or with several where one is due.
    #[error("{0} keys where one is due")]
    Count(usize),
}

/// What a key signs with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// Ed25519 (RFC 8032), checked by `verify_strict`.
    Ed25519,
    /// ECDSA over P-256 with SHA-256.
    EcdsaP256,
    /// ECDSA over P-384 with SHA-384.
    EcdsaP384,
}

impl Algorithm {
    /// `ed25519`, `ecdsa-p256` or `ecdsa-p384`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ed25519 => "ed25519",
            Self::EcdsaP256 => "ecdsa-p256",
            Self::EcdsaP384 => "ecdsa-p384",
        }
    }
}

/// Who: `id_` and the SHA-256 of the SPKI of the identity's first public key, in hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdentityId(pub Hash);

impl fmt::Display for IdentityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "id_{}", self.0)
    }
}

impl fmt::Debug for IdentityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for IdentityId {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let digits = text
            .strip_prefix("id_")
            .and_then(|digits| Hash::from_hex(digits).ok());
        digits.map(Self).ok_or(KeyError::Malformed(
            "id_ and 64 lowercase hexadecimal digits",
        ))
    }
}

/// A public key that signs envelopes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublicKey {
    /// Ed25519.
    Ed25519(ed25519::VerifyingKey),
    /// ECDSA P-256.
    EcdsaP256(p256::ecdsa::VerifyingKey),
    /// ECDSA P-384.
    EcdsaP384(p384::ecdsa::VerifyingKey),
}

impl PublicKey {
    /// Reads exactly one key: SPKI in DER or PEM, an OpenSSH Ed25519 line, or an Ed25519 vkey.
    ///
    /// # Errors
    /// [`KeyError`]; [`KeyError::Count`] for none or several, [`KeyError::Private`] for a private key.
    pub fn parse(bytes: &[u8]) -> Result<Self, KeyError> {
        let mut keys = Self::parse_all(bytes)?;
        match (keys.pop(), keys.len()) {
            (Some(key), 0) => Ok(key),
            (key, others) => Err(KeyError::Count(others + usize::from(key.is_some()))),
        }
    }

    /// Reads all keys of a file: one DER key, PEM blocks, or lines of OpenSSH keys and vkeys.
    /// Empty lines and lines that start with `#` are passed over.
    ///
    /// # Errors
    /// [`KeyError`] of the first key that cannot be read.
    pub fn parse_all(bytes: &[u8]) -> Result<Vec<Self>, KeyError> {
        text::parse_all(bytes)
    }

    /// The key of an Ed25519 public key's 32 bytes.
    ///
    /// # Errors
    /// [`KeyError::Malformed`] when they are no point of the curve, [`KeyError::Weak`] for a point of
    /// small order or a second spelling of one.
    pub fn from_ed25519(bytes: &[u8; 32]) -> Result<Self, KeyError> {
        let key = ed25519::VerifyingKey::from_bytes(bytes)
            .map_err(|_| KeyError::Malformed("a point of the curve"))?;
        if key.is_weak() || key.to_edwards().compress().as_bytes() != bytes {
            return Err(KeyError::Weak);
        }
        Ok(Self::Ed25519(key))
    }

    /// Reads a SubjectPublicKeyInfo in the one DER spelling of each kind: uncompressed points, named
    /// curves, no parameters for Ed25519.
    ///
    /// # Errors
    /// [`KeyError::Algorithm`] for another kind or spelling, else as [`PublicKey::from_ed25519`].
    pub fn from_spki(der: &[u8]) -> Result<Self, KeyError> {
        const POINT: KeyError = KeyError::Malformed("a point of the curve");
        if let Some(key) = der.strip_prefix(ED25519_SPKI) {
            let key = key
                .try_into()
                .map_err(|_| KeyError::Malformed("a key of 32 bytes"))?;
            return Self::from_ed25519(key);
        }
        if let Some(point @ [4, ..]) = der.strip_prefix(P256_SPKI) {
            return p256::ecdsa::VerifyingKey::from_sec1_bytes(point)
                .map(Self::EcdsaP256)
                .map_err(|_| POINT);
        }
        if let Some(point @ [4, ..]) = der.strip_prefix(P384_SPKI) {
            return p384::ecdsa::VerifyingKey::from_sec1_bytes(point)
                .map(Self::EcdsaP384)
                .map_err(|_| POINT);
        }
        Err(KeyError::Algorithm)
    }

    /// What it signs with.
    #[must_use]
    pub const fn algorithm(&self) -> Algorithm {
        match self {
            Self::Ed25519(_) => Algorithm::Ed25519,
            Self::EcdsaP256(_) => Algorithm::EcdsaP256,
            Self::EcdsaP384(_) => Algorithm::EcdsaP384,
        }
    }

    /// The raw key: 32 bytes of Ed25519, or the uncompressed point (65 or 97 bytes).
    #[must_use]
    pub fn raw(&self) -> Vec<u8> {
        match self {
            Self::Ed25519(key) => key.to_bytes().to_vec(),
            Self::EcdsaP256(key) => key.to_sec1_point(false).as_bytes().to_vec(),
            Self::EcdsaP384(key) => key.to_sec1_point(false).as_bytes().to_vec(),
        }
    }

    /// The SubjectPublicKeyInfo in DER: 44, 91 or 120 bytes.
    #[must_use]
    pub fn spki_der(&self) -> Vec<u8> {
        let prefix = match self {
            Self::Ed25519(_) => ED25519_SPKI,
            Self::EcdsaP256(_) => P256_SPKI,
            Self::EcdsaP384(_) => P384_SPKI,
        };
        [prefix, &self.raw()].concat()
    }

    /// The SubjectPublicKeyInfo in PEM, with a final line feed.
    #[must_use]
    pub fn spki_pem(&self) -> String {
        text::pem("PUBLIC KEY", &self.spki_der())
    }

    /// The identity that this key begins: the SHA-256 of its SPKI. After a rotation the identity
    /// stays that of the first key.
    #[must_use]
    pub fn identity(&self) -> IdentityId {
        IdentityId(sha256(&self.spki_der()))
    }

    /// Whether `signature` is this key's over `message`.
    ///
    /// Ed25519: 64 bytes, `verify_strict`, and nothing else anywhere. ECDSA: SHA-256 for P-256 and
    /// SHA-384 for P-384; raw `r || s` or ASN.1 DER. A low `s` is not demanded, because common signers
    /// do not make one: so ECDSA signatures are malleable, and no signature is the name of anything.
    #[must_use]
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Ed25519(key) => ed25519::Signature::from_slice(signature)
                .is_ok_and(|signature| key.verify_strict(message, &signature).is_ok()),
            Self::EcdsaP256(key) => {
                use p256::ecdsa::Signature;
                // A DER signature can be as long as a raw one, so a raw one that fails is read again.
                let good = |signature| key.verify(message, &signature).is_ok();
                Signature::from_slice(signature).is_ok_and(good)
                    || Signature::from_der(signature).is_ok_and(good)
            }
            Self::EcdsaP384(key) => {
                use p384::ecdsa::Signature;
                let good = |signature| key.verify(message, &signature).is_ok();
                Signature::from_slice(signature).is_ok_and(good)
                    || Signature::from_der(signature).is_ok_and(good)
            }
        }
    }

    /// The hashes by which a keyid may name this key: of the SPKI, of the raw key, of the OpenSSH form.
    #[must_use]
    pub fn hint_hashes(&self) -> [Hash; 3] {
        [
            sha256(&self.spki_der()),
            sha256(&self.raw()),
            sha256(&text::ssh_blob(self)),
        ]
    }

    /// Whether a keyid names this key: our id, hexadecimal SHA-256 of the SPKI or of the raw key,
    /// `SHA256:` (OpenSSH's fingerprint, or the same of the SPKI), or a vkey. Only ever a hint about
    /// which key to try first (DSSE 1.0.2: keyid is not authenticated).
    #[must_use]
    pub fn matches_hint(&self, keyid: &str) -> bool {
        if let Some(print) = keyid.strip_prefix("SHA256:") {
            let is = |bytes: &[u8]| {
                base64::encode(&sha256(bytes).0).trim_end_matches('=')
                    == print.trim_end_matches('=')
            };
            return is(&text::ssh_blob(self)) || is(&self.spki_der());
        }
        if let Ok(hash) = Hash::from_hex(keyid.strip_prefix("id_").unwrap_or(keyid)) {
            return hash == self.identity().0 || hash == sha256(&self.raw());
        }
        keyid.contains('+') && text::vkey(keyid).is_ok_and(|key| key == *self)
    }
}

impl fmt::Display for PublicKey {
    /// The algorithm and the identity, for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&(self.algorithm().name().to_string() + " " + &self.identity().to_string()))
    }
}
