//! A body on its way in.

use std::sync::Arc;

use countersign_log::store::blobs::Incoming;
use countersign_verifier::{hash::Hash, key::IdentityId};
use sha2::{Digest as _, Sha256};

use super::{Blobs, full, too_large};
use crate::{config, error::Problem, limits::BLOB_BYTES_MAX};

/// A body on its way in. Dropped, nothing of it is left, and nothing of its quota.
pub struct Upload {
    pub(super) blobs: Arc<Blobs>,
    pub(super) limits: config::Blobs,
    pub(super) by: IdentityId,
    /// There until it is kept.
    pub(super) incoming: Option<Box<dyn Incoming>>,
    pub(super) hash: Sha256,
    pub(super) bytes: u64,
    /// How much of the quota it has; `None` of one that takes nothing.
    pub(super) reserved: Option<u64>,
}

/// A body that was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its bytes.
    pub bytes: u64,
    /// Whether it is new: else the one that was here stands as it is.
    pub new: bool,
}

impl Upload {
    /// Adds bytes to its end.
    ///
    /// # Errors
    /// `TooLarge`, `QuotaReached`, `Busy`: it is then to be dropped.
    pub fn write(&mut self, piece: &[u8]) -> Result<(), Problem> {
        let bytes = self.bytes + piece.len() as u64;
        if bytes > BLOB_BYTES_MAX {
            return Err(too_large());
        }
        self.blobs.room(&self.limits, piece.len() as u64)?;
        if let Some(reserved) = &mut self.reserved
            && let Some(more) = bytes.checked_sub(*reserved).filter(|more| *more > 0)
        {
            let mut usage = self.blobs.counted()?;
            usage.take(self.by, (more, 0), &self.limits)?;
            *reserved = bytes;
        }
        if let Some(incoming) = &mut self.incoming {
            incoming.write(piece).map_err(|e| full(&e))?;
        }
        self.hash.update(piece);
        self.bytes = bytes;
        Ok(())
    }

    /// The commitment to what came in.
    #[must_use]
    pub fn commitment(&self) -> Hash {
        Hash(self.hash.clone().finalize().into())
    }

    /// How many bytes came in.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Keeps it under its commitment, durable on return.
    ///
    /// # Errors
    /// `Busy`; nothing of it is left.
    pub fn keep(mut self) -> Result<Kept, Problem> {
        let commitment = self.commitment();
        // OK because nothing but this takes it.
        let incoming = self.incoming.take().expect("Upload::keep");
        let new = incoming.keep(&commitment).map_err(|e| full(&e))?;
        if new {
            let mut usage = self.blobs.counted()?;
            match self.reserved.take() {
                // It was announced longer than it is.
                Some(reserved) => usage.give_back(self.by, (reserved - self.bytes, 0)),
                // Known when it began, and erased since; a leaf that erased it will find it.
                None => usage.add(self.by, (self.bytes, 1)),
            }
        }
        let bytes = self.bytes;
        Ok(Kept { bytes, new })
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.incoming = None;
        if let Some(usage) = &mut *self.blobs.usage() {
            usage.leave(self.by);
            if let Some(reserved) = self.reserved {
                usage.give_back(self.by, (reserved, 1));
            }
        }
    }
}
