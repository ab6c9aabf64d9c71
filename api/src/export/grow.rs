//! The way from the size that a copy has to the one that is signed: a tile of level 1 at a time, of 65,536 leaves.

use countersign_verifier::{
    checkpoint::Checkpoint,
    hash::{Hash, leaf_hash},
    limits::{BUNDLE_BYTES_MAX, TILE_BYTES_MAX},
    tile::{Bundle, Tile, WIDTH, hash_of, parse_bundle, tile_at},
};

use super::{ExportError, Plan, Report, dest::Dest};
use crate::{
    audit::{cores, edge::Edge},
    foreign::{Entries, ForeignError, past},
};

/// Bundles a round. Two rounds are in memory, each of at most 8 × 16 MiB of entries; of leaves of a kilobyte it is 2 MiB.
const ROUND: usize = 8;
const TILE: u64 = WIDTH as u64;
/// Leaves under a tile of level 1.
const PART: u64 = TILE * TILE;

/// A copy that is brought up to date.
pub(super) struct Growth<'a> {
    plan: &'a Plan<'a>,
    dest: &'a Dest,
    head: &'a Checkpoint,
    /// Leaves that the copy publishes: its files up to there are what readers rely on, and are never written over.
    published: u64,
    report: &'a mut Report,
}

/// What a part of the tree must be: shown to lead to the signed root.
struct Due {
    /// The first bundle.
    first: u64,
    /// The roots of its full bundles, in order.
    nodes: Vec<Hash>,
    /// The leaf hashes of the bundle after them that is not full.
    rest: Vec<Hash>,
    /// The tiles above the entries that became full.
    full: Vec<(Tile, Vec<Hash>)>,
    /// The tree with this part.
    edge: Edge,
}

impl Due {
    fn is(&self, bundle: Bundle, hashes: &[Hash]) -> bool {
        if !bundle.is_full() {
            return self.rest == hashes;
        }
        let at = usize::try_from(bundle.index - self.first).ok();
        let node = at.and_then(|at| self.nodes.get(at));
        node.is_some_and(|node| *node == hash_of(hashes))
    }

    fn bundles(&self) -> Vec<Bundle> {
        let full = (self.first..).take(self.nodes.len()).map(|index| Bundle {
            index,
            width: WIDTH,
        });
        let rest = Bundle {
            index: self.first + self.nodes.len() as u64,
            // OK because it has less than 256 hashes.
            width: u16::try_from(self.rest.len()).expect("Due::bundles"),
        };
        full.chain((rest.width > 0).then_some(rest)).collect()
    }
}

