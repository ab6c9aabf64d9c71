//! A store in which one thing is not what it must be: that, and only that kind of thing, is named.

mod repair;

use countersign_verifier::{
    hash::{Hash, leaf_hash, sha256},
    vkey::NoteSigner,
};
use ed25519_dalek::SigningKey;

use super::*;
use crate::{
    grow::Edge,
    store::{
        Growth, Kept, Stage, Store,
        rocks::{Rows, Shared},
    },
};

const LEAVES: u64 = 600;
const AT: u64 = 5_000;

/// Each leaf is found by itself, and under one of three lists.
struct Plain;

fn own(leaf: &[u8]) -> Key {
    Key::new(9, &sha256(leaf))
}

fn list(leaf: &[u8]) -> Key {
    Key::new(8, &sha256(&[leaf[leaf.len() - 1] % 3]))
}

impl Above for Plain {
    fn take(&mut self, first: u64, leaves: &[Vec<u8>]) -> Vec<Option<Known>> {
        let known = |leaf: &Vec<u8>| Known {
            at: AT,
            unique: vec![own(leaf)],
            postings: vec![list(leaf)],
        };
        assert!(first < LEAVES);
        leaves.iter().map(known).map(Some).collect()
    }

    fn again(&mut self) {}

    fn progress(&self, done: u64, all: u64) {
        assert!(done <= all);
    }
}

struct Rig {
    store: RocksStore,
    signer: NoteSigner,
    head: Head,
    _dir: tempfile::TempDir,
}

fn leaf(n: u64) -> Vec<u8> {
    format!("leaf {n}").into_bytes()
}

fn signer() -> NoteSigner {
    NoteSigner::new("log.example/a", SigningKey::from_bytes(&[1; 32])).unwrap()
}

fn kept(signer: &NoteSigner, head: Head) -> Kept {
    let text = format!("log.example/a\n{}\n{}\n", head.size, head.root.to_base64());
    let note = format!("{text}\n{}", signer.sign(&text));
    Kept { head, note }
}

impl Rig {
    fn new() -> Rig {
        let dir = tempfile::tempdir().unwrap();
        let (folder, mark) = (dir.path().join("db"), dir.path().join("published"));
        let shared = Shared::new(8 << 20, 8 << 20);
        let store = RocksStore::create(&folder, &mark, &shared).unwrap();
        let (mut edge, mut tiles) = (Edge::default(), Vec::new());
        let (mut unique, mut postings) = (Vec::new(), Vec::new());
        let mut half = None;
        for n in 0..LEAVES {
            let leaf = leaf(n);
            let hash = leaf_hash(&leaf);
            edge.push(hash, &mut tiles);
            unique.extend([(Key::new(Key::LEAF_HASH, &hash), n), (own(&leaf), n)]);
            postings.push((list(&leaf), n));
            if n == 299 {
                half = Some(edge.head());
            }
        }
        let head = edge.head();
        let growth = Growth {
            entries: (0..LEAVES).map(leaf).collect(),
            tiles,
            unique,
            postings,
            head,
            at: AT,
            published: None,
        };
        store.commit(&Head::EMPTY, &growth).unwrap();
        let signer = signer();
        let half = kept(&signer, half.unwrap());
        store.keep(Stage::Published, &half).unwrap();
        let stage = Stage::Signed { replaces: None };
        store.keep(stage, &kept(&signer, head)).unwrap();
        Rig {
            store,
            signer,
            head,
            _dir: dir,
        }
    }

    fn check(&self) -> Found {
        run(&self.store, self.signer.vkey(), &mut Plain).unwrap()
    }

    /// That there are faults of this class alone, one of them at this leaf and with this word.
    fn has(&self, class: Class, index: Option<u64>, word: &str) {
        let found = self.check();
        assert!(!found.faults.is_empty(), "{word}");
        let other = found.faults.iter().find(|fault| fault.class != class);
        assert_eq!(other, None, "{word}");
        let is = |fault: &&Fault| fault.index == index && fault.what.contains(word);
        let named = found.faults.iter().find(is);
        assert!(named.is_some(), "{word}: {:?}", found.faults);
    }

