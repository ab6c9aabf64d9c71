//! A Merkle tree (RFC 6962 section 2.1) with all of its complete nodes, so that a head and a proof cost no more than their length.

use countersign_verifier::hash::{EMPTY_ROOT, Hash, node_hash};

/// A tree that grows.
#[derive(Debug, Default)]
pub struct Tree {
    /// By level, leaves first: every complete subtree's root.
    levels: Vec<Vec<Hash>>,
}

impl Tree {
    /// Appends a leaf's hash.
    pub fn push(&mut self, leaf: Hash) {
        let (mut level, mut node) = (0, leaf);
        loop {
            if self.levels.len() == level {
                self.levels.push(Vec::new());
            }
            let row = &mut self.levels[level];
            row.push(node);
            let [.., left, right] = &row[..] else { return };
            if row.len() % 2 == 1 {
                return;
            }
            node = node_hash(left, right);
            level += 1;
        }
    }

    /// Number of leaves.
    #[must_use]
    pub fn size(&self) -> usize {
        self.levels.first().map_or(0, Vec::len)
    }

    /// Root of the first `size` leaves, of which there must be as many.
    #[must_use]
    pub fn root(&self, size: usize) -> Hash {
        if size == 0 {
            return EMPTY_ROOT;
        }
        self.of(0, size)
    }

    /// Consistency proof between the first `old` and the first `new` leaves, `0 < old <= new` (RFC 6962 section 2.1.2).
    #[must_use]
    pub fn proof(&self, old: usize, new: usize) -> Vec<Hash> {
        let mut proof = Vec::new();
        self.subproof(&mut proof, old, (0, new), true);
        proof
    }

    fn subproof(&self, proof: &mut Vec<Hash>, old: usize, (from, to): (usize, usize), whole: bool) {
        if old == to {
            if !whole {
                proof.push(self.of(from, to));
            }
            return;
        }
        let middle = from + half(to - from);
        if old <= middle {
            self.subproof(proof, old, (from, middle), whole);
            proof.push(self.of(middle, to));
        } else {
            self.subproof(proof, old, (middle, to), false);
            proof.push(self.of(from, middle));
        }
    }

    /// Root of the leaves `from..to`, where `from` is a multiple of the largest power of two in `to - from`.
    fn of(&self, from: usize, to: usize) -> Hash {
        let leaves = to - from;
        if leaves.is_power_of_two() {
            let level = leaves.trailing_zeros() as usize;
            return self.levels[level][from >> level];
        }
        let middle = from + half(leaves);
        node_hash(&self.of(from, middle), &self.of(middle, to))
    }
}

/// The largest power of two below `leaves`, which are two or more.
fn half(leaves: usize) -> usize {
    leaves.next_power_of_two() / 2
}

#[cfg(test)]
mod tests {
    use countersign_verifier::{hash::leaf_hash, range::Range, tree::verify_consistency};

    use super::*;

    #[test]
    fn heads_and_proofs_of_every_small_size() {
        let (mut tree, mut range) = (Tree::default(), Range::new());
        let mut roots = vec![tree.root(0)];
        for size in 1_usize..=130 {
            let leaf = leaf_hash(&size.to_be_bytes());
            tree.push(leaf);
            range.push(leaf);
            assert_eq!((tree.size(), tree.root(size)), (size, range.root()));
            roots.push(range.root());
            for old in 1..=size {
                let proof = tree.proof(old, size);
                let (from, to) = (old as u64, size as u64);
                verify_consistency(from, &roots[old], to, &roots[size], &proof)
                    .unwrap_or_else(|e| panic!("{old} to {size}: {e}"));
            }
        }
    }
}
