//! An account's directory in which one thing is not what it must be: its class is named.

mod damage;

use std::{fs, path::Path};

use countersign_log::{
    Key,
    store::{Growth, Head, Snapshot, Store},
};
use countersign_verifier::{
    base64,
    hash::sha256,
    key::{Algorithm, PrivateKey},
    verdict::Outcome as Verdict,
};
use serde_json::{Value, json};

use super::*;
use crate::{
    account::{
        Account,
        tests::rig::{self, done, shared},
    },
    data_dir::DataDir,
    ledger::space,
    state::State,
};

struct Rig {
    dir: DataDir,
    home: tempfile::TempDir,
}

impl Rig {
    /// An account of 300 receipts, an item and two operations that ask for one name.
    fn new() -> Rig {
        let (home, dir) = rig::development();
        let rig = Rig { dir, home };
        let (account, owner) = (rig.account(), rig::owner(&rig.dir));
        for (n, arguments) in [enrol(1), enrol(2)].into_iter().enumerate() {
            let asked = ("identity_enroll", arguments);
            done(&account, vec![rig::operation(&account, &owner, asked, n)]);
        }
        done(&account, rig::receipts(&account, &owner, 300));
        account.log.close();
        drop(account);
        // What was published last is marked.
        rig.account().log.close();
        rig
    }

    fn account(&self) -> Account {
        rig::open(&self.dir)
    }

    fn check(&self, live: Option<Live>) -> Report {
        self.planned(live, |plan| run(plan).unwrap())
    }