    fn entry(&self, n: u64, value: Option<&[u8]>) {
        self.store
            .damage(Some(Rows::Entries), &n.to_be_bytes(), value);
    }
}

/// Of a log that another one goes on from.
struct Succeeded;

impl Above for Succeeded {
    fn take(&mut self, first: u64, leaves: &[Vec<u8>]) -> Vec<Option<Known>> {
        Plain.take(first, leaves)
    }

    fn again(&mut self) {}

    fn progress(&self, _: u64, _: u64) {}

    fn has_successor(&self) -> bool {
        true
    }
}

#[test]
fn a_sound_store_has_no_fault() {
    let rig = Rig::new();
    let found = rig.check();
    assert_eq!(found.faults, []);
    assert_eq!((found.tree, found.keys_untold), (Some(rig.head), None));
    assert_eq!((found.tiles, found.keys), (2, 3 * LEAVES));
    assert_eq!((found.beyond, found.mark_is_blank), (None, false));
    assert!(found.published.unwrap().contains("\n300\n"));
}

#[test]
fn leaves() {
    let rig = Rig::new();
    for n in [0, 300, 599] {
        let mut bytes = leaf(n);
        bytes[2] ^= 1;
        rig.entry(n, Some(&bytes));
        rig.has(Class::Entry, Some(n), "another leaf");
        assert!(!rig.check().leads_to_head());
        rig.entry(n, None);
        rig.has(Class::Entry, Some(n), "missing");
        assert!(!rig.check().leads_to_head());
        rig.entry(n, Some(&leaf(n)));
    }
    rig.entry(LEAVES, Some(b"x"));
    rig.has(Class::Entry, Some(LEAVES), "beyond the head");
    rig.entry(LEAVES, None);
    rig.store.damage(Some(Rows::Entries), b"odd", Some(b"x"));
    rig.has(Class::Entry, None, "none of a leaf");
    rig.store.damage(Some(Rows::Entries), b"odd", None);
    assert_eq!(rig.check().faults, []);
}

#[test]
fn tiles() {
    let rig = Rig::new();
    let mut key = [0; 9];
    key[8] = 1;
    let good = rig.store.tile(0, 1).unwrap().unwrap();
    let tile = |value: Option<&[u8]>| rig.store.damage(Some(Rows::Tiles), &key, value);
    let mut bad = good.clone();
    bad[7 * 32] ^= 1;
    tile(Some(&bad));
    rig.has(Class::Tile, Some(256 + 7), "not that of the leaf");
    tile(Some(&good[..64]));
    rig.has(Class::Tile, None, "64 bytes");
    tile(None);
    rig.has(Class::Tile, None, "missing");
    tile(Some(&good));
    for beyond in [[0, 0, 0, 0, 0, 0, 0, 0, 2], [9, 0, 0, 0, 0, 0, 0, 0, 0]] {
        rig.store.damage(Some(Rows::Tiles), &beyond, Some(&good));
        rig.has(Class::Tile, None, "");
        rig.store.damage(Some(Rows::Tiles), &beyond, None);
    }
    assert_eq!(rig.check().faults, []);
}

#[test]
fn lookup_keys_both_ways() {
    let rig = Rig::new();
    let put = |rows, key: &[u8], value: Option<&[u8]>| rig.store.damage(Some(rows), key, value);
    for key in [
        own(&leaf(3)).bytes(),
        Key::new(Key::LEAF_HASH, &leaf_hash(&leaf(3))).bytes(),
    ] {
        put(Rows::Unique, &key, None);
        rig.has(Class::Index, Some(3), "is not found by");
        for other in [2_u64, 4] {
            put(Rows::Unique, &key, Some(&other.to_be_bytes()));
            rig.has(Class::Index, Some(other), "does not have");
        }
        put(Rows::Unique, &key, Some(&3_u64.to_be_bytes()));
    }
    let stranger = Key::new(9, &sha256(b"stranger")).bytes();
    put(Rows::Unique, &stranger, Some(&3_u64.to_be_bytes()));
    rig.has(Class::Index, Some(3), "does not have");
    put(Rows::Unique, &stranger, Some(b"short"));
    rig.has(Class::Index, None, "none of a lookup key");
    put(Rows::Unique, &stranger, None);
    let posting = |n: u64| [&list(&leaf(3)).bytes()[..], &n.to_be_bytes()].concat();
    put(Rows::Postings, &posting(3), None);
    rig.has(Class::Index, Some(3), "is not found by");
    put(Rows::Postings, &posting(3), Some(b""));
    put(Rows::Postings, &posting(4), Some(b""));
    rig.has(Class::Index, Some(4), "does not have");
    put(Rows::Postings, &posting(4), None);
    assert_eq!(rig.check().faults, []);
}

