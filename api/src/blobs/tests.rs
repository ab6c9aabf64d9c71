use countersign_log::store::blobs::memory::MemoryBlobs;
use countersign_verifier::blob::commitment;
use proptest::prelude::*;

use super::*;

const SALT: [u8; 32] = [7; 32];

fn id(n: u8) -> IdentityId {
    format!("id_{}", format!("{n:02x}").repeat(32))
        .parse()
        .unwrap()
}

fn limits() -> config::Blobs {
    config::Blobs {
        identity_bytes: 100,
        identity_count: 3,
        account_bytes: 150,
        account_count: 4,
        identity_uploads: 2,
        free_bytes_min: 0,
        ..config::Blobs::default()
    }
}

fn fresh() -> (Arc<Blobs>, MemoryBlobs) {
    let store = MemoryBlobs::new();
    (Arc::new(Blobs::new(Box::new(store.clone()))), store)
}

fn about(by: IdentityId) -> About {
    About::new(&SALT, "text/plain".into(), by)
}

fn put(
    blobs: &Arc<Blobs>,
    by: IdentityId,
    body: &[u8],
    stated: Option<u64>,
) -> Result<Kept, Problem> {
    let mut upload = blobs.begin(&about(by), by, &limits(), (stated, false))?;
    for piece in body.chunks(7) {
        upload.write(piece)?;
    }
    assert_eq!(upload.commitment(), commitment(&SALT, body));
    upload.keep()
}

fn get(blobs: &Blobs, body: &[u8]) -> Option<Vec<u8>> {
    let mut found = blobs.get(&commitment(&SALT, body)).unwrap()?;
    let mut all = Vec::new();
    loop {
        match found.next(5).unwrap() {
            piece if piece.is_empty() => return Some(all),
            piece => all.extend(piece),
        }
    }
}

fn limit_of(refused: Result<Kept, Problem>) -> (Code, String) {
    let problem = refused.unwrap_err();
    let limit = problem.detail.get("limit").map(ToString::to_string);
    (problem.code, limit.unwrap_or_default())
}

fn erased(state: &mut crate::state::State, body: &[u8]) {
    // As a leaf does: through a snapshot's rows, which are the only other way into it.
    let mut form: serde_json::Value = serde_json::from_slice(&state.to_snapshot()).unwrap();
    let rows = form["erased"].as_array_mut().unwrap();
    let index = rows.len() as u64 + 1;
    rows.push(serde_json::json!([commitment(&SALT, body).to_hex(), index]));
    *state = crate::state::State::from_snapshot(form.to_string().as_bytes()).unwrap();
}

#[test]
fn a_body_comes_back_as_it_came_with_what_was_said_of_it() {
    let (blobs, _) = fresh();
    let kept = put(&blobs, id(1), b"twelve bytes", None).unwrap();
    assert_eq!(
        kept,
        Kept {
            bytes: 12,
            new: true
        }
    );
    assert_eq!(get(&blobs, b"twelve bytes").unwrap(), b"twelve bytes");
    let found = blobs
        .get(&commitment(&SALT, b"twelve bytes"))
        .unwrap()
        .unwrap();
    assert_eq!((found.about.clone(), found.bytes()), (about(id(1)), 12));
    assert!(!put(&blobs, id(2), b"twelve bytes", None).unwrap().new);
    assert_eq!(get(&blobs, b"another"), None);
    assert_eq!(put(&blobs, id(1), b"", None).unwrap().bytes, 0);
    assert_eq!(get(&blobs, b"").unwrap(), b"");
}

