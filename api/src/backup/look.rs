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

/// Opens the store for reading and closes it again.
///
/// # Errors
/// What the store says; `Damaged` also for a leaf that cannot be taken in, `Unavailable` for one of a newer release.
pub(super) fn look(folder: &Path, mark: &Path) -> Result<Seen, StoreError> {
    let shared = Shared::new(CACHE_BYTES, CACHE_BYTES);
    let store = RocksStore::open_behind(folder, mark, &shared, false)?;
    // Each block: a backup of what cannot be read would be found out at the disaster.
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
    let snapshot = store.snapshot()?.filter(|kept| kept.size <= head.size);
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
