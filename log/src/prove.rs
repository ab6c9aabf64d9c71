//! Proofs and roots of any size, out of tiles.
//!
//! The tree is never held: a proof reads the few tiles that its nodes lie in, once each. The inverse, checking, is
//! `countersign_verifier::tree`; order and length of paths are RFC 9162 section 2.1's.

use std::{cell::RefCell, collections::HashMap};

use countersign_verifier::{
    hash::{EMPTY_ROOT, Hash, node_hash},
    tile::hash_of,
    tree::is_complete,
};

use crate::store::StoreError;

/// Where hashes of tiles come from.
pub trait Tiles {
    /// The first `width` (1 to 256) hashes of tile (`level`, `index`).
    ///
    /// # Errors
    /// `Damaged` if the tile is not there or too short: who asks has a tree that needs it.
    fn hashes(&self, level: u8, index: u64, width: usize) -> Result<Vec<Hash>, StoreError>;
}

/// Proofs in the tree of the first `size` leaves; tiles read once are kept for the next proof.
pub struct Prover<'a> {
    tiles: &'a dyn Tiles,
    size: u64,
    seen: RefCell<HashMap<(u8, u64), Vec<Hash>>>,
}

impl<'a> Prover<'a> {
    /// A prover over the tree of the first `size` leaves.
    #[must_use]
    pub fn new(tiles: &'a dyn Tiles, size: u64) -> Prover<'a> {
        Prover {
            tiles,
            size,
            seen: RefCell::default(),
        }
    }

    /// The number of leaves.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The root.
    ///
    /// # Errors
    /// What reading tiles says.
    pub fn root(&self) -> Result<Hash, StoreError> {
        if self.size == 0 {
            return Ok(EMPTY_ROOT);
        }
        self.subtree(0, self.size)
    }

    /// The audit path of leaf `index`: sibling of the leaf first.
    ///
    /// # Panics
    /// If `index` is not below the size: the caller has looked.
    ///
    /// # Errors
    /// What reading tiles says.
    pub fn inclusion(&self, index: u64) -> Result<Vec<Hash>, StoreError> {
        assert!(
            index < self.size,
            "Prover::inclusion: index {index} at size {}",
            self.size
        );
        let mut path = Vec::new();
        let (mut low, mut high) = (0, self.size);
        while high - low > 1 {
            let split = low + split_of(high - low);
            if index < split {
                path.push(self.subtree(split, high)?);
                high = split;
            } else {
                path.push(self.subtree(low, split)?);
                low = split;
            }
        }
        path.reverse();
        Ok(path)
    }

    /// The proof that the tree of the first `old` leaves is a prefix of this one; empty for `old` = 0 and `old` = size.
    ///
    /// # Panics
    /// If `old` is above the size: the caller has looked.
    ///
    /// # Errors
    /// What reading tiles says.
    pub fn consistency(&self, old: u64) -> Result<Vec<Hash>, StoreError> {
        assert!(
            old <= self.size,
            "Prover::consistency: {old} at size {}",
            self.size
        );
        let mut path = Vec::new();
        if old == 0 || old == self.size {
            return Ok(path);
        }
        let (mut low, mut high, mut m) = (0, self.size, old);
        // RFC 9162 section 2.1.4.1, SUBPROOF: walk down to where the old tree ends; `known` while still on its left border.
        let mut known = true;
        while m != high - low {
            let k = split_of(high - low);
            if m <= k {
                path.push(self.subtree(low + k, high)?);
                high = low + k;
            } else {
                path.push(self.subtree(low, low + k)?);
                low += k;
                m -= k;
                known = false;
            }
        }
        if !known {
            path.push(self.subtree(low, high)?);
        }
        path.reverse();
        Ok(path)
    }

    /// Node `index` of `level` (0: leaves): the root of leaves `[index × 2^level, (index + 1) × 2^level)`, cut at the size.
    ///
    /// # Panics
    /// If there is no such node: the caller has looked.
    ///
    /// # Errors
    /// What reading tiles says.
    pub fn node(&self, level: u8, index: u64) -> Result<Hash, StoreError> {
        let low = index << level;
        assert!(
            low < self.size,
            "Prover::node: node {index} of level {level} at size {}",
            self.size
        );
        self.subtree(low, (low + (1 << level)).min(self.size))
    }

    /// The path of node `index` of `level` to the root: the node's sibling first. Its inverse is `tree::verify_node`.
    ///
    /// # Panics
    /// If that node is not complete in this tree: the caller has looked (`tree::is_complete`).
    ///
    /// # Errors
    /// What reading tiles says.
    pub fn node_path(&self, level: u8, index: u64) -> Result<Vec<Hash>, StoreError> {
        assert!(
            is_complete(level, index, self.size),
            "Prover::node_path: node {index} of level {level} at size {}",
            self.size
        );
        let (first, width) = (index << level, 1 << level);
        let mut path = Vec::new();
        let (mut low, mut high) = (0, self.size);
        while high - low > width {
            let split = low + split_of(high - low);
            if first < split {
                path.push(self.subtree(split, high)?);
                high = split;
            } else {
                path.push(self.subtree(low, split)?);
                low = split;
            }
        }
        path.reverse();
        Ok(path)
    }

    /// The hash of leaves `[low, high)`, where `low` is a multiple of the power of two that holds them.
    pub(crate) fn subtree(&self, low: u64, high: u64) -> Result<Hash, StoreError> {
        let mut rest = (low, high);
        let mut parts = Vec::new();
        while rest.0 < rest.1 {
            let len = rest.1 - rest.0;
            let height = 63 - len.leading_zeros();
            parts.push(self.perfect(height, rest.0 >> height)?);
            rest.0 += 1 << height;
        }
        // Largest first; each smaller one is the right neighbour of what follows it.
        let mut hash = parts.pop().unwrap_or(EMPTY_ROOT);
        while let Some(left) = parts.pop() {
            hash = node_hash(&left, &hash);
        }
        Ok(hash)
    }

    /// The hash of the perfect subtree of 2^`height` leaves with number `index`.
    pub(crate) fn perfect(&self, height: u32, index: u64) -> Result<Hash, StoreError> {
        let inside = height % 8;
        // OK because a height is below 64: a level at most 7.
        let level = u8::try_from(height / 8).expect("Prover::perfect: level");
        let first = index << inside;
        let (tile, offset) = (first >> 8, (first & 0xff) as usize);
        let mut seen = self.seen.borrow_mut();
        let hashes = match seen.entry((level, tile)) {
            std::collections::hash_map::Entry::Occupied(e) => e.into_mut(),
            std::collections::hash_map::Entry::Vacant(e) => {
                let there = (self.size >> (8 * u32::from(level))) - (tile << 8);
                e.insert(self.tiles.hashes(level, tile, there.min(256) as usize)?)
            }
        };
        Ok(hash_of(&hashes[offset..offset + (1 << inside)]))
    }
}

/// The largest power of two below `n` (RFC 6962 section 2.1); `n` is at least 2.
fn split_of(n: u64) -> u64 {
    1 << (63 - (n - 1).leading_zeros())
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "small sizes as indexes")]
mod tests {
    use super::*;
    use crate::grow::Edge;
    use countersign_verifier::{
        hash::leaf_hash,
        range::Range,
        tile::Tile,
        tree::{verify_consistency, verify_inclusion, verify_node},
    };

