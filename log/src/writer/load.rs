//! What is durable, read at a start and after an unknown outcome alike.

use countersign_verifier::{
    hash::{Hash, leaf_hash},
    tile::hash_of,
};

use crate::{
    grow::{Edge, levels_of, width_at},
    judge::Judge,
    reader::tile_hashes,
    shared::StartError,
    store::{Head, Snapshot, Store, StoreError},
};

/// How many leaves are read at once when a state is replayed.
const REPLAY_CHUNK: usize = 1_024;

/// What a start or a reload finds.
pub(crate) struct Loaded {
    pub edge: Edge,
    pub last_at: u64,
    /// The size that the newest usable snapshot reflects: what was replayed after it is replayed again at each start until
    /// another one is kept.
    pub snapshot_at: u64,
}

/// Reads what is durable: the edge, checked against the stored root, and the judge's state.
pub(crate) fn load<J: Judge>(store: &dyn Store, judge: &mut J) -> Result<Loaded, StartError> {
    let (head, last_at) = store.head()?;
    let edge = load_edge(store, &head)?;
    let snapshot = usable(store)?.filter(|s| s.size <= head.size);
    let mut next = match &snapshot {
        Some(snapshot) if judge.restore(Some(&snapshot.bytes)) => snapshot.size,
        _ => {
            judge.restore(None);
            0
        }
    };
    let snapshot_at = next;
    while next < head.size {
        for leaf in store.entries(next, REPLAY_CHUNK)? {
            judge
                .replay(next, &leaf)
                .map_err(|why| StartError::Leaf { index: next, why })?;
            next += 1;
        }
    }
    Ok(Loaded {
        edge,
        last_at,
        snapshot_at,
    })
}

/// The snapshot, unless it was damaged: it follows from the leaves, so that it costs their replay and nothing else.
fn usable(store: &dyn Store) -> Result<Option<Snapshot>, StoreError> {
    match store.snapshot() {
        Err(StoreError::Damaged { what }) => {
            tracing::warn!(%what, "the snapshot cannot be read, and the leaves are replayed");
            Ok(None)
        }
        other => other,
    }
}

fn load_edge(store: &dyn Store, head: &Head) -> Result<Edge, StoreError> {
    let mut levels = Vec::new();
    for level in 0..levels_of(head.size) {
        let width = width_at(head.size, level);
        let first = (head.size >> (8 * level)) - width as u64;
        let hashes: Result<Vec<Hash>, StoreError> = match level {
            0 => Ok(store
                .entries(first, width)?
                .iter()
                .map(|leaf| leaf_hash(leaf))
                .collect()),
            _ => (first..first + width as u64)
                .map(|index| {
                    // OK because a tree has at most eight tile levels.
                    let below = u8::try_from(level - 1).expect("load_edge: level");
                    Ok(hash_of(&tile_hashes(store, below, index)?))
                })
                .collect(),
        };
        levels.push(hashes?);
    }
    let edge = Edge::from_parts(head.size, levels);
    if edge.root() != head.root {
        return Err(StoreError::Damaged {
            what: format!(
                "the leaves and tiles at the end of the log do not give the root stored for size {}",
                head.size
            ),
        });
    }
    Ok(edge)
}
