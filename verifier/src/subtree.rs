//! Subtrees: runs of leaves that are trees of their own inside a larger one
//! (draft-ietf-plants-merkle-tree-certs section 4).
//!
//! `[start, end)` is a subtree when `start` is a multiple of the smallest power of two that is not below
//! its length. Its hash is that of its leaves as a tree of their own, so that a leaf's path in it is a
//! usual inclusion path. As elsewhere, a proof has exactly the length that its numbers ask for.

use crate::hash::{EMPTY_ROOT, Hash, node_hash};
use crate::tree::{self, ProofError};

/// Why a subtree proof shows nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubtreeError {
    /// No subtree of any tree has these bounds.
    #[error("[{start}, {end}) is not a subtree")]
    Bounds {
        /// The first leaf.
        start: u64,
        /// The leaf after the last.
        end: u64,
    },
    /// The subtree reaches beyond the tree.
    #[error("subtree [{start}, {end}) is not in a tree of size {size}")]
    NotInTree {
        /// The first leaf.
        start: u64,
        /// The leaf after the last.
        end: u64,
        /// Size of the tree.
        size: u64,
    },
    /// The leaf is not in the subtree.
    #[error("leaf {index} is not in subtree [{start}, {end})")]
    NotInSubtree {
        /// Index of the leaf.
        index: u64,
        /// The first leaf.
        start: u64,
        /// The leaf after the last.
        end: u64,
    },
    /// A leaf's path in the subtree is wrong; indexes in it count from the subtree's start.
    #[error("in the subtree: {0}")]
    Inclusion(#[from] ProofError),
    /// A proof of another length than these numbers have.
    #[error(
        "the proof of subtree [{start}, {end}) in a tree of size {size} has {want} hashes, this one has {have}"
    )]
    Length {
        /// The first leaf.
        start: u64,
        /// The leaf after the last.
        end: u64,
        /// Size of the tree.
        size: u64,
        /// Hashes in the proof.
        have: usize,
        /// Hashes due.
        want: usize,
    },
    /// The proof does not rebuild the subtree's hash.
    #[error("the proof leads to another hash of the subtree")]
    Hash,
    /// The proof does not rebuild the tree's root.
    #[error("the proof leads to another root of the tree")]
    Root,
}

/// Whether some tree has a subtree `[start, end)`. Those that begin at 0 and those without leaves all are.
#[must_use]
pub fn is_subtree(start: u64, end: u64) -> bool {
    let Some(length) = end.checked_sub(start) else {
        return false;
    };
    // Beyond 2^63 leaves the power of two is 2^64, of which 0 is the only multiple here.
    let unit = length.checked_next_power_of_two(); // of 0 it is 1
    unit.map_or(start == 0, |unit| start.is_multiple_of(unit))
}

/// Checks that `leaf` stands at `index`, counted in the whole tree, in the subtree `[start, end)` whose
/// hash is `hash`.
///
/// # Errors
/// [`SubtreeError::Bounds`], [`SubtreeError::NotInSubtree`], [`SubtreeError::Inclusion`].
pub fn verify_inclusion(
    leaf: &Hash,
    index: u64,
    (start, end): (u64, u64),
    path: &[Hash],
    hash: &Hash,
) -> Result<(), SubtreeError> {
    if !is_subtree(start, end) {
        return Err(SubtreeError::Bounds { start, end });
    }
    if !(start..end).contains(&index) {
        return Err(SubtreeError::NotInSubtree { index, start, end });
    }
    Ok(tree::verify_inclusion(
        leaf,
        index - start,
        end - start,
        path,
        hash,
    )?)
}

/// The way from a subtree's right edge up to the root, one step a hash of the proof.
#[derive(Clone)]
struct Climb {
    first: u64,
    last: u64,
    top: u64,
}

/// Where a hash of the proof stands.
enum Side {
    /// Left of the node, and inside the subtree or not.
    Left { inside: bool },
    /// Right of it, and so never inside.
    Right,
}

impl Climb {
    /// The climb of a subtree that has leaves, and whether it begins at a node of its own hash: otherwise
    /// the proof's first hash is the node to begin at.
    fn new(start: u64, end: u64, size: u64) -> (Self, bool) {
        let mut climb = Self {
            first: start,
            last: end - 1,
            top: size - 1,
        };
        if climb.last == climb.top {
            while climb.first != climb.last {
                climb.shift();
            }
        } else {
            while climb.first != climb.last && climb.last % 2 == 1 {
                climb.shift();
            }
        }
        let whole = climb.first == climb.last;
        (climb, whole)
    }

    fn shift(&mut self) {
        self.first >>= 1;
        self.last >>= 1;
        self.top >>= 1;
    }
}

impl Iterator for Climb {
    type Item = Side;

    fn next(&mut self) -> Option<Side> {
        if self.top == 0 {
            return None;
        }
        let side = if self.last % 2 == 1 || self.last == self.top {
            let inside = self.first < self.last;
            while self.last.is_multiple_of(2) {
                self.shift(); // ends, because 0 < top: either last is odd, or it is top
            }
            Side::Left { inside }
        } else {
            Side::Right
        };
        self.shift();
        Some(side)
    }
}

/// Number of hashes in the proof that subtree `[start, end)` is of a tree of `size`; 0 when it has no
/// leaves, or there is no such subtree.
#[must_use]
pub fn consistency_proof_len(start: u64, end: u64, size: u64) -> usize {
    if start >= end || end > size || !is_subtree(start, end) {
        return 0;
    }
    let (climb, whole) = Climb::new(start, end, size);
    climb.count() + usize::from(!whole)
}

/// Checks that the subtree `[start, end)` with `hash` is one of the tree (`size`, `root`). Both hashes are
/// compared.
///
/// A subtree without leaves has the empty tree's hash and an empty proof; it is in every tree, and
/// nothing is said of `root` then.
///
/// # Errors
/// [`SubtreeError::Bounds`], [`SubtreeError::NotInTree`], [`SubtreeError::Length`],
/// [`SubtreeError::Hash`], [`SubtreeError::Root`].
pub fn verify_consistency(
    (start, end): (u64, u64),
    hash: &Hash,
    size: u64,
    root: &Hash,
    proof: &[Hash],
) -> Result<(), SubtreeError> {
    if !is_subtree(start, end) {
        return Err(SubtreeError::Bounds { start, end });
    }
    if end > size {
        return Err(SubtreeError::NotInTree { start, end, size });
    }
    let (have, want) = (proof.len(), consistency_proof_len(start, end, size));
    if have != want {
        return Err(SubtreeError::Length {
            start,
            end,
            size,
            have,
            want,
        });
    }
    if start == end {
        return if *hash == EMPTY_ROOT {
            Ok(())
        } else {
            Err(SubtreeError::Hash)
        };
    }
    let (climb, whole) = Climb::new(start, end, size);
    let (seed, rest) = match proof.split_first() {
        Some((seed, rest)) if !whole => (seed, rest),
        _ => (hash, proof),
    };
    let (mut inner, mut outer) = (*seed, *seed);
    for (side, hash) in climb.zip(rest) {
        match side {
            Side::Left { inside } => {
                if inside {
                    inner = node_hash(hash, &inner);
                }
                outer = node_hash(hash, &outer);
            }
            Side::Right => outer = node_hash(&outer, hash),
        }
    }
    if inner != *hash {
        return Err(SubtreeError::Hash);
    }
    if outer != *root {
        return Err(SubtreeError::Root);
    }
    Ok(())
}
