//! Those who sign notes: a log over the text, a witness over time and text, or time and head.

use alloc::string::String;
use alloc::vec::Vec;

use ed25519_dalek::{Signer as _, SigningKey};

use crate::cosign::{self, subtree};
use crate::hash::Hash;
use crate::mldsa;
use crate::note::NoteSignature;
use crate::vkey::{Algorithm, VerifierKey, VkeyError};

/// Signs notes as type 0x01, Ed25519 over the text. The key erases itself when dropped.
#[derive(Clone, Debug)]
pub struct NoteSigner {
    vkey: VerifierKey,
    key: SigningKey,
}

/// Cosigns checkpoints as type 0x04, cosignature/v1. The key erases itself when dropped.
#[derive(Clone, Debug)]
pub struct CosignSigner {
    vkey: VerifierKey,
    key: SigningKey,
}

impl NoteSigner {
    /// A signer under `name`, which for a log is its origin.
    ///
    /// # Errors
    /// [`VkeyError::Name`].
    pub fn new(name: &str, key: SigningKey) -> Result<Self, VkeyError> {
        let vkey = VerifierKey::new(name, Algorithm::Ed25519(key.verifying_key()))?;
        Ok(Self { vkey, key })
    }

    /// The key that verifies what this one signs.
    #[must_use]
    pub fn vkey(&self) -> &VerifierKey {
        &self.vkey
    }

    /// The signature line over `text`, final LF included. `text` is a note's text and ends in LF itself.
    #[must_use]
    pub fn sign(&self, text: &str) -> String {
        line(&self.vkey, self.key.sign(text.as_bytes()).to_vec())
    }
}

impl CosignSigner {
    /// A cosigner under `name`. One key must not serve two names: the message does not hold the name.
    ///
    /// # Errors
    /// [`VkeyError::Name`].
    pub fn new(name: &str, key: SigningKey) -> Result<Self, VkeyError> {
        let vkey = VerifierKey::new(name, Algorithm::CosignatureV1(key.verifying_key()))?;
        Ok(Self { vkey, key })
    }

    /// The key that verifies what this one signs.
    #[must_use]
    pub fn vkey(&self) -> &VerifierKey {
        &self.vkey
    }

    /// The cosignature line over a checkpoint's whole `text` at `time`, POSIX seconds, final LF included.
    #[must_use]
    pub fn sign(&self, text: &str, time: u64) -> String {
        let signature = self.key.sign(cosign::message(text, time).as_bytes());
        line(&self.vkey, cosign::body(time, &signature.to_bytes()))
    }
}

/// Cosigns checkpoints and subtrees as type 0x06, ML-DSA-44. The key erases itself when dropped.
#[derive(Clone, Debug)]
pub struct MlDsaSigner {
    vkey: VerifierKey,
    key: mldsa::SecretKey,
}

impl MlDsaSigner {
    /// A cosigner under `name`, of at most 255 bytes.
    ///
    /// # Errors
    /// [`VkeyError::Name`], [`VkeyError::LongName`].
    pub fn new(name: &str, key: mldsa::SecretKey) -> Result<Self, VkeyError> {
        let vkey = VerifierKey::new(name, Algorithm::MlDsa44(key.public().clone()))?;
        Ok(Self { vkey, key })
    }

    /// The key that verifies what this one signs.
    #[must_use]
    pub fn vkey(&self) -> &VerifierKey {
        &self.vkey
    }

    /// The cosignature line over a checkpoint's `text` at `time`, POSIX seconds and not 0, final LF
    /// included. `random` as in [`mldsa::SecretKey::sign`].
    ///
    /// # Errors
    /// [`subtree::SubtreeCosignError`]; a text with extension lines is refused, as they would stand there
    /// unsigned.
    pub fn sign(
        &self,
        text: &str,
        time: u64,
        random: &[u8; 32],
    ) -> Result<String, subtree::SubtreeCosignError> {
        let checkpoint = subtree::signable(text, time)?;
        self.line(
            &subtree::Message {
                cosigner: &self.vkey.name,
                time,
                origin: &checkpoint.origin,
                start: 0,
                end: checkpoint.size,
                hash: checkpoint.root,
            },
            random,
        )
    }

    /// The cosignature line over the subtree `[start, end)` of the log `origin`, time 0, final LF included.
    /// `random` as in [`mldsa::SecretKey::sign`].
    ///
    /// # Errors
    /// [`subtree::SubtreeCosignError`].
    pub fn sign_subtree(
        &self,
        origin: &str,
        (start, end): (u64, u64),
        hash: Hash,
        random: &[u8; 32],
    ) -> Result<String, subtree::SubtreeCosignError> {
        self.line(
            &subtree::Message {
                cosigner: &self.vkey.name,
                time: 0,
                origin,
                start,
                end,
                hash,
            },
            random,
        )
    }

    fn line(
        &self,
        message: &subtree::Message<'_>,
        random: &[u8; 32],
    ) -> Result<String, subtree::SubtreeCosignError> {
        message.check()?;
        let signature = self.key.sign(&message.to_bytes()?, random);
        Ok(line(&self.vkey, subtree::body(message.time, &signature)))
    }
}

fn line(vkey: &VerifierKey, signature: Vec<u8>) -> String {
    alloc::format!(
        "{}",
        NoteSignature {
            name: &vkey.name,
            id: vkey.id,
            signature
        }
    )
}
