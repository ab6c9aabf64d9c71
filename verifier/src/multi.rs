//! Multi-proofs: many leaves under one root, with each shared hash written once.
//!
//! **The order of the hashes**, so that anyone can make or check such a proof. Levels count from the
//! leaves, 0; node `i` of level `l` is the root of the leaves `[i * 2^l, min((i + 1) * 2^l, n))`, and
//! level `l` has `ceil(n / 2^l)` nodes. Begin with the set of the leaves that are proved. At each
//! level, from 0 up to the one that has a single node: go through the known nodes in ascending order;
//! for each whose sibling (`i` with its lowest bit flipped) exists on this level and is not known, the
//! proof has that sibling's hash next. Then the parents (`i / 2`) of the known nodes are known. A last
//! node without a sibling moves up as it is. The proof has no other hash.
//!
//! The fold over the hashes is `rs_merkle`'s, which accepts forgeries when it is called bare: indexes
//! that stand twice, indexes past the tree, and left-over hashes. [`verify`] is the only caller.

use alloc::vec::Vec;

use rs_merkle::{Hasher, MerkleProof};

use crate::hash::{Hash, leaf_hash, node_hash};
use crate::limits;

/// Why a multi-proof proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MultiError {
    /// No leaf, or more than [`limits::MULTI_LEAVES_MAX`].
    #[error("{0} leaves where a multi-proof has 1 to {max}", max = limits::MULTI_LEAVES_MAX)]
    Leaves(usize),
    /// A size of 0, above [`limits::TREE_SIZE_MAX`], or that this machine cannot count to.
    #[error("a tree of {0} leaves")]
    Size(u64),
    /// Indexes are not in strictly ascending order, or one is not below the size.
    #[error("index {index} is out of order, or not in a tree of {size} leaves")]
    Index {
        /// The first index at fault.
        index: u64,
        /// The size of the tree.
        size: u64,
    },
    /// Not exactly as many hashes as these leaves take.
    #[error("{have} hashes where these leaves take {want}")]
    Length {
        /// Hashes given.
        have: usize,
        /// Hashes due.
        want: usize,
    },
    /// The leaves and hashes lead to another root.
    #[error("the leaves do not lead to the root")]
    Root,
}

/// The place of a hash of a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// 0 for leaves.
    pub level: u8,
    /// Index on its level.
    pub index: u64,
}

impl Node {
    /// The leaves below it in a tree of `size` leaves: `[start, end)`.
    #[must_use]
    pub const fn leaves(self, size: u64) -> (u64, u64) {
        let start = self.index << self.level;
        let end = (self.index + 1) << self.level;
        (start, if end < size { end } else { size })
    }
}

/// The hashes that a multi-proof of these leaves has, in its order.
///
/// # Errors
/// [`MultiError::Leaves`], [`MultiError::Size`], [`MultiError::Index`].
pub fn nodes(indexes: &[u64], size: u64) -> Result<Vec<Node>, MultiError> {
    if indexes.is_empty() || indexes.len() > limits::MULTI_LEAVES_MAX {
        return Err(MultiError::Leaves(indexes.len()));
    }
    if size == 0 || size > limits::TREE_SIZE_MAX || usize::try_from(size).is_err() {
        return Err(MultiError::Size(size));
    }
    let mut below = 0;
    for &index in indexes {
        if index < below || index >= size {
            return Err(MultiError::Index { index, size });
        }
        below = index + 1;
    }
    let mut known = indexes.to_vec();
    let (mut width, mut level, mut nodes) = (size, 0, Vec::new());
    while width > 1 {
        let siblings = known.iter().map(|index| index ^ 1);
        let due = siblings.filter(|index| *index < width && known.binary_search(index).is_err());
        nodes.extend(due.map(|index| Node { level, index }));
        known.iter_mut().for_each(|index| *index /= 2);
        known.dedup();
        width = width.div_ceil(2);
        level += 1;
    }
    Ok(nodes)
}

/// RFC 6962 hashing for `rs_merkle`.
#[derive(Clone)]
struct Rfc6962;

impl Hasher for Rfc6962 {
    type Hash = [u8; 32];

    fn hash(data: &[u8]) -> [u8; 32] {
        leaf_hash(data).0
    }

    fn concat_and_hash(left: &[u8; 32], right: Option<&[u8; 32]>) -> [u8; 32] {
        right.map_or(*left, |right| node_hash(&Hash(*left), &Hash(*right)).0)
    }
}

/// Checks that the leaves (index and leaf hash, in strictly ascending order) are all in the tree of
/// `size` leaves with this root.
///
/// # Errors
/// [`MultiError`]; all but [`MultiError::Root`] before anything is hashed.
pub fn verify(
    size: u64,
    root: &Hash,
    leaves: &[(u64, Hash)],
    proof: &[Hash],
) -> Result<(), MultiError> {
    let indexes: Vec<u64> = leaves.iter().map(|(index, _)| *index).collect();
    let want = nodes(&indexes, size)?.len();
    if proof.len() != want {
        return Err(MultiError::Length {
            have: proof.len(),
            want,
        });
    }
    let count = |n: u64| usize::try_from(n).map_err(|_| MultiError::Size(n));
    let positions = indexes
        .iter()
        .map(|&index| count(index))
        .collect::<Result<Vec<_>, _>>()?;
    let hashes: Vec<[u8; 32]> = leaves.iter().map(|(_, hash)| hash.0).collect();
    let proof = MerkleProof::<Rfc6962>::new(proof.iter().map(|hash| hash.0).collect());
    if proof.verify(root.0, &positions, &hashes, count(size)?) {
        Ok(())
    } else {
        Err(MultiError::Root)
    }
}
