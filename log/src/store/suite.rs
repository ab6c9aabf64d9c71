//! The storage contract as a suite that any implementation runs: `suite::run(&|| open a fresh store)`.
//!
//! Public so that a store made elsewhere can be held to the same contract. It panics at the first breach.

use countersign_verifier::hash::{Hash, leaf_hash, sha256};

use super::{Growth, Head, Kept, Snapshot, Stage, Store, StoreError};
use crate::{grow::Edge, judge::Key};

/// Opens a fresh, empty store.
pub type Fresh<'a> = &'a dyn Fn() -> Box<dyn Store>;

/// Runs every rule of the contract.
///
/// # Panics
/// At the first rule that the store breaks.
pub fn run(fresh: Fresh<'_>) {
    an_empty_store_is_empty(&*fresh());
    a_commit_is_seen_whole(&*fresh());
    a_commit_follows_the_head_it_names(&*fresh());
    keys_find_what_they_were_stored_with(&*fresh());
    checkpoints_are_kept_by_stage(&*fresh());
    leaves_can_be_published_with_their_commit(&*fresh());
    a_snapshot_is_the_newest(&*fresh());
    a_reload_shows_what_was_committed(&*fresh());
    entries_cross_tiles(&*fresh());
    racing_writers_have_one_winner(&*fresh());
}

/// A growth of `leaves` after `previous`, which must be empty or made by this function with leaves whose tree is rebuilt here
/// from nothing: good for first commits.
#[must_use]
pub fn growth(previous: &Head, leaves: &[&[u8]]) -> Growth {
    assert_eq!(previous.size, 0, "suite::growth starts a log");
    grow(&mut Edge::default(), leaves)
}

/// A growth of `leaves` onto `edge`, which moves on.
pub(super) fn grow(edge: &mut Edge, leaves: &[&[u8]]) -> Growth {
    let mut tiles = Vec::new();
    for leaf in leaves {
        edge.push(leaf_hash(leaf), &mut tiles);
    }
    Growth {
        entries: leaves.iter().map(|l| l.to_vec()).collect(),
        tiles,
        unique: Vec::new(),
        postings: Vec::new(),
        head: edge.head(),
        at: 1_000 + edge.size(),
        published: None,
    }
}

fn key(space: u8, name: &str) -> Key {
    Key::new(space, &sha256(name.as_bytes()))
}

fn an_empty_store_is_empty(store: &dyn Store) {
    assert_eq!(store.head(), Ok((Head::EMPTY, 0)));
    assert_eq!(store.entry(0), Ok(None));
    assert_eq!(store.entries(0, 10), Ok(vec![]));
    assert_eq!(store.tile(0, 0), Ok(None));
    assert_eq!(store.find(&key(0, "a")), Ok(None));
    assert_eq!(store.postings(&key(1, "a"), None, 10), Ok(vec![]));
    assert_eq!(
        (store.published(), store.signed(), store.snapshot()),
        (Ok(None), Ok(vec![]), Ok(None))
    );
}

fn a_commit_is_seen_whole(store: &dyn Store) {
    let first = growth(&Head::EMPTY, &[b"a", b"", b"c"]);
    store.commit(&Head::EMPTY, &first).expect("first commit");
    assert_eq!(store.head(), Ok((first.head, first.at)));
    assert_eq!(
        store.entry(1),
        Ok(Some(vec![])),
        "a leaf of no bytes is a leaf"
    );
    assert_eq!(store.entry(2), Ok(Some(b"c".to_vec())));
    assert_eq!(store.entry(3), Ok(None));
    assert_eq!(store.entries(1, 5), Ok(vec![vec![], b"c".to_vec()]));
    assert_eq!(
        store.tile(0, 0),
        Ok(None),
        "an unfinished tile is not stored"
    );
}

fn a_commit_follows_the_head_it_names(store: &dyn Store) {
    let first = growth(&Head::EMPTY, &[b"a"]);
    store.commit(&Head::EMPTY, &first).expect("first commit");
    let rival = growth(&Head::EMPTY, &[b"x", b"y"]);
    let conflict = StoreError::Conflict {
        expected: Head::EMPTY,
        found: first.head,
    };
    assert_eq!(store.commit(&Head::EMPTY, &rival), Err(conflict));
    let other_root = Head {
        size: 1,
        root: Hash([7; 32]),
    };
    assert!(
        matches!(
            store.commit(&other_root, &rival),
            Err(StoreError::Conflict { .. })
        ),
        "a size alone is no head"
    );
    assert_eq!(store.entry(0), Ok(Some(b"a".to_vec())));
    assert_eq!(
        store.entry(1),
        Ok(None),
        "nothing of the refused commit is kept"
    );
}