impl<'a> Growth<'a> {
    pub(super) fn new(
        plan: &'a Plan<'a>,
        dest: &'a Dest,
        head: &'a Checkpoint,
        published: u64,
        report: &'a mut Report,
    ) -> Growth<'a> {
        Growth {
            plan,
            dest,
            head,
            published,
            report,
        }
    }

    /// From this edge on: of a tree that the signed one goes on from.
    pub(super) fn run(mut self, edge: Edge) -> Result<(), ExportError> {
        // The last bundle is another one as soon as there are more entries in it.
        let mut edge = edge.without_last();
        while edge.size() < self.head.size {
            let from = edge.size();
            let until = ((from / PART + 1) * PART).min(self.head.size);
            let due = self.due(edge, from, until)?;
            self.entries(&due)?;
            for (tile, hashes) in &due.full {
                self.put_tile(tile, hashes)?;
            }
            edge = due.edge;
            (self.plan.progress)(edge.size(), self.head.size);
            if edge.size() == self.head.size {
                let partial = edge.partial();
                for (tile, hashes) in partial.into_iter().filter(|(tile, _)| tile.level > 0) {
                    self.put_tile(&tile, &hashes)?;
                }
                break;
            }
        }
        Ok(())
    }

    /// What leaves `from..until` must be, out of the log's tiles and under the signed root.
    fn due(&self, mut edge: Edge, from: u64, until: u64) -> Result<Due, ExportError> {
        let (log, size) = (self.plan.log, self.head.size);
        let wanted = from / TILE..until / TILE;
        let mut nodes = Vec::new();
        if !wanted.is_empty()
            && let Some(tile) = tile_at(size, 1, wanted.start)
        {
            nodes = log.tile(&tile)?;
            // OK because they are places in one tile.
            let at = |n: u64| usize::try_from(n - tile.index * TILE).expect("Growth::due");
            nodes = nodes[at(wanted.start)..at(wanted.end)].to_vec();
        }
        let rest = match tile_at(size, 0, until - until % TILE) {
            Some(tile) if !until.is_multiple_of(TILE) => log.tile(&tile)?,
            _ => Vec::new(),
        };
        let full = edge.push_at(1, &nodes);
        edge.push(&rest);
        let signed = past(log, until, size, &self.head.root)?;
        if signed.root != edge.root() {
            let what = format!("leaves {from} to {until} lead to another root than the signed one");
            let place = log.at("");
            return Err(ForeignError::Tiles { place, what }.into());
        }
        Ok(Due {
            first: from / TILE,
            nodes,
            rest,
            full,
            edge,
        })
    }

    /// Fetches the bundles that the copy has not.
    fn entries(&mut self, due: &Due) -> Result<(), ExportError> {
        let bundles = due.bundles();
        let (this, log) = (&*self, self.plan.log);
        let held = cores::each(&bundles, |bundle| this.holds(*bundle, due));
        let mut missing = Vec::new();
        for (bundle, held) in bundles.into_iter().zip(held) {
            if held? {
                self.report.kept += 2;
            } else {
                missing.push(bundle);
            }
        }
        let ahead = |round: &[Bundle]| log.entries_ahead(round.iter().copied());
        let mut rounds = missing.chunks(ROUND);
        let mut next = rounds.next().map(|round| (round, ahead(round)));
        while let Some((round, fetching)) = next {
            let (arrived, error) = log.arrived(fetching);
            next = rounds.next().map(|round| (round, ahead(round)));
            let hashed = cores::each(&arrived, |entries| hashes(&entries.list()));
            for ((bundle, entries), hashes) in round.iter().zip(&arrived).zip(&hashed) {
                self.put_bundle(*bundle, entries, hashes, due)?;
            }
            if let Some(error) = error {
                return Err(error.into());
            }
            if let Some(last) = round.last() {
                let done = last.index * TILE + u64::from(last.width);
                (self.plan.progress)(done, self.head.size);
            }
        }
        Ok(())
    }

    /// Whether the copy has this bundle and its tile already. What is not yet published may be of an export that was interrupted,
    /// by a crash even: if it is another one, it is written anew.
    fn holds(&self, bundle: Bundle, due: &Due) -> Result<bool, ExportError> {
        let there = self.dest.get(&bundle.path(), BUNDLE_BYTES_MAX)?;
        let Some(bytes) = there else { return Ok(false) };
        let hashes = parse_bundle(&bytes, bundle.width).map(|entries| hashes(&entries));
        let right = hashes.ok().filter(|hashes| due.is(bundle, hashes));
        let published = self.is_published(0, bundle.index, bundle.width);
        let Some(hashes) = right else {
            return if published {
                Err(self.differs(&bundle.path()))
            } else {
                Ok(false)
            };
        };
        let tile = leaf_tile(bundle);
        let bytes = self.dest.get(&tile.path(), TILE_BYTES_MAX)?;
        match bytes {
            Some(bytes) if bytes == flat(&hashes) => Ok(true),
            Some(_) if published => Err(self.differs(&tile.path())),
            _ => Ok(false),
        }
    }

    fn put_bundle(
        &mut self,
        bundle: Bundle,
        entries: &Entries,
        hashes: &[Hash],
        due: &Due,
    ) -> Result<(), ExportError> {
        if !due.is(bundle, hashes) {
            let what = "its entries are not those whose tiles do".into();
            let place = entries.place.clone();
            return Err(ForeignError::Tiles { place, what }.into());
        }
        self.dest.put(&bundle.path(), entries.bytes())?;
        self.report.written += 1;
        self.put_tile(&leaf_tile(bundle), hashes)
    }

    fn put_tile(&mut self, tile: &Tile, hashes: &[Hash]) -> Result<(), ExportError> {
        let (path, bytes) = (tile.path(), flat(hashes));
        match self.dest.get(&path, TILE_BYTES_MAX)? {
            Some(there) if there == bytes => {
                self.report.kept += 1;
                Ok(())
            }
            Some(_) if self.is_published(tile.level, tile.index, tile.width) => {
                Err(self.differs(&path))
            }
            _ => {
                self.report.written += 1;
                self.dest.put(&path, &bytes)
            }
        }
    }

    fn is_published(&self, level: u8, index: u64, width: u16) -> bool {
        let hashes = countersign_verifier::tile::level_hashes(self.published, level);
        index * TILE + u64::from(width) <= hashes
    }

    fn differs(&self, path: &str) -> ExportError {
        ExportError::Differs {
            path: self.dest.at(path),
        }
    }
}

fn leaf_tile(bundle: Bundle) -> Tile {
    Tile {
        level: 0,
        index: bundle.index,
        width: bundle.width,
    }
}

fn hashes(entries: &[&[u8]]) -> Vec<Hash> {
    entries.iter().map(|entry| leaf_hash(entry)).collect()
}

fn flat(hashes: &[Hash]) -> Vec<u8> {
    hashes.iter().flat_map(|hash| hash.0).collect()
}
