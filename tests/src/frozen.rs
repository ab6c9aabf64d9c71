//! Data directories that earlier releases left: see `tests/frozen/README.md`.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use countersign_verifier::key::PrivateKey;
use serde_json::Value;

use crate::rig::{JSON, Start, clean, countersign, files, receipt, receipts, verify, workspace};

fn folders() -> Vec<PathBuf> {
    let all = fs::read_dir(workspace().join("tests/frozen")).expect("the frozen ones");
    let mut all: Vec<PathBuf> = all.map(|entry| entry.expect("an entry").path()).collect();
    all.retain(|path| {
        path.file_name()
            .and_then(OsStr::to_str)
            .is_some_and(|n| n.starts_with("dir-"))
    });
    all.sort();
    all
}

/// A command on this directory: its exit code and what it said.
fn run(dir: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = clean(countersign())
        .args(arguments)
        .arg("--dir")
        .arg(dir)
        .output()
        .expect("countersign runs");
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.code(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

fn holds(dir: &Path) {
    let (code, said) = run(dir, &["check"]);
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn every_frozen_directory_is_checked_served_verified_audited_and_written_to() {
    let folders = folders();
    assert!(!folders.is_empty());
    for folder in folders {
        let home = tempfile::tempdir().expect("a temporary folder");
        let unpacked = Command::new("tar")
            .arg("-xzf")
            .arg(folder.join("data.tar.gz"))
            .arg("-C")
            .arg(home.path())
            .status();
        assert!(unpacked.expect("tar").success(), "{}", folder.display());
        let dir = home.path().join("data");
        holds(&dir);
        let policy = folder.join("policy");
        let evidence: Vec<PathBuf> = files(&folder, "json")
            .into_iter()
            .filter(|path| path.to_string_lossy().ends_with(".evidence.json"))
            .collect();
        assert!(evidence.len() > 3);
        let verified = verify(&evidence, &policy, &[]);
        assert_eq!(verified.code, 0, "{verified:?}");
        // Taken when they were made; a clock that is behind them is none of this test's business.
        let start = Start {
            more: vec!["--accept-clock".into()],
            verb: &["serve"],
            ..Start::up(&dir)
        };
        let mut service = start.run();
        let mut http = service.http();
        for file in &evidence {
            let name = file.file_name().expect("a name").to_string_lossy();
            let Ok(index) = name.trim_end_matches(".evidence.json").parse::<u64>() else {
                continue; // of a set
            };
            let now = http.get(&format!("/log/dev/evidence/{index}")).json();
            let then: Value =
                serde_json::from_slice(&fs::read(file).expect("a file")).expect("JSON");
            assert_eq!(now["leaf"], then["leaf"], "leaf {index}");
        }
        // What it took before it does not take again, and it takes what is new.
        let before = fs::read(folder.join("receipt.json")).expect("a receipt");
        let again = http.post(&receipts(""), JSON, &before).json();
        assert_eq!(again["duplicate"], true, "{again}");
        let pem = fs::read_to_string(dir.join("owner.key")).expect("owner.key");
        let owner = PrivateKey::parse(&pem).expect("a key");
        let new = receipt("of a later release", &owner).to_json();
        let taken = http.post(&receipts(""), JSON, &new).json();
        assert_eq!(taken["duplicate"], false, "{taken}");
        service.stop();
        holds(&dir);
        let policy = policy.to_string_lossy();
        let output = clean(countersign())
            .arg("audit")
            .arg(&dir)
            .args(["--policy", &policy, "--replay"])
            .output()
            .expect("countersign runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{said}");
    }
}
