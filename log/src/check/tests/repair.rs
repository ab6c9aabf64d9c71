//! Whatever follows from the leaves is made again, to the byte; nothing else is touched.

use std::collections::BTreeMap;

use super::*;
use crate::{
    check::repair,
    store::rocks::{Derived, Row},
};

type All = BTreeMap<(String, Vec<u8>), Vec<u8>>;

/// Every row of every family.
fn rows(store: &RocksStore) -> All {
    let mut all = All::new();
    for of in [
        Rows::Entries,
        Rows::Tiles,
        Rows::Unique,
        Rows::Postings,
        Rows::Meta,
    ] {
        let raw = store.raw(of);
        all.extend(
            raw.into_iter()
                .map(|(key, value)| ((format!("{of:?}"), key), value)),
        );
    }
    all
}

impl Rig {
    fn repair(&self) -> repair::Repaired {
        let done = repair::run(&self.store, true, &mut Plain).unwrap();
        assert_eq!(self.check().faults, []);
        done
    }
}

fn tile_key(index: u8) -> [u8; 9] {
    let mut key = [0; 9];
    key[8] = index;
    key
}

#[test]
fn a_sound_store_is_left_as_it_is() {
    let rig = Rig::new();
    let before = rows(&rig.store);
    assert_eq!(rig.repair(), repair::Repaired::default());
    assert!(rows(&rig.store) == before);
}

#[test]
fn each_row_that_follows_from_the_leaves_is_made_again() {
    let rig = Rig::new();
    let sound = rows(&rig.store);
    let put = |rows, key: &[u8], value: Option<&[u8]>| rig.store.damage(Some(rows), key, value);
    let tile = rig.store.tile(0, 1).unwrap().unwrap();
    let mut bad = tile.clone();
    bad[99] ^= 4;
    let mine = own(&leaf(3)).bytes();
    let by_hash = Key::new(Key::LEAF_HASH, &leaf_hash(&leaf(300))).bytes();
    let stranger = Key::new(9, &sha256(b"stranger")).bytes();
    let posting = |n: u64| [&list(&leaf(3)).bytes()[..], &n.to_be_bytes()].concat();
    let number = |n: u64| n.to_be_bytes().to_vec();
    for (of, key, value) in [
        (Rows::Tiles, tile_key(1).to_vec(), Some(bad)),
        (Rows::Tiles, tile_key(0).to_vec(), Some(tile[..64].to_vec())),
        (Rows::Tiles, tile_key(1).to_vec(), None),
        (Rows::Tiles, tile_key(2).to_vec(), Some(tile.clone())),
        (Rows::Tiles, b"odd".to_vec(), Some(tile)),
        (Rows::Unique, mine.to_vec(), None),
        (Rows::Unique, mine.to_vec(), Some(number(2))),
        (Rows::Unique, mine.to_vec(), Some(number(4))),
        (Rows::Unique, mine.to_vec(), Some(number(LEAVES + 9))),
        (Rows::Unique, mine.to_vec(), Some(b"short".to_vec())),
        (Rows::Unique, by_hash.to_vec(), None),
        (Rows::Unique, stranger.to_vec(), Some(number(5))),
        (Rows::Unique, b"odd".to_vec(), Some(number(5))),
        (Rows::Postings, posting(3), None),
        (Rows::Postings, posting(3), Some(b"full".to_vec())),
        (Rows::Postings, posting(4), Some(Vec::new())),
        (Rows::Postings, posting(LEAVES), Some(Vec::new())),
    ] {
        put(of, &key, value.as_deref());
        assert!(rows(&rig.store) != sound, "{of:?} {key:?}");
        let found = rig.check();
        assert!(
            !found.faults.is_empty() && found.leaves_hold(),
            "{of:?} {key:?}"
        );
        let done = rig.repair();
        assert!(done.begun_again.is_empty(), "{done:?}");
        assert!(rows(&rig.store) == sound, "{of:?} {key:?} {done:?}");
    }
    // All of it at once, and half of the leaves of no use at all.
    for n in 0..LEAVES {
        put(
            Rows::Unique,
            &own(&leaf(n)).bytes(),
            (n % 2 == 0).then_some(&number(n + 1)),
        );
        put(
            Rows::Unique,
            &Key::new(7, &sha256(&number(n))).bytes(),
            Some(&number(n)),
        );
    }
    put(Rows::Tiles, &tile_key(0), None);
    let done = rig.repair();
    assert_eq!((done.tiles_made, done.tiles_removed), (1, 0));
    assert!(
        done.keys_made >= LEAVES && done.keys_removed >= LEAVES,
        "{done:?}"
    );
    assert!(rows(&rig.store) == sound);
}

