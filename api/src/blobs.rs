//! The bodies beside one account's log: what is kept with each, how much anybody may keep, and what erasures owe.
//!
//! A leaf that erases a body is the truth; that its bytes are gone follows from it, and is done after the commit, again and again until
//! it is done, and once more for every such leaf whenever the account is opened: a folder that was put back from an older copy may
//! hold what was erased since.

mod download;
mod look;
mod upload;
mod usage;

use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use countersign_log::{
    StoreError,
    store::blobs::{BlobStore, files::FileBlobs},
};
use countersign_verifier::{blob::SALT_BYTES, hash::Hash, key::IdentityId};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{
    config,
    error::{Code, Problem},
    limits::BLOB_BYTES_MAX,
    state::Erased,
};
pub use download::Download;
pub use look::{look, whole};
pub use upload::{Kept, Upload};
use usage::Usage;

/// What is kept with a body, and goes with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// 32 bytes, hexadecimal.
    salt: String,
    /// As its sender said.
    pub media_type: String,
    /// Who sent it, `id_…`: on whose account it goes.
    by: String,
}

impl About {
    /// Of a body that comes in.
    #[must_use]
    pub fn new(salt: &[u8; SALT_BYTES], media_type: String, by: IdentityId) -> About {
        About {
            salt: Hash(*salt).to_hex(),
            media_type,
            by: by.to_string(),
        }
    }

    /// The salt.
    #[must_use]
    pub fn salt(&self) -> &str {
        &self.salt
    }

    fn read(bytes: &[u8]) -> Result<(About, Hash), Problem> {
        let about: About = serde_json::from_slice(bytes).map_err(|e| Problem::internal(&e))?;
        let salt = Hash::from_hex(&about.salt).map_err(|e| Problem::internal(&e))?;
        Ok((about, salt))
    }
}

/// The bodies of one account.
pub struct Blobs {
    store: Box<dyn BlobStore>,
    /// Counted when somebody first wants to keep a body.
    usage: Mutex<Option<Usage>>,
    /// What the leaves before this index erased is gone.
    erased: Mutex<u64>,
}

