//! Inclusion and consistency of Merkle trees (RFC 6962 section 2.1, RFC 9162 section 2.1).
//!
//! A proof has exactly the length that its numbers ask for, and that is checked before anything is
//! hashed: a longer one costs nothing, and no left-over hash is ever ignored. Sizes are any 64-bit
//! number here; [`crate::limits::TREE_SIZE_MAX`] is demanded where sizes are read.

mod node;

use core::ops::RangeInclusive;

use crate::hash::{EMPTY_ROOT, Hash, node_hash};

pub use node::{NodeError, complete_nodes, is_complete, node_path_len, verify_node};

/// Why a Merkle proof shows nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// The leaf lies outside the tree.
    #[error("leaf {index} is not in a tree of size {size}")]
    NotInTree {
        /// Index of the leaf.
        index: u64,
        /// Size of the tree.
        size: u64,
    },
    /// An inclusion path of another length than this leaf has in this tree.
    #[error(
        "root does not follow from proof: in a tree of size {size} the path of leaf {index} has {want} \
         hashes, this one has {have}{}", Fits(*index, *have)
    )]
    PathLength {
        /// Index of the leaf.
        index: u64,
        /// Size of the tree.
        size: u64,
        /// Hashes in the path.
        have: usize,
        /// Hashes due.
        want: usize,
    },
    /// The path leads to another root.
    #[error(
        "root does not follow from proof: leaf {index} leads to {computed}, the tree of size {size} has \
         {root}; a path of this length fits {}", Sizes(sizes_of_path(*index, inclusion_path_len(*index, *size)))
    )]
    Root {
        /// Index of the leaf.
        index: u64,
        /// Size of the tree.
        size: u64,
        /// Where the path leads.
        computed: Hash,
        /// The root it should lead to.
        root: Hash,
    },
    /// The older tree is the larger one.
    #[error("a tree of size {new_size} does not extend one of size {old_size}")]
    Shrinks {
        /// Size of the older tree.
        old_size: u64,
        /// Size of the newer tree.
        new_size: u64,
    },
    /// A consistency proof of another length than these two sizes have.
    #[error(
        "a consistency proof from size {old_size} to {new_size} has {want} hashes, this one has {have}"
    )]
    ConsistencyLength {
        /// Size of the older tree.
        old_size: u64,
        /// Size of the newer tree.
        new_size: u64,
        /// Hashes in the proof.
        have: usize,
        /// Hashes due.
        want: usize,
    },
    /// The proof does not rebuild the older root.
    #[error(
        "consistency proof from size {old_size} to {new_size} leads to another root of size {old_size}"
    )]
    OldRoot {
        /// Size of the older tree.
        old_size: u64,
        /// Size of the newer tree.
        new_size: u64,
    },
    /// The proof does not rebuild the newer root.
    #[error(
        "consistency proof from size {old_size} to {new_size} leads to another root of size {new_size}"
    )]
    NewRoot {
        /// Size of the older tree.
        old_size: u64,
        /// Size of the newer tree.
        new_size: u64,
    },
}

struct Sizes(Option<RangeInclusive<u64>>);

impl core::fmt::Display for Sizes {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match &self.0 {
            Some(sizes) if sizes.start() == sizes.end() => {
                write!(f, "size {} alone", sizes.start())
            }
            Some(sizes) => write!(f, "sizes {} to {}", sizes.start(), sizes.end()),
            None => f.write_str("no size"),
        }
    }
}

struct Fits(u64, usize);

impl core::fmt::Display for Fits {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, ", which fits {}", Sizes(sizes_of_path(self.0, self.1)))
    }
}

/// Number of hashes in the inclusion path of leaf `index` in a tree of `size`, 0..=64; 0 when there
/// is no such leaf.
#[must_use]
pub fn inclusion_path_len(index: u64, size: u64) -> usize {
    if index >= size {
        return 0;
    }
    let (inner, border) = path_shape(index, size);
    (inner + border) as usize
}

/// Levels below the point where the leaf's path meets the right edge of the tree, and hashes above.
fn path_shape(index: u64, size: u64) -> (u32, u32) {
    let inner = u64::BITS - (index ^ (size - 1)).leading_zeros();
    (inner, index.checked_shr(inner).unwrap_or(0).count_ones())
}

/// The tree sizes in which leaf `index` has a path of `len` hashes; `None` when there are none.
///
/// One interval, because of two possible `inner` the next has a path longer by exactly one: all index
/// bits between them are ones, and each leaves the border as it joins the inner part.
#[must_use]
pub fn sizes_of_path(index: u64, len: usize) -> Option<RangeInclusive<u64>> {
    let shapes = 0..=u64::BITS;
    shapes
        .filter(|&inner| inner == 0 || index >> (inner - 1) & 1 == 0)
        .find_map(|inner| {
            let above = index.checked_shr(inner).unwrap_or(0);
            if (inner + above.count_ones()) as usize != len {
                return None;
            }
            let Some(top) = inner.checked_sub(1) else {
                let size = index.checked_add(1)?;
                return Some(size..=size);
            };
            let low = above.checked_shl(inner).unwrap_or(0) | 1 << top;
            let last = low | ((1 << top) - 1);
            Some(low + 1..=last.saturating_add(1))
        })
}