#[test]
fn a_key_that_a_later_leaf_took_over_stays_with_that() {
    // What two leaves share belongs to the later one.
    struct Shared;
    impl Above for Shared {
        fn take(&mut self, first: u64, leaves: &[Vec<u8>]) -> Vec<Option<Known>> {
            let mut known = Plain.take(first, leaves);
            for (known, leaf) in known.iter_mut().zip(leaves) {
                if let Some(known) = known {
                    known.unique = vec![Key::new(9, &sha256(&[leaf[leaf.len() - 1]]))];
                }
            }
            known
        }

        fn again(&mut self) {}

        fn progress(&self, _: u64, _: u64) {}
    }
    let rig = Rig::new();
    repair::run(&rig.store, true, &mut Shared).unwrap();
    let shared = |digit: u8| Key::new(9, &sha256(&[digit]));
    for digit in b'0'..=b'9' {
        let last = LEAVES - 10 + u64::from(digit - b'0');
        assert_eq!(rig.store.find(&shared(digit)).unwrap(), Some(last));
    }
    let mut keys = 0;
    let count = |row: Row<'_>| {
        keys += u64::from(matches!(row, Row::Unique(key, _) if key.space == 9));
        true
    };
    rig.store.scan(Rows::Unique, count).unwrap();
    assert_eq!(keys, 10);
    let check = || run(&rig.store, rig.signer.vkey(), &mut Shared).unwrap();
    assert_eq!(check().faults, []);
    // Put back to an earlier one of those that have it.
    let bytes = 7_u64.to_be_bytes();
    rig.store
        .damage(Some(Rows::Unique), &shared(b'7').bytes(), Some(&bytes));
    assert_eq!(check().faults[0].index, Some(17));
    repair::run(&rig.store, true, &mut Shared).unwrap();
    assert_eq!(check().faults, []);
}

#[test]
fn families_that_cannot_be_read_or_are_gone_are_begun_again() {
    for of in Derived::ALL {
        let rig = Rig::new();
        let sound = rows(&rig.store);
        rig.store.begin_again(of).unwrap();
        assert!(!rig.check().faults.is_empty());
        rig.repair();
        assert!(rows(&rig.store) == sound);
    }
    // Cut off between dropping a family and creating it.
    let rig = Rig::new();
    let sound = rows(&rig.store);
    let Rig {
        store,
        signer,
        head,
        _dir: dir,
    } = rig;
    let (folder, mark) = (dir.path().join("db"), dir.path().join("published"));
    let kept = std::fs::read(&mark).unwrap();
    store
        .mark(&Head {
            size: LEAVES + 1,
            ..head
        })
        .unwrap();
    store.settle().unwrap();
    store.lose(Derived::Unique);
    drop(store);
    let shared = Shared::new(8 << 20, 8 << 20);
    assert!(RocksStore::open(&folder, &mark, &shared).is_err());
    // Of a newer release, or ending before what was published, it is left as it is.
    let families = || rocksdb::DB::list_cf(&rocksdb::Options::default(), &folder).unwrap();
    let raw = |key: &[u8], value: &[u8]| {
        let names = families();
        let db = rocksdb::DB::open_cf(&rocksdb::Options::default(), &folder, names).unwrap();
        db.put(key, value).unwrap();
    };
    let complete = || RocksStore::complete((&folder, &mark), &shared);
    let before = families();
    raw(b"format", &2_u32.to_be_bytes());
    assert!(matches!(complete(), Err(StoreError::TooNew { .. })));
    let opened = RocksStore::open_behind(&folder, &mark, &shared, false);
    assert!(matches!(opened.err(), Some(StoreError::TooNew { .. })));
    raw(b"format", &1_u32.to_be_bytes());
    assert!(!complete().unwrap());
    std::fs::write(&mark, kept).unwrap();
    assert_eq!(families(), before);
    assert!(complete().unwrap());
    assert!(!complete().unwrap());
    let store = RocksStore::open(&folder, &mark, &shared).unwrap();
    let rig = Rig {
        store,
        signer,
        head,
        _dir: dir,
    };
    rig.repair();
    assert!(rows(&rig.store) == sound);
}

