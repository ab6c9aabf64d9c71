//! What lies in an account's directory, by kind, and what a disk can do to it.

use std::fs;

use super::{Change, Class, LEAF, LEAVES, Rig};

/// A kind of object: its name, its class, whether it follows from the leaves, and what is done to it.
pub type Kind = (&'static str, Class, bool, Vec<(&'static str, Change)>);

/// The rows of a family changed: a bit of one, one gone, two exchanged.
fn of_rows(
    family: &'static str,
    key: Vec<u8>,
    other: Vec<u8>,
    at: usize,
) -> Vec<(&'static str, Change)> {
    let (flipped, gone) = (key.clone(), key.clone());
    vec![
        (
            "a bit",
            Box::new(move |rig: &Rig| {
                let mut value = rig.row(family, &flipped);
                value[at] ^= 1;
                rig.put(family, &flipped, Some(&value));
            }),
        ),
        (
            "gone",
            Box::new(move |rig: &Rig| rig.put(family, &gone, None)),
        ),
        (
            "exchanged",
            Box::new(move |rig: &Rig| {
                let (one, two) = (rig.row(family, &key), rig.row(family, &other));
                rig.put(family, &key, Some(&two));
                rig.put(family, &other, Some(&one));
            }),
        ),
    ]
}

fn of_file(name: &'static str) -> Vec<(&'static str, Change)> {
    let path = move |rig: &Rig| rig.dir.account("dev").root().join(name);
    vec![
        (
            "a bit",
            Box::new(move |rig: &Rig| {
                let mut bytes = fs::read(path(rig)).unwrap();
                // A bit in each half: of the mark either half is enough.
                let half = bytes.len() / 2;
                for at in [10, half + 10] {
                    bytes[at] ^= 1;
                }
                fs::write(path(rig), bytes).unwrap();
            }),
        ),
        (
            "gone",
            Box::new(move |rig: &Rig| fs::remove_file(path(rig)).unwrap()),
        ),
        (
            "empty",
            Box::new(move |rig: &Rig| fs::write(path(rig), "").unwrap()),
        ),
    ]
}

/// The first changes alone: there is but one such row, so that none can be exchanged with it.
fn first(mut all: Vec<(&'static str, Change)>, count: usize) -> Vec<(&'static str, Change)> {
    all.truncate(count);
    all
}

/// What is there, by kind: its class, whether it follows from the leaves, and what is done to it.
pub fn kinds(rig: &Rig) -> Vec<Kind> {
    let number = |n: u64| n.to_be_bytes().to_vec();
    let tile = [vec![0], number(0)].concat();
    let rows = rig.rows();
    let keys = |family: &str| {
        let of = rows.keys().filter(|(name, _)| *name == family);
        of.map(|(_, key)| key.clone()).collect::<Vec<_>>()
    };
    let (unique, postings) = (keys("unique"), keys("postings"));
    let part = keys("default")
        .into_iter()
        .find(|key| key.starts_with(b"snapshot/"))
        .unwrap();
    let mut of_postings = first(of_rows("postings", postings[5].clone(), Vec::new(), 0), 2);
    of_postings[0] = (
        "one too much",
        Box::new(move |rig: &Rig| {
            let mut key = postings[5].clone();
            key[24] ^= 1;
            rig.put("postings", &key, Some(b""));
        }),
    );
    let mut all = vec![
        (
            "leaf",
            Class::Entry,
            false,
            of_rows("entries", number(LEAF), number(20), 200),
        ),
        (
            "last leaf",
            Class::Entry,
            false,
            of_rows("entries", number(LEAVES - 1), number(20), 200),
        ),
        (
            "tile",
            Class::Tile,
            true,
            first(of_rows("tiles", tile, Vec::new(), 32 * 9), 2),
        ),
        (
            "head",
            Class::Head,
            false,
            first(of_rows("default", b"head".to_vec(), Vec::new(), 12), 2),
        ),
        (
            "unique key",
            Class::Index,
            true,
            of_rows("unique", unique[7].clone(), unique[8].clone(), 7),
        ),
        ("posting", Class::Index, true, of_postings),
        (
            "snapshot",
            Class::State,
            true,
            first(of_rows("default", part, Vec::new(), 700), 2),
        ),
    ];
    all.extend(heads_and_files());
    all
}

/// What was signed, and the files beside the store.
fn heads_and_files() -> Vec<Kind> {
    vec![
        (
            "published",
            Class::Head,
            false,
            first(of_rows("default", b"published".to_vec(), Vec::new(), 90), 2),
        ),
        (
            "signed",
            Class::Head,
            false,
            vec![(
                "forged",
                Box::new(|rig: &Rig| {
                    let mut kept = rig.row("default", b"published");
                    let at = kept.len() - 20;
                    kept[at] = if kept[at] == b'A' { b'B' } else { b'A' };
                    let key = [&b"signed/"[..], &LEAVES.to_be_bytes()].concat();
                    rig.put("default", &key, Some(&kept));
                }),
            )],
        ),
        ("mark", Class::Head, false, of_file("published")),
        ("log.vkey", Class::Key, false, first(of_file("log.vkey"), 1)),
        ("account.json", Class::Key, false, of_file("account.json")),
        ("policy", Class::Key, false, of_file("policy")),
    ]
}

/// How each class comes out then: entry, tile, head, index, state, blob, key. Bodies there are none. Where leaves are missing or changed,
/// nothing passes that follows from them; `x`: it fails or is not known, as the bit has it.
pub fn statuses(kind: &str, what: &str) -> &'static str {
    match (kind, what) {
        ("leaf" | "last leaf", "gone") => "fuuuusu",
        ("leaf" | "last leaf", _) => "fuuuxsx",
        ("tile", _) => "pfpppsp",
        // Without a head there is a store of no leaves, and rows that it has not.
        ("head", "gone") => "fffffss",
        ("head", _) => "uufpusu",
        ("unique key" | "posting", _) => "pppfpsp",
        ("snapshot", _) => "ppppfsp",
        ("published" | "signed", _) => "ppfppsp",
        ("mark", _) => "ssfssss",
        // The policy is not known, or not believed, without the files beside it.
        ("account.json" | "policy", _) => "ppuppsf",
        // It is not even known whose store it is.
        _ => "",
    }
}
