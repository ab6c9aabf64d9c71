//! What was published, read at one size: nothing beyond it leaves through here.

use std::sync::Arc;

use countersign_verifier::{
    hash::Hash,
    tile::{Bundle, Tile, WIDTH, parse_hashes, push_entry},
};
use tokio::sync::watch;

use crate::{
    grow::Edge,
    judge::Key,
    prove::Tiles,
    publish::Published,
    shared::{Progress, Shared},
    store::{Head, Store, StoreError},
};

/// Reads one log. Cheap to clone.
pub struct Reader<V> {
    shared: Arc<Shared<V>>,
}

impl<V> Clone for Reader<V> {
    fn clone(&self) -> Self {
        Reader {
            shared: self.shared.clone(),
        }
    }
}

impl<V> Reader<V> {
    pub(crate) fn new(shared: Arc<Shared<V>>) -> Reader<V> {
        Reader { shared }
    }

    /// The newest published checkpoint.
    #[must_use]
    pub fn published(&self) -> Arc<Published> {
        self.shared.published.load_full()
    }

    /// The newest checkpoint that the log has signed: beyond the published one where witnesses have not come so far. Nobody but
    /// the log vouches for it.
    #[must_use]
    pub fn signed(&self) -> Arc<Published> {
        let (signed, published) = (self.shared.signed.load_full(), self.published());
        if signed.head.size > published.head.size {
            signed
        } else {
            published
        }
    }

    /// How far the log has come, to be waited on: for a commit, or for a publication. What it says is there to be read.
    #[must_use]
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.shared.progress.subscribe()
    }

    /// The state above the log at the newest commit.
    #[must_use]
    pub fn version(&self) -> Arc<V> {
        self.shared.committed.load().version.clone()
    }

    /// The newest committed head, and the state at exactly that size.
    #[must_use]
    pub fn committed(&self) -> (Head, Arc<V>) {
        let committed = self.shared.committed.load();
        (committed.head, committed.version.clone())
    }

    /// A tile of the published tree, `32 × width` bytes, or `None` beyond it. An unfinished tile is the start of the full one
    /// and stays readable once that exists.
    ///
    /// # Errors
    /// What the store says.
    pub fn tile(&self, tile: &Tile) -> Result<Option<Vec<u8>>, StoreError> {
        let size = self.published().head.size;
        if !within(size, tile.level, tile.index, tile.width) {
            return Ok(None);
        }
        let hashes = self.hashes(tile.level, tile.index, usize::from(tile.width))?;
        Ok(Some(hashes.iter().flat_map(|h| h.0).collect()))
    }

    /// An entry bundle of the published tree, or `None` beyond it.
    ///
    /// # Errors
    /// What the store says.
    pub fn bundle(&self, bundle: &Bundle) -> Result<Option<Vec<u8>>, StoreError> {
        if !within(self.published().head.size, 0, bundle.index, bundle.width) {
            return Ok(None);
        }
        bundle_bytes(&*self.shared.store, bundle).map(Some)
    }

    /// The leaf at `index`, or `None` at or beyond the published size.
    ///
    /// # Errors
    /// What the store says.
    pub fn leaf(&self, index: u64) -> Result<Option<Vec<u8>>, StoreError> {
        if index >= self.published().head.size {
            return Ok(None);
        }
        self.shared.store.entry(index)
    }

    /// Up to `count` published leaves from index `first` on; none beyond the published size.
    ///
    /// # Errors
    /// What the store says.
    pub fn leaves(&self, first: u64, count: usize) -> Result<Vec<Vec<u8>>, StoreError> {
        let there = self.published().head.size.saturating_sub(first);
        match usize::try_from(there).unwrap_or(usize::MAX).min(count) {
            0 => Ok(Vec::new()),
            count => self.shared.store.entries(first, count),
        }
    }

    /// The leaf last stored under a unique key, published or not: confirm it by reading the leaf.
    ///
    /// # Errors
    /// What the store says.
    pub fn find(&self, key: &Key) -> Result<Option<u64>, StoreError> {
        self.shared.store.find(key)
    }

    /// Up to `limit` published leaves under a key, rising, beyond index `after`.
    ///
    /// # Errors
    /// What the store says.
    pub fn postings(
        &self,
        key: &Key,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<u64>, StoreError> {
        let size = self.published().head.size;
        let mut found = self.shared.store.postings(key, after, limit)?;
        found.retain(|index| *index < size);
        Ok(found)
    }
}

impl<V> Tiles for Reader<V> {
    fn hashes(&self, level: u8, index: u64, width: usize) -> Result<Vec<Hash>, StoreError> {
        hashes_from(
            &*self.shared.store,
            &self.shared.committed.load().edge,
            level,
            index,
            width,
        )
    }
}

/// A bundle of leaves that are committed.
pub(crate) fn bundle_bytes(store: &dyn Store, bundle: &Bundle) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    let first = bundle.index * u64::from(WIDTH);
    for leaf in store.entries(first, usize::from(bundle.width))? {
        push_entry(&mut bytes, &leaf).map_err(|_| StoreError::Damaged {
            what: format!("a leaf in bundle {} is too long", bundle.index),
        })?;
    }
    Ok(bytes)
}

/// Whether `width` hashes of this tile exist in a tree of `size` leaves.
pub(crate) fn within(size: u64, level: u8, index: u64, width: u16) -> bool {
    let hashes = size.checked_shr(8 * u32::from(level)).unwrap_or(0);
    let end = index
        .checked_mul(256)
        .and_then(|first| first.checked_add(u64::from(width)));
    end.is_some_and(|end| end <= hashes)
}

/// The first hashes of a tile, from the store where it is full and from the edge where it is growing.
pub(crate) fn hashes_from(
    store: &dyn Store,
    edge: &Edge,
    level: u8,
    index: u64,
    width: usize,
) -> Result<Vec<Hash>, StoreError> {
    let full = edge
        .size()
        .checked_shr(8 * (u32::from(level) + 1))
        .unwrap_or(0);
    let mut hashes = if index < full {
        tile_hashes(store, level, index)?
    } else if index == full {
        edge.tail(level).to_vec()
    } else {
        Vec::new()
    };
    if hashes.len() < width {
        return Err(StoreError::Damaged {
            what: format!(
                "tile {level}/{index} has {} hashes, {width} are needed",
                hashes.len()
            ),
        });
    }
    hashes.truncate(width);
    Ok(hashes)
}

/// The 256 hashes of a full tile that must be there.
pub(crate) fn tile_hashes(
    store: &dyn Store,
    level: u8,
    index: u64,
) -> Result<Vec<Hash>, StoreError> {
    let bytes = store
        .tile(level, index)?
        .ok_or_else(|| StoreError::Damaged {
            what: format!("tile {level}/{index} is missing"),
        })?;
    parse_hashes(&bytes, 256).map_err(|e| StoreError::Damaged {
        what: format!("tile {level}/{index}: {e}"),
    })
}
