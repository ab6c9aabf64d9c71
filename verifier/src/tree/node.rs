//! Inner nodes: node `index` of `level` is the root of leaves `[index * 2^level, (index + 1) * 2^level)`.

use crate::hash::Hash;

use super::{inclusion_path_len, root_from_inclusion};

/// Why a node's path shows nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    /// Not all leaves below the node are in the tree.
    #[error("node {index} of level {level} is not complete in a tree of size {size}")]
    Incomplete {
        /// Its level; leaves have 0.
        level: u8,
        /// Its index in the level.
        index: u64,
        /// Size of the tree.
        size: u64,
    },
    /// A path of another length than this node has in this tree.
    #[error(
        "in a tree of size {size} the path of node {index} of level {level} has {want} hashes, this one has {have}"
    )]
    Length {
        /// Its level; leaves have 0.
        level: u8,
        /// Its index in the level.
        index: u64,
        /// Size of the tree.
        size: u64,
        /// Hashes in the path.
        have: usize,
        /// Hashes due.
        want: usize,
    },
    /// The path leads to another root.
    #[error("the path of node {index} of level {level} leads to {computed}, not to the root")]
    Root {
        /// Its level; leaves have 0.
        level: u8,
        /// Its index in the level.
        index: u64,
        /// Where the path leads.
        computed: Hash,
    },
}

/// Whether all leaves below node `index` of `level` are in a tree of `size`.
#[must_use]
pub fn is_complete(level: u8, index: u64, size: u64) -> bool {
    let width = 1_u64.checked_shl(level.into());
    let end = index.checked_add(1).zip(width);
    end.and_then(|(after, width)| after.checked_mul(width))
        .is_some_and(|end| end <= size)
}

/// Number of nodes of `level` in a tree that is not empty, the one that is not complete included.
fn nodes(level: u8, size: u64) -> u64 {
    ((size - 1) >> level) + 1
}

/// Number of hashes in the path of node `index` of `level` to the root of a tree of `size`, 0..=64; 0 when
/// the node is not complete.
#[must_use]
pub fn node_path_len(level: u8, index: u64, size: u64) -> usize {
    if is_complete(level, index, size) {
        inclusion_path_len(index, nodes(level, size))
    } else {
        0
    }
}

/// Checks that node `index` of `level` has `hash` in the tree (`size`, `root`). Its path begins with its
/// sibling, and is that of a leaf in the tree whose leaves are the nodes of this level.
///
/// # Errors
/// [`NodeError`].
pub fn verify_node(
    hash: &Hash,
    level: u8,
    index: u64,
    size: u64,
    path: &[Hash],
    root: &Hash,
) -> Result<(), NodeError> {
    if !is_complete(level, index, size) {
        return Err(NodeError::Incomplete { level, index, size });
    }
    let (have, want) = (path.len(), node_path_len(level, index, size));
    match root_from_inclusion(hash, index, nodes(level, size), path) {
        Ok(computed) if computed == *root => Ok(()),
        Ok(computed) => Err(NodeError::Root {
            level,
            index,
            computed,
        }),
        Err(_) => Err(NodeError::Length {
            level,
            index,
            size,
            have,
            want,
        }),
    }
}

/// Level and index of the complete nodes that a tree of `size` is made of, largest and leftmost first: at
/// most 64. Two trees agree in their first `size` leaves exactly when they agree in these nodes.
pub fn complete_nodes(size: u64) -> impl Iterator<Item = (u8, u64)> {
    (0..64_u8)
        .rev()
        .filter(move |level| size >> level & 1 == 1)
        .map(move |level| (level, (size >> level) - 1))
}
