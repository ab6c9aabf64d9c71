//! The right edge of a growing tree, by tiles: of each level the hashes that no full tile has taken up yet.

use countersign_verifier::{
    hash::Hash,
    range::Range,
    tile::{Tile, WIDTH, hash_of},
};

/// Levels of tiles that a tree of at most 2^62 leaves has.
const LEVELS: usize = 8;

/// At most 255 hashes a level: all that a tree needs to grow, and all that its next tiles begin with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Edge {
    rows: Vec<Vec<Hash>>,
}

impl Edge {
    /// An edge of rows that [`Edge::rows`] gave; `None` for anything else.
    pub(crate) fn from_rows(rows: Vec<Vec<Hash>>) -> Option<Edge> {
        let full = usize::from(WIDTH);
        let fits = rows.len() <= LEVELS && rows.iter().all(|row| row.len() < full);
        fits.then_some(Edge { rows })
    }

    pub(crate) fn rows(&self) -> &[Vec<Hash>] {
        &self.rows
    }

    /// Leaves.
    pub(crate) fn size(&self) -> u64 {
        let rows = self.rows.iter().rev();
        rows.fold(0, |size, row| size * u64::from(WIDTH) + row.len() as u64)
    }

    /// The leaf hashes that are in no full tile.
    pub(crate) fn last(&self) -> &[Hash] {
        self.rows.first().map_or(&[], Vec::as_slice)
    }

    pub(crate) fn root(&self) -> Hash {
        let mut nodes = Vec::new();
        for row in self.rows.iter().rev() {
            let mut rest = row.as_slice();
            while !rest.is_empty() {
                let width = 1 << rest.len().ilog2();
                let (perfect, after) = rest.split_at(width);
                nodes.push(hash_of(perfect));
                rest = after;
            }
        }
        // OK because the binary digits of the rows' lengths are those of the size.
        Range::from_parts(self.size(), nodes)
            .expect("Edge::root")
            .root()
    }

    /// Adds leaf hashes, which fill the last tile at most. The tiles that became full, from level 0 up.
    pub(crate) fn push(&mut self, hashes: &[Hash]) -> Vec<(Tile, Vec<Hash>)> {
        self.push_at(0, hashes)
    }

    /// The same with hashes of a level, of which each stands for a full tile one level down. Below it no tile is begun.
    pub(crate) fn push_at(&mut self, mut level: usize, hashes: &[Hash]) -> Vec<(Tile, Vec<Hash>)> {
        let mut full = Vec::new();
        if hashes.is_empty() {
            return full;
        }
        while self.rows.len() <= level {
            self.rows.push(Vec::new());
        }
        self.rows[level].extend_from_slice(hashes);
        while self.rows[level].len() == usize::from(WIDTH) {
            // What is above is the number of full tiles of this level so far.
            let above = Edge {
                rows: self.rows[level + 1..].to_vec(),
            };
            let tile = Tile {
                // OK because a tree has eight levels.
                level: u8::try_from(level).expect("Edge::push: level"),
                index: above.size(),
                width: WIDTH,
            };
            let row = std::mem::take(&mut self.rows[level]);
            level += 1;
            if self.rows.len() == level {
                self.rows.push(Vec::new());
            }
            self.rows[level].push(hash_of(&row));
            full.push((tile, row));
        }
        full
    }

    /// The same tree without the leaves that are in no full tile.
    pub(crate) fn without_last(mut self) -> Edge {
        if let Some(row) = self.rows.first_mut() {
            row.clear();
        }
        self
    }

    /// The tiles that are not full.
    pub(crate) fn partial(&self) -> Vec<(Tile, Vec<Hash>)> {
        let rows = self.rows.iter().enumerate();
        rows.filter(|(_, row)| !row.is_empty())
            .map(|(level, row)| {
                let above = Edge {
                    rows: self.rows[level + 1..].to_vec(),
                };
                let tile = Tile {
                    // OK because a tree has eight levels, and a row less than 256 hashes.
                    level: u8::try_from(level).expect("Edge::partial: level"),
                    index: above.size(),
                    width: u16::try_from(row.len()).expect("Edge::partial: width"),
                };
                (tile, row.clone())
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_verifier::{hash::leaf_hash, tile::tiles};

    #[test]
    fn an_edge_has_the_root_and_the_tiles_of_its_tree() {
        let (mut edge, mut range) = (Edge::default(), Range::new());
        let mut full = Vec::new();
        let mut n = 0_u64;
        let steps = [1, 1, 3, 250, 1, 256, 144, 112].into_iter();
        for step in steps.chain([255, 1].repeat(260)).chain([7]) {
            let hashes: Vec<Hash> = (n..n + step).map(|n| leaf_hash(&n.to_be_bytes())).collect();
            n += step;
            range.extend(hashes.iter().copied());
            full.extend(edge.push(&hashes).into_iter().map(|(tile, _)| tile));
            assert_eq!((edge.size(), edge.root()), (n, range.root()));
            assert_eq!(Edge::from_rows(edge.rows().to_vec()).as_ref(), Some(&edge));
        }
        assert!(n > 65_536, "{n}");
        let partial = edge.partial().into_iter().map(|(tile, _)| tile);
        let mut all: Vec<Tile> = full.into_iter().chain(partial).collect();
        all.sort();
        assert_eq!(all, tiles(n).collect::<Vec<_>>());
        assert_eq!(Edge::from_rows(vec![vec![range.root(); 256]]), None);
        // The same tree by its tiles of level 1, and the leaves that are in none.
        let leaves: Vec<Hash> = (0..n).map(|n| leaf_hash(&n.to_be_bytes())).collect();
        let (tiles, rest) = leaves.as_chunks::<256>();
        let mut by_tiles = Edge::default();
        for tile in tiles {
            by_tiles.push_at(1, &[hash_of(tile)]);
        }
        assert_eq!(by_tiles, edge.clone().without_last());
        by_tiles.push(rest);
        assert_eq!((by_tiles.size(), by_tiles.root()), (n, range.root()));
    }
}
