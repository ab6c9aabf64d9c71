//! ML-DSA-44 (FIPS 204), with the empty context string: the one place that names the library.
//!
//! Keys are made of a 32-byte seed, which is what is kept of them (RFC 9881).

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use ::ml_dsa::{
    B32, EncodedSignature, EncodedVerifyingKey, ExpandedSigningKey, MlDsa44, Seed, Signature,
    VerifyingKey,
};
use zeroize::Zeroizing;

use crate::base64;
use crate::hash::sha256;
use crate::key::pem_blocks;

/// Bytes of a public key.
pub const PUBLIC_BYTES: usize = 1312;

/// Bytes of a signature.
pub const SIGNATURE_BYTES: usize = 2420;

/// For [`SecretKey::sign`]: sign the same message the same way each time (FIPS 204 section 3.4, the
/// deterministic variant).
pub const DETERMINISTIC: [u8; 32] = [0; 32];

/// What FIPS 204 puts before a message that was not hashed before, with an empty context.
const PURE: [u8; 2] = [0, 0];

/// The DER before a seed in PKCS#8 (RFC 9881 section 6, the form `seed`).
const SEED_FORM: &[u8] =
    b"\x30\x34\x02\x01\x00\x30\x0b\x06\x09\x60\x86\x48\x01\x65\x03\x04\x03\x11\x04\x22\x80\x20";
/// The DER before seed and expanded key (the form `both`, which OpenSSL writes).
const BOTH_FORM: &[u8] = b"\x30\x82\x0a\x3e\x02\x01\x00\x30\x0b\x06\x09\x60\x86\x48\x01\x65\x03\x04\x03\x11\x04\x82\x0a\x2a\x30\x82\x0a\x26\x04\x20";
/// The DER between them.
const EXPANDED: &[u8] = b"\x04\x82\x0a\x00";
/// Bytes of an expanded key (FIPS 204 table 2).
const EXPANDED_BYTES: usize = 2560;

/// A public key. Clones share what was computed from its bytes once, some 20 KiB.
#[derive(Clone)]
pub struct PublicKey(Arc<Expanded>);

struct Expanded {
    bytes: [u8; PUBLIC_BYTES],
    key: VerifyingKey<MlDsa44>,
}

impl PublicKey {
    /// The key of its bytes; `None` for another number of them than [`PUBLIC_BYTES`]. All byte strings of
    /// that length are keys (FIPS 204 section 5.4).
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let encoded = EncodedVerifyingKey::<MlDsa44>::try_from(bytes).ok()?;
        let bytes = bytes.try_into().ok()?;
        let key = VerifyingKey::decode(&encoded);
        Some(Self(Arc::new(Expanded { bytes, key })))
    }

    /// Its bytes.
    #[must_use]
    pub fn to_bytes(&self) -> &[u8; PUBLIC_BYTES] {
        &self.0.bytes
    }

    /// Whether `signature` is this key's over `message`. Signatures are randomised: two over one message
    /// differ, and both hold.
    #[must_use]
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        let signature = EncodedSignature::<MlDsa44>::try_from(signature).ok();
        let signature = signature.and_then(|encoded| Signature::decode(&encoded));
        signature.is_some_and(|signature| self.0.key.verify_with_context(message, &[], &signature))
    }
}

impl PartialEq for PublicKey {
    fn eq(&self, other: &Self) -> bool {
        self.to_bytes() == other.to_bytes()
    }
}

impl Eq for PublicKey {}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MlDsa44(sha256 {})", sha256(self.to_bytes()))
    }
}

/// Why a text is not a private key of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretKeyError {
    /// Not one private key in PKCS#8 PEM.
    #[error("not one ML-DSA-44 private key in PKCS#8 PEM")]
    Malformed,
    /// Behind a passphrase.
    #[error("an encrypted private key; store it without a passphrase")]
    Encrypted,
    /// The expanded key beside the seed is not made of it.
    #[error("an ML-DSA-44 private key whose expanded key does not fit its seed")]
    Mismatch,
}

