//! The way through a log: rounds of bundles, fetched while those before are judged on all cores.

use countersign_verifier::{
    checkpoint::Checkpoint,
    hash::{Hash, leaf_hash},
    leaf::{Leaf, LeafError, Millis},
    tile::{Tile, WIDTH, tile_at},
    verdict::Status,
};

use super::{
    AuditError, Plan, blame, cores,
    edge::Edge,
    kept::{self, Kept},
    own::{Due, Named, Own},
    report::{Class, Faults, Replayed},
};
use crate::foreign::{ForeignError, Piece, Rounds};

/// Rounds between two writings of the state file: 131,072 leaves.
const KEEP_EVERY: u64 = 64;
/// Differences between tiles and entries that are named.
const APART_MAX: usize = 100;

/// An audit on its way.
pub(super) struct Work {
    pub(super) edge: Edge,
    pub(super) faults: Faults,
    /// Of a log of ours.
    pub(super) own: Option<Own>,
    pub(super) replay: bool,
    origin: String,
    /// The size of the signed tree: what is served is as wide as that makes it.
    pub(super) size: u64,
    pub(super) tiles: u64,
    /// Where a tile says otherwise than the entries: the tile, the place in it.
    pub(super) apart: Vec<(Tile, u64)>,
    pub(super) apart_count: u64,
    /// Why a tile could not be compared, where that is not the log's fault.
    pub(super) untold: Option<String>,
}

/// The leaf hashes of a bundle, and in a log of ours its leaves.
type Judged<'a> = (Vec<Hash>, Vec<Result<Leaf<'a>, LeafError>>);

/// How the way through ended.
pub(super) enum Ended {
    /// Every entry was read.
    Whole,
    /// One could not be had, and what that means.
    Stopped(Status, String),
}

impl Work {
    pub(super) fn new(replay: bool, checkpoint: &Checkpoint, kept: Option<&Kept>) -> Work {
        let own = kept.and_then(|kept| kept.state.clone()).map(|state| Own {
            state,
            ..Own::default()
        });
        Work {
            edge: kept.map(|kept| kept.edge.clone()).unwrap_or_default(),
            faults: Faults::default(),
            own,
            replay,
            origin: checkpoint.origin.clone(),
            size: checkpoint.size,
            tiles: 0,
            apart: Vec::new(),
            apart_count: 0,
            untold: None,
        }
    }

    /// Reads the entries up to `target`.
    pub(super) fn run(&mut self, plan: &Plan<'_>, target: u64) -> Result<Ended, AuditError> {
        let keys = plan.eras.iter().flat_map(|(_, policy)| policy.logs());
        let vkeys: Vec<String> = keys
            .filter(|log| log.key.name == self.origin)
            .map(|log| log.key.to_string())
            .collect();
        if self.edge.size() == target {
            return Ok(Ended::Whole);
        }
        let mut way = Rounds::new(plan.log, self.size, self.edge.size(), target);
        let mut rounds = 0;
        loop {
            let (pieces, error) = way.arrive();
            self.round(plan, &pieces, target, &vkeys);
            (plan.progress)(self.edge.size(), target);
            if let Some(error) = error {
                let (status, what) = blame(&error, Class::Entry, &mut self.faults);
                return Ok(Ended::Stopped(status, what));
            }
            if pieces.is_empty() {
                self.edge_tiles(plan);
                return Ok(Ended::Whole);
            }
            rounds += 1;
            if rounds % KEEP_EVERY == 0
                && let Some(path) = plan.state
                && self.is_clean()
            {
                kept::save(path, &self.keep(&self.origin))?;
            }
        }
    }

    /// Whether nothing was found so far that a later audit would have to find again.
    fn is_clean(&self) -> bool {
        let going = self.own.as_ref().is_none_or(|own| own.stopped.is_none());
        self.faults.count() == 0 && self.apart_count == 0 && self.untold.is_none() && going
    }