    struct Memory(Edge, HashMap<(u8, u64), Vec<Hash>>);

    impl Memory {
        fn with(leaves: u64) -> Memory {
            let mut full: Vec<(Tile, Vec<u8>)> = Vec::new();
            let mut edge = Edge::default();
            for n in 0..leaves {
                edge.push(leaf(n), &mut full);
            }
            let tiles = full.into_iter().map(|(tile, bytes)| {
                let hashes = bytes
                    .chunks(32)
                    .map(|c| Hash(c.try_into().unwrap()))
                    .collect();
                ((tile.level, tile.index), hashes)
            });
            Memory(edge, tiles.collect())
        }
    }

    impl Tiles for Memory {
        fn hashes(&self, level: u8, index: u64, width: usize) -> Result<Vec<Hash>, StoreError> {
            assert!((1..=256).contains(&width));
            let all = self
                .1
                .get(&(level, index))
                .map_or(self.0.tail(level), Vec::as_slice);
            Ok(all[..width].to_vec())
        }
    }

    fn leaf(n: u64) -> Hash {
        leaf_hash(&n.to_be_bytes())
    }

    fn roots(up_to: u64) -> Vec<Hash> {
        let mut range = Range::new();
        let mut roots = vec![range.root()];
        for n in 0..up_to {
            range.push(leaf(n));
            roots.push(range.root());
        }
        roots
    }

    #[test]
    fn every_size_to_300_gives_every_proof() {
        let (tiles, roots) = (Memory::with(300), roots(300));
        for size in 0..=300u64 {
            let prover = Prover::new(&tiles, size);
            let root = roots[size as usize];
            assert_eq!(prover.root().unwrap(), root, "root at {size}");
            for index in 0..size {
                let path = prover.inclusion(index).unwrap();
                verify_inclusion(&leaf(index), index, size, &path, &root).unwrap();
            }
            for old in 0..=size {
                let path = prover.consistency(old).unwrap();
                verify_consistency(old, &roots[old as usize], size, &root, &path).unwrap();
            }
        }
    }

    #[test]
    fn proofs_across_three_tile_levels_hold() {
        let (tiles, roots) = (Memory::with(66_000), roots(66_000));
        for size in [
            255u64, 256, 257, 511, 512, 65_535, 65_536, 65_537, 65_999, 66_000,
        ] {
            let prover = Prover::new(&tiles, size);
            let root = roots[size as usize];
            for index in [0, 1, 255, 256, size / 2, size - 1] {
                let index = index.min(size - 1);
                let path = prover.inclusion(index).unwrap();
                verify_inclusion(&leaf(index), index, size, &path, &root).unwrap();
            }
            for old in [1, 254, 256, size / 3 + 1, size - 1, size] {
                let old = old.min(size);
                let path = prover.consistency(old).unwrap();
                verify_consistency(old, &roots[old as usize], size, &root, &path).unwrap();
            }
        }
    }

    #[test]
    fn every_complete_node_has_its_path() {
        let (tiles, roots) = (Memory::with(300), roots(300));
        for size in [1u64, 2, 3, 7, 8, 100, 255, 256, 257, 300] {
            let (prover, root) = (Prover::new(&tiles, size), roots[size as usize]);
            for level in 0..9u8 {
                for index in (0..size).take_while(|index| is_complete(level, *index, size)) {
                    let (node, path) = (
                        prover.node(level, index).unwrap(),
                        prover.node_path(level, index).unwrap(),
                    );
                    verify_node(&node, level, index, size, &path, &root).unwrap();
                    if level == 0 {
                        assert_eq!(path, prover.inclusion(index).unwrap());
                    }
                }
            }
        }
    }

    #[test]
    fn a_prover_of_an_older_size_needs_no_later_hash() {
        let tiles = Memory::with(700);
        let small = Memory::with(300);
        let (old, now) = (Prover::new(&tiles, 300), Prover::new(&small, 300));
        assert_eq!(old.inclusion(299).unwrap(), now.inclusion(299).unwrap());
    }
}
