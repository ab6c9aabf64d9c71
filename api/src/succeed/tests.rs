//! What a successor finds in a directory, and what it leaves there as it is.

use std::{collections::BTreeMap, fs, path::Path};

use super::*;
use crate::{
    account::{generate, tests::rig},
    init::{Another, add},
    recover,
};

/// A directory with the accounts `dev` and `team`.
fn site() -> (tempfile::TempDir, DataDir) {
    let (home, dir) = rig::development();
    let team = Another {
        name: "team".into(),
        origin: Some("localhost/team".into()),
        owner: None,
        public: true,
    };
    let shared = rig::shared();
    add(&dir, &team, (&shared, Arc::new(SystemClocks)), |_| Ok(())).unwrap();
    (home, dir)
}

fn plan(name: &str, origin: &str) -> Plan {
    Plan {
        name: name.into(),
        origin: origin.into(),
        heads: Vec::new(),
        shown: Vec::new(),
        below_known: false,
        owner: None,
    }
}

fn begin(
    dir: &DataDir,
    account: &str,
    (name, origin): (&str, &str),
) -> Result<Succeeded, SucceedError> {
    let old = Parts::read(dir, account).unwrap();
    run(dir, &old, &plan(name, origin))
}

/// Every file below a folder.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in folder.read_dir().unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            found.extend(contents(&entry.path()));
        } else {
            found.insert(entry.path(), fs::read(entry.path()).unwrap());
        }
    }
    found
}

