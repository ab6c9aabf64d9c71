//! Lookup keys: whether there are those that the leaves have, and no others.
//!
//! Each leaf looks up its rows and *claims* those that lead to it. A row that nobody claims is too much. So that not every claim has to be
//! kept, claims and rows are counted in heaps by what tells a row apart: as many claims as rows in each heap, and there is no such row.
//! Only where a heap has more rows are the keys of that heap's leaves collected, in a further way through the leaves, and its rows looked
//! at one by one. Memory: 1 MiB for the counts, and [`MARKS_MAX`] marks of 8 bytes while rows are looked for.

use super::{Above, Class, faults::Faults, pass};
use crate::{
    judge::Key,
    store::{
        StoreError,
        rocks::{Derived, RocksStore, Row},
    },
};

const HEAPS: usize = 1 << 16;
/// Keys that are collected at once, 8 bytes each.
const MARKS_MAX: u64 = 4 << 20;
/// Keys that were found at a later leaf: only so many are kept, to be named where that leaf does not have them.
const LATER_MAX: usize = 1 << 16;
/// The families of lookup keys, and where each is counted.
const KEYS: [Derived; 2] = [Derived::Unique, Derived::Postings];

/// Odd, and otherwise as good as any: 2^64 divided by the golden ratio.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// What tells a row apart: the hash that its key is of, mixed with the leaf that it leads to.
fn mark(key: &Key, index: u64) -> u64 {
    let (prefix, rest) = key.prefix.split_at(8);
    // OK because it is eight bytes of sixteen, twice.
    let number = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().expect("index::mark"));
    let place = index.wrapping_mul(MIX).rotate_left(u32::from(key.space));
    number(prefix) ^ number(rest).rotate_left(1) ^ place
}

fn heap(mark: u64) -> usize {
    // OK because of the shift: 16 bits.
    (mark >> 48) as usize
}

/// How many there are in each heap.
struct Counts(Vec<u32>);

impl Counts {
    fn add(&mut self, mark: u64) {
        self.0[heap(mark)] += 1;
    }
}

impl Default for Counts {
    fn default() -> Counts {
        Counts(vec![0; HEAPS])
    }
}

/// The rows that leaves have claimed, by family.
#[derive(Default)]
pub(super) struct Claims {
    counts: [Counts; 2],
    /// Keys that were found at a later leaf: key, this leaf, that leaf.
    later: Vec<(Key, u64, u64)>,
}

impl Claims {
    /// A leaf is found by this key.
    pub(super) fn unique(&mut self, key: &Key, index: u64) {
        self.counts[0].add(mark(key, index));
    }

    /// A leaf is listed under this key.
    pub(super) fn posting(&mut self, key: &Key, index: u64) {
        self.counts[1].add(mark(key, index));
    }

    /// A later leaf is found by this key. It may have taken it over; whether it did is known at the end.
    pub(super) fn later(&mut self, key: &Key, index: u64, later: u64) {
        if self.later.len() < LATER_MAX {
            self.later.push((*key, index, later));
        }
    }
}

/// What became of the rows of one family.
pub(super) struct Rows {
    pub(super) of: Derived,
    /// How many there are, and how many of them are none of a lookup key.
    all: u64,
    odd: u64,
    /// How many nobody claims.
    surplus: u64,
    /// Heaps that have such rows, and the claims in them.
    heaps: Vec<(usize, u64)>,
}

/// Counts the rows of both families against the claims.
///
/// # Errors
/// Of a family that cannot be read to its end, what the store says; of the other one nothing then.
pub(super) fn count(
    store: &RocksStore,
    claims: &Claims,
) -> Result<[Rows; 2], (Derived, StoreError)> {
    let [unique, postings] = [0, 1].map(|family| {
        count_one(store, KEYS[family], &claims.counts[family])
            .map_err(|error| (KEYS[family], error))
    });
    Ok([unique?, postings?])
}

fn count_one(store: &RocksStore, of: Derived, claims: &Counts) -> Result<Rows, StoreError> {
    let mut counts = Counts::default();
    let mut rows = Rows {
        of,
        all: 0,
        odd: 0,
        surplus: 0,
        heaps: Vec::new(),
    };
    store.scan(of.rows(), |row| {
        rows.all += 1;
        match row {
            Row::Unique(key, index) | Row::Posting(key, index) => counts.add(mark(&key, index)),
            Row::Odd(_) => rows.odd += 1,
            // OK because the families of keys have no others.
            other => unreachable!("index::count_one: {other:?}"),
        }
        true
    })?;
    for (at, (rows_there, claimed)) in counts.0.iter().zip(&claims.0).enumerate() {
        if rows_there > claimed {
            rows.surplus += u64::from(rows_there - claimed);
            rows.heaps.push((at, u64::from(*claimed)));
        }
    }
    Ok(rows)
}

