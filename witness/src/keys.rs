//! The witness's own keys: made once by `init`, never because they were missing.

use std::{
    io,
    path::{Path, PathBuf},
};

use countersign_verifier::checkpoint::Checkpoint;
use countersign_verifier::cosign::subtree::SubtreeCosignError;
use countersign_verifier::hash::Hash;
use countersign_verifier::key::{Algorithm, PrivateKey};
use countersign_verifier::mldsa;
use countersign_verifier::vkey::{CosignSigner, MlDsaSigner, VerifierKey, VkeyError};
use zeroize::Zeroizing;

use crate::dir::{Dir, KEY_BYTES_MAX, read_plain, write_new};

/// Longest name: an ML-DSA-44 cosignature has one byte for its length (c2sp.org/tlog-cosignature).
pub const NAME_BYTES_MAX: usize = 255;

/// Signs what the witness decided: under one name by Ed25519, and by ML-DSA-44 where there is such a key.
pub struct Keys {
    ed25519: CosignSigner,
    mldsa: Option<MlDsaSigner>,
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
    pub fn create(dir: &Dir, name: &str, with_mldsa: bool) -> Result<Keys, KeysError> {
        let seed = || {
            let mut seed = Zeroizing::new([0; 32]);
            let random = getrandom::fill(&mut *seed).map_err(io::Error::other);
            random.map(|()| seed)
        };
        let first = seed().map_err(|e| file(&dir.key(), e))?;
        let second = seed().map_err(|e| file(&dir.mldsa_key(), e))?;
        let keys = Keys::from_seeds(name, &first, with_mldsa.then_some(&*second))?;
        let key = PrivateKey::from_secret(Algorithm::Ed25519, &*first);
        // OK because an Ed25519 secret is any 32 bytes.
        let pem = key.expect("Keys::create: a seed").to_pem();
        write_pair((dir.key(), &pem), (dir.vkey(), keys.ed25519.vkey()))?;
        if let Some(signer) = &keys.mldsa {
            let pem = mldsa::SecretKey::from_seed(&second).to_pem();
            write_pair((dir.mldsa_key(), &pem), (dir.mldsa_vkey(), signer.vkey()))?;
        }
        Ok(keys)
    }

    /// The keys of 32-byte seeds, of Ed25519 and of ML-DSA-44.
    ///
    /// # Errors
    /// [`KeysError::Name`].
    pub fn from_seeds(
        name: &str,
        ed25519: &[u8; 32],
        mldsa: Option<&[u8; 32]>,
    ) -> Result<Keys, KeysError> {
        if name.len() > NAME_BYTES_MAX {
            return Err(KeysError::Name);
        }
        let no_name = |_: VkeyError| KeysError::Name;
        let key = ed25519_dalek::SigningKey::from_bytes(ed25519);
        let mldsa = mldsa.map(|seed| MlDsaSigner::new(name, mldsa::SecretKey::from_seed(seed)));
        Ok(Keys {
            ed25519: CosignSigner::new(name, key).map_err(no_name)?,
            mldsa: mldsa.transpose().map_err(no_name)?,
        })
    }

    /// Reads the keys that [`Keys::create`] made; each key and its verifier key must belong together. Of ML-DSA-44 there is a
    /// key if there is one of its two files.
    ///
    /// # Errors
    /// [`KeysError`].
    pub fn load(dir: &Dir) -> Result<Keys, KeysError> {
        let (path, name) = (dir.key(), dir.vkey());
        let key = match PrivateKey::parse(&read(&path)?) {
            Ok(PrivateKey::Ed25519(key)) => key,
            Ok(_) => return Err(form(&path, "not a key of Ed25519")),
            Err(why) => return Err(form(&path, why)),
        };
        let stated = stated(&name)?;
        let ed25519 = CosignSigner::new(&stated.name, key).map_err(|why| form(&name, why))?;
        if *ed25519.vkey() != stated {
            return Err(form(&name, "not the verifier key of witness.key"));
        }
        let (path, name) = (dir.mldsa_key(), dir.mldsa_vkey());
        if !path.exists() && !name.exists() {
            let mldsa = None;
            return Ok(Keys { ed25519, mldsa });
        }
        let key = mldsa::SecretKey::parse(&read(&path)?).map_err(|why| form(&path, why))?;
        let mldsa = MlDsaSigner::new(&stated.name, key).map_err(|why| form(&name, why))?;
        if *mldsa.vkey() != self::stated(&name)? {
            let what = "not the verifier key of witness-mldsa.key under the witness's name";
            return Err(form(&name, what));
        }
        let mldsa = Some(mldsa);
        Ok(Keys { ed25519, mldsa })
    }

