//! Verifier keys of signed notes, and what a line under each kind of them shows (c2sp.org/signed-note).

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use ed25519_dalek::{Signature, VerifyingKey};
use p256::ecdsa::signature::Verifier as _;
use p256::pkcs8::{DecodePublicKey as _, EncodePublicKey as _};

use crate::base64::{self, Base64Error};
use crate::cosign;
use crate::hash::{hex, sha256};
use crate::limits::VKEY_BYTES_MAX;
use crate::mldsa;
use crate::rfc6962;

pub use crate::signer::{CosignSigner, MlDsaSigner, NoteSigner};

/// The four bytes that, together with a name, say which key made a signature line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub [u8; 4]);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A public key with the name it signs under: `<name>+<key ID, hex>+<base64 of type and key>`.
///
/// `Display` prints that text; [`parse`](Self::parse) reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifierKey {
    /// Key name: not empty, no white space, no `+`. Compared byte by byte.
    pub name: String,
    /// Key ID, as computed from name, kind and key.
    pub id: KeyId,
    /// Kind of signature, with the key.
    pub algorithm: Algorithm,
}

/// What a key signs, and the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Type 0x01: Ed25519 over the note's text.
    Ed25519(VerifyingKey),
    /// Type 0x02: ECDSA P-256 with SHA-256 over the note's text, ASN.1 DER (Rekor v1, Pixel).
    EcdsaP256(p256::ecdsa::VerifyingKey),
    /// Type 0x04: cosignature/v1, Ed25519 over a timestamp and the note's text.
    CosignatureV1(VerifyingKey),
    /// Type 0x06: ML-DSA-44 over a timestamp, the origin and the head of a tree or subtree.
    MlDsa44(mldsa::PublicKey),
    /// Type 0x05, RFC 6962 tree heads ([`crate::rfc6962`]): they cover size and root, and not the origin, so that only who
    /// has set a key apart for one log can use them. Any other kind has signatures that are not judged here.
    Other {
        /// The type byte.
        kind: u8,
        /// The public key as the verifier key holds it.
        key: Vec<u8>,
    },
}

/// Why a text is not a verifier key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VkeyError {
    /// Longer than [`VKEY_BYTES_MAX`].
    #[error("verifier key of {bytes} bytes is beyond the largest, {VKEY_BYTES_MAX}")]
    TooLong {
        /// Bytes of the text.
        bytes: usize,
    },
    /// Not three fields with `+` between them.
    #[error("not a verifier key: <name>+<key ID>+<base64>")]
    Fields,
    /// The name is empty, or has white space, a control character or `+` in it.
    #[error("key name is empty, or has white space, a control character or a plus in it")]
    Name,
    /// The name of an ML-DSA-44 key is longer than what it signs can hold.
    #[error(
        "key name of {bytes} bytes; an ML-DSA-44 key signs at most {} of them",
        cosign::subtree::NAME_BYTES_MAX
    )]
    LongName {
        /// Bytes of the name.
        bytes: usize,
    },
    /// The key ID is not 8 lowercase hexadecimal digits.
    #[error("key ID is not 8 lowercase hexadecimal digits")]
    KeyId,
    /// The key is not base64.
    #[error("key: {0}")]
    Base64(#[from] Base64Error),
    /// A type byte that names no kind of signature known here.
    #[error("key type 0x{kind:02x} is not known")]
    Type {
        /// The type byte.
        kind: u8,
    },
    /// The bytes are no key of their kind, or a weak one.
    #[error("not a usable public key of type 0x{kind:02x}")]
    Key {
        /// The type byte.
        kind: u8,
    },
    /// The stated key ID belongs to another name or key.
    #[error("key ID is stated as {stated}, but name and key give {computed}")]
    Mismatch {
        /// The ID in the text.
        stated: KeyId,
        /// The ID of name, type and key.
        computed: KeyId,
    },
}

/// A signature does not verify.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("signature does not verify")]
pub struct BadSignature;

