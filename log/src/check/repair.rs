//! What follows from the leaves, made again: tiles and lookup keys. Never a leaf, the head, a checkpoint or the mark.
//!
//! Whoever calls has found the leaves to be those that were committed ([`super::Found::leaves_hold`]), and has a copy of the store. It may be
//! cut off anywhere and run again: each row that is written is right by itself. Memory is bounded as that of a check.

use countersign_verifier::{hash::leaf_hash, tile::Tile};

use super::{
    Above,
    index::{self, Claims},
    pass,
};
use crate::{
    grow::Edge,
    judge::Key,
    store::{
        Head, Store, StoreError,
        rocks::{Derived, Mending, RocksStore, Row},
    },
};

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Families of rows that could not be read: begun again, empty.
    pub begun_again: Vec<Derived>,
    /// Tiles that were written: missing ones, and others than follow from the leaves.
    pub tiles_made: u64,
    /// Tiles that no tree of this size has.
    pub tiles_removed: u64,
    /// Lookup keys that were written.
    pub keys_made: u64,
    /// Lookup keys that no leaf has.
    pub keys_removed: u64,
}

/// Why a way through the leaves ended early.
enum Cut {
    /// Rows of this family cannot be read.
    Unreadable(Derived, StoreError),
    /// Anything else.
    Store(StoreError),
}

impl From<StoreError> for Cut {
    fn from(error: StoreError) -> Cut {
        Cut::Store(error)
    }
}

/// Makes what follows from the leaves again, where it is not what it must be; lookup keys only if `keys`: where it is known of every leaf
/// what it is found by. `above` is shown the leaves, more than once, and the last time to the end.
///
/// # Errors
/// `Unavailable`: what was done until then is right, and the rest is as it was. `Damaged` if the leaves do not lead to the head, which they did
/// when they were checked.
pub fn run(store: &RocksStore, keys: bool, above: &mut dyn Above) -> Result<Repaired, StoreError> {
    let (head, _) = store.head()?;
    let mut done = Repaired::default();
    // Where lookup keys cannot be made, those that can still be read are better than none.
    for of in Derived::ALL
        .iter()
        .copied()
        .filter(|of| keys || *of == Derived::Tiles)
    {
        match store.scan(of.rows(), |_| true) {
            Err(StoreError::Damaged { .. }) => begin_again(store, of, &mut done)?,
            other => other?,
        }
    }
    loop {
        let before = (done.keys_made, done.keys_removed);
        match round(store, (head, keys), above, &mut done) {
            // Where a key too much was taken away, another leaf may be the one that has it: until there is nothing to be done.
            Ok(()) if before == (done.keys_made, done.keys_removed) => return Ok(done),
            Ok(()) => {}
            // Rows that a scan can read and a look-up cannot: what helps to find them is damaged.
            Err(Cut::Unreadable(of, error)) if done.begun_again.contains(&of) => return Err(error),
            Err(Cut::Unreadable(of, _)) => begin_again(store, of, &mut done)?,
            Err(Cut::Store(error)) => return Err(error),
        }
    }
}

fn begin_again(store: &RocksStore, of: Derived, done: &mut Repaired) -> Result<(), StoreError> {
    store.begin_again(of)?;
    done.begun_again.push(of);
    Ok(())
}

/// Once through all leaves, and through what is there.
fn round(
    store: &RocksStore,
    (head, keys): (Head, bool),
    above: &mut dyn Above,
    done: &mut Repaired,
) -> Result<(), Cut> {
    let mut made = Made {
        store,
        rows: store.mending(),
        edge: Edge::default(),
        keys,
        claims: Claims::default(),
        cut: None,
    };
    above.again();
    let through = pass::leaves(store, head.size, |first, leaves| {
        made.take(first, leaves, above, done)?;
        above.progress(first + leaves.len() as u64, head.size);
        Ok(())
    });
    if let Some(cut) = made.cut {
        return Err(cut);
    }
    through?;
    if made.edge.head() != head {
        return Err(Cut::Store(StoreError::Damaged {
            what: "the leaves do not lead to the stored head".into(),
        }));
    }
    let claims = made.claims;
    made.rows.finish()?;
    tiles_beyond(store, head.size, done)?;
    if keys {
        keys_beyond(store, head.size, above, &claims, done)?;
    }
    Ok(())
}

/// What is made on the way.
struct Made<'a> {
    store: &'a RocksStore,
    rows: Mending<'a>,
    edge: Edge,
    keys: bool,
    claims: Claims,
    cut: Option<Cut>,
}