    /// The name that stands in every line.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.ed25519.vkey().name
    }

    /// The verifier keys, in the order of their lines: Ed25519, then ML-DSA-44.
    #[must_use]
    pub fn vkeys(&self) -> Vec<&VerifierKey> {
        let mldsa = self.mldsa.as_ref().map(MlDsaSigner::vkey);
        [self.ed25519.vkey()].into_iter().chain(mldsa).collect()
    }

    /// Whether every line covers all of a checkpoint's text, extension lines included; one of ML-DSA-44 does not.
    #[must_use]
    pub fn cover_extensions(&self) -> bool {
        self.mldsa.is_none()
    }

    /// One cosignature line a key over the whole tree, each ending in LF. `time` is POSIX seconds, not 0.
    ///
    /// # Errors
    /// [`SubtreeCosignError`], for a head that ML-DSA-44 cannot sign: one with extension lines, or of a long origin.
    pub fn cosign(&self, checkpoint: &Checkpoint, time: u64) -> Result<String, SubtreeCosignError> {
        let text = checkpoint.to_text();
        let mut lines = self.ed25519.sign(&text, time);
        if let Some(signer) = &self.mldsa {
            lines += &signer.sign(&text, time, &hedge())?;
        }
        Ok(lines)
    }

    /// The line over a subtree, without a time: by ML-DSA-44 alone. `None` without such a key.
    ///
    /// # Errors
    /// [`SubtreeCosignError`].
    pub fn sign_subtree(
        &self,
        origin: &str,
        bounds: (u64, u64),
        hash: Hash,
    ) -> Result<Option<String>, SubtreeCosignError> {
        let signer = self.mldsa.as_ref();
        let line = signer.map(|signer| signer.sign_subtree(origin, bounds, hash, &hedge()));
        line.transpose()
    }
}

/// Randomness that a signature is mixed with. Without any from the system it is deterministic, which is as valid.
fn hedge() -> [u8; 32] {
    let mut random = [0; 32];
    match getrandom::fill(&mut random) {
        Ok(()) => random,
        Err(_) => mldsa::DETERMINISTIC,
    }
}

fn read(path: &Path) -> Result<Zeroizing<String>, KeysError> {
    let bytes = read_plain(path, KEY_BYTES_MAX).map_err(|e| file(path, e))?;
    // Not the error itself, which holds the bytes.
    let text = String::from_utf8(bytes).map_err(|_| form(path, "not UTF-8"))?;
    Ok(Zeroizing::new(text))
}

/// The verifier key that a file states.
fn stated(path: &Path) -> Result<VerifierKey, KeysError> {
    VerifierKey::parse(read(path)?.trim_end()).map_err(|why| form(path, why))
}

fn write_pair(
    (key, pem): (PathBuf, &str),
    (name, vkey): (PathBuf, &VerifierKey),
) -> Result<(), KeysError> {
    write_new(&key, pem.as_bytes(), 0o600).map_err(|e| file(&key, e))?;
    write_new(&name, format!("{vkey}\n").as_bytes(), 0o644).map_err(|e| file(&name, e))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_were_made_and_never_made_twice() {
        for with_mldsa in [false, true] {
            let temp = tempfile::tempdir().unwrap();
            let dir = Dir::new(temp.path());
            let made = Keys::create(&dir, "w.example", with_mldsa).unwrap();
            let read = Keys::load(&dir).unwrap();
            assert_eq!(made.vkeys(), read.vkeys());
            assert_eq!(read.vkeys().len(), 1 + usize::from(with_mldsa));
            assert_eq!(read.cover_extensions(), !with_mldsa);
            let again = Keys::create(&dir, "w.example", with_mldsa);
            assert!(matches!(again, Err(KeysError::File { .. })));
        }
    }

    #[test]
    fn keys_that_do_not_belong_together_are_refused() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (a, b) = (Dir::new(a.path()), Dir::new(b.path()));
        Keys::create(&a, "w.example", true).unwrap();
        Keys::create(&b, "w.example", true).unwrap();
        std::fs::copy(b.mldsa_key(), a.mldsa_key()).unwrap();
        assert!(matches!(Keys::load(&a), Err(KeysError::Form { .. })));
        std::fs::remove_file(a.mldsa_key()).unwrap();
        assert!(matches!(Keys::load(&a), Err(KeysError::File { .. })));
        std::fs::copy(a.key(), b.key()).unwrap();
        assert!(matches!(Keys::load(&b), Err(KeysError::Form { .. })));
    }

    #[test]
    fn t28_a_name_beyond_255_bytes_is_refused() {
        let long = "n".repeat(256);
        for name in [long.as_str(), "", "two words", "a+b"] {
            let keys = Keys::from_seeds(name, &[1; 32], Some(&[2; 32]));
            assert!(matches!(keys, Err(KeysError::Name)), "{name}");
        }
        assert!(Keys::from_seeds(&long[1..], &[1; 32], Some(&[2; 32])).is_ok());
    }
}
