//! A log out of the store of an account that no service runs on.

use std::path::PathBuf;

use countersign_log::{StoreError, store::rocks::Shared, stored};
use countersign_verifier::tile::{Bundle, Tile};

use super::ForeignError;
use crate::data_dir::{AccountDir, Held};

/// Everything is read once: what a small cache does not hold is no loss.
const CACHE_BYTES: usize = 32 << 20;

/// An account's log at rest.
pub(super) struct Stored {
    root: PathBuf,
    log: stored::Stored,
    /// Keeps a service from starting meanwhile; none where nothing can be written.
    _held: Option<Held>,
}

impl Stored {
    pub(super) fn open(account: &AccountDir, held: Option<Held>) -> Result<Stored, ForeignError> {
        let root = account.root().to_owned();
        let shared = Shared::new(CACHE_BYTES, CACHE_BYTES);
        let log = stored::Stored::open(&account.db(), &account.tidemark(), &shared)
            .map_err(|error| told(root.display().to_string(), error))?;
        Ok(Stored {
            root,
            log,
            _held: held,
        })
    }

    pub(super) fn at(&self, path: &str) -> String {
        // Where there is no file of that name, but what a service would serve under it.
        match path {
            "" => self.root.display().to_string(),
            path => format!("{}: {path}", self.root.display()),
        }
    }

    /// As a service would answer it.
    pub(super) fn get(&self, path: &str) -> Result<Vec<u8>, ForeignError> {
        let found = if let Ok(bundle) = Bundle::parse(path) {
            self.log.bundle(&bundle)
        } else if let Ok(tile) = Tile::parse(path) {
            self.log.tile(&tile)
        } else {
            Ok(self.log.checkpoint().map(|note| note.as_bytes().to_vec()))
        };
        let found = found.map_err(|error| told(self.at(path), error))?;
        found.ok_or_else(|| ForeignError::Missing {
            place: self.at(path),
            why: "beyond what was published".into(),
        })
    }
}

fn told(place: String, error: StoreError) -> ForeignError {
    match error {
        StoreError::Damaged { what } => ForeignError::Malformed { place, what },
        error => ForeignError::Unreachable {
            place,
            why: error.to_string(),
        },
    }
}
