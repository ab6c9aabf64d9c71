//! Pure: the right edge of a tree, and the tiles that new leaves complete.
//!
//! Tiles are those of c2sp.org/tlog-tiles: 256 hashes wide, eight levels of the tree high. What is unfinished is kept here,
//! in memory; what is full is handed out once and never changes.

use countersign_verifier::{
    hash::{EMPTY_ROOT, Hash},
    tile::{Tile, hash_of},
};

use crate::store::Head;

const WIDTH: usize = countersign_verifier::tile::WIDTH as usize;

/// The unfinished tiles of a tree, one a level: what must be known to make it grow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edge {
    size: u64,
    /// `levels[l]` holds the hashes of the unfinished tile at tile level `l`: 0 to 255 of them.
    levels: Vec<Vec<Hash>>,
}

impl Edge {
    /// An edge out of its parts, as loaded from a store.
    ///
    /// # Panics
    /// If the widths are not those of a tree of `size`: a bug of the loader.
    #[must_use]
    pub fn from_parts(size: u64, levels: Vec<Vec<Hash>>) -> Edge {
        for level in 0..levels_of(size).max(levels.len()) {
            let width = levels.get(level).map_or(0, Vec::len);
            assert_eq!(
                width,
                width_at(size, level),
                "Edge::from_parts: width of level {level} at size {size}"
            );
        }
        Edge { size, levels }
    }

    /// The number of leaves.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The hashes of the unfinished tile at `level`; empty where that level ends with a full tile or does not exist.
    #[must_use]
    pub fn tail(&self, level: u8) -> &[Hash] {
        self.levels
            .get(usize::from(level))
            .map_or(&[], Vec::as_slice)
    }

    /// Adds a leaf hash; tiles that it completes are pushed onto `full`, lowest level first.
    pub fn push(&mut self, leaf: Hash, full: &mut Vec<(Tile, Vec<u8>)>) {
        let mut hash = leaf;
        for level in 0.. {
            if self.levels.len() == level {
                self.levels.push(Vec::with_capacity(WIDTH));
            }
            let tail = &mut self.levels[level];
            tail.push(hash);
            if tail.len() < WIDTH {
                break;
            }
            let bytes = tail.iter().flat_map(|h| h.0).collect();
            // OK because 256^8 leaves exceed u64: `level` is at most 7.
            let level = u8::try_from(level).expect("Edge::push: tile level");
            let tile = Tile {
                level,
                index: self.size >> (8 * (u32::from(level) + 1)),
                width: 256,
            };
            full.push((tile, bytes));
            hash = hash_of(tail);
            tail.clear();
        }
        self.size += 1;
    }

    /// The root of the tree. Each level's hashes are perfect subtrees, and what the levels below leave over is one smaller
    /// tree to their right: pairing neighbours, with a last one without a partner moved up, is RFC 6962 for them as for leaves.
    #[must_use]
    pub fn root(&self) -> Hash {
        let mut below: Option<Hash> = None;
        for level in &self.levels {
            if level.is_empty() {
                continue;
            }
            let mut row = level.clone();
            row.extend(below);
            below = Some(hash_of(&row));
        }
        below.unwrap_or(EMPTY_ROOT)
    }

    /// Size and root.
    #[must_use]
    pub fn head(&self) -> Head {
        Head {
            size: self.size,
            root: self.root(),
        }
    }
}

/// How many tile levels a tree of `size` leaves has.
#[must_use]
pub fn levels_of(size: u64) -> usize {
    (0..8).take_while(|level| size >> (8 * level) > 0).count()
}

/// The width of the unfinished tile at `level` in a tree of `size` leaves.
#[must_use]
pub fn width_at(size: u64, level: usize) -> usize {
    if level >= 8 {
        return 0;
    }
    // OK because of the mask: at most 255.
    ((size >> (8 * level)) & 0xff) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_verifier::{hash::leaf_hash, range::Range};

    fn leaf(n: u64) -> Hash {
        leaf_hash(&n.to_be_bytes())
    }

    #[test]
    fn roots_are_those_of_the_verifier_at_every_size_past_two_levels() {
        let (mut edge, mut range, mut full) = (Edge::default(), Range::new(), Vec::new());
        for n in 0..66_000 {
            edge.push(leaf(n), &mut full);
            range.push(leaf(n));
            if !(1_000..=65_500).contains(&n) {
                assert_eq!(edge.root(), range.root(), "size {}", n + 1);
            }
        }
        assert_eq!(edge.size(), 66_000);
        let count = |level| full.iter().filter(|(t, _)| t.level == level).count();
        assert_eq!((count(0), count(1), count(2)), (257, 1, 0));
    }

    #[test]
    fn full_tiles_come_once_in_order_with_8192_bytes() {
        let (mut edge, mut full) = (Edge::default(), Vec::new());
        for n in 0..1_024 {
            edge.push(leaf(n), &mut full);
        }
        let seen: Vec<_> = full
            .iter()
            .map(|(t, b)| (t.level, t.index, b.len()))
            .collect();
        assert_eq!(
            seen,
            [(0, 0, 8192), (0, 1, 8192), (0, 2, 8192), (0, 3, 8192)]
        );
        assert_eq!(edge.tail(0).len(), 0);
        assert_eq!(
            edge.tail(1).len(),
            4,
            "T32: a full tile below is one hash above"
        );
    }

    #[test]
    fn an_empty_tree_has_the_hash_of_nothing() {
        assert_eq!(Edge::default().head(), Head::EMPTY);
    }
}
