//! A batch between judging and commit, and the tree beneath each leaf of it.

use countersign_verifier::{
    hash::{Hash, leaf_hash},
    limits::ENTRY_BYTES_MAX,
    tile::Tile,
};

use crate::{
    grow::Edge,
    judge::{Below, Context, Entry, Key, PendingBatch},
    prove::{Prover, Tiles},
    reader::hashes_from,
    store::{Store, StoreError},
};

/// A batch between judging and commit.
#[derive(Default)]
pub(crate) struct Batch {
    pub pending: PendingBatch,
    pub growth: Growing,
}

#[derive(Default)]
pub(crate) struct Growing {
    pub tiles: Vec<(Tile, Vec<u8>)>,
    pub unique: Vec<(Key, u64)>,
    pub postings: Vec<(Key, u64)>,
    pub hashes: Vec<Hash>,
    pub bytes: usize,
}

pub(super) fn context<'a>(
    at: u64,
    edge: &Edge,
    below: &'a dyn Below,
    pending: &'a PendingBatch,
) -> Context<'a> {
    Context {
        at,
        index: edge.size(),
        below,
        pending,
    }
}

pub(crate) fn append(edge: &mut Edge, batch: &mut Batch, entry: Entry) -> u64 {
    assert!(
        entry.leaf.len() <= ENTRY_BYTES_MAX,
        "writer::append: a leaf of {} bytes",
        entry.leaf.len()
    );
    let index = edge.size();
    let hash = leaf_hash(&entry.leaf);
    edge.push(hash, &mut batch.growth.tiles);
    let own = Key::new(Key::LEAF_HASH, &hash);
    for key in entry.unique.into_iter().chain([own]) {
        batch.pending.unique.insert(key, index);
        batch.growth.unique.push((key, index));
    }
    batch
        .growth
        .postings
        .extend(entry.postings.into_iter().map(|key| (key, index)));
    batch.growth.bytes += entry.leaf.len();
    batch.growth.hashes.push(hash);
    batch.pending.entries.push(entry.leaf);
    index
}

/// The tree below a leaf that is being judged: stored tiles, tiles that this batch completed, the growing edge.
pub(super) struct Beneath<'a>(pub &'a Edge, pub &'a [(Tile, Vec<u8>)], pub &'a dyn Store);

impl Tiles for Beneath<'_> {
    fn hashes(&self, level: u8, index: u64, width: usize) -> Result<Vec<Hash>, StoreError> {
        if let Some((_, bytes)) = self
            .1
            .iter()
            .find(|(t, _)| t.level == level && t.index == index)
        {
            return Ok(bytes
                .chunks_exact(32)
                .take(width)
                .filter_map(|c| c.try_into().ok())
                .map(Hash)
                .collect());
        }
        hashes_from(self.2, self.0, level, index, width)
    }
}

impl Below for Beneath<'_> {
    fn find(&self, key: &Key) -> Result<Option<u64>, StoreError> {
        self.2.find(key)
    }

    fn entry(&self, index: u64) -> Result<Option<Vec<u8>>, StoreError> {
        self.2.entry(index)
    }

    fn root_at(&self, size: u64) -> Result<Hash, StoreError> {
        Prover::new(self, size).root()
    }
}