#[test]
fn quotas_are_named_and_what_goes_or_never_came_takes_nothing() {
    let (blobs, _) = fresh();
    let put = |by, body: &[u8], stated| put(&blobs, id(by), body, stated);
    put(1, &[1; 60], None).unwrap();
    // Refused when it is announced, and when it turns out to be longer than that.
    for stated in [Some(41), None, Some(3)] {
        let refused = limit_of(put(1, &[2; 41], stated));
        assert_eq!(
            refused,
            (Code::QuotaReached, "\"blob_identity_bytes_max\"".into())
        );
    }
    // Announced longer than it is: the rest is given back.
    put(1, &[3; 20], Some(40)).unwrap();
    put(1, &[4; 20], Some(20)).unwrap();
    assert_eq!(limit_of(put(1, b"", None)).1, "\"blob_identity_count_max\"");
    assert_eq!(
        limit_of(put(2, &[5; 51], None)).1,
        "\"blob_account_bytes_max\""
    );
    put(2, &[5; 50], None).unwrap();
    assert_eq!(limit_of(put(3, b"", None)).1, "\"blob_account_count_max\"");
    // The same again takes nothing where it is known, and is answered.
    let mut again = blobs
        .begin(&about(id(1)), id(1), &limits(), (Some(60), true))
        .unwrap();
    again.write(&[1; 60]).unwrap();
    assert!(!again.keep().unwrap().new);
    assert!(blobs.erase(&commitment(&SALT, &[1; 60])).unwrap());
    put(1, &[6; 60], None).unwrap();
    // Counted from what is there, it is as it was counted while it came.
    let again = Arc::new(Blobs::new(Box::new(blobs_of(&blobs))));
    assert_eq!(
        limit_of(super::tests::put(&again, id(1), b"", None)).1,
        "\"blob_identity_count_max\""
    );
}

/// A store with the same bodies.
fn blobs_of(blobs: &Blobs) -> MemoryBlobs {
    let copy = MemoryBlobs::new();
    let mut names = Vec::new();
    blobs
        .store
        .each(&mut |name, _, _| names.push(name))
        .unwrap();
    for name in names {
        let mut from = blobs.store.open(&name).unwrap().unwrap();
        let mut to = copy.begin(from.about()).unwrap();
        let mut piece = [0; 64];
        while let n @ 1.. = from.read(&mut piece).unwrap() {
            to.write(&piece[..n]).unwrap();
        }
        to.keep(&name).unwrap();
    }
    copy
}

#[test]
fn one_identity_has_a_part_of_what_comes_in() {
    let (blobs, _) = fresh();
    let begin = |by| blobs.begin(&about(id(by)), id(by), &limits(), (None, false));
    let one = begin(1).unwrap();
    let _two = begin(1).unwrap();
    assert_eq!(begin(1).err().unwrap().code, Code::RateLimited);
    let _another = begin(2).unwrap();
    drop(one);
    assert!(begin(1).is_ok());
}

#[test]
fn a_full_disk_is_said_and_loses_nothing() {
    let (blobs, store) = fresh();
    put(&blobs, id(1), b"kept", None).unwrap();
    store.set_room(10);
    let refused = put(&blobs, id(1), &[1; 20], None).unwrap_err();
    assert_eq!(
        (refused.code, refused.retry_after_ms),
        (Code::Busy, Some(5_000))
    );
    assert!(refused.message.contains("disk"), "{}", refused.message);
    let refused = put(&blobs, id(1), &[1; 20], Some(20)).unwrap_err();
    assert_eq!(refused.code, Code::Busy);
    assert_eq!(get(&blobs, b"kept").unwrap(), b"kept");
    store.set_room(1_000);
    assert!(
        put(&blobs, id(1), &[1; 90], None).is_ok(),
        "and nothing of a quota is lost"
    );
}

#[test]
fn one_byte_more_than_a_body_may_have_is_refused() {
    let (blobs, _) = fresh();
    let limits = config::Blobs {
        free_bytes_min: 0,
        ..config::Blobs::default()
    };
    let by = id(1);
    let mut upload = blobs.begin(&about(by), by, &limits, (None, false)).unwrap();
    let megabyte = vec![0; 1 << 20];
    for _ in 0..16 {
        upload.write(&megabyte).unwrap();
    }
    let refused = upload.write(b"x").unwrap_err();
    assert_eq!(
        (refused.code, &refused.detail["limit"]),
        (Code::TooLarge, &16_777_216.into())
    );
    assert_eq!(upload.keep().unwrap().bytes, BLOB_BYTES_MAX);
}