impl Algorithm {
    /// Reads type byte and key.
    fn parse(bytes: &[u8]) -> Result<Self, VkeyError> {
        let (&kind, key) = bytes.split_first().ok_or(VkeyError::Fields)?;
        let bad = VkeyError::Key { kind };
        Ok(match kind {
            0x01 => Self::Ed25519(ed25519(key).ok_or(bad)?),
            0x02 => Self::EcdsaP256(p256_spki(key).ok_or(bad)?),
            0x04 => Self::CosignatureV1(ed25519(key).ok_or(bad)?),
            0x05 => p256_spki(key)
                .map(|_| Self::Other {
                    kind,
                    key: key.to_vec(),
                })
                .ok_or(bad)?,
            0x06 => Self::MlDsa44(mldsa::PublicKey::from_bytes(key).ok_or(bad)?),
            _ => return Err(VkeyError::Type { kind }),
        })
    }

    /// The type byte.
    #[must_use]
    pub fn kind(&self) -> u8 {
        match self {
            Self::Ed25519(_) => 0x01,
            Self::EcdsaP256(_) => 0x02,
            Self::CosignatureV1(_) => 0x04,
            Self::MlDsa44(_) => 0x06,
            Self::Other { kind, .. } => *kind,
        }
    }

    /// The public key as a verifier key holds it behind the type byte: 32 bytes of Ed25519, SPKI DER of
    /// ECDSA, 1,312 bytes of ML-DSA-44.
    #[must_use]
    pub fn public_key(&self) -> Vec<u8> {
        match self {
            Self::Ed25519(key) | Self::CosignatureV1(key) => key.to_bytes().to_vec(),
            Self::EcdsaP256(key) => key
                .to_public_key_der()
                .expect("OK because a P-256 point always encodes")
                .into_vec(),
            Self::MlDsa44(key) => key.to_bytes().to_vec(),
            Self::Other { key, .. } => key.clone(),
        }
    }
}

/// A point of full order; keys that would verify what they never signed are refused when read.
fn ed25519(key: &[u8]) -> Option<VerifyingKey> {
    VerifyingKey::from_bytes(key.try_into().ok()?)
        .ok()
        .filter(|key| !key.is_weak())
}

/// Only the canonical DER, so that a key has one text and one key ID.
fn p256_spki(der: &[u8]) -> Option<p256::ecdsa::VerifyingKey> {
    let key = p256::ecdsa::VerifyingKey::from_public_key_der(der).ok()?;
    (key.to_public_key_der().ok()?.as_bytes() == der).then_some(key)
}

impl VerifierKey {
    /// A key under a name, its key ID computed.
    ///
    /// # Errors
    /// [`VkeyError::Name`], [`VkeyError::LongName`].
    pub fn new(name: &str, algorithm: Algorithm) -> Result<Self, VkeyError> {
        if !is_name(name) {
            return Err(VkeyError::Name);
        }
        let bytes = name.len();
        if matches!(algorithm, Algorithm::MlDsa44(_)) && bytes > cosign::subtree::NAME_BYTES_MAX {
            return Err(VkeyError::LongName { bytes });
        }
        Ok(Self {
            name: name.into(),
            id: key_id(name, &algorithm),
            algorithm,
        })
    }

    /// Reads the text of a verifier key and compares its key ID with the one its name and key give.
    ///
    /// # Errors
    /// [`VkeyError`], by field.
    pub fn parse(text: &str) -> Result<Self, VkeyError> {
        if text.len() > VKEY_BYTES_MAX {
            return Err(VkeyError::TooLong { bytes: text.len() });
        }
        // At the first two only: a base64 text may have `+` in it.
        let mut fields = text.splitn(3, '+');
        let (Some(name), Some(id), Some(key)) = (fields.next(), fields.next(), fields.next())
        else {
            return Err(VkeyError::Fields);
        };
        let algorithm = Algorithm::parse(&base64::decode(key)?)?;
        let vkey = Self::new(name, algorithm)?;
        if hex(&vkey.id.0) != id {
            let stated = parse_id(id).ok_or(VkeyError::KeyId)?;
            return Err(VkeyError::Mismatch {
                stated,
                computed: vkey.id,
            });
        }
        Ok(vkey)
    }