#[test]
fn nothing_of_another_account_is_removed_or_marked_whatever_the_mark_says() {
    let (_home, dir) = site();
    let (team, mark) = (dir.account("team"), dir.account("dev").succeeded());
    let marks = [
        None,
        Some(""),
        Some("{\"origin\":\"localh"),
        Some("garbage"),
        Some(r#"{"origin":"localhost/next","account":"team"}"#),
    ];
    for damaged in [false, true] {
        if damaged {
            fs::remove_file(team.log_vkey()).unwrap();
        }
        let before = contents(team.root());
        for text in marks {
            let _ = fs::remove_file(&mark);
            if let Some(text) = text {
                fs::write(&mark, text).unwrap();
            }
            for _ in 0..2 {
                let error = begin(&dir, "dev", ("team", "localhost/next")).unwrap_err();
                assert!(matches!(error, SucceedError::Name(_)), "{error}");
                let said = error.to_string();
                assert!(said.contains("an account of this name already"), "{said}");
                assert_eq!(fs::read_to_string(&mark).ok().as_deref(), text);
                assert!(contents(team.root()) == before, "{text:?}");
            }
        }
    }
    // Marked for it all the same, the log goes on in another one.
    begin(&dir, "dev", ("next", "localhost/next")).unwrap();
    let marked = read_mark(&dir.account("dev"));
    assert_eq!(marked, Ok(Some("localhost/next".into())));
}

#[test]
fn an_attempt_that_was_cut_short_is_finished_once() {
    let (_home, dir) = site();
    let next = ("next", "localhost/next");
    // A mark that was being written in its place, and what an attempt that was killed was making.
    fs::write(dir.account("dev").succeeded(), "").unwrap();
    let stage = dir.root().join(STAGE);
    let half = stage.join("accounts/next");
    fs::create_dir_all(&half).unwrap();
    fs::write(half.join("log.key"), "half").unwrap();
    let first = begin(&dir, "dev", next).unwrap();
    assert!(!stage.exists());
    assert_eq!(begin(&dir, "dev", next).unwrap(), first);
    let marked = marked_for(&dir, next.0, next.1);
    assert_eq!(marked.as_deref(), Some("dev"));
    let old = Parts::read(&dir, "dev").unwrap();
    let other = Plan {
        owner: Some(generate().unwrap().public()),
        ..plan(next.0, next.1)
    };
    let error = run(&dir, &old, &other).unwrap_err().to_string();
    assert!(error.contains("its owner has another key"), "{error}");
    // Nobody can say of an account without its vkey whether it signed: it stays.
    fs::remove_file(dir.account("next").log_vkey()).unwrap();
    let before = contents(dir.account("next").root());
    let error = begin(&dir, "dev", next).unwrap_err();
    assert!(matches!(error, SucceedError::Name(_)), "{error}");
    assert!(contents(dir.account("next").root()) == before);
}

#[test]
fn a_mark_that_cannot_be_read_is_an_error_that_says_what_to_do() {
    let (_home, dir) = site();
    let next = ("next", "localhost/next");
    let mark = dir.account("dev").succeeded();
    let refused = |name: &str, due: &str| {
        let before = fs::read(&mark).ok();
        let error = begin(&dir, "dev", (name, "localhost/next")).unwrap_err();
        assert!(matches!(error, SucceedError::Mark { .. }), "{error}");
        assert!(error.to_string().contains(due), "{error}");
        assert_eq!(fs::read(&mark).ok(), before);
    };
    fs::write(&mark, "garbage").unwrap();
    refused("next", "from a backup");
    let said = read_mark(&dir.account("dev")).unwrap_err();
    assert!(said.contains("run `succeed` again"), "{said}");
    // Cut short, it may be that of an attempt that made nothing; not where an account does not say what it goes on from.
    fs::write(&mark, "{\"origin\":").unwrap();
    let about = dir.account("team").about();
    let kept = fs::read(&about).unwrap();
    fs::write(&about, "garbage").unwrap();
    let error = begin(&dir, "dev", next).unwrap_err();
    assert!(matches!(error, SucceedError::Untold { .. }), "{error}");
    fs::write(&about, kept).unwrap();
    let first = begin(&dir, "dev", next).unwrap();
    // There is a successor: no second one is made, whatever has become of the mark.
    let text = fs::read_to_string(&mark).unwrap();
    for damage in ["", "garbage", "none"] {
        fs::write(&mark, damage).unwrap();
        if damage == "none" {
            fs::remove_file(&mark).unwrap();
        }
        refused("next", text.trim());
        refused("other", text.trim());
    }
    fs::write(&mark, text).unwrap();
    assert_eq!(begin(&dir, "dev", next).unwrap(), first);
}

#[test]
fn a_log_goes_on_in_no_other_logs_successor_and_under_no_other_logs_origin() {
    let (_home, dir) = site();
    let mark = dir.account("dev").succeeded();
    let named = |account: &str, names: (&str, &str)| {
        let error = begin(&dir, account, names).unwrap_err();
        assert!(matches!(error, SucceedError::Name(_)), "{error}");
        error.to_string()
    };
    let said = named("team", ("x", "localhost/dev"));
    assert!(said.contains("one origin is one log"), "{said}");
    assert!(!dir.account("team").succeeded().exists());
    // As an attempt leaves it that is killed right after the mark.
    let text = r#"{"origin":"localhost/dev-2","account":"next"}"#;
    fs::write(&mark, text).unwrap();
    let other = begin(&dir, "team", ("next", "localhost/team-2")).unwrap();
    let said = named("dev", ("next", "localhost/dev-2"));
    assert!(said.contains("goes on from localhost/team"), "{said}");
    assert!(said.contains("another name"), "{said}");
    for origin in ["localhost/team", "localhost/team-2"] {
        let said = named("dev", ("x", origin));
        assert!(said.contains("one origin is one log"), "{said}");
    }
    assert_eq!(fs::read_to_string(&mark).unwrap(), text);
    let begun = begin(&dir, "dev", ("dev-2", "localhost/dev-2")).unwrap();
    assert_eq!(begun.predecessor.origin, "localhost/dev");
    assert_ne!(begun.vkey, other.vkey);
    // That is its successor from now on.
    let error = begin(&dir, "dev", ("dev-3", "localhost/dev-3")).unwrap_err();
    assert!(matches!(error, SucceedError::Another { .. }), "{error}");
    fs::write(&mark, r#"{"origin":"localhost/dev-3","account":"dev-2"}"#).unwrap();
    named("dev", ("dev-2", "localhost/dev-3"));
}

#[test]
fn run_again_it_says_what_it_said_at_first() {
    for is_given in [false, true] {
        let (_home, dir) = rig::development();
        let old = Parts::read(&dir, "dev").unwrap();
        let here = recover::begin(&old, &rig::shared(), false).unwrap();
        let note = here.published().unwrap().unwrap().note;
        drop(here);
        fs::remove_file(old.files.db().join("CURRENT")).unwrap();
        let given = Plan {
            heads: vec![note],
            owner: is_given.then(|| generate().unwrap().public()),
            ..plan("next", "localhost/next")
        };
        let first = run(&dir, &old, &given).unwrap();
        assert!(first.nothing.is_some());
        assert_eq!(first.owner_until, (!is_given).then_some(1));
        for plan in [given, plan("next", "localhost/next")] {
            let again = run(&dir, &old, &plan).unwrap();
            assert!(again.nothing.is_some());
            assert_eq!(again.owner_until, first.owner_until);
            assert_eq!(again.vkey, first.vkey);
            assert_eq!(again.predecessor, first.predecessor);
        }
    }
}
