//! What a store says of itself, read as it lies: no key is needed, and nothing is judged.

use std::path::Path;

use countersign_log::{
    StoreError,
    store::{
        Head, Kept, Store as _,
        rocks::{RocksStore, Rows, Shared},
    },
};
use countersign_verifier::leaf::{Leaf, LeafError};

use crate::state::{Erased, State};

/// Everything is read once.
const CACHE_BYTES: usize = 16 << 20;
/// Leaves that are read at once.
const CHUNK: usize = 1_024;

/// What it says.
pub(super) struct Seen {
    /// What is committed.
    pub head: Head,
    /// The newest checkpoint kept as published.
    pub published: Option<Kept>,
    /// The bodies that its leaves have erased.
    pub erased: Erased,
}

/// Opens the store for reading and closes it again. Whether all of it can be read is for a check to say.
///
/// # Errors
/// What the store says; `Damaged` also for a leaf that cannot be taken in, `Unavailable` for one of a newer release.
pub(super) fn look(folder: &Path, mark: &Path) -> Result<Seen, StoreError> {
    let shared = Shared::new(CACHE_BYTES, CACHE_BYTES);
    seen(&RocksStore::open_behind(folder, mark, &shared, false)?)
}

/// The same, of a store each block of which could be read, and which does not end before what was published: what is not so would be found out
/// at the disaster.
///
/// # Errors
/// As [`look`]; `Damaged` for what is not so.
pub(super) fn look_through(folder: &Path, mark: &Path) -> Result<Seen, StoreError> {
    let shared = Shared::new(CACHE_BYTES, CACHE_BYTES);
    let store = RocksStore::open_behind(folder, mark, &shared, false)?;
    for rows in Rows::ALL {
        store.scan(rows, |_| true)?;
    }
    let (head, _) = store.head()?;
    if let Some(mark) = store.tidemark()?.filter(|mark| mark.size > head.size) {
        let (size, published) = (head.size, mark.size);
        return Err(StoreError::Damaged {
            what: format!("the store ends at {size}, and size {published} was published"),
        });
    }
    seen(&store)
}

fn seen(store: &RocksStore) -> Result<Seen, StoreError> {
    let (head, _) = store.head()?;
    let snapshot = match store.snapshot() {
        // It follows from the leaves, which are read instead.
        Err(StoreError::Damaged { .. }) => None,
        other => other?.filter(|kept| kept.size <= head.size),
    };
    let restored = snapshot.and_then(|kept| State::from_snapshot(&kept.bytes));
    let mut state = restored.unwrap_or_default();
    while state.size < head.size {
        for leaf in store.entries(state.size, CHUNK)? {
            let index = state.size;
            let damaged = |why: String| StoreError::Damaged {
                what: format!("leaf {index}: {why}"),
            };
            let leaf = Leaf::parse(&leaf).map_err(|error| match error {
                LeafError::Newer => StoreError::Unavailable(format!("leaf {index}: {error}")),
                error => damaged(error.to_string()),
            })?;
            state.apply(&leaf).map_err(damaged)?;
        }
    }
    Ok(Seen {
        head,
        published: store.published()?,
        erased: state.erased,
    })
}