#[test]
fn a_table_with_a_flipped_bit_is_not_written_over_but_begun_again() {
    use std::os::unix::fs::FileExt;
    let rig = Rig::new();
    let sound = rows(&rig.store);
    let Rig {
        store,
        signer,
        head,
        _dir: dir,
    } = rig;
    store.tables();
    drop(store);
    let (folder, mark) = (dir.path().join("db"), dir.path().join("published"));
    let tables = folder.read_dir().unwrap().flatten().map(|file| file.path());
    let tables: Vec<_> = tables
        .filter(|path| path.extension().is_some_and(|e| e == "sst"))
        .collect();
    assert!(tables.len() >= 4, "{tables:?}");
    let open = || {
        let shared = Shared::new(8 << 20, 8 << 20);
        RocksStore::open(&folder, &mark, &shared)
    };
    let (mut mended, mut left, mut kept) = (0, 0, 0);
    for table in &tables {
        let Ok(bytes) = std::fs::read(table) else {
            continue; // of a family that was begun again
        };
        let file = std::fs::OpenOptions::new().write(true).open(table).unwrap();
        file.write_all_at(&[bytes[40] ^ 0x10], 40).unwrap();
        let Ok(store) = open() else {
            std::fs::write(table, &bytes).unwrap();
            continue;
        };
        let found = run(&store, signer.vkey(), &mut Plain).unwrap();
        assert!(!found.faults.is_empty(), "{}", table.display());
        if found.leaves_hold() && found.faults.iter().all(|f| f.class != Class::Head) {
            if found.faults.iter().all(|fault| fault.class == Class::Index) {
                // Where keys cannot be made, those that can still be read are not thrown away.
                let nothing = repair::run(&store, false, &mut Plain).unwrap();
                assert_eq!(nothing, repair::Repaired::default());
                kept += 1;
            }
            let done = repair::run(&store, true, &mut Plain).unwrap();
            assert_eq!(done.begun_again.len(), 1, "{done:?}");
            assert_eq!(run(&store, signer.vkey(), &mut Plain).unwrap().faults, []);
            assert!(rows(&store) == sound);
            mended += 1;
        } else {
            // Leaves, or the head: nothing is made of what may be another's.
            left += 1;
            drop(store);
            std::fs::write(table, &bytes).unwrap();
        }
    }
    assert!(
        mended >= 3 && left >= 1 && kept >= 2,
        "{mended} {left} {kept}"
    );
    assert_eq!(head.size, LEAVES);
}

#[test]
fn leaves_that_do_not_lead_to_the_head_are_no_ground_for_anything() {
    let rig = Rig::new();
    rig.entry(4, Some(b"another"));
    assert!(!rig.check().leaves_hold());
    let before = rows(&rig.store);
    let told = repair::run(&rig.store, true, &mut Plain);
    assert!(matches!(told, Err(StoreError::Damaged { .. })), "{told:?}");
    let after = rows(&rig.store);
    for of in ["Entries", "Meta"] {
        let only = |all: &All| all.iter().filter(|((name, _), _)| name == of).count();
        assert_eq!(only(&before), only(&after));
    }
    rig.entry(4, None);
    assert!(repair::run(&rig.store, true, &mut Plain).is_err());
}