    fn planned<T>(&self, live: Option<Live>, what: impl FnOnce(&Plan<'_>) -> T) -> T {
        let files = self.dir.account("dev");
        what(&Plan {
            files: &files,
            store: (&files.db(), &files.tidemark()),
            live,
            keys_elsewhere: false,
            now_s: None,
            progress: &|_, _| {},
        })
    }

    /// Holds, and what is said of the state.
    fn holds(&self, live: Option<Live>) -> String {
        let report = self.check(live);
        assert_eq!(report.outcome(), Verdict::Holds, "{report:#?}");
        let state = report.checks.iter().find(|check| check.name == "state");
        state.unwrap().detail.clone()
    }

    /// There are faults of this class alone, and one of them says this of this leaf.
    fn has(&self, class: Class, index: Option<u64>, word: &str) {
        let report = self.check(None);
        assert_eq!(report.outcome(), Verdict::DoesNotHold, "{word}");
        let said = report.faults.iter();
        let is = |f: &&Fault| f.class == class && f.index == index && f.what.contains(word);
        assert!(said.clone().any(|f| is(&f)), "{word}: {:#?}", report.faults);
        assert!(
            said.clone().all(|f| f.class == class),
            "{:#?}",
            report.faults
        );
        let named = report.to_json("dev");
        assert_eq!(named["faults"][0]["class"], class.name());
        assert!(report.to_lines("dev").contains("does not hold"));
    }

    fn store(&self) -> RocksStore {
        let files = self.dir.account("dev");
        RocksStore::open(&files.db(), &files.tidemark(), &shared()).unwrap()
    }

    /// Writes into the store what its writer never would.
    fn spoil(&self, change: impl FnOnce(&RocksStore, &mut Growth)) {
        let store = self.store();
        let (head, at) = store.head().unwrap();
        let mut growth = nothing(head, at);
        change(&store, &mut growth);
        store.commit(&head, &growth).unwrap();
    }
}

use super::super::report::Fault;

fn nothing(head: Head, at: u64) -> Growth {
    Growth {
        entries: Vec::new(),
        tiles: Vec::new(),
        unique: Vec::new(),
        postings: Vec::new(),
        head,
        at,
        published: None,
    }
}

fn enrol(n: u8) -> Value {
    let key = PrivateKey::from_secret(Algorithm::Ed25519, &[n; 32]).unwrap();
    json!({"name": "worker", "public_key": base64::encode(&key.public().spki_der())})
}

#[test]
fn a_sound_directory_holds_and_so_does_what_a_service_says_of_it() {
    let rig = Rig::new();
    let said = rig.holds(None);
    assert!(
        said.contains("2 decisions") || said.contains("303 decisions"),
        "{said}"
    );
    let (size, state) = {
        let account = rig.account();
        let state = account.reader().version();
        account.log.close();
        (state.size, state)
    };
    let sha256 = sha256(&state.to_snapshot()).to_hex();
    let said = rig.holds(Some(Live { size, sha256 }));
    assert!(said.contains("equals a replay"), "{said}");
    for (size, word) in [(size, "is not what they make"), (size + 1, "has not")] {
        let sha256 = "00".repeat(32);
        let report = rig.check(Some(Live { size, sha256 }));
        assert!(
            report
                .faults
                .iter()
                .any(|f| f.class == Class::State && f.what.contains(word))
        );
    }
    assert!(rig.home.path().exists());
}

#[test]
fn a_snapshot_that_no_replay_gives() {
    let rig = Rig::new();
    let right = rig.check(None);
    assert_eq!(right.outcome(), Verdict::Holds);
    let snapshot = |bytes: Vec<u8>| {
        let store = rig.store();
        let size = store.head().unwrap().0.size;
        store.keep_snapshot(&Snapshot { size, bytes }).unwrap();
    };
    let state = {
        let account = rig.account();
        account.log.close();
        (*account.reader().version()).clone()
    };
    snapshot(state.to_snapshot());
    assert!(
        rig.holds(None)
            .contains("the snapshot of 303 leaves equals")
    );
    // Somebody else has a role that no leaf gave him.
    let text = String::from_utf8(state.to_snapshot()).unwrap();
    let forged = text.replacen("[\"agent\"]", "[\"owner\"]", 1);
    assert_ne!(text, forged);
    assert!(State::from_snapshot(forged.as_bytes()).is_some());
    snapshot(forged.into_bytes());
    rig.has(Class::State, None, "is not what they make");
    snapshot(b"{".to_vec());
    rig.has(Class::State, None, "cannot be read");
    // Another release's is passed over.
    snapshot(b"{\"form\":1}".to_vec());
    assert!(rig.holds(None).contains("another release's form"));
}

#[test]
fn lookup_keys_and_tiles() {
    let rig = Rig::new();
    let key = Key::new(space::NONCE, &sha256(b"nobody's"));
    rig.spoil(|_, growth| growth.unique.push((key, 2)));
    rig.has(Class::Index, Some(2), "does not have");
    // A duplicate is found by this key: lost, the same receipt would be taken twice.
    let rig = Rig::new();
    let receipt = rig.store().entry(7).unwrap().unwrap();
    let account = rig.account();
    account.log.close();
    let parsed = countersign_verifier::leaf::Leaf::parse(&receipt).unwrap();
    let (unique, _) = crate::ledger::keys_of(&account.reader().version(), &parsed).unwrap();
    drop(account);
    rig.spoil(|_, growth| growth.unique.push((unique[0], 8)));
    rig.has(Class::Index, Some(7), "leads to leaf 8");
    let rig = Rig::new();
    rig.spoil(|store, growth| {
        let mut bytes = store.tile(0, 0).unwrap().unwrap();
        bytes[9 * 32] ^= 1;
        let tile = countersign_verifier::tile::Tile {
            level: 0,
            index: 0,
            width: 256,
        };
        growth.tiles.push((tile, bytes));
    });
    rig.has(Class::Tile, Some(9), "not that of the leaf");
}

#[test]
fn heads() {
    let rig = Rig::new();
    rig.spoil(|_, growth| growth.at += 1);
    rig.has(Class::Head, None, "its last leaf");
    let rig = Rig::new();
    rig.spoil(|store, growth| {
        let mut published = store.published().unwrap().unwrap();
        published.note = published.note.replace("localhost/dev\n", "localhost/odd\n");
        growth.published = Some(published);
    });
    rig.has(Class::Head, None, "localhost/odd");
    // A store that does not open is a fault, and no usage.
    let files = rig.dir.account("dev");
    fs::remove_file(files.db().join("CURRENT")).unwrap();
    rig.has(Class::Head, None, "does not open");
    let rig = Rig::new();
    fs::remove_file(rig.dir.account("dev").tidemark()).unwrap();
    rig.has(Class::Head, None, "does not open");
}

#[test]
fn files_of_another_account() {
    let rig = Rig::new();
    let other = Rig::new();
    let (ours, theirs) = (rig.dir.account("dev"), other.dir.account("dev"));
    let swapped = |path: &Path, with: &Path, look: &dyn Fn()| {
        let kept = fs::read(path).unwrap();
        fs::copy(with, path).unwrap();
        look();
        fs::write(path, kept).unwrap();
    };
    let key = |word: &'static str| {
        let rig = &rig;
        move || {
            let report = rig.check(None);
            let said = |f: &Fault| f.class == Class::Key && f.what.contains(word);
            assert!(
                report.faults.iter().any(said),
                "{word}: {:#?}",
                report.faults
            );
        }
    };
    swapped(&ours.log_key(), &theirs.log_key(), &key("log.key"));
    swapped(
        &ours.service_key(),
        &theirs.service_key(),
        &key("the key of the service"),
    );
    swapped(&ours.about(), &theirs.about(), &key("the owner's key"));
    let key = ours.seat_secret();
    let kept = fs::read(&key).unwrap();
    fs::write(&key, "AAAA").unwrap();
    rig.has(Class::Key, None, "seat.secret");
    fs::write(&key, kept).unwrap();
    rig.holds(None);
    // Another log's key: whose store is it?
    fs::write(ours.log_vkey(), fs::read(theirs.log_vkey()).unwrap()).unwrap();
    assert_eq!(rig.check(None).outcome(), Verdict::DoesNotHold);
    fs::write(ours.log_vkey(), "no key").unwrap();
    let plan = Plan {
        files: &ours,
        store: (&ours.db(), &ours.tidemark()),
        live: None,
        keys_elsewhere: false,
        now_s: None,
        progress: &|_, _| {},
    };
    assert!(matches!(run(&plan), Err(CheckError::Unusable(_))));
}
