//! What a log's tree was at an earlier size, out of its own tiles and proved under the root that it signed.

use std::cell::RefCell;

use countersign_log::{
    StoreError,
    prove::{Prover, Tiles},
};
use countersign_verifier::{
    fork::Node,
    hash::{Hash, node_hash},
    range::Range,
    tile::{WIDTH, tile_at},
    tree::{complete_nodes, verify_consistency, verify_node},
};

use super::{Foreign, ForeignError};

/// An earlier state of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Past {
    /// Its root, as the tree that the log signed has it.
    pub root: Hash,
    /// The consistency proof from it to the signed tree.
    pub proof: Vec<Hash>,
}

/// The tree of the first `old` leaves of the tree (`size`, `root`), whose root is signed. `old` is at most `size`.
///
/// The root in the answer is proved: whoever holds another signed root of that size holds two histories.
///
/// # Errors
/// [`ForeignError`]; [`ForeignError::Tiles`] where the tiles show nothing about the signed root.
pub fn past(log: &Foreign, old: u64, size: u64, root: &Hash) -> Result<Past, ForeignError> {
    if old == size {
        let (root, proof) = (*root, Vec::new());
        return Ok(Past { root, proof });
    }
    let fetching = Fetching::of(log, size);
    let prove = || {
        let earlier = Prover::new(&fetching, old).root()?;
        if old == 0 {
            // The empty tree is a part of every other, without a proof: that anything of the larger one is served is asked for all the same.
            Prover::new(&fetching, 1).root()?;
        }
        Ok((earlier, Prover::new(&fetching, size).consistency(old)?))
    };
    let (earlier, proof) = prove().map_err(|error: StoreError| fetching.error(&error))?;
    // The tiles are whoever's who serves them: only what leads to the signed root counts.
    verify_consistency(old, &earlier, size, root, &proof).map_err(|error| ForeignError::Tiles {
        place: log.at(""),
        what: error.to_string(),
    })?;
    Ok(Past {
        root: earlier,
        proof,
    })
}

/// The right edge of the tree (`size`, `root`), whose root is signed: what it takes to show later that another tree is none that
/// this one grew into.
///
/// # Errors
/// [`ForeignError`].
pub fn edge(log: &Foreign, size: u64, root: &Hash) -> Result<Range, ForeignError> {
    edge_of(log, size, size, root)
}

/// The right edge of the tree of the first `old` leaves of the tree (`size`, `root`), whose root is signed. `old` is at most
/// `size`.
///
/// # Errors
/// [`ForeignError`].
pub fn edge_of(log: &Foreign, old: u64, size: u64, root: &Hash) -> Result<Range, ForeignError> {
    let due = past(log, old, size, root)?.root;
    let fetching = Fetching::of(log, size);
    let prover = Prover::new(&fetching, size);
    let nodes: Result<Vec<Hash>, StoreError> = complete_nodes(old)
        .map(|(level, index)| prover.node(level, index))
        .collect();
    let nodes = nodes.map_err(|error| fetching.error(&error))?;
    let edge = Range::from_parts(old, nodes).map_err(|error| fetching.astray(&error))?;
    if edge.root() == due {
        return Ok(edge);
    }
    Err(fetching.astray(&format!("they lead to root {}", edge.root())))
}

/// A node of an earlier tree, whose edge this is, that the signed tree (`size`, `root`) has otherwise, with its path in either;
/// `None` if there is none, and the one tree grew into the other. The earlier tree is not the larger one.
///
/// # Errors
/// [`ForeignError`].
pub fn apart(
    log: &Foreign,
    earlier: &Range,
    size: u64,
    root: &Hash,
) -> Result<Option<Node>, ForeignError> {
    let fetching = Fetching::of(log, size);
    let prover = Prover::new(&fetching, size);
    for (at, (level, index)) in complete_nodes(earlier.size()).enumerate() {
        let read = || Ok((prover.node(level, index)?, prover.node_path(level, index)?));
        let (hash, path) = read().map_err(|error: StoreError| fetching.error(&error))?;
        verify_node(&hash, level, index, size, &path, root)
            .map_err(|error| fetching.astray(&error))?;
        if hash != earlier.nodes()[at] {
            return Ok(Some(Node {
                level,
                index,
                hashes: [earlier.nodes()[at], hash],
                paths: [edge_path(earlier.nodes(), at), path],
            }));
        }
    }
    Ok(None)
}

/// The path of an edge's node to the root: what is right of it in one, then what is left, nearest first.
fn edge_path(nodes: &[Hash], at: usize) -> Vec<Hash> {
    let right = nodes[at + 1..].iter().rev().copied();
    let right = right.reduce(|right, left| node_hash(&left, &right));
    right
        .into_iter()
        .chain(nodes[..at].iter().rev().copied())
        .collect()
}

/// The tiles of a tree of `size` leaves. A tree that is a part of it reads the same ones: partial tiles of old sizes may be gone.
struct Fetching<'a> {
    log: &'a Foreign,
    size: u64,
    /// The store's errors have no room for whose fault it is.
    failed: RefCell<Option<ForeignError>>,
}

impl<'a> Fetching<'a> {
    fn of(log: &'a Foreign, size: u64) -> Fetching<'a> {
        Fetching {
            log,
            size,
            failed: RefCell::default(),
        }
    }

    /// What tiles show that do not lead to the signed root.
    fn astray(&self, what: &dyn std::fmt::Display) -> ForeignError {
        ForeignError::Tiles {
            place: self.log.at(""),
            what: what.to_string(),
        }
    }

    fn error(&self, error: &StoreError) -> ForeignError {
        let kept = self.failed.borrow_mut().take();
        kept.unwrap_or_else(|| ForeignError::Tiles {
            place: self.log.at(""),
            what: error.to_string(),
        })
    }
}

impl Tiles for Fetching<'_> {
    fn hashes(&self, level: u8, index: u64, width: usize) -> Result<Vec<Hash>, StoreError> {
        let beyond = || StoreError::Damaged {
            what: format!(
                "tile {level}/{index} is beyond a tree of {} leaves",
                self.size
            ),
        };
        let tile = tile_at(self.size, level, index * u64::from(WIDTH)).ok_or_else(beyond)?;
        let mut hashes = self.log.tile(&tile).map_err(|error| {
            let told = StoreError::Unavailable(error.to_string());
            *self.failed.borrow_mut() = Some(error);
            told
        })?;
        if hashes.len() < width {
            return Err(beyond());
        }
        hashes.truncate(width);
        Ok(hashes)
    }
}