    /// Checks a signature line's bytes behind the key ID against the note's text, by `verify_strict`
    /// where the key is Ed25519. An ML-DSA-44 key verifies over checkpoints only, and covers no extension
    /// line of one ([`covers_text`](Self::covers_text)).
    ///
    /// # Errors
    /// [`BadSignature`], for a wrong length too, and always for [`Algorithm::Other`] but that of type 0x05.
    pub fn verify(&self, text: &str, signature: &[u8]) -> Result<(), BadSignature> {
        match &self.algorithm {
            Algorithm::Ed25519(key) => {
                let signature = Signature::from_slice(signature).map_err(|_| BadSignature)?;
                key.verify_strict(text.as_bytes(), &signature)
                    .map_err(|_| BadSignature)
            }
            Algorithm::EcdsaP256(key) => {
                let signature =
                    p256::ecdsa::Signature::from_der(signature).map_err(|_| BadSignature)?;
                key.verify(text.as_bytes(), &signature)
                    .map_err(|_| BadSignature)
            }
            Algorithm::CosignatureV1(key) => cosign::verify(key, text, signature)
                .map(|_time| ())
                .map_err(|_| BadSignature),
            Algorithm::MlDsa44(key) => {
                cosign::subtree::verify_checkpoint(key, &self.name, text, signature)
                    .map(|_time| ())
                    .map_err(|_| BadSignature)
            }
            Algorithm::Other { kind: 0x05, key } => p256_spki(key)
                .and_then(|key| rfc6962::verify(&key, text, signature))
                .map(|_time| ())
                .ok_or(BadSignature),
            Algorithm::Other { .. } => Err(BadSignature),
        }
    }

    /// Whether a signature by this key covers a checkpoint's whole text. One of ML-DSA-44 covers origin,
    /// size and root: where it is the only one trusted, extension lines are anybody's word
    /// (c2sp.org/tlog-cosignature).
    #[must_use]
    pub fn covers_text(&self) -> bool {
        !matches!(
            self.algorithm,
            Algorithm::MlDsa44(_) | Algorithm::Other { .. }
        )
    }

    /// The same Ed25519 key as a cosigner of cosignature/v1; `None` for another kind.
    ///
    /// Many witnesses publish a key of type 0x01 and sign as 0x04: a configuration that takes such a text
    /// must say so and convert it, since the key ID differs.
    #[must_use]
    pub fn as_cosigner(&self) -> Option<Self> {
        let Algorithm::Ed25519(key) = &self.algorithm else {
            return None;
        };
        Self::new(&self.name, Algorithm::CosignatureV1(*key)).ok()
    }
}

impl fmt::Display for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut key = alloc::vec![self.algorithm.kind()];
        key.extend(self.algorithm.public_key());
        write!(f, "{}+{}+{}", self.name, self.id, base64::encode(&key))
    }
}

/// SHA-256 of name, LF, type and key, cut to four bytes; of the SPKI alone for ECDSA; with the LogID in
/// place of the key for type 0x05.
fn key_id(name: &str, algorithm: &Algorithm) -> KeyId {
    let (kind, mut key) = (algorithm.kind(), algorithm.public_key());
    let hash = match kind {
        0x02 => sha256(&key),
        _ => {
            if kind == 0x05 {
                key = sha256(&key).0.to_vec();
            }
            sha256(&[name.as_bytes(), b"\n", &[kind], &key].concat())
        }
    };
    let [a, b, c, d, ..] = hash.0;
    KeyId([a, b, c, d])
}

fn parse_id(text: &str) -> Option<KeyId> {
    let lowercase = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if text.len() != 8 || !lowercase {
        return None;
    }
    u32::from_str_radix(text, 16)
        .ok()
        .map(|id| KeyId(id.to_be_bytes()))
}

/// Whether `name` may stand in a signature line: not empty, no Unicode white space, no `+`, and no
/// control character, which no note can hold.
#[must_use]
pub fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c == '+' || c < ' ')
}
