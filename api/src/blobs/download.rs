//! A body on its way out.

use countersign_log::{StoreError, store::blobs::Outgoing};
use countersign_verifier::hash::Hash;
use sha2::{Digest as _, Sha256};

use super::About;

/// A body on its way out.
pub struct Download {
    /// What is kept with it.
    pub about: About,
    pub(super) body: Box<dyn Outgoing>,
    pub(super) left: u64,
    pub(super) hash: Sha256,
    pub(super) commitment: Hash,
}

impl Download {
    /// How many bytes it has.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.body.bytes()
    }

    /// The next bytes, at most `most`; none at the end. The last of them come only if all are those that were kept.
    ///
    /// # Errors
    /// `Unavailable`; `Damaged`.
    pub fn next(&mut self, most: usize) -> Result<Vec<u8>, StoreError> {
        let mut piece = vec![0; most];
        let n = self.body.read(&mut piece)?;
        piece.truncate(n);
        self.hash.update(&piece);
        self.left = self.left.saturating_sub(n as u64);
        let broken = n == 0 && self.left > 0;
        let is_whole = || Hash(self.hash.clone().finalize().into()) == self.commitment;
        if broken || self.left == 0 && !is_whole() {
            return Err(StoreError::Damaged {
                what: format!("body {}: other bytes than were kept", self.commitment),
            });
        }
        Ok(piece)
    }
}
