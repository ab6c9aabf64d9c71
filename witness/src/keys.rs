//! The witness's own keys: made once by `init`, never because they were missing.

use std::{io, path::Path};

use countersign_verifier::checkpoint::Checkpoint;
use countersign_verifier::key::{Algorithm, PrivateKey};
use countersign_verifier::vkey::{CosignSigner, VerifierKey, VkeyError};
use zeroize::Zeroizing;

use crate::dir::{Dir, write_new};

/// Longest name: an ML-DSA-44 cosignature has one byte for its length (c2sp.org/tlog-cosignature).
pub const NAME_BYTES_MAX: usize = 255;

/// Signs what the witness decided.
pub struct Keys {
    ed25519: CosignSigner,
}

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// A file is not there, or cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("{path}: {what}")]
    Form {
        /// Which.
        path: String,
        /// What is wrong with it.
        what: String,
    },
    /// The name is none for a key.
    #[error("the name of a witness has 1 to {NAME_BYTES_MAX} bytes without white space and `+`")]
    Name,
}

impl Keys {
    /// Makes the keys of a new witness in an existing directory.
    ///
    /// # Errors
    /// [`KeysError`]; a file that exists is never written over.
    pub fn create(dir: &Dir, name: &str) -> Result<Keys, KeysError> {
        let mut seed = Zeroizing::new([0; 32]);
        let random = getrandom::fill(&mut *seed).map_err(io::Error::other);
        random.map_err(|source| file(&dir.key(), source))?;
        let keys = Keys::from_seed(name, &seed)?;
        let key = PrivateKey::from_secret(Algorithm::Ed25519, &*seed);
        // OK because an Ed25519 secret is any 32 bytes.
        let pem = key.expect("Keys::create: a seed").to_pem();
        write_new(&dir.key(), pem.as_bytes(), 0o600).map_err(|e| file(&dir.key(), e))?;
        let vkey = format!("{}\n", keys.ed25519.vkey());
        write_new(&dir.vkey(), vkey.as_bytes(), 0o644).map_err(|e| file(&dir.vkey(), e))?;
        Ok(keys)
    }

    /// The keys of a 32-byte seed.
    ///
    /// # Errors
    /// [`KeysError::Name`].
    pub fn from_seed(name: &str, seed: &[u8; 32]) -> Result<Keys, KeysError> {
        let key = ed25519_dalek::SigningKey::from_bytes(seed);
        if name.len() > NAME_BYTES_MAX {
            return Err(KeysError::Name);
        }
        let ed25519 = CosignSigner::new(name, key).map_err(|_: VkeyError| KeysError::Name)?;
        Ok(Keys { ed25519 })
    }

    /// Reads the keys that [`Keys::create`] made; key and verifier key must belong together.
    ///
    /// # Errors
    /// [`KeysError`].
    pub fn load(dir: &Dir) -> Result<Keys, KeysError> {
        let (path, name) = (dir.key(), dir.vkey());
        let pem = std::fs::read_to_string(&path).map(Zeroizing::new);
        let pem = pem.map_err(|e| file(&path, e))?;
        let key = match PrivateKey::parse(&pem) {
            Ok(PrivateKey::Ed25519(key)) => key,
            Ok(_) => return Err(form(&path, "not a key of Ed25519")),
            Err(why) => return Err(form(&path, why)),
        };
        let text = std::fs::read_to_string(&name).map_err(|e| file(&name, e))?;
        let stated = VerifierKey::parse(text.trim_end()).map_err(|why| form(&name, why))?;
        let ed25519 = CosignSigner::new(&stated.name, key).map_err(|why| form(&name, why))?;
        if *ed25519.vkey() != stated {
            return Err(form(&name, "not the verifier key of witness.key"));
        }
        Ok(Keys { ed25519 })
    }

    /// The name that stands in every line.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.ed25519.vkey().name
    }

    /// The verifier keys, in the order of their lines.
    #[must_use]
    pub fn vkeys(&self) -> Vec<&VerifierKey> {
        vec![self.ed25519.vkey()]
    }

    /// Whether all that a checkpoint's text says is covered by every line, extension lines included.
    #[must_use]
    pub fn cover_extensions(&self) -> bool {
        true
    }

    /// One cosignature line a key over the whole tree, each ending in LF. `time` is POSIX seconds, not 0.
    #[must_use]
    pub fn cosign(&self, checkpoint: &Checkpoint, time: u64) -> String {
        self.ed25519.sign(&checkpoint.to_text(), time)
    }
}

fn file(path: &Path, source: io::Error) -> KeysError {
    KeysError::File {
        path: path.display().to_string(),
        source,
    }
}

fn form(path: &Path, what: impl ToString) -> KeysError {
    KeysError::Form {
        path: path.display().to_string(),
        what: what.to_string(),
    }
}
