//! Logs of earlier releases: each must be replayed to the very board and state that it was frozen with (tests/frozen/README.md).

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use countersign_verifier::{
    hash::sha256, json::canonical, leaf::Decision, tile::parse_bundle, verdict::Outcome as Verdict,
};

use super::{
    story::told,
    tamper::{audited, publish},
    *,
};
use crate::state::{board::file, verb::VERBS};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/frozen/rules-1")
}

/// Of each noun the SHA-256 of what a snapshot holds of it; nothing of those that hold nothing, so that a noun of a later release
/// is no change.
fn digests(state: &State) -> BTreeMap<String, String> {
    let mut snapshot: Value = serde_json::from_slice(&state.to_snapshot()).unwrap();
    // As leaves have them: without those of a later release that were never set.
    snapshot["settings"] = state.settings.recorded();
    let members = snapshot.as_object().unwrap().iter();
    let holds = |value: &Value| match value {
        Value::Null => false,
        Value::Array(all) => !all.is_empty(),
        Value::Object(all) => !all.is_empty(),
        _ => true,
    };
    members
        .filter(|(name, value)| *name != "form" && holds(value))
        .map(|(name, value)| (name.clone(), sha256(canonical(value).as_bytes()).to_hex()))
        .collect()
}

fn segments() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    found.sort();
    assert!(!found.is_empty());
    found
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// Writes the story of this release as a segment that is not there yet: `COUNTERSIGN_FREEZE=<name>`.
fn freeze(name: &str) {
    let to = folder().join(name);
    assert!(!to.exists(), "what is frozen stays as it is");
    fs::create_dir_all(&to).unwrap();
    let rig = told();
    publish(&rig.store.entries(0, usize::MAX).unwrap(), &to);
    let state = audited(&to).replayed.unwrap().state;
    fs::write(to.join("board.jsonl"), file::write(&state.board)).unwrap();
    let text = serde_json::to_string_pretty(&digests(&state)).unwrap() + "\n";
    fs::write(to.join("state.json"), text).unwrap();
}

#[test]
fn every_frozen_log_is_replayed_to_what_it_was() {
    if let Ok(name) = std::env::var("COUNTERSIGN_FREEZE") {
        freeze(&name);
    }
    for segment in segments() {
        let name = segment.display();
        let report = audited(&segment);
        assert_eq!(
            report.outcome(),
            Verdict::Holds,
            "{name}: {:#?}",
            report.faults
        );
        let state = report.replayed.unwrap().state;
        let board = fs::read_to_string(segment.join("board.jsonl")).unwrap();
        assert_eq!(file::write(&state.board), board, "{name}");
        let due = fs::read_to_string(segment.join("state.json")).unwrap();
        let due: BTreeMap<String, String> = serde_json::from_str(&due).unwrap();
        assert_eq!(
            digests(&state),
            due,
            "{name}: which noun became another one"
        );
    }
}

#[test]
fn every_tool_of_this_release_is_in_a_frozen_log() {
    let mut frozen = BTreeSet::new();
    for segment in segments() {
        for bundle in files(&segment.join("tile/entries")) {
            let bytes = fs::read(&bundle).unwrap();
            let mut width = 0;
            let mut rest = bytes.as_slice();
            while let Some((length, after)) = rest.split_first_chunk::<2>() {
                rest = &after[usize::from(u16::from_be_bytes(*length))..];
                width += 1;
            }
            for leaf in parse_bundle(&bytes, width).unwrap() {
                if let Ok(Leaf::Operation(leaf)) = Leaf::parse(leaf)
                    && matches!(leaf.decision, Decision::Applied { .. })
                {
                    frozen.insert(Operation::parse(&leaf.envelope.payload).unwrap().tool);
                }
            }
        }
    }
    let missing: Vec<&str> = VERBS
        .iter()
        .map(|verb| verb.tool)
        .filter(|tool| !frozen.contains(*tool))
        .collect();
    assert!(
        missing.is_empty(),
        "no frozen log applies {missing:?}: add them to the story, and freeze it (tests/frozen/README.md)"
    );
}
