//! Two steps that exist here alone, cut off at every place.

use std::{
    cell::Cell,
    collections::BTreeMap,
    ops::Range,
    path::{Path, PathBuf},
};

use countersign_verifier::hash::sha256;
use rocksdb::{Direction, IteratorMode};

use super::{
    super::{
        RocksStore, Shared,
        open::{ENTRIES, POSTINGS, TILES, UNIQUE, family},
    },
    *,
};
use crate::{
    grow::Edge,
    judge::Key,
    store::{Store, suite},
};

const LEAVES: u32 = 30;
/// Rows a batch: so few that a step has several.
const BATCH: usize = 7;

thread_local! {
    /// How often a part may still be asked before the process is as good as dead.
    static LEFT: Cell<u32> = const { Cell::new(u32::MAX) };
}

fn alive() -> Result<(), StoreError> {
    let left = LEFT.get();
    LEFT.set(left.saturating_sub(1));
    match left {
        0 => Err(StoreError::Unavailable("the disk is full".into())),
        _ => Ok(()),
    }
}

/// The next rows of a family from a place on; the place after them.
fn some(
    db: &DB,
    name: &str,
    place: &[u8],
    each: &mut dyn FnMut(&[u8], &[u8]),
) -> Result<Option<Vec<u8>>, StoreError> {
    alive()?;
    let mode = IteratorMode::From(place, Direction::Forward);
    let mut rows = db.iterator_cf(family(db, name), mode);
    for row in rows.by_ref().take(BATCH) {
        let (key, value) = row.map_err(|e| trouble(&e))?;
        each(&key, &value);
    }
    let next = rows.next().transpose().map_err(|e| trouble(&e))?;
    Ok(next.map(|(key, _)| key.into_vec()))
}

fn sums(db: &DB, place: &[u8], batch: &mut WriteBatch) -> Result<Option<Vec<u8>>, StoreError> {
    some(db, ENTRIES, place, &mut |index, leaf| {
        batch.put([b"sum/", index].concat(), sha256(leaf).0);
    })
}

fn no_unique(db: &DB, place: &[u8], batch: &mut WriteBatch) -> Result<Option<Vec<u8>>, StoreError> {
    let unique = family(db, UNIQUE);
    some(db, UNIQUE, place, &mut |key, _| {
        batch.delete_cf(unique, key)
    })
}

fn count(db: &DB, _: &[u8], batch: &mut WriteBatch) -> Result<Option<Vec<u8>>, StoreError> {
    alive()?;
    let sums = db.iterator(IteratorMode::From(b"sum/", Direction::Forward));
    let sums = sums.take_while(|row| row.as_ref().is_ok_and(|(key, _)| key.starts_with(b"sum/")));
    batch.put(b"sums", sums.count().to_string());
    Ok(None)
}

fn nothing(_: &DB, _: &[u8], _: &mut WriteBatch) -> Result<Option<Vec<u8>>, StoreError> {
    alive().map(|()| None)
}

static THIRD: Layout = Layout {
    format: 3,
    steps: &[
        Step {
            from: 1,
            what: "a sum of each leaf in the place of its key",
            make: sums,
            clear: no_unique,
        },
        Step {
            from: 2,
            what: "how many sums there are",
            make: count,
            clear: nothing,
        },
    ],
};

struct Home {
    dir: tempfile::TempDir,
    shared: Shared,
}

fn leaf(n: u32) -> Vec<u8> {
    format!("leaf {n}").into_bytes()
}

impl Home {
    fn new() -> Home {
        let home = Home {
            dir: tempfile::tempdir().unwrap(),
            shared: Shared::new(8 << 20, 8 << 20),
        };
        let store = RocksStore::create(&home.folder(), &home.mark(), &home.shared).unwrap();
        home.grow(&store, &mut Edge::default(), 0..LEAVES);
        home
    }

    fn folder(&self) -> PathBuf {
        self.dir.path().join("db")
    }

    fn mark(&self) -> PathBuf {
        self.dir.path().join("published")
    }

    fn grow(&self, store: &RocksStore, edge: &mut Edge, leaves: Range<u32>) {
        let before = edge.head();
        let bytes: Vec<Vec<u8>> = leaves.clone().map(leaf).collect();
        let bytes: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
        let mut growth = suite::grow(edge, &bytes);
        growth.unique = leaves
            .map(|n| (Key::new(7, &sha256(&leaf(n))), u64::from(n)))
            .collect();
        store.commit(&before, &growth).unwrap();
    }

    fn open(&self, folder: &Path, layout: &'static Layout) -> Result<RocksStore, StoreError> {
        RocksStore::open_as((folder, &self.mark()), &self.shared, layout)
    }

    fn copies(&self) -> Vec<PathBuf> {
        let all = self.dir.path().read_dir().unwrap().flatten();
        let mut copies: Vec<PathBuf> = all.map(|entry| entry.path()).collect();
        copies.retain(|path| path.to_string_lossy().contains("/before-"));
        copies.sort();
        copies
    }
}

/// Every row of every family.
fn rows(store: &RocksStore) -> BTreeMap<(&'static str, Vec<u8>), Vec<u8>> {
    let all = store.read(|db| {
        let mut all = BTreeMap::new();
        for name in ["default", ENTRIES, TILES, UNIQUE, POSTINGS] {
            for row in db.full_iterator_cf(family(db, name), IteratorMode::Start) {
                let (key, value) = row.map_err(|e| trouble(&e))?;
                all.insert((name, key.into_vec()), value.into_vec());
            }
        }
        Ok(all)
    });
    all.unwrap()
}