#[test]
fn what_leaves_erased_goes_and_what_cannot_go_now_goes_later() {
    let (blobs, store) = fresh();
    let mut state = crate::state::State::default();
    for body in [b"one", b"two", b"six"] {
        put(&blobs, id(1), body, None).unwrap();
    }
    erased(&mut state, b"one");
    erased(&mut state, b"nowhere");
    blobs.erase_owed(&state.erased);
    assert_eq!(
        (get(&blobs, b"one"), get(&blobs, b"two").is_some()),
        (None, true)
    );
    store.set_stuck(true);
    erased(&mut state, b"two");
    blobs.erase_owed(&state.erased);
    assert!(get(&blobs, b"two").is_some(), "it is stuck");
    store.set_stuck(false);
    blobs.erase_owed(&state.erased);
    assert_eq!(get(&blobs, b"two"), None);
    // Put back behind its back, as a restored folder does: gone again when the account is opened.
    put(&blobs, id(1), b"one", None).unwrap();
    blobs.erase_owed(&state.erased);
    assert!(get(&blobs, b"one").is_some(), "nothing new is owed");
    let opened = Blobs::new(Box::new(store));
    opened.erase_owed(&state.erased);
    assert_eq!(
        (get(&opened, b"one"), get(&opened, b"six").is_some()),
        (None, true)
    );
}

#[test]
fn other_bytes_than_were_kept_are_never_given_out_to_the_end() {
    let store = MemoryBlobs::new();
    let name = commitment(&SALT, b"as it was");
    let mut coming = store.begin(&encode(&about(id(1)))).unwrap();
    coming.write(b"as it isn").unwrap();
    coming.keep(&name).unwrap();
    let mut found = Blobs::new(Box::new(store)).get(&name).unwrap().unwrap();
    assert_eq!(found.next(5).unwrap(), b"as it");
    assert!(matches!(found.next(5), Err(StoreError::Damaged { .. })));
}

#[test]
fn whoever_looks_finds_what_is_changed_and_what_should_be_gone_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let blobs = Arc::new(Blobs::open(dir.path()).unwrap());
    let mut state = crate::state::State::default();
    let found = |state: &crate::state::State| {
        let mut faults = Vec::new();
        let count = look(dir.path(), &state.erased, &mut |what| faults.push(what)).unwrap();
        (count, faults)
    };
    assert_eq!(found(&state), (0, vec![]));
    for body in [&b"one"[..], b"two", b""] {
        put(&blobs, id(1), body, None).unwrap();
    }
    assert_eq!(found(&state), (3, vec![]));
    erased(&mut state, b"one");
    let name = commitment(&SALT, b"two").to_hex();
    let path = dir.path().join(&name[..2]).join(&name);
    let mut bytes = std::fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let (count, mut faults) = found(&state);
    faults.sort_by_key(|fault| fault.contains("erased"));
    assert_eq!((count, faults.len()), (3, 2), "{faults:?}");
    assert!(
        faults[0].contains("other bytes than were kept"),
        "{faults:?}"
    );
    assert!(faults[1].contains("leaf 1 erased it"), "{faults:?}");
    assert_eq!(found(&state).0, 3);
}

proptest! {
    /// Whoever keeps, gives up and erases in whatever order: the count is that of what is there.
    #[test]
    fn the_count_is_that_of_what_is_there(steps in prop::collection::vec((0u8..3, 1u8..3, 0u8..6, any::<bool>()), 0..60)) {
        let (blobs, _) = fresh();
        for (what, by, n, stated) in steps {
            let body = vec![n; usize::from(n) * 9];
            let stated = stated.then_some(body.len() as u64);
            match what {
                0 => drop(put(&blobs, id(by), &body, stated)),
                1 => drop(blobs.begin(&about(id(by)), id(by), &limits(), (stated, false))),
                _ => drop(blobs.erase(&commitment(&SALT, &body))),
            }
        }
        let mut there = (0, 0);
        blobs.store.each(&mut |_, _, bytes| there = (there.0 + bytes, there.1 + 1)).unwrap();
        if let Some(usage) = &*blobs.usage() {
            prop_assert_eq!(usage.total(), there);
        }
        prop_assert!(there.0 <= limits().account_bytes && there.1 <= limits().account_count);
    }
}