    fn round(&mut self, plan: &Plan<'_>, pieces: &[Piece], target: u64, vkeys: &[String]) {
        let lists: Vec<Vec<&[u8]>> = pieces.iter().map(|piece| piece.entries.list()).collect();
        if self.edge.size() == 0
            && let Some(first) = lists.first().and_then(|list| list.first())
            && first.starts_with(b"{\"v\":")
        {
            self.own = Some(Own::default());
        }
        let is_own = self.own.is_some();
        let judged = cores::each(&lists, |list| {
            let hashes: Vec<Hash> = list.iter().map(|entry| leaf_hash(entry)).collect();
            let leaves: Vec<Result<Leaf<'_>, LeafError>> = if is_own {
                list.iter().map(|entry| Leaf::parse(entry)).collect()
            } else {
                Vec::new()
            };
            (hashes, leaves)
        });
        let named = Named {
            origin: &self.origin.clone(),
            vkeys,
        };
        // Leaves are judged in order on this core, the signatures that they must have meanwhile on the others.
        let checked = cores::beside(
            |give| self.steps(plan, pieces, &judged, target, &named, give),
            |due: Due<'_>| due.check().map(|why| (due.index, why)),
        );
        for (index, why) in checked.into_iter().flatten() {
            self.faults.add(Class::Key, Some(index), why);
        }
    }

    fn steps<'a>(
        &mut self,
        plan: &Plan<'_>,
        pieces: &[Piece],
        judged: &'a [Judged<'a>],
        target: u64,
        named: &Named<'_>,
        give: &mut dyn FnMut(Due<'a>),
    ) {
        for (piece, (hashes, leaves)) in pieces.iter().zip(judged) {
            let before = self.edge.size();
            let index = before / u64::from(WIDTH);
            let first = index * u64::from(WIDTH);
            // OK because a bundle has at most 256 entries, of which those before the edge's end are known.
            let wanted = usize::try_from(target - first).unwrap_or(usize::MAX);
            let (known, wanted) = (self.edge.last().len(), wanted.min(hashes.len()));
            self.known_before(first, hashes, &piece.entries.place);
            self.leaf_tile(first, piece, &hashes[..wanted]);
            let full = self.edge.push(&hashes[known..wanted]);
            if let Some(own) = &mut self.own {
                for (index, leaf) in (before..).zip(&leaves[known..wanted]) {
                    own.step(index, leaf, (named, self.replay), &mut self.faults, give);
                }
            }
            for (tile, hashes) in full.iter().filter(|(tile, _)| tile.level > 0) {
                self.compare(*tile, hashes, plan.log.tile(tile));
            }
        }
    }

    /// Entries that an earlier audit has seen must be what they were.
    fn known_before(&mut self, first: u64, hashes: &[Hash], place: &str) {
        let known = self.edge.last().iter().zip(hashes);
        let changed: Vec<u64> = (first..)
            .zip(known)
            .filter(|(_, (was, is))| was != is)
            .map(|(index, _)| index)
            .collect();
        for index in changed {
            let what = format!("{place}: another entry than when it was audited before");
            self.faults.add(Class::Entry, Some(index), what);
        }
    }

    fn leaf_tile(&mut self, first: u64, piece: &Piece, hashes: &[Hash]) {
        let Some(tile) = tile_at(self.size, 0, first) else {
            return;
        };
        self.compare(tile, hashes, piece.hashes.clone());
    }

    /// What a tile holds, beside what follows from the entries.
    fn compare(&mut self, tile: Tile, due: &[Hash], served: Result<Vec<Hash>, ForeignError>) {
        match served {
            Ok(served) => {
                self.tiles += 1;
                let pairs = (0..).zip(due.iter().zip(&served));
                for (place, _) in pairs.filter(|(_, (due, served))| due != served) {
                    self.apart_count += 1;
                    if self.apart.len() < APART_MAX {
                        self.apart.push((tile, place));
                    }
                }
            }
            Err(error) if error.is_the_logs() => {
                self.faults.add(Class::Tile, None, error.to_string());
            }
            Err(error) => self.untold = Some(error.to_string()),
        }
    }

    /// The tiles above the leaves that are not full.
    fn edge_tiles(&mut self, plan: &Plan<'_>) {
        for (tile, hashes) in self.edge.partial() {
            let first = tile.index * u64::from(WIDTH);
            if tile.level > 0
                && let Some(tile) = tile_at(self.size, tile.level, first)
            {
                self.compare(tile, &hashes, plan.log.tile(&tile));
            }
        }
    }

    /// The time that the newest leaf claims, in a log of ours.
    pub(super) fn newest_at(&self) -> Option<Millis> {
        let own = self.own.as_ref().filter(|own| own.stopped.is_none())?;
        (own.state.size > 0).then_some(Millis(own.state.at))
    }

    /// What the leaves so far make, where every decision in them was judged again.
    pub(super) fn replayed(&self) -> Option<Replayed> {
        let own = self.own.as_ref().filter(|own| own.stopped.is_none());
        let state = own.filter(|_| self.replay)?.state.clone();
        Some(Replayed {
            size: self.edge.size(),
            root: self.edge.root(),
            state,
        })
    }

    pub(super) fn keep(&self, origin: &str) -> Kept {
        Kept {
            origin: origin.to_owned(),
            edge: self.edge.clone(),
            state: self.own.as_ref().map(|own| own.state.clone()),
            replay: self.replay,
        }
    }
}