impl Made<'_> {
    fn take(
        &mut self,
        first: u64,
        leaves: &[Vec<u8>],
        above: &mut dyn Above,
        done: &mut Repaired,
    ) -> Result<(), StoreError> {
        let known = above.take(first, leaves);
        let mut full = Vec::new();
        for ((index, leaf), known) in (first..).zip(leaves).zip(&known) {
            let hash = leaf_hash(leaf);
            self.edge.push(hash, &mut full);
            let Some(known) = known.as_ref().filter(|_| self.keys) else {
                continue;
            };
            let (unique, postings) = pass::keys(&hash, known);
            for key in &unique {
                self.unique(key, index, done)?;
            }
            for key in &postings {
                self.posting(key, index, done)?;
            }
        }
        for (tile, due) in &full {
            self.tile(tile, due, done)?;
        }
        Ok(())
    }

    /// The row of this key; one that cannot be read ends the way.
    fn row(&mut self, of: Derived, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let row = self.store.row(of, key);
        if let Err(error @ StoreError::Damaged { .. }) = &row {
            self.cut = Some(Cut::Unreadable(of, error.clone()));
        }
        row
    }

    fn unique(&mut self, key: &Key, index: u64, done: &mut Repaired) -> Result<(), StoreError> {
        let bytes = key.bytes();
        let there = self.row(Derived::Unique, &bytes)?;
        let there = there.and_then(|value| value.try_into().ok().map(u64::from_be_bytes));
        match there {
            // It may be that leaf's by right. If it is not, it is taken away below, and this one's then.
            Some(later) if later > index => return Ok(()),
            Some(there) if there == index => {}
            _ => {
                self.rows
                    .put(Derived::Unique, &bytes, &index.to_be_bytes())?;
                done.keys_made += 1;
            }
        }
        self.claims.unique(key, index);
        Ok(())
    }

    fn posting(&mut self, key: &Key, index: u64, done: &mut Repaired) -> Result<(), StoreError> {
        let bytes = [&key.bytes()[..], &index.to_be_bytes()].concat();
        if self.row(Derived::Postings, &bytes)?.as_deref() != Some(&[]) {
            self.rows.put(Derived::Postings, &bytes, &[])?;
            done.keys_made += 1;
        }
        self.claims.posting(key, index);
        Ok(())
    }

    fn tile(&mut self, tile: &Tile, due: &[u8], done: &mut Repaired) -> Result<(), StoreError> {
        let key = tile_key(tile.level, tile.index);
        if self.row(Derived::Tiles, &key)?.as_deref() != Some(due) {
            self.rows.put(Derived::Tiles, &key, due)?;
            done.tiles_made += 1;
        }
        Ok(())
    }
}

fn tile_key(level: u8, index: u64) -> Vec<u8> {
    [&[level][..], &index.to_be_bytes()].concat()
}

fn tiles_beyond(store: &RocksStore, size: u64, done: &mut Repaired) -> Result<(), StoreError> {
    let beyond = |row: Row<'_>| match row {
        Row::Tile(level, index) if pass::has_tile(size, level, index) => None,
        Row::Tile(level, index) => Some(tile_key(level, index)),
        Row::Odd(key) => Some(key.to_vec()),
        _ => None,
    };
    done.tiles_removed += remove(store, Derived::Tiles, &beyond)?;
    Ok(())
}

/// Removes the keys that no leaf has, and what is no key.
fn keys_beyond(
    store: &RocksStore,
    size: u64,
    above: &mut dyn Above,
    claims: &Claims,
    done: &mut Repaired,
) -> Result<(), Cut> {
    let odd = |row: Row<'_>| match row {
        Row::Odd(key) => Some(key.to_vec()),
        _ => None,
    };
    for of in [Derived::Unique, Derived::Postings] {
        done.keys_removed += remove(store, of, &odd)?;
    }
    let families = index::count(store, claims).map_err(|(of, error)| match error {
        StoreError::Damaged { .. } => Cut::Unreadable(of, error),
        error => Cut::Store(error),
    })?;
    for family in families {
        let of = family.of;
        let mut rows = store.mending();
        index::each_surplus(store, size, above, family, &mut |key| {
            done.keys_removed += 1;
            rows.remove(of, key)
        })?;
        rows.finish()?;
    }
    Ok(())
}

/// Removes the rows of a family for which there is a key. How many.
fn remove(
    store: &RocksStore,
    of: Derived,
    key: &dyn Fn(Row<'_>) -> Option<Vec<u8>>,
) -> Result<u64, StoreError> {
    let (mut rows, mut count) = (store.mending(), 0);
    let mut removed = Ok(());
    store.scan(of.rows(), |row| {
        if let Some(key) = key(row) {
            count += 1;
            removed = rows.remove(of, &key);
        }
        removed.is_ok()
    })?;
    removed?;
    rows.finish()?;
    Ok(count)
}
