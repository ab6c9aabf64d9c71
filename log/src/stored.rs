//! A log that lies on disk and is not started, read without a key and without a change.
//!
//! Nothing is verified here beyond what reading takes: it is for an auditor, who believes none of it.

use std::path::Path;

use countersign_verifier::{
    hash::{Hash, leaf_hash},
    tile::{Bundle, Tile, WIDTH, hash_of, parse_hashes},
};

use crate::{
    reader::{bundle_bytes, tile_hashes, within},
    store::{
        Kept, Store, StoreError,
        rocks::{RocksStore, Shared},
    },
};

/// A log at rest, as far as it was published.
pub struct Stored {
    store: RocksStore,
    published: Option<Kept>,
}

impl Stored {
    /// Opens a store for reading only. That nobody writes to it meanwhile is for the caller to see to.
    ///
    /// # Errors
    /// What the store says; `Damaged` where it ends before what was published.
    pub fn open(folder: &Path, tidemark: &Path, shared: &Shared) -> Result<Stored, StoreError> {
        let store = RocksStore::open_behind(folder, tidemark, shared, false)?;
        let (head, _) = store.head()?;
        if let Some(mark) = store.tidemark()?
            && mark.size > head.size
        {
            return Err(StoreError::Damaged {
                what: format!(
                    "{}: the database can be read up to size {}, and size {} had been published: leaves are missing",
                    folder.display(),
                    head.size,
                    mark.size
                ),
            });
        }
        let published = store.published()?;
        Ok(Stored { store, published })
    }

    /// The newest published checkpoint's note; `None` where nothing was published.
    #[must_use]
    pub fn checkpoint(&self) -> Option<&str> {
        self.published.as_ref().map(|kept| kept.note.as_str())
    }

    /// A tile of the published tree, `32 × width` bytes, or `None` beyond it. An unfinished one, which no store keeps, is what
    /// the leaves and tiles below it give.
    ///
    /// # Errors
    /// What the store says.
    pub fn tile(&self, tile: &Tile) -> Result<Option<Vec<u8>>, StoreError> {
        if !within(self.size(), tile.level, tile.index, tile.width) {
            return Ok(None);
        }
        let hashes = self.hashes(tile)?;
        Ok(Some(hashes.iter().flat_map(|hash| hash.0).collect()))
    }

    /// An entry bundle of the published tree, or `None` beyond it.
    ///
    /// # Errors
    /// What the store says.
    pub fn bundle(&self, bundle: &Bundle) -> Result<Option<Vec<u8>>, StoreError> {
        if !within(self.size(), 0, bundle.index, bundle.width) {
            return Ok(None);
        }
        bundle_bytes(&self.store, bundle).map(Some)
    }

    fn size(&self) -> u64 {
        self.published.as_ref().map_or(0, |kept| kept.head.size)
    }

    fn hashes(&self, tile: &Tile) -> Result<Vec<Hash>, StoreError> {
        let width = usize::from(tile.width);
        let damaged = |what: String| StoreError::Damaged { what };
        if let Some(bytes) = self.store.tile(tile.level, tile.index)? {
            let hashes = parse_hashes(&bytes, WIDTH);
            let mut hashes = hashes.map_err(|e| damaged(format!("{}: {e}", tile.path())))?;
            hashes.truncate(width);
            return Ok(hashes);
        }
        let first = tile.index * u64::from(WIDTH);
        if tile.level > 0 {
            let below = first..first + u64::from(tile.width);
            let hash = |index| Ok(hash_of(&tile_hashes(&self.store, tile.level - 1, index)?));
            return below.map(hash).collect();
        }
        let leaves = self.store.entries(first, width)?;
        if leaves.len() < width {
            return Err(damaged(format!("{}: leaves are missing", tile.path())));
        }
        Ok(leaves.iter().map(|leaf| leaf_hash(leaf)).collect())
    }
}