fn keys_find_what_they_were_stored_with(store: &dyn Store) {
    let mut g = growth(&Head::EMPTY, &[b"a", b"b", b"c"]);
    g.unique = vec![
        (key(0, "a"), 0),
        (key(2, "a"), 1),
        (key(0, "twice"), 0),
        (key(0, "twice"), 2),
    ];
    g.postings = vec![
        (key(1, "p"), 0),
        (key(1, "p"), 2),
        (key(1, "q"), 1),
        (key(2, "p"), 1),
    ];
    store.commit(&Head::EMPTY, &g).expect("commit");
    assert_eq!(store.find(&key(0, "a")), Ok(Some(0)));
    assert_eq!(
        store.find(&key(2, "a")),
        Ok(Some(1)),
        "name spaces are apart"
    );
    assert_eq!(
        store.find(&key(1, "p")),
        Ok(None),
        "postings are no unique keys"
    );
    assert_eq!(
        store.find(&key(0, "twice")),
        Ok(Some(2)),
        "a later one replaces an earlier one"
    );
    assert_eq!(store.postings(&key(1, "p"), None, 10), Ok(vec![0, 2]));
    assert_eq!(store.postings(&key(1, "p"), None, 1), Ok(vec![0]));
    assert_eq!(store.postings(&key(1, "p"), Some(0), 10), Ok(vec![2]));
    assert_eq!(store.postings(&key(1, "p"), Some(u64::MAX), 10), Ok(vec![]));
    assert_eq!(store.postings(&key(1, "q"), None, 10), Ok(vec![1]));
}

pub(super) fn kept_at(size: u64) -> Kept {
    Kept {
        head: Head {
            size,
            root: sha256(&size.to_be_bytes()),
        },
        note: format!("note {size}\n"),
    }
}

fn checkpoints_are_kept_by_stage(store: &dyn Store) {
    // As many leaves as the largest names: a store that ends before its mark does not open again.
    let leaves: [&[u8]; 9] = [b"leaf"; 9];
    store
        .commit(&Head::EMPTY, &growth(&Head::EMPTY, &leaves))
        .expect("commit");
    let kept = kept_at;
    for size in [5, 7, 9] {
        let stage = Stage::Signed { replaces: None };
        store.keep(stage, &kept(size)).expect("keep signed");
    }
    let stage = Stage::Signed { replaces: Some(5) };
    store.keep(stage, &kept(6)).expect("keep signed");
    assert_eq!(store.signed(), Ok(vec![kept(6), kept(7), kept(9)]));
    assert_eq!(store.published(), Ok(None));
    store
        .keep(Stage::Published, &kept(7))
        .expect("keep published");
    assert_eq!(store.published(), Ok(Some(kept(7))));
    assert_eq!(
        store.signed(),
        Ok(vec![kept(9)]),
        "what a published one overtakes is forgotten"
    );
    store.reload().expect("reload");
    assert_eq!(
        (store.published(), store.signed()),
        (Ok(Some(kept(7))), Ok(vec![kept(9)]))
    );
    assert_eq!(store.tidemark(), Ok(Some(kept(7).head)));
    store
        .keep(Stage::Published, &kept(9))
        .expect("keep published");
    assert_eq!(
        (store.signed(), store.tidemark()),
        (Ok(vec![]), Ok(Some(kept(9).head)))
    );
}