fn format(store: &RocksStore) -> u32 {
    let bytes = rows(store)[&("default", meta::FORMAT.to_vec())].clone();
    u32::from_be_bytes(bytes.try_into().unwrap())
}

/// That this is format 1, whole, and that its release works on it.
fn is_the_first(store: &RocksStore, leaves: u32) {
    assert_eq!(format(store), 1);
    assert_eq!(store.head().unwrap().0.size, u64::from(leaves));
    for n in 0..leaves {
        let found = store.find(&Key::new(7, &sha256(&leaf(n)))).unwrap();
        assert_eq!(found, Some(u64::from(n)));
        assert_eq!(store.entry(u64::from(n)).unwrap(), Some(leaf(n)));
    }
}

#[test]
fn a_change_of_format_goes_on_from_wherever_it_was_cut_off() {
    let sound = Home::new();
    LEFT.set(u32::MAX);
    let wanted = rows(&sound.open(&sound.folder(), &THIRD).unwrap());
    assert_eq!(wanted[&("default", b"sums".to_vec())], b"30");
    assert!(
        !wanted
            .keys()
            .any(|(name, key)| *name == UNIQUE || key == meta::MIGRATING)
    );
    assert_eq!(sound.copies().len(), 1, "one copy, before the first step");
    let mut cuts = 0;
    for cut in 0.. {
        let home = Home::new();
        LEFT.set(cut);
        let Err(error) = home.open(&home.folder(), &THIRD) else {
            break;
        };
        cuts += 1;
        assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
        // What was there before is beside it, and is what it was.
        let [copy] = &home.copies()[..] else {
            panic!("{:?}", home.copies());
        };
        is_the_first(&home.open(copy, &LAYOUT).unwrap(), LEAVES);
        match home.open(&home.folder(), &LAYOUT) {
            // The number was not raised yet: the release of before finds all that it reads.
            Ok(store) => is_the_first(&store, LEAVES),
            Err(error) => assert!(
                matches!(error, StoreError::TooNew { known: 1, .. }),
                "{error}"
            ),
        }
        // Cut off once more, and then not.
        LEFT.set(cut % 3);
        let _ = home.open(&home.folder(), &THIRD);
        LEFT.set(u32::MAX);
        let store = home.open(&home.folder(), &THIRD).unwrap();
        assert_eq!(rows(&store), wanted, "cut {cut}");
        store.reload().unwrap();
        assert_eq!(format(&store), 3);
    }
    assert!(cuts > 8, "{cuts}: each part has several batches");
}

#[test]
fn what_the_older_release_writes_meanwhile_is_not_left_out() {
    let home = Home::new();
    LEFT.set(2);
    assert!(home.open(&home.folder(), &THIRD).is_err());
    let mut edge = Edge::default();
    for n in 0..LEAVES {
        edge.push(
            countersign_verifier::hash::leaf_hash(&leaf(n)),
            &mut Vec::new(),
        );
    }
    let store = home.open(&home.folder(), &LAYOUT).unwrap();
    home.grow(&store, &mut edge, LEAVES..LEAVES + 5);
    is_the_first(&store, LEAVES + 5);
    drop(store);
    LEFT.set(u32::MAX);
    let store = home.open(&home.folder(), &THIRD).unwrap();
    assert_eq!(rows(&store)[&("default", b"sums".to_vec())], b"35");
    // Begun again, so there is a copy of what was there then.
    let copies = home.copies();
    assert_eq!(copies.len(), 2, "{copies:?}");
    is_the_first(&home.open(&copies[1], &LAYOUT).unwrap(), LEAVES + 5);
}

#[test]
fn a_newer_format_is_refused_and_not_touched_and_an_older_one_is_not_read_as_this() {
    let home = Home::new();
    LEFT.set(u32::MAX);
    drop(home.open(&home.folder(), &THIRD).unwrap());
    let files = |folder: &Path| {
        let all = folder.read_dir().unwrap().flatten();
        // What RocksDB says of itself is no part of it.
        let all = all.filter(|file| !file.file_name().to_string_lossy().starts_with("LOG"));
        let all = all.map(|file| (file.file_name(), std::fs::read(file.path()).unwrap()));
        all.collect::<BTreeMap<_, _>>()
    };
    let before = files(&home.folder());
    let refused = StoreError::TooNew { found: 3, known: 1 };
    assert_eq!(
        home.open(&home.folder(), &LAYOUT).err(),
        Some(refused.clone())
    );
    let read = RocksStore::open_behind(&home.folder(), &home.mark(), &home.shared, false);
    assert_eq!(read.err(), Some(refused));
    assert!(files(&home.folder()) == before, "it was changed");
    let old = Home::new();
    let store = old.open(&old.folder(), &LAYOUT).unwrap();
    let asked = store.read(|db| THIRD.is(&old.folder(), db));
    assert_eq!(asked, Err(StoreError::Older { found: 1, known: 3 }));
    // A number that no release ever wrote.
    store
        .read(|db| {
            db.put(meta::FORMAT, 0_u32.to_be_bytes())
                .map_err(|e| trouble(&e))
        })
        .unwrap();
    drop(store);
    for layout in [&LAYOUT, &THIRD] {
        let opened = old.open(&old.folder(), layout);
        assert!(matches!(opened.err(), Some(StoreError::Damaged { .. })));
    }
}