/// A private key. It erases itself when dropped.
#[derive(Clone)]
pub struct SecretKey {
    seed: Zeroizing<[u8; 32]>,
    key: Box<ExpandedSigningKey<MlDsa44>>,
    public: PublicKey,
}

impl SecretKey {
    /// The key that a seed makes (FIPS 204 section 5.1). Every seed makes one.
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        let key = Box::new(ExpandedSigningKey::from_seed(&Seed::from(*seed)));
        let verifying = key.verifying_key();
        let mut bytes = [0; PUBLIC_BYTES];
        bytes.copy_from_slice(&verifying.encode());
        Self {
            seed: Zeroizing::new(*seed),
            key,
            public: PublicKey(Arc::new(Expanded {
                bytes,
                key: verifying,
            })),
        }
    }

    /// Reads PKCS#8 in PEM that holds a seed, alone or with the expanded key beside it (RFC 9881 section 6).
    ///
    /// # Errors
    /// [`SecretKeyError`]; an expanded key without its seed is malformed here, for nothing can be computed
    /// back from it.
    pub fn parse(text: &str) -> Result<Self, SecretKeyError> {
        let mut blocks = pem_blocks(text).map_err(|_| SecretKeyError::Malformed)?;
        let (label, der) = blocks.pop().ok_or(SecretKeyError::Malformed)?;
        let der = Zeroizing::new(der);
        if !blocks.is_empty() {
            return Err(SecretKeyError::Malformed);
        }
        match label.as_str() {
            "PRIVATE KEY" => Self::from_der(&der),
            "ENCRYPTED PRIVATE KEY" => Err(SecretKeyError::Encrypted),
            _ => Err(SecretKeyError::Malformed),
        }
    }

    fn from_der(der: &[u8]) -> Result<Self, SecretKeyError> {
        if let Some(seed) = der.strip_prefix(SEED_FORM) {
            let seed = seed.try_into().map_err(|_| SecretKeyError::Malformed)?;
            return Ok(Self::from_seed(seed));
        }
        let (seed, rest) = der
            .strip_prefix(BOTH_FORM)
            .and_then(<[u8]>::split_first_chunk)
            .ok_or(SecretKeyError::Malformed)?;
        let stated = rest
            .strip_prefix(EXPANDED)
            .filter(|key| key.len() == EXPANDED_BYTES)
            .ok_or(SecretKeyError::Malformed)?;
        let key = Self::from_seed(seed);
        #[allow(deprecated, reason = "only compared with, never kept")]
        let computed = key.key.to_expanded();
        if computed[..] == *stated {
            Ok(key)
        } else {
            Err(SecretKeyError::Mismatch)
        }
    }

    /// PKCS#8 in PEM, the seed alone, with a final line feed.
    #[must_use]
    pub fn to_pem(&self) -> Zeroizing<String> {
        let der = Zeroizing::new([SEED_FORM, &self.seed[..]].concat());
        let symbols = Zeroizing::new(base64::encode(&der));
        let (first, second) = symbols.split_at(64); // OK because 54 bytes are 72 symbols
        Zeroizing::new(alloc::format!(
            "-----BEGIN PRIVATE KEY-----\n{first}\n{second}\n-----END PRIVATE KEY-----\n"
        ))
    }

    /// Its public key.
    #[must_use]
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// The [`SIGNATURE_BYTES`] over `message`. `random` are 32 fresh random bytes, which guard against
    /// attacks by fault and side channel (FIPS 204 section 3.4), or [`DETERMINISTIC`]; even repeated or
    /// known ones do not give the key away.
    #[must_use]
    pub fn sign(&self, message: &[u8], random: &[u8; 32]) -> Vec<u8> {
        let signature = self
            .key
            .sign_internal(&[&PURE, message], &B32::from(*random));
        signature.encode().to_vec()
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey({:?})", self.public)
    }
}