fn leaves_can_be_published_with_their_commit(store: &dyn Store) {
    let mut edge = Edge::default();
    let mut with_note = |leaf: &[u8]| {
        let mut growth = grow(&mut edge, &[leaf]);
        growth.published = Some(Kept {
            head: growth.head,
            note: format!("note {}\n", growth.head.size),
        });
        growth
    };
    let one = with_note(b"a");
    store.commit(&Head::EMPTY, &one).expect("commit");
    assert_eq!(
        (store.published(), store.tidemark()),
        (Ok(one.published.clone()), Ok(None)),
        "kept with its leaves, and not marked by it"
    );
    store.mark(&one.head).expect("mark");
    let two = with_note(b"b");
    assert!(store.commit(&Head::EMPTY, &two).is_err());
    assert_eq!(
        store.published(),
        Ok(one.published),
        "nothing of a commit that was refused"
    );
    store.commit(&one.head, &two).expect("commit");
    store.settle().expect("settle");
    store.reload().expect("reload");
    assert_eq!(
        (store.published(), store.tidemark()),
        (Ok(two.published), Ok(Some(one.head)))
    );
    assert_eq!(store.ahead(), Ok(None));
    let beyond = kept_at(9);
    store.keep_ahead(&beyond).expect("keep");
    store.reload().expect("reload");
    assert_eq!(store.ahead(), Ok(Some(beyond)));
    store.mark(&two.head).expect("mark");
    store.mark(&one.head).expect("mark");
    assert_eq!(store.tidemark(), Ok(Some(two.head)), "it is never lowered");
}

fn a_snapshot_is_the_newest(store: &dyn Store) {
    let mut edge = Edge::default();
    let mut head = Head::EMPTY;
    let mut commit = |leaf: &[u8]| {
        let g = grow(&mut edge, &[leaf]);
        store.commit(&head, &g).expect("commit");
        head = g.head;
    };
    let keep = |size, bytes: &[u8]| {
        let bytes = bytes.to_vec();
        let snapshot = Snapshot { size, bytes };
        store.keep_snapshot(&snapshot).expect("kept");
        snapshot
    };
    commit(b"a");
    assert_eq!(store.snapshot(), Ok(None));
    let one = keep(1, b"one");
    commit(b"b");
    assert_eq!(
        store.snapshot(),
        Ok(Some(one)),
        "a commit keeps the one before"
    );
    // Of several MiB, and then a shorter one: nothing of the longer is left in it.
    let long: Vec<u8> = (0..5_000_000_u32).map(|n| (n % 251) as u8).collect();
    let two = keep(2, &long);
    assert_eq!(store.snapshot(), Ok(Some(two)));
    let shorter = keep(2, b"two");
    assert_eq!(store.snapshot(), Ok(Some(shorter.clone())));
    store.reload().expect("reload");
    assert_eq!(store.snapshot(), Ok(Some(shorter)));
}

fn a_reload_shows_what_was_committed(store: &dyn Store) {
    let mut g = growth(&Head::EMPTY, &[b"a", b"b"]);
    g.unique = vec![(key(0, "a"), 0)];
    store.commit(&Head::EMPTY, &g).expect("commit");
    store.reload().expect("reload");
    assert_eq!(store.head(), Ok((g.head, g.at)));
    assert_eq!(store.entries(0, 9), Ok(g.entries.clone()));
    assert_eq!(store.find(&key(0, "a")), Ok(Some(0)));
}

fn entries_cross_tiles(store: &dyn Store) {
    let mut edge = Edge::default();
    let leaves: Vec<Vec<u8>> = (0..600u32).map(|n| n.to_be_bytes().to_vec()).collect();
    let mut head = Head::EMPTY;
    for chunk in leaves.chunks(97) {
        let chunk: Vec<&[u8]> = chunk.iter().map(Vec::as_slice).collect();
        let g = grow(&mut edge, &chunk);
        store.commit(&head, &g).expect("commit");
        head = g.head;
    }
    assert_eq!(store.entries(250, 20), Ok(leaves[250..270].to_vec()));
    for index in 0..2 {
        let tile = store.tile(0, index).unwrap().expect("a full tile");
        assert_eq!(tile.len(), 8_192);
        let first = usize::try_from(index).unwrap() * 256;
        assert_eq!(tile[..32], leaf_hash(&leaves[first]).0);
    }
    assert_eq!(store.tile(0, 2), Ok(None));
    assert_eq!(store.tile(1, 0), Ok(None));
}

fn racing_writers_have_one_winner(store: &dyn Store) {
    let wins = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for n in 0..8u8 {
            let wins = &wins;
            scope.spawn(move || {
                let leaf = [n];
                let g = growth(&Head::EMPTY, &[&leaf]);
                if store.commit(&Head::EMPTY, &g).is_ok() {
                    wins.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!(wins.into_inner(), 1);
    assert_eq!(store.head().unwrap().0.size, 1);
}
