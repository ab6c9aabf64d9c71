//! `countersign pin`: heads that a regulator keeps, and what he is told when a history was rewritten.

use std::path::{Path, PathBuf};

use countersign_verifier::{fork::Fork, hash::Hash, vkey::VerifierKey};
use serde_json::Value;

use super::audit::Copy;
use crate::rig::{Rig, clean, countersign, receipt};

struct Said {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Said {
    fn json(&self) -> Value {
        let line = self.stdout.lines().next().expect("a line");
        serde_json::from_str(line)
            .unwrap_or_else(|e| panic!("{e}: {} {}", self.stdout, self.stderr))
    }
}

/// A regulator's folder.
struct Regulator {
    pins: PathBuf,
}

impl Regulator {
    fn run(&self, args: &[&str]) -> Said {
        let output = clean(countersign())
            .arg("pin")
            .args(args)
            .arg("--pins")
            .arg(&self.pins)
            .output()
            .expect("countersign runs");
        Said {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The status of the one pinned log, and the exit code.
    fn status(&self) -> (Option<i32>, String) {
        let said = self.run(&["check", "--json"]);
        (
            said.code,
            said.json()["status"].as_str().expect("a status").to_owned(),
        )
    }
}

/// A log of some leaves, its copy in a folder, and somebody who has pinned it.
fn pinned(rig: &mut Rig, leaves: usize) -> (Copy, Regulator) {
    let owner = rig.owner();
    let lines: Vec<Vec<u8>> = (0..leaves)
        .map(|n| receipt(&format!("{n}"), &owner).to_json())
        .collect();
    rig.submit_lines(&lines);
    let copy = Copy::of(rig, "copy");
    let regulator = Regulator {
        pins: rig.scratch().join("pins"),
    };
    let added = regulator.run(&["add", copy.log(), "--vkey", &rig.service.vkey, "--json"]);
    assert_eq!(added.code, Some(0), "{}", added.stderr);
    assert_eq!(added.json()["status"], "pinned");
    (copy, regulator)
}

#[test]
fn a_log_that_grows_holds_and_an_older_head_is_no_fault() {
    let mut rig = Rig::up();
    let (mut copy, regulator) = pinned(&mut rig, 300);
    assert_eq!(regulator.status(), (Some(0), "same".into()));
    let all = copy.leaves.clone();
    copy.leaves.extend(all[..200].to_vec());
    copy.publish();
    assert_eq!(regulator.status(), (Some(0), "consistent".into()));
    assert_eq!(regulator.status(), (Some(0), "same".into()));
    let size = copy.leaves.len() as u64;
    // An older head, while the newer tree is served.
    let older: countersign_verifier::range::Range = all
        .iter()
        .map(|leaf| countersign_verifier::hash::leaf_hash(leaf))
        .collect();
    copy.sign("localhost/dev", older.size(), older.root());
    assert_eq!(regulator.status(), (Some(0), "older".into()));
    let list = regulator.run(&["list", "--json"]).json();
    let sizes: Vec<u64> = list["heads"]
        .as_array()
        .expect("heads")
        .iter()
        .filter_map(|h| h["size"].as_u64())
        .collect();
    assert_eq!(sizes, [301, size]);
    // The running service, under a URL: it has no tiles of the newer tree, but its head is one that was pinned.
    let url = format!("{}/log/dev", rig.service.url);
    let there = regulator.run(&["check", "--log", &url, "--json"]);
    assert_eq!(
        (there.code, there.json()["status"].as_str()),
        (Some(0), Some("older"))
    );
}

#[test]
fn a_rewritten_history_is_shown_with_both_heads_and_evidence() {
    let mut rig = Rig::up();
    let key = VerifierKey::parse(&rig.service.vkey).expect("a key");
    for (grown, name) in [
        (0, "at one size"),
        (100, "behind growth"),
        (1000, "behind a level"),
    ] {
        let _ = std::fs::remove_dir_all(rig.scratch().join("pins"));
        let (mut copy, regulator) = pinned(&mut rig, 40);
        let size = copy.leaves.len();
        copy.leaves.swap(20, 21);
        for n in 0..grown {
            copy.leaves.push(format!("later {n}").into_bytes());
        }
        copy.publish();
        let said = regulator.run(&["check"]);
        assert_eq!(said.code, Some(1), "{name}: {}{}", said.stdout, said.stderr);
        for words in [
            "THE HISTORY WAS REWRITTEN".to_owned(),
            format!("pinned  {size} leaves, root "),
            format!("now     {} leaves, root ", size + grown),
            "what it means".to_owned(),
        ] {
            assert!(
                said.stdout.contains(&words),
                "{name}: {words}\n{}",
                said.stdout
            );
        }
        let json = regulator.run(&["check", "--json"]).json();
        assert_eq!(json["status"], "rewritten");
        let file = json["evidence"]
            .as_str()
            .unwrap_or_else(|| panic!("{name}: {json}"));
        let fork = Fork::parse(&std::fs::read(file).expect("a file")).expect("evidence");
        fork.verify("localhost/dev", [&key])
            .expect("evidence that convinces a stranger");
        let policy = rig.service.policy.clone();
        let judged = clean(countersign())
            .args(["fork", "verify", file, "--policy"])
            .arg(&policy)
            .output()
            .expect("countersign runs");
        assert_eq!(judged.status.code(), Some(0), "{judged:?}");
        // Another contradiction of the same sizes takes nothing from the first.
        let first = std::fs::read(file).expect("a file");
        copy.leaves.swap(30, 31);
        copy.publish();
        let json = regulator.run(&["check", "--json"]).json();
        let second = json["evidence"].as_str().expect("a file");
        assert_ne!(file, second);
        assert_eq!(std::fs::read(file).expect("a file"), first);
        for file in [file, second] {
            let fork = Fork::parse(&std::fs::read(file).expect("a file")).expect("evidence");
            fork.verify("localhost/dev", [&key]).expect("evidence");
        }
        // The pin stays what it was.
        assert_eq!(regulator.run(&["check"]).code, Some(1));
        // No newer head is put beside it, either.
        let again = regulator.run(&["add", copy.log(), "--vkey", &rig.service.vkey]);
        assert_eq!(again.code, Some(1), "{}", again.stdout);
    }
}

#[test]
fn what_shows_nothing_is_no_evidence_and_what_is_not_signed_does_not_hold() {
    let mut rig = Rig::up();
    let (mut copy, regulator) = pinned(&mut rig, 300);
    let all = copy.leaves.clone();
    copy.leaves.extend(all);
    copy.publish();
    let tile = copy.folder.join("tile/0/001");
    let good = std::fs::read(&tile).expect("a tile");
    std::fs::write(&tile, vec![7; good.len()]).expect("a tile");
    assert_eq!(regulator.status(), (Some(3), "unproven".into()));
    std::fs::remove_file(&tile).expect("a tile");
    assert_eq!(regulator.status(), (Some(3), "unproven".into()));
    std::fs::write(&tile, &good).expect("a tile");
    let note = std::fs::read_to_string(copy.folder.join("checkpoint")).expect("a checkpoint");
    copy.put(
        "checkpoint",
        note.replacen("\n601\n", "\n600\n", 1)
            .replacen("\n602\n", "\n600\n", 1)
            .as_bytes(),
    );
    assert_eq!(regulator.status(), (Some(1), "refused".into()));
    copy.sign("example.com/other", 602, Hash([1; 32]));
    assert_eq!(regulator.status(), (Some(1), "refused".into()));
    std::fs::remove_file(copy.folder.join("checkpoint")).expect("a checkpoint");
    assert_eq!(regulator.status(), (Some(3), "unproven".into()));
    copy.put("checkpoint", note.as_bytes());
    assert_eq!(regulator.status(), (Some(0), "consistent".into()));
    // A file of the folder that somebody has changed.
    let pinned = file(&regulator.pins, "301.checkpoint");
    std::fs::write(&pinned, "x").expect("a file");
    let said = regulator.run(&["check"]);
    assert!(
        said.code == Some(2) && said.stderr.contains("301.checkpoint"),
        "{}",
        said.stderr
    );
}

#[test]
fn a_pin_is_also_a_leaf_of_ones_own_account() {
    let mut other = Rig::up();
    let (copy, _) = pinned(&mut other, 10);
    let mut rig = Rig::up();
    let regulator = Regulator {
        pins: rig.scratch().join("pins"),
    };
    let dir = rig.dir().display().to_string();
    let add = [
        "add",
        copy.log(),
        "--vkey",
        &other.service.vkey,
        "--leaf",
        "--dir",
        &dir,
    ];
    let untracked = regulator.run(&add);
    assert!(
        untracked.code == Some(2) && untracked.stderr.contains("head track"),
        "{}",
        untracked.stderr
    );
    // The log has its own origin; it is tracked by the key's name.
    rig.call(
        "head_track",
        serde_json::json!({"vkey": other.service.vkey}),
    );
    let before = rig.size();
    let added = regulator.run(&add);
    assert_eq!(added.code, Some(0), "{}{}", added.stdout, added.stderr);
    assert!(
        added.stdout.contains("outcome=consistent"),
        "{}",
        added.stdout
    );
    rig.check();
    assert_eq!(rig.size(), before + 1);
    assert_eq!(regulator.run(&add).code, Some(0));
    assert_eq!(
        rig.size(),
        before + 1,
        "the same note again is the first leaf"
    );
}

/// The one file of this name below the pins.
fn file(pins: &Path, name: &str) -> PathBuf {
    let mut logs = pins.read_dir().expect("pins").flatten();
    logs.next().expect("a log").path().join(name)
}