impl Blobs {
    /// The bodies in this folder, which need not exist.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn open(folder: &Path) -> Result<Blobs, StoreError> {
        Ok(Blobs::new(Box::new(FileBlobs::open(folder)?)))
    }

    /// The bodies in this store.
    #[must_use]
    pub fn new(store: Box<dyn BlobStore>) -> Blobs {
        Blobs {
            store,
            usage: Mutex::new(None),
            erased: Mutex::new(0),
        }
    }

    /// Begins a body. `stated`: how long it will be, if that is known. One that is `known` to be here takes nothing of any quota.
    ///
    /// # Errors
    /// `QuotaReached`, `RateLimited`, `Busy` where the disk takes nothing.
    pub fn begin(
        self: &Arc<Self>,
        about: &About,
        by: IdentityId,
        limits: &config::Blobs,
        (stated, known): (Option<u64>, bool),
    ) -> Result<Upload, Problem> {
        let stated = stated.unwrap_or(0);
        self.room(limits, stated)?;
        let encoded = encode(about);
        let (_, salt) = About::read(&encoded)?;
        {
            let mut usage = self.counted()?;
            usage.enter(by, limits)?;
            if !known && let Err(refused) = usage.take(by, (stated, 1), limits) {
                usage.leave(by);
                return Err(refused);
            }
        }
        // From here on it gives back what it has when it is dropped; which takes the lock that was let go above.
        let mut upload = Upload {
            blobs: self.clone(),
            limits: limits.clone(),
            by,
            incoming: None,
            hash: Sha256::new_with_prefix(salt.0),
            bytes: 0,
            reserved: (!known).then_some(stated),
        };
        let incoming = self.store.begin(&encoded);
        upload.incoming = Some(incoming.map_err(|e| full(&e))?);
        Ok(upload)
    }

    /// The body of this commitment; `None` if there is none.
    ///
    /// # Errors
    /// A fault of the service, `Busy`.
    pub fn get(&self, commitment: &Hash) -> Result<Option<Download>, Problem> {
        let found = self.store.open(commitment).map_err(|e| unread(&e))?;
        let Some(body) = found else {
            return Ok(None);
        };
        let (about, salt) = About::read(body.about())?;
        let left = body.bytes();
        Ok(Some(Download {
            about,
            body,
            left,
            hash: Sha256::new_with_prefix(salt.0),
            commitment: *commitment,
        }))
    }

    /// Whether there is a body of this commitment.
    ///
    /// # Errors
    /// `Busy`.
    pub fn has(&self, commitment: &Hash) -> Result<bool, Problem> {
        self.store.has(commitment).map_err(|e| unread(&e))
    }

    /// Takes away what leaves have erased and is still here. What cannot be taken away now is tried at the next call.
    pub fn erase_owed(&self, erased: &Erased) {
        let mut done = self.erased.lock().unwrap_or_else(PoisonError::into_inner);
        if erased.newest().is_none_or(|newest| newest < *done) {
            return;
        }
        for (index, commitment) in erased.from(*done) {
            match self.erase(&commitment) {
                Ok(true) => tracing::info!(index, "an erased body is gone"),
                Ok(false) => {}
                Err(error) => {
                    tracing::error!(index, %error, "an erased body could not be taken away yet");
                    return;
                }
            }
            *done = index + 1;
        }
    }

    /// Takes a body away at once: one that came in while a leaf erased it.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn erase(&self, commitment: &Hash) -> Result<bool, StoreError> {
        if !self.store.has(commitment)? {
            return Ok(false);
        }
        // Whose it was is known only as long as it is there; what is damaged was never counted.
        let whose = self.store.open(commitment).ok().flatten();
        let whose = whose.and_then(|body| Some((About::read(body.about()).ok()?.0, body.bytes())));
        let was_here = self.store.erase(commitment)?;
        if let Some((about, bytes)) = whose.filter(|_| was_here)
            && let Ok(by) = about.by.parse()
            && let Some(usage) = &mut *self.usage()
        {
            usage.give_back(by, (bytes, 1));
        }
        Ok(was_here)
    }

    fn usage(&self) -> MutexGuard<'_, Option<Usage>> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is kept, counted if it has not been: reads the front of every body once.
    fn counted(&self) -> Result<Counted<'_>, Problem> {
        let mut usage = self.usage();
        if usage.is_none() {
            let mut count = Usage::default();
            let mut see = |_, about: &[u8], bytes| {
                let by = About::read(about).ok().and_then(|(a, _)| a.by.parse().ok());
                if let Some(by) = by {
                    count.add(by, (bytes, 1));
                }
            };
            self.store.each(&mut see).map_err(|e| unread(&e))?;
            *usage = Some(count);
        }
        Ok(Counted(usage))
    }

    /// Whether the disk has room for so many bytes and what the logs need.
    fn room(&self, limits: &config::Blobs, bytes: u64) -> Result<(), Problem> {
        let room = self.store.room().map_err(|e| full(&e))?;
        match room {
            Some(room) if room < limits.free_bytes_min.saturating_add(bytes) => {
                Err(full(&"less than blobs.free_bytes_min would be left"))
            }
            _ => Ok(()),
        }
    }
}

/// The usage, which is there.
struct Counted<'a>(MutexGuard<'a, Option<Usage>>);

impl std::ops::Deref for Counted<'_> {
    type Target = Usage;
    fn deref(&self) -> &Usage {
        // OK because it is made only where it is there, and nothing takes it away.
        self.0.as_ref().expect("Counted")
    }
}

impl std::ops::DerefMut for Counted<'_> {
    fn deref_mut(&mut self) -> &mut Usage {
        // OK as above.
        self.0.as_mut().expect("Counted")
    }
}

fn encode(about: &About) -> Vec<u8> {
    // OK because a struct of strings has a JSON form.
    serde_json::to_vec(about).expect("blobs::encode")
}

fn full(error: &dyn std::fmt::Display) -> Problem {
    tracing::error!(%error, "a body could not be kept");
    let why = "the disk takes no body just now, and nothing of this one was kept; the same again later is safe";
    Problem::new(Code::Busy, why).retry_after(5_000)
}

fn unread(error: &StoreError) -> Problem {
    match error {
        StoreError::Unavailable(_) => {
            tracing::error!(%error, "a body could not be read");
            Problem::new(Code::Busy, "the store does not answer just now").retry_after(1_000)
        }
        _ => Problem::internal(error),
    }
}

/// A body larger than any may be.
#[must_use]
pub fn too_large() -> Problem {
    let why = format!("a body has at most {BLOB_BYTES_MAX} bytes");
    Problem::new(Code::TooLarge, why).with("limit", BLOB_BYTES_MAX)
}

#[cfg(test)]
mod tests;