/// The root that `path` gives a leaf at `index` in a tree of `size` (RFC 9162 section 2.1.3.2).
///
/// # Errors
/// [`ProofError::NotInTree`], [`ProofError::PathLength`].
pub fn root_from_inclusion(
    leaf: &Hash,
    index: u64,
    size: u64,
    path: &[Hash],
) -> Result<Hash, ProofError> {
    if index >= size {
        return Err(ProofError::NotInTree { index, size });
    }
    let (inner, border) = path_shape(index, size);
    let (have, want) = (path.len(), (inner + border) as usize);
    if have != want {
        return Err(ProofError::PathLength {
            index,
            size,
            have,
            want,
        });
    }
    let (inner, border) = path.split_at(inner as usize);
    let below = inner
        .iter()
        .enumerate()
        .fold(*leaf, |hash, (level, sibling)| {
            if index >> level & 1 == 0 {
                node_hash(&hash, sibling)
            } else {
                node_hash(sibling, &hash)
            }
        });
    Ok(border
        .iter()
        .fold(below, |hash, left| node_hash(left, &hash)))
}

/// Checks that `leaf` stands at `index` in the tree of `size` whose root is `root`.
///
/// # Errors
/// [`ProofError::NotInTree`], [`ProofError::PathLength`], [`ProofError::Root`].
pub fn verify_inclusion(
    leaf: &Hash,
    index: u64,
    size: u64,
    path: &[Hash],
    root: &Hash,
) -> Result<(), ProofError> {
    let computed = root_from_inclusion(leaf, index, size, path)?;
    if computed != *root {
        return Err(ProofError::Root {
            index,
            size,
            computed,
            root: *root,
        });
    }
    Ok(())
}

/// Number of hashes in the consistency proof from `old_size` to `new_size`, 0..=65; 0 when the sizes
/// are equal, the older is 0, or it is the larger one.
#[must_use]
pub fn consistency_proof_len(old_size: u64, new_size: u64) -> usize {
    if old_size == 0 || old_size >= new_size {
        return 0;
    }
    let shift = old_size.trailing_zeros();
    let path = inclusion_path_len((old_size - 1) >> shift, ((new_size - 1) >> shift) + 1);
    path + usize::from(!old_size.is_power_of_two())
}

/// Checks that the tree (`new_size`, `new_root`) extends the tree (`old_size`, `old_root`) (RFC 9162
/// section 2.1.4.2). Both roots are compared.
///
/// Size 0 is consistent with everything and proves nothing: its proof is empty, its root is that of
/// the empty tree, and a caller must not report it as verified.
///
/// # Errors
/// [`ProofError::Shrinks`], [`ProofError::ConsistencyLength`], [`ProofError::OldRoot`],
/// [`ProofError::NewRoot`].
pub fn verify_consistency(
    old_size: u64,
    old_root: &Hash,
    new_size: u64,
    new_root: &Hash,
    path: &[Hash],
) -> Result<(), ProofError> {
    if old_size > new_size {
        return Err(ProofError::Shrinks { old_size, new_size });
    }
    let (have, want) = (path.len(), consistency_proof_len(old_size, new_size));
    if have != want {
        return Err(ProofError::ConsistencyLength {
            old_size,
            new_size,
            have,
            want,
        });
    }
    let compare = |old: &Hash, new: &Hash| {
        if old != old_root {
            return Err(ProofError::OldRoot { old_size, new_size });
        }
        if new != new_root {
            return Err(ProofError::NewRoot { old_size, new_size });
        }
        Ok(())
    };
    if old_size == 0 {
        return compare(
            &EMPTY_ROOT,
            if new_size == 0 { &EMPTY_ROOT } else { new_root },
        );
    }
    if old_size == new_size {
        return compare(old_root, old_root);
    }
    // The node that both trees share at the old right edge: the old tree itself when it is complete.
    let (seed, path) = match path.split_first() {
        Some((seed, rest)) if !old_size.is_power_of_two() => (seed, rest),
        _ => (old_root, path),
    };
    let shift = old_size.trailing_zeros();
    let index = (old_size - 1) >> shift;
    let (inner, _) = path_shape(index, ((new_size - 1) >> shift) + 1);
    let (inner, border) = path.split_at(inner as usize);
    let (mut old, mut new) = (*seed, *seed);
    for (level, hash) in inner.iter().enumerate() {
        if index >> level & 1 == 0 {
            new = node_hash(&new, hash); // lies right of the old tree
        } else {
            (old, new) = (node_hash(hash, &old), node_hash(hash, &new));
        }
    }
    for hash in border {
        (old, new) = (node_hash(hash, &old), node_hash(hash, &new));
    }
    compare(&old, &new)
}