#[test]
fn heads() {
    let rig = Rig::new();
    let meta = |key: &[u8], value: &[u8]| rig.store.damage(None, key, Some(value));
    let head = |size: u64, root: Hash, at: u64| {
        [&size.to_be_bytes()[..], &root.0, &at.to_be_bytes()].concat()
    };
    meta(b"head", &head(LEAVES, Hash([7; 32]), AT));
    let found = rig.check();
    let mismatch =
        |fault: &Fault| fault.class == Class::Head && fault.what.contains("the head says");
    assert!(found.faults.iter().any(mismatch), "{:?}", found.faults);
    meta(b"head", &head(LEAVES, rig.head.root, AT + 1));
    rig.has(Class::Head, None, "its last leaf");
    meta(b"head", b"short");
    assert!(rig.check().faults.iter().any(|f| f.class == Class::Head));
    meta(b"head", &head(LEAVES, rig.head.root, AT));

    let other = NoteSigner::new("log.example/a", SigningKey::from_bytes(&[2; 32])).unwrap();
    let good = kept(&rig.signer, rig.head);
    let stage = Stage::Signed { replaces: None };
    let mut forged = kept(&other, rig.head);
    for (bad, word) in [
        (forged.clone(), "a signed checkpoint"),
        (
            kept(
                &rig.signer,
                Head {
                    root: Hash([7; 32]),
                    ..rig.head
                },
            ),
            "the leaves lead to",
        ),
        (
            {
                forged.note = good.note.replace("\n600\n", "\n601\n");
                forged
            },
            "it is kept as one of size 600",
        ),
    ] {
        rig.store.keep(stage, &bad).unwrap();
        rig.has(Class::Head, None, word);
    }
    rig.store.keep(stage, &good).unwrap();
    let beyond = Head {
        size: 700,
        ..rig.head
    };
    rig.store.keep_ahead(&kept(&rig.signer, beyond)).unwrap();
    rig.has(Class::Head, None, "the store ends at 600");
    let found = run(&rig.store, rig.signer.vkey(), &mut Succeeded).unwrap();
    assert_eq!(
        found.faults,
        [],
        "what is lost is named by the log that goes on"
    );
    rig.store.damage(None, b"ahead", None);
    for (row, word) in [
        (&b"stranger"[..], "a row that no log has"),
        (b"migrating", "a change of format"),
    ] {
        meta(row, b"x");
        rig.has(Class::Head, None, word);
        rig.store.damage(None, row, None);
    }
    rig.store.mark(&beyond).unwrap();
    rig.has(Class::Head, None, "the mark of what was published");
    let found = rig.check();
    assert!(found.contradicted && found.leads_to_head() && !found.mark_is_blank);
    assert_eq!(found.beyond, Some(700));
}

#[test]
fn where_nothing_is_right_a_hundred_are_named_and_all_are_counted() {
    let rig = Rig::new();
    for n in 0..LEAVES {
        let key = own(&leaf(n)).bytes();
        rig.store.damage(Some(Rows::Unique), &key, None);
        let stranger = Key::new(9, &sha256(&n.to_be_bytes())).bytes();
        let value = n.to_be_bytes();
        rig.store
            .damage(Some(Rows::Unique), &stranger, Some(&value));
    }
    let found = rig.check();
    assert_eq!(found.faults.len(), 100);
    assert_eq!(found.unnamed, [0, 0, 0, 2 * LEAVES - 100]);
    assert!(found.leaves_hold());
}