/// The heaps that are looked through at once: as many as have few enough claims.
struct Slice {
    heaps: Vec<bool>,
    /// The marks of the keys that leaves have in them, sorted.
    marks: Vec<u64>,
}

impl Slice {
    fn has(&self, mark: u64) -> bool {
        self.heaps[heap(mark)]
    }

    fn is_due(&self, mark: u64) -> bool {
        self.marks.binary_search(&mark).is_ok()
    }
}

/// The next heaps of a family, taken from those that are left. Another way through the leaves.
fn slice(
    store: &RocksStore,
    size: u64,
    above: &mut dyn Above,
    rows: &mut Rows,
) -> Result<Slice, StoreError> {
    let mut slice = Slice {
        heaps: vec![false; HEAPS],
        marks: Vec::new(),
    };
    let mut claims = 0;
    while let Some((heap, of)) = rows.heaps.pop() {
        if claims > 0 && claims + of > MARKS_MAX {
            rows.heaps.push((heap, of));
            break;
        }
        claims += of;
        slice.heaps[heap] = true;
    }
    above.again();
    pass::leaves(store, size, |first, leaves| {
        let known = above.take(first, leaves);
        for ((index, leaf), known) in (first..).zip(leaves).zip(&known) {
            let Some(known) = known else { continue };
            let (unique, postings) = pass::keys_of(leaf, known);
            let keys = if rows.of == Derived::Unique {
                unique
            } else {
                postings
            };
            let marks = keys.iter().map(|key| mark(key, index));
            slice
                .marks
                .extend(marks.filter(|mark| slice.heaps[heap(*mark)]));
        }
        above.progress(first + leaves.len() as u64, size);
        Ok(())
    })?;
    slice.marks.sort_unstable();
    Ok(slice)
}

/// Shows every row of a family that no leaf has, with its key as it lies there.
///
/// # Errors
/// What the store, or `each`, says.
pub(super) fn each_surplus(
    store: &RocksStore,
    size: u64,
    above: &mut dyn Above,
    mut rows: Rows,
    each: &mut dyn FnMut(&[u8]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let of = rows.of;
    while !rows.heaps.is_empty() {
        let slice = slice(store, size, above, &mut rows)?;
        surplus(store, of, &slice, &mut |key, index| {
            let mut bytes = key.bytes().to_vec();
            if of == Derived::Postings {
                bytes.extend(index.to_be_bytes());
            }
            each(&bytes)
        })?;
    }
    Ok(())
}

fn surplus(
    store: &RocksStore,
    of: Derived,
    slice: &Slice,
    each: &mut dyn FnMut(&Key, u64) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut done = Ok(());
    store.scan(of.rows(), |row| {
        if let Row::Unique(key, index) | Row::Posting(key, index) = row {
            let mark = mark(&key, index);
            if slice.has(mark) && !slice.is_due(mark) {
                done = each(&key, index);
            }
        }
        done.is_ok()
    })?;
    done
}

/// Names the rows that no leaf has. How many rows there are.
///
/// # Errors
/// `Unavailable`.
pub(super) fn name(
    store: &RocksStore,
    size: u64,
    above: &mut dyn Above,
    claims: Claims,
    faults: &mut Faults,
) -> Result<u64, StoreError> {
    let families = match count(store, &claims) {
        Ok(families) => families,
        Err((_, StoreError::Damaged { what })) => {
            faults.add(Class::Index, None, what);
            return Ok(0);
        }
        Err((_, error)) => return Err(error),
    };
    let mut all = 0;
    for mut rows in families {
        all += rows.all;
        if rows.odd > 0 {
            faults.add(Class::Index, None, "a row that is none of a lookup key");
            faults.more(Class::Index, rows.odd - 1);
        }
        if rows.surplus == 0 {
            continue;
        }
        let (of, count) = (rows.of, rows.surplus);
        let slice = slice(store, size, above, &mut rows)?;
        let mut named = 0;
        surplus(store, of, &slice, &mut |key, index| {
            named += 1;
            let what = format!("a key of space {} that the leaf does not have", key.space);
            faults.add(Class::Index, Some(index), what);
            Ok(())
        })?;
        // Those of further slices are as wrong.
        faults.more(Class::Index, count.saturating_sub(named));
        if of == Derived::Unique {
            for (key, index, later) in &claims.later {
                let mark = mark(key, *later);
                if slice.has(mark) && !slice.is_due(mark) {
                    let what = format!(
                        "its key of space {} leads to leaf {later}, which does not have it",
                        key.space
                    );
                    faults.add(Class::Index, Some(*index), what);
                }
            }
        }
    }
    Ok(all)
}
