//! The contract of bodies as a suite that any implementation runs. It panics at the first breach.

use std::collections::BTreeMap;

use countersign_verifier::hash::{Hash, sha256};

use super::BlobStore;

/// Opens a fresh, empty store.
pub type Fresh<'a> = &'a dyn Fn() -> Box<dyn BlobStore>;

/// Runs every rule of the contract.
///
/// # Panics
/// At the first rule that the store breaks.
pub fn run(fresh: Fresh<'_>) {
    an_empty_store_is_empty(&*fresh());
    a_body_is_read_as_it_was_kept(&*fresh());
    what_was_not_kept_is_nowhere(&*fresh());
    one_name_has_one_body(&*fresh());
    what_was_erased_is_gone(&*fresh());
    racing_writers_have_one_winner(&*fresh());
}

fn name(text: &str) -> Hash {
    sha256(text.as_bytes())
}

/// Keeps a body; whether it is new.
///
/// # Panics
/// If the store fails.
pub fn keep(store: &dyn BlobStore, name: &Hash, about: &[u8], pieces: &[&[u8]]) -> bool {
    let mut coming = store.begin(about).expect("begin");
    for piece in pieces {
        coming.write(piece).expect("write");
    }
    coming.keep(name).expect("keep")
}

/// What is said of a body, and the body.
///
/// # Panics
/// If the store fails.
#[must_use]
pub fn read(store: &dyn BlobStore, name: &Hash) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut going = store.open(name).expect("open")?;
    let (mut body, mut piece) = (Vec::new(), [0; 1_000]);
    loop {
        match going.read(&mut piece).expect("read") {
            0 => break,
            n => body.extend_from_slice(&piece[..n]),
        }
    }
    assert_eq!(going.bytes(), body.len() as u64);
    Some((going.about().to_vec(), body))
}

fn all(store: &dyn BlobStore) -> BTreeMap<Hash, (Vec<u8>, u64)> {
    let mut all = BTreeMap::new();
    let mut see = |name, about: &[u8], bytes| {
        let before = all.insert(name, (about.to_vec(), bytes));
        assert!(before.is_none(), "shown twice");
    };
    store.each(&mut see).expect("each");
    all
}

fn an_empty_store_is_empty(store: &dyn BlobStore) {
    let a = name("a");
    assert_eq!(read(store, &a), None);
    assert_eq!((store.has(&a), store.erase(&a)), (Ok(false), Ok(false)));
    assert!(all(store).is_empty());
}

fn a_body_is_read_as_it_was_kept(store: &dyn BlobStore) {
    let large: Vec<u8> = (0..300_001u32).map(|n| n.to_le_bytes()[0]).collect();
    let pieces: Vec<&[u8]> = large.chunks(70_000).collect();
    assert!(keep(store, &name("large"), b"about it", &pieces));
    assert!(keep(store, &name("empty"), b"", &[]));
    assert_eq!(
        read(store, &name("large")),
        Some((b"about it".to_vec(), large))
    );
    assert_eq!(read(store, &name("empty")), Some((vec![], vec![])));
    assert_eq!(store.has(&name("empty")), Ok(true));
    let expected = BTreeMap::from([
        (name("large"), (b"about it".to_vec(), 300_001)),
        (name("empty"), (vec![], 0)),
    ]);
    assert_eq!(all(store), expected);
}

fn what_was_not_kept_is_nowhere(store: &dyn BlobStore) {
    let mut coming = store.begin(b"about").expect("begin");
    coming.write(b"half").expect("write");
    assert!(all(store).is_empty(), "not before it is kept");
    drop(coming);
    assert!(all(store).is_empty());
}

fn one_name_has_one_body(store: &dyn BlobStore) {
    let a = name("a");
    assert!(keep(store, &a, b"first", &[b"body"]));
    assert!(!keep(store, &a, b"second", &[b"body"]));
    assert_eq!(read(store, &a), Some((b"first".to_vec(), b"body".to_vec())));
    assert_eq!(all(store).len(), 1);
}

fn what_was_erased_is_gone(store: &dyn BlobStore) {
    let (a, b) = (name("a"), name("b"));
    keep(store, &a, b"", &[b"one"]);
    keep(store, &b, b"", &[b"two"]);
    assert_eq!(store.erase(&a), Ok(true));
    assert_eq!((store.has(&a), read(store, &a)), (Ok(false), None));
    assert_eq!(store.erase(&a), Ok(false));
    assert_eq!(read(store, &b), Some((vec![], b"two".to_vec())));
    // Whether it may come back is not for the store to say.
    assert!(keep(store, &a, b"", &[b"one"]));
}

fn racing_writers_have_one_winner(store: &dyn BlobStore) {
    let wins = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for n in 0..8u8 {
            let wins = &wins;
            scope.spawn(move || {
                if keep(store, &name("a"), &[n], &[b"body"]) {
                    wins.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!(wins.into_inner(), 1);
    assert_eq!(all(store).len(), 1);
}
