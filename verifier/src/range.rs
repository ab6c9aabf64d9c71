//! The compact range over [0, size): what a tree needs to grow, and no more.
//!
//! Its nodes are the roots of the complete subtrees that the size's binary digits name, largest and
//! leftmost first: at most 63 hashes for sizes to 2^62.

use alloc::vec::Vec;

use crate::hash::{EMPTY_ROOT, Hash, node_hash};
use crate::limits::TREE_SIZE_MAX;

/// The right edge of a tree that starts at leaf 0. `Range::new()` is the empty tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Range {
    size: u64,
    nodes: Vec<Hash>,
}

/// Why parts are not a compact range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// The size is beyond [`TREE_SIZE_MAX`].
    #[error("tree size {size} is beyond the largest, 2^62")]
    Size {
        /// The size.
        size: u64,
    },
    /// Another number of nodes than the size has ones among its binary digits.
    #[error("a tree of size {size} has {want} edge nodes, not {have}")]
    Nodes {
        /// The size.
        size: u64,
        /// Nodes given.
        have: usize,
        /// Nodes due.
        want: usize,
    },
}

impl Range {
    /// The empty tree.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A range as [`size`](Self::size) and [`nodes`](Self::nodes) gave it. Nothing is proved by this:
    /// compare [`root`](Self::root) with a root that you trust.
    ///
    /// # Errors
    /// [`RangeError::Size`], [`RangeError::Nodes`].
    pub fn from_parts(size: u64, nodes: Vec<Hash>) -> Result<Self, RangeError> {
        if size > TREE_SIZE_MAX {
            return Err(RangeError::Size { size });
        }
        let (have, want) = (nodes.len(), size.count_ones() as usize);
        if have != want {
            return Err(RangeError::Nodes { size, have, want });
        }
        Ok(Self { size, nodes })
    }

    /// Appends the leaf whose hash is `leaf`.
    pub fn push(&mut self, leaf: Hash) {
        let mut hash = leaf;
        // Each trailing one of the size is a complete subtree that the new leaf closes with another.
        for _ in 0..self.size.trailing_ones() {
            let left = self.nodes.pop().unwrap_or(hash); // OK because there is one node per binary one
            hash = node_hash(&left, &hash);
        }
        self.nodes.push(hash);
        self.size += 1; // at most 2^62 and what one process can push
    }

    /// Number of leaves.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Root of the tree; that of the empty tree at size 0.
    #[must_use]
    pub fn root(&self) -> Hash {
        let from_right = self.nodes.iter().rev().copied();
        from_right
            .reduce(|right, left| node_hash(&left, &right))
            .unwrap_or(EMPTY_ROOT)
    }

    /// Roots of the complete subtrees, largest first: one per one among the size's binary digits.
    #[must_use]
    pub fn nodes(&self) -> &[Hash] {
        &self.nodes
    }
}

impl Extend<Hash> for Range {
    fn extend<I: IntoIterator<Item = Hash>>(&mut self, leaves: I) {
        leaves.into_iter().for_each(|leaf| self.push(leaf));
    }
}

impl FromIterator<Hash> for Range {
    fn from_iter<I: IntoIterator<Item = Hash>>(leaves: I) -> Self {
        let mut range = Self::new();
        range.extend(leaves);
        range
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::leaf_hash;
    use alloc::vec;

    #[test]
    fn parts_are_counted() {
        let range: Range = [b"a", b"b", b"c"].iter().map(|l| leaf_hash(*l)).collect();
        assert_eq!((range.size(), range.nodes().len()), (3, 2));
        assert_eq!(
            range.root().to_base64(),
            "NmQuc8JUCrEh46a/lUWwokmCzYMOsT080Z3jzmwCHsE="
        );
        assert_eq!(
            Range::from_parts(3, range.nodes().to_vec()),
            Ok(range.clone())
        );
        let one = vec![range.nodes()[0]];
        assert_eq!(
            Range::from_parts(3, one),
            Err(RangeError::Nodes {
                size: 3,
                have: 1,
                want: 2
            })
        );
        let size = TREE_SIZE_MAX + 1;
        assert_eq!(
            Range::from_parts(size, vec![]),
            Err(RangeError::Size { size })
        );
        assert_eq!(Range::new().root(), EMPTY_ROOT);
    }
}
