//! The storage contract as a suite that any implementation runs: `suite::run(&|| open a fresh store)`.
//!
//! Public so that a store made elsewhere can be held to the same contract. It panics at the first breach.

use countersign_verifier::checkpoint::{Checkpoint, origin_hash};
use countersign_verifier::hash::{EMPTY_ROOT, Hash, sha256};

use super::{Change, Store, StoreError};
use crate::record::Record;
use crate::tally::Tally;

/// Opens a fresh, empty store.
pub type Fresh<'a> = &'a dyn Fn() -> Box<dyn Store>;

/// Runs every rule of the contract.
///
/// # Panics
/// At the first rule that the store breaks.
pub fn run(fresh: Fresh<'_>) {
    an_empty_store_is_empty(&*fresh());
    a_change_takes_the_place_of_what_it_expects(&*fresh());
    changes_are_stored_all_or_none(&*fresh());
    racing_writers_have_one_winner(&*fresh());
    entries_and_tallies_are_found_again(&*fresh());
    a_reload_shows_what_was_committed(&*fresh());
}

/// A log and a record of it with this size.
#[must_use]
pub fn record(size: u64) -> (Hash, Record) {
    record_of("suite.example/log", size)
}

/// A record of the log of this origin.
#[must_use]
pub fn record_of(origin: &str, size: u64) -> (Hash, Record) {
    let record = Record {
        time: 1_764_000_000 + size,
        checkpoint: Checkpoint {
            origin: origin.into(),
            size,
            root: match size {
                0 => EMPTY_ROOT,
                size => sha256(&size.to_be_bytes()),
            },
            extensions: Vec::new(),
        },
        lines: "\u{2014} suite.example/log AAAAAAE=\n\u{2014} w AAAAAAI=\n".into(),
    };
    (origin_hash(origin), record)
}

/// A change from one record to another.
#[must_use]
pub fn change(log: Hash, expected: Option<&Record>, next: &Record) -> Change {
    Change {
        log,
        expected: expected.cloned(),
        next: next.clone(),
    }
}

fn an_empty_store_is_empty(store: &dyn Store) {
    let log = record(1).0;
    assert_eq!(store.record(&log), Ok(None));
    assert_eq!(store.entry(&log), Ok(None));
    assert_eq!(store.entries(None, 10), Ok(vec![]));
    assert_eq!(store.tally(&log), Ok(Tally::default()));
    assert_eq!(store.commit(&[]), Ok(()));
}

fn a_change_takes_the_place_of_what_it_expects(store: &dyn Store) {
    let (log, first) = record(1);
    let second = record(2).1;
    let conflict = Err(StoreError::Conflict { log });
    assert_eq!(
        store.commit(&[change(log, Some(&first), &second)]),
        conflict,
        "nothing is stored yet"
    );
    assert_eq!(store.commit(&[change(log, None, &first)]), Ok(()));
    assert_eq!(store.record(&log), Ok(Some(first.clone())));
    assert_eq!(store.commit(&[change(log, None, &second)]), conflict);
    let mut retimed = first.clone();
    retimed.time += 1;
    assert_eq!(
        store.commit(&[change(log, Some(&retimed), &second)]),
        conflict,
        "a size and a root are no record"
    );
    assert_eq!(store.commit(&[change(log, Some(&first), &second)]), Ok(()));
    assert_eq!(store.record(&log), Ok(Some(second)));
}

fn changes_are_stored_all_or_none(store: &dyn Store) {
    let logs: Vec<(Hash, Record)> = (0..50)
        .map(|n| record_of(&format!("suite.example/{n}"), n))
        .collect();
    let all: Vec<Change> = logs.iter().map(|(log, r)| change(*log, None, r)).collect();
    assert_eq!(store.commit(&all), Ok(()));
    let mut again: Vec<Change> = logs
        .iter()
        .map(|(log, r)| {
            let mut next = r.clone();
            next.time += 5;
            change(*log, Some(r), &next)
        })
        .collect();
    again[49].expected = None;
    let refused = store.commit(&again);
    assert_eq!(refused, Err(StoreError::Conflict { log: logs[49].0 }));
    for (log, record) in &logs {
        assert_eq!(store.record(log), Ok(Some(record.clone())));
    }
}

fn racing_writers_have_one_winner(store: &dyn Store) {
    let wins = std::sync::atomic::AtomicUsize::new(0);
    let (log, first) = record(0);
    store.commit(&[change(log, None, &first)]).expect("first");
    std::thread::scope(|scope| {
        for n in 1..9 {
            let (wins, first) = (&wins, &first);
            scope.spawn(move || {
                let next = record(n).1;
                if store.commit(&[change(log, Some(first), &next)]).is_ok() {
                    wins.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!(wins.into_inner(), 1);
}

fn entries_and_tallies_are_found_again(store: &dyn Store) {
    let mut entries: Vec<(Hash, Vec<u8>)> = (0..7u8)
        .map(|n| (sha256(&[n]), format!("entry {n}").into_bytes()))
        .collect();
    assert_eq!(store.put_entries(&entries), Ok(()));
    entries.sort();
    assert_eq!(store.entry(&entries[3].0), Ok(Some(entries[3].1.clone())));
    assert_eq!(store.entries(None, 3), Ok(entries[..3].to_vec()));
    let behind = store.entries(Some(&entries[2].0), 100);
    assert_eq!(behind, Ok(entries[3..].to_vec()));
    assert_eq!(store.entries(Some(&entries[6].0), 100), Ok(vec![]));
    let tally = Tally {
        day: 20_000,
        requests: 5,
        refusals: 2,
    };
    assert_eq!(store.put_tallies(&[(entries[0].0, tally)]), Ok(()));
    assert_eq!(store.tally(&entries[0].0), Ok(tally));
    assert_eq!(
        store.record(&entries[0].0),
        Ok(None),
        "name spaces are apart"
    );
}

fn a_reload_shows_what_was_committed(store: &dyn Store) {
    let (log, first) = record(1);
    store.commit(&[change(log, None, &first)]).expect("commit");
    store
        .put_entries(&[(log, b"e".to_vec())])
        .expect("an entry");
    store.reload().expect("reload");
    assert_eq!(store.record(&log), Ok(Some(first)));
    assert_eq!(store.entry(&log), Ok(Some(b"e".to_vec())));
}
