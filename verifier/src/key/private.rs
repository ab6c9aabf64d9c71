//! Private keys, zeroized when they are dropped.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use ed25519_dalek as ed25519;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{
    DecodePrivateKey as _, EncodePrivateKey as _, KeypairBytes, PrivateKeyInfoRef, SecretDocument,
};
use p256::ecdsa::signature::Signer as _;
use zeroize::Zeroizing;

use super::text::{SshReader, pem_blocks};
use super::{Algorithm, KeyError, PublicKey};

/// A private key that signs envelopes.
pub enum PrivateKey {
    /// Ed25519.
    Ed25519(ed25519::SigningKey),
    /// ECDSA P-256.
    EcdsaP256(p256::ecdsa::SigningKey),
    /// ECDSA P-384.
    EcdsaP384(p384::ecdsa::SigningKey),
}

impl PrivateKey {
    /// The key of secret bytes: an Ed25519 seed (32 bytes) or a scalar (32 or 48 bytes, big-endian).
    ///
    /// # Errors
    /// [`KeyError::Malformed`] for another length, and for a scalar that is zero or not below the
    /// order of the group (of random bytes: fewer than one in 2^32; draw again).
    pub fn from_secret(algorithm: Algorithm, secret: &[u8]) -> Result<Self, KeyError> {
        const FORM: KeyError = KeyError::Malformed("a secret of this algorithm");
        match algorithm {
            Algorithm::Ed25519 => {
                let seed = secret.try_into().map_err(|_| FORM)?;
                Ok(Self::Ed25519(ed25519::SigningKey::from_bytes(seed)))
            }
            Algorithm::EcdsaP256 if secret.len() == 32 => {
                p256::ecdsa::SigningKey::from_slice(secret)
                    .map(Self::EcdsaP256)
                    .map_err(|_| FORM)
            }
            Algorithm::EcdsaP384 if secret.len() == 48 => {
                p384::ecdsa::SigningKey::from_slice(secret)
                    .map(Self::EcdsaP384)
                    .map_err(|_| FORM)
            }
            _ => Err(FORM),
        }
    }

    /// Reads PKCS#8 in PEM, or an OpenSSH private key of type Ed25519, both without a passphrase.
    ///
    /// # Errors
    /// [`KeyError::Encrypted`] behind a passphrase, [`KeyError::Algorithm`] for other kinds,
    /// [`KeyError::Malformed`] else.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        if text.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----") {
            return Err(KeyError::Encrypted);
        }
        if text.contains("-----BEGIN OPENSSH PRIVATE KEY-----") {
            return openssh(text);
        }
        let Some(start) = text.find("-----BEGIN PRIVATE KEY-----") else {
            return Err(KeyError::Malformed(
                "a private key in PKCS#8 PEM or OpenSSH form",
            ));
        };
        let pem = text[start..].trim_end();
        if let Ok(key) = ed25519::SigningKey::from_pkcs8_pem(pem) {
            return Ok(Self::Ed25519(key));
        }
        if let Ok(key) = p256::SecretKey::from_pkcs8_pem(pem) {
            return Ok(Self::EcdsaP256(key.into()));
        }
        if let Ok(key) = p384::SecretKey::from_pkcs8_pem(pem) {
            return Ok(Self::EcdsaP384(key.into()));
        }
        let document = SecretDocument::from_pem(pem);
        let known =
            document.is_ok_and(|(_, der)| PrivateKeyInfoRef::try_from(der.as_bytes()).is_ok());
        Err(if known {
            KeyError::Algorithm
        } else {
            KeyError::Malformed("PKCS#8 in PEM")
        })
    }

    /// The key in PKCS#8 PEM, wiped when dropped.
    #[must_use]
    pub fn to_pem(&self) -> Zeroizing<String> {
        let pem = match self {
            // Without the public key (RFC 8410 section 7, version 1): OpenSSL, and what is built on it, reads no other.
            Self::Ed25519(key) => KeypairBytes {
                secret_key: key.to_bytes(),
                public_key: None,
            }
            .to_pkcs8_pem(LineEnding::LF),
            Self::EcdsaP256(key) => p256::SecretKey::from(key).to_pkcs8_pem(LineEnding::LF),
            Self::EcdsaP384(key) => p384::SecretKey::from(key).to_pkcs8_pem(LineEnding::LF),
        };
        pem.expect("OK because a key of fixed size has a PKCS#8 form")
    }

    /// Its public key.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        match self {
            Self::Ed25519(key) => PublicKey::Ed25519(key.verifying_key()),
            Self::EcdsaP256(key) => PublicKey::EcdsaP256(*key.verifying_key()),
            Self::EcdsaP384(key) => PublicKey::EcdsaP384(*key.verifying_key()),
        }
    }

    /// Signs: 64 bytes of Ed25519, or raw `r || s` of 64 or 96 bytes. Deterministic (RFC 8032,
    /// RFC 6979), so it needs no source of randomness.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        match self {
            Self::Ed25519(key) => key.sign(message).to_vec(),
            Self::EcdsaP256(key) => {
                let signature: p256::ecdsa::Signature = key.sign(message);
                signature.to_vec()
            }
            Self::EcdsaP384(key) => {
                let signature: p384::ecdsa::Signature = key.sign(message);
                signature.to_vec()
            }
        }
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({})", self.public())
    }
}

/// The openssh-key-v1 container (OpenSSH PROTOCOL.key), one unencrypted Ed25519 key.
fn openssh(text: &str) -> Result<PrivateKey, KeyError> {
    const FORM: KeyError = KeyError::Malformed("an OpenSSH private key");
    let mut blocks = pem_blocks(text)?;
    let blob = Zeroizing::new(blocks.pop().ok_or(FORM)?.1);
    let mut outer = SshReader(blob.strip_prefix(b"openssh-key-v1\0").ok_or(FORM)?);
    let cipher = outer.string().ok_or(FORM)?;
    if cipher != b"none" {
        return Err(KeyError::Encrypted);
    }
    let (_kdf, _options) = (outer.string().ok_or(FORM)?, outer.string().ok_or(FORM)?);
    if outer.number() != Some(1) {
        return Err(FORM);
    }
    let _public = outer.string().ok_or(FORM)?;
    let mut inner = SshReader(outer.string().ok_or(FORM)?);
    if inner.number().ok_or(FORM)? != inner.number().ok_or(FORM)? {
        return Err(FORM);
    }
    if inner.string() != Some(b"ssh-ed25519") {
        return Err(KeyError::Algorithm);
    }
    let _public = inner.string().ok_or(FORM)?;
    let pair = Zeroizing::new(<[u8; 64]>::try_from(inner.string().ok_or(FORM)?).map_err(|_| FORM)?);
    // Seed and public key; a pair that does not fit together is refused.
    ed25519::SigningKey::from_keypair_bytes(&pair)
        .map(PrivateKey::Ed25519)
        .map_err(|_| FORM)
}
