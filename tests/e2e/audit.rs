//! `countersign audit`: over a running service, over copies of its log that somebody has changed, and over folders of tiles.

use std::path::{Path, PathBuf};

use countersign_verifier::{
    hash::{Hash, leaf_hash},
    range::Range,
    tile::{bundles, hash_of, push_entry, tiles},
    vkey::NoteSigner,
};
use serde_json::{Value, json};

use crate::rig::{Rig, clean, countersign, key, receipt};

/// What the command said.
pub(crate) struct Audited {
    pub(crate) code: Option<i32>,
    pub(crate) report: Value,
    pub(crate) stderr: String,
}

impl Audited {
    pub(crate) fn check(&self, name: &str) -> (&str, &str) {
        let checks = self.report["checks"].as_array().expect("checks");
        let check = checks.iter().find(|check| check["name"] == name);
        let check = check.unwrap_or_else(|| panic!("no {name}: {}", self.report));
        let text = |member: &str| check[member].as_str().expect("a string");
        (text("status"), text("detail"))
    }

    /// That it holds, and every check but `skipped` is passed.
    pub(crate) fn holds(&self, skipped: &[&str]) {
        assert_eq!(self.code, Some(0), "{} {}", self.report, self.stderr);
        assert_eq!(self.report["verdict"], "holds");
        for name in NAMES {
            let due = if skipped.contains(&name) {
                "skipped"
            } else {
                "pass"
            };
            assert_eq!(self.check(name).0, due, "{name}: {}", self.report);
        }
    }

    /// That it does not, and this is among the faults.
    pub(crate) fn has(&self, class: &str, index: Option<u64>, word: &str) {
        assert_eq!(self.code, Some(1), "{} {}", self.report, self.stderr);
        let faults = self.report["faults"].as_array().expect("faults");
        let found = faults.iter().any(|fault| {
            fault["class"] == class
                && fault.get("index").and_then(Value::as_u64) == index
                && fault["what"].as_str().expect("what").contains(word)
        });
        assert!(found, "{class} {index:?} {word}: {:#}", self.report);
    }
}

const NAMES: [&str; 7] = [
    "checkpoint",
    "witnesses",
    "entries",
    "tiles",
    "leaves",
    "signatures",
    "decisions",
];

pub(crate) fn audit(log: &str, policy: &Path, more: &[&str]) -> Audited {
    let output = clean(countersign())
        .args(["audit", log, "--json", "--policy"])
        .arg(policy)
        .args(more)
        .output()
        .expect("countersign runs");
    let stdout = String::from_utf8(output.stdout).expect("UTF-8");
    Audited {
        code: output.status.code(),
        report: serde_json::from_str(&stdout).unwrap_or(Value::Null),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A log in a folder, whose key the test holds: a copy that its operator has made.
pub(crate) struct Copy {
    pub(crate) folder: PathBuf,
    pub(crate) signer: NoteSigner,
    pub(crate) leaves: Vec<Vec<u8>>,
}

impl Copy {
    pub(crate) fn of(rig: &Rig, folder: &str) -> Copy {
        let pem = std::fs::read_to_string(rig.account("log.key")).expect("log.key");
        let key = countersign_verifier::key::PrivateKey::parse(&pem).expect("the log's key");
        let countersign_verifier::key::PrivateKey::Ed25519(secret) = key else {
            panic!("an Ed25519 key");
        };
        let copy = Copy {
            folder: rig.scratch().join(folder),
            signer: NoteSigner::new("localhost/dev", secret).expect("a name"),
            leaves: rig.auditor.leaves().to_vec(),
        };
        copy.publish();
        copy
    }

    pub(crate) fn log(&self) -> &str {
        self.folder.to_str().expect("UTF-8")
    }

    pub(crate) fn put(&self, path: &str, bytes: &[u8]) {
        let path = self.folder.join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, bytes).expect("a file");
    }

    /// Writes bundles, tiles and a signed checkpoint anew.
    pub(crate) fn publish(&self) {
        let _ = std::fs::remove_dir_all(&self.folder);
        let size = self.leaves.len() as u64;
        let mut row: Vec<Hash> = self.leaves.iter().map(|leaf| leaf_hash(leaf)).collect();
        let root = row.iter().copied().collect::<Range>().root();
        let mut entries = self.leaves.iter();
        for bundle in bundles(size) {
            let mut bytes = Vec::new();
            for entry in entries.by_ref().take(usize::from(bundle.width)) {
                push_entry(&mut bytes, entry).expect("an entry");
            }
            self.put(&bundle.path(), &bytes);
        }
        let mut level = 0;
        for tile in tiles(size) {
            while level < tile.level {
                row = row.chunks_exact(256).map(hash_of).collect();
                level += 1;
            }
            let first = usize::try_from(tile.index).expect("an index") * 256;
            let hashes = &row[first..][..usize::from(tile.width)];
            let bytes: Vec<u8> = hashes.iter().flat_map(|hash| hash.0).collect();
            self.put(&tile.path(), &bytes);
        }
        self.sign("localhost/dev", size, root);
    }

    pub(crate) fn sign(&self, origin: &str, size: u64, root: Hash) {
        let text = format!("{origin}\n{size}\n{}\n", root.to_base64());
        self.put(
            "checkpoint",
            format!("{text}\n{}", self.signer.sign(&text)).as_bytes(),
        );
    }

    /// A leaf with a part of it replaced, wherever it stands.
    fn edit(&mut self, index: usize, from: &str, to: &str) {
        let leaf = String::from_utf8(self.leaves[index].clone()).expect("UTF-8");
        assert!(leaf.contains(from), "{leaf}");
        self.leaves[index] = leaf.replace(from, to).into_bytes();
        self.publish();
    }
}

/// Operations of all kinds and enough receipts for two bundles and a level above.
fn full(rig: &mut Rig) -> u64 {
    let member = key("member");
    rig.enroll("member", &member);
    let again = rig.call(
        "identity_enroll",
        json!({"name": "member", "public_key": crate::rig::spki(&key("other"))}),
    );
    again.problem(409, "NAME_TAKEN");
    let lines: Vec<Vec<u8>> = (0..300)
        .map(|n| receipt(&format!("line {n}"), &member).to_json())
        .collect();
    rig.submit_lines(&lines);
    rig.size()
}

#[test]
fn a_running_log_holds_and_is_gone_on_with() {
    let mut rig = Rig::up();
    let size = full(&mut rig);
    let policy = rig.service.policy.clone();
    let url = format!("{}/log/dev", rig.service.url);
    let plain = audit(&url, &policy, &[]);
    plain.holds(&["witnesses", "decisions"]);
    assert_eq!(plain.report["size"], size);
    audit(&url, &policy, &["--replay"]).holds(&["witnesses"]);
    let dir = rig.dir().display().to_string();
    audit(&dir, &policy, &["--replay"]).holds(&["witnesses"]);
    let part = audit(&url, &policy, &["--replay", "--at", "260"]);
    part.holds(&["witnesses"]);
    assert!(
        part.check("entries").1.contains("260 leaves"),
        "{}",
        part.report
    );
    assert_eq!(audit(&url, &policy, &["--at", "9999"]).code, Some(2));

    let state = rig.scratch().join("kept.audit");
    let state = state.to_str().expect("UTF-8");
    let kept = ["--replay", "--state", state];
    let first = audit(&url, &policy, &kept);
    first.holds(&["witnesses"]);
    assert_eq!(first.report["resumed_from"], Value::Null);
    rig.submit(&receipt("one more", &key("member")));
    let next = audit(&url, &policy, &kept);
    next.holds(&["witnesses"]);
    assert_eq!(
        (&next.report["resumed_from"], &next.report["size"]),
        (&json!(size), &json!(size + 1))
    );
    // It was made with --replay, which is more than what is asked for here.
    audit(&url, &policy, &["--state", state]).holds(&["witnesses", "decisions"]);
    let less = audit(&url, &policy, &kept);
    assert!(
        less.code == Some(2) && less.stderr.contains("--replay"),
        "{}",
        less.stderr
    );
}

#[test]
fn the_file_of_an_audit_is_refused_when_it_is_not_this_one_s() {
    let mut rig = Rig::up();
    full(&mut rig);
    let policy = rig.service.policy.clone();
    let mut copy = Copy::of(&rig, "copy");
    let path = rig.scratch().join("kept.audit");
    let state = path.to_str().expect("UTF-8");
    let kept = ["--state", state];
    audit(copy.log(), &policy, &kept).holds(&["witnesses", "decisions"]);
    let good = std::fs::read_to_string(&path).expect("the file");
    for (text, word) in [
        (good.replacen("\"size\":", "\"size\":1", 1), "SHA-256"),
        (
            good[..good.len() / 2].to_owned(),
            "not the file of an audit",
        ),
        (String::new(), "not the file of an audit"),
        (
            good.replacen("countersign.audit/1", "countersign.audit/2", 1),
            "format",
        ),
    ] {
        std::fs::write(&path, text).expect("a file");
        let refused = audit(copy.log(), &policy, &kept);
        assert_eq!(refused.code, Some(2), "{word}: {}", refused.report);
        assert!(refused.stderr.contains(word), "{word}: {}", refused.stderr);
    }
    // A history that was rewritten since, and signed again.
    std::fs::write(&path, &good).expect("a file");
    let last = copy.leaves.len() - 1;
    copy.leaves.swap(last, last - 1);
    copy.leaves.push(copy.leaves[last].clone());
    copy.publish();
    let rewritten = audit(copy.log(), &policy, &kept);
    rewritten.has("head", None, "the history was rewritten");
    // An older checkpoint than the one that was audited.
    copy.leaves = rig.auditor.leaves()[..100].to_vec();
    copy.publish();
    assert_eq!(audit(copy.log(), &policy, &kept).code, Some(3));
    assert_eq!(std::fs::read_to_string(&path).expect("the file"), good);
}

#[test]
fn what_was_changed_in_a_copy_is_found_and_named() {
    let mut rig = Rig::up();
    let size = full(&mut rig);
    let policy = rig.service.policy.clone();
    let copy = Copy::of(&rig, "copy");
    let audited = || audit(copy.log(), &policy, &[]);
    audited().holds(&["witnesses", "decisions"]);
    let file = |path: &str| std::fs::read(copy.folder.join(path)).expect(path);

    // One bit of an entry, its length kept.
    let bundle = file("tile/entries/000");
    let mut changed = bundle.clone();
    let at = bundle.len() - 30;
    changed[at] ^= 1;
    copy.put("tile/entries/000", &changed);
    let other = audited();
    other.has("entry", Some(255), "tile/0/000");
    for name in ["entries", "tiles", "leaves"] {
        assert_eq!(other.check(name).0, "fail", "{name}: {}", other.report);
    }
    assert_ne!(other.check("signatures").0, "pass", "{}", other.report);
    for (bytes, word) in [
        (&bundle[..bundle.len() - 1], "ends at byte"),
        (&[bundle.as_slice(), b"x"].concat(), "too many"),
        (&vec![0; 256 * 65_537 + 1], "longer than"),
    ] {
        copy.put("tile/entries/000", bytes);
        audited().has("entry", None, word);
    }
    std::fs::remove_file(copy.folder.join("tile/entries/000")).expect("a file");
    // Nothing was read: neither whose entries they are is known, nor that tiles are what follows from them.
    for (more, decisions) in [(&[] as &[&str], "skipped"), (&["--replay"][..], "unknown")] {
        let gone = audit(copy.log(), &policy, more);
        gone.has("entry", None, "tile/entries/000: is not there");
        assert_eq!(gone.check("entries").0, "fail");
        assert_eq!(gone.check("tiles").0, "unknown", "{}", gone.report);
        for name in ["leaves", "signatures"] {
            let told = gone.check(name);
            assert_eq!(told, ("unknown", "the entries cannot be read"), "{name}");
        }
        assert_eq!(gone.check("decisions").0, decisions, "{}", gone.report);
    }
    copy.put("tile/entries/000", &bundle);
    // The first leaves were read, and not the rest.
    let path = format!("tile/entries/001.p/{}", size - 256);
    let rest = file(&path);
    std::fs::remove_file(copy.folder.join(&path)).expect("a file");
    let part = audit(copy.log(), &policy, &["--replay"]);
    part.has("entry", None, "is not there");
    for (name, due) in [
        ("entries", "fail"),
        ("tiles", "unknown"),
        ("leaves", "fail"),
        ("signatures", "unknown"),
        ("decisions", "unknown"),
    ] {
        assert_eq!(part.check(name).0, due, "{name}: {}", part.report);
    }
    copy.put(&path, &rest);
    // The first leaf, so changed that it looks like none of ours.
    let mut changed = bundle.clone();
    changed[2] ^= 1;
    copy.put("tile/entries/000", &changed);
    let strange = audited();
    strange.has("entry", Some(0), "tile/0/000");
    for name in ["leaves", "signatures"] {
        assert_eq!(strange.check(name).0, "unknown", "{}", strange.report);
    }
    copy.put("tile/entries/000", &bundle);

    // A tile, at each level.
    for (path, hash, word) in [
        ("tile/0/000", 7, "hash 7 is not that of the entry"),
        ("tile/1/000.p/1", 0, "does not follow from level 0"),
    ] {
        let good = file(path);
        let mut bad = good.clone();
        bad[hash * 32] ^= 1;
        copy.put(path, &bad);
        let index = (hash > 0).then_some(7);
        audited().has("tile", index, word);
        copy.put(path, &good);
    }

    // The checkpoint.
    let good = file("checkpoint");
    let root = Hash([7; 32]);
    copy.sign("localhost/dev", size, root);
    let forged = audited();
    assert_eq!(forged.code, Some(1), "{}", forged.report);
    assert_eq!(forged.check("entries").0, "fail");
    for name in ["tiles", "leaves", "signatures"] {
        assert_eq!(forged.check(name).0, "unknown", "{}", forged.report);
    }
    let text = String::from_utf8(good.clone()).expect("UTF-8");
    copy.put(
        "checkpoint",
        text.replacen(&format!("\n{size}\n"), "\n3\n", 1).as_bytes(),
    );
    assert_eq!(audited().check("checkpoint").0, "fail");
    copy.put("checkpoint", b"");
    assert_eq!(audited().code, Some(1));
    copy.sign("example.com/other", size, root);
    let other = audited();
    assert_eq!(
        (other.code, other.check("checkpoint").0),
        (Some(3), "unknown")
    );
    std::fs::remove_file(copy.folder.join("checkpoint")).expect("a file");
    assert_eq!(audited().code, Some(3));
    copy.put("checkpoint", &good);
    audited().holds(&["witnesses", "decisions"]);
}

#[test]
fn what_the_operator_himself_signed_wrongly_is_found_and_named() {
    let mut rig = Rig::up();
    full(&mut rig);
    let policy = rig.service.policy.clone();
    let member = key("member").public().identity().to_string();
    let nobody = format!("id_{}", "0".repeat(64));
    let year = {
        let leaf = String::from_utf8_lossy(&rig.auditor.leaves()[9]).into_owned();
        let at = leaf.find("\"at\":\"").expect("a time");
        leaf[at..at + 10].to_owned()
    };
    let cases: [(usize, &str, &str, &str, &str); 6] = [
        // (leaf, from, to, class, word)
        (9, "\"kind\":", "\"kind\": ", "entry", "not a leaf"),
        (9, &year, "\"at\":\"1999", "state", "its time"),
        (
            0,
            "\"origin\":\"localhost/dev\"",
            "\"origin\":\"localhost/odd\"",
            "state",
            "localhost/odd",
        ),
        (9, &member, &nobody, "key", "not enrolled"),
        (
            9,
            "agent_key",
            "service_key",
            "key",
            "enrolled as agent_key",
        ),
        (2, "NAME_TAKEN", "KEY_ENROLLED", "state", "decide otherwise"),
    ];
    for (index, from, to, class, word) in cases {
        let mut copy = Copy::of(&rig, "copy");
        copy.edit(index, from, to);
        let audited = audit(copy.log(), &policy, &["--replay"]);
        assert_eq!(audited.check("entries").0, "pass", "{}", audited.report);
        audited.has(class, Some(index as u64), word);
    }
    // A payload that its signer never saw.
    let mut copy = Copy::of(&rig, "copy");
    let other = String::from_utf8(copy.leaves[10].clone()).expect("UTF-8");
    let payload = |leaf: &str| {
        let from = leaf.find("\"payload\":\"").expect("a payload");
        leaf[from..].split('"').nth(3).expect("base64").to_owned()
    };
    let mine = payload(&String::from_utf8_lossy(&copy.leaves[9]));
    copy.edit(9, &mine, &payload(&other));
    let audited = audit(copy.log(), &policy, &[]);
    audited.has("key", Some(9), "does not verify");
    // A leaf of a newer form is no fault, and no pass.
    let mut copy = Copy::of(&rig, "copy");
    copy.edit(9, "{\"v\":1", "{\"v\":2");
    let newer = audit(copy.log(), &policy, &[]);
    assert_eq!(
        (newer.code, newer.check("leaves").0),
        (Some(3), "unknown"),
        "{}",
        newer.report
    );
}

#[test]
fn a_log_of_another_application_is_bytes() {
    let rig = Rig::up();
    let policy = rig.service.policy.clone();
    let mut copy = Copy::of(&rig, "copy");
    copy.leaves = (0..600)
        .map(|n| format!("entry {n}").into_bytes())
        .collect();
    copy.leaves[3].clear();
    copy.publish();
    let skipped = ["witnesses", "leaves", "signatures", "decisions"];
    audit(copy.log(), &policy, &[]).holds(&skipped);
    copy.leaves.clear();
    copy.publish();
    audit(copy.log(), &policy, &[]).holds(&skipped);
}

#[test]
fn a_directory_without_a_service_is_read_as_its_service_would_answer() {
    let mut rig = Rig::up();
    let owner = rig.owner();
    let lines: Vec<Vec<u8>> = (0..520)
        .map(|n| receipt(&format!("{n}"), &owner).to_json())
        .collect();
    rig.submit_lines(&lines);
    let policy = rig.service.policy.clone();
    let dir = rig.dir().to_str().expect("UTF-8").to_owned();
    let mut served = audit(&dir, &policy, &["--replay"]);
    served.holds(&["witnesses"]);
    // Killed, it leaves an announcement behind, and a write-ahead log that nothing has read back.
    rig.service.kill();
    let files = |folder: &str| {
        let entries = rig.account(folder).read_dir().expect("a folder");
        let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        names
    };
    let before = files("db");
    let mut stored = audit(&dir, &policy, &["--replay"]);
    stored.holds(&["witnesses"]);
    for report in [&mut served.report, &mut stored.report] {
        let source = report.as_object_mut().expect("an object").remove("source");
        assert!(source.is_some());
    }
    assert_eq!(served.report, stored.report);
    assert_eq!(audit(&dir, &policy, &["--at", "300"]).code, Some(0));
    assert_eq!(files("db"), before, "it is only read");

    // Each account has its own report, and one can be picked.
    let second = rig.dir().join("accounts/second");
    let copied = std::process::Command::new("cp")
        .arg("-r")
        .args([rig.account(""), second.clone()])
        .status();
    assert!(copied.expect("cp").success());
    let run = |more: &[&str]| {
        let output = clean(countersign())
            .args(["audit", &dir, "--json", "--policy"])
            .arg(&policy)
            .args(more)
            .output();
        let output = output.expect("countersign runs");
        let lines = String::from_utf8_lossy(&output.stdout).lines().count();
        (output.status.code(), lines)
    };
    assert_eq!(run(&[]), (Some(0), 2));
    assert_eq!(run(&["--account", "second"]), (Some(0), 1));
    assert_eq!(run(&["--account", "third"]), (Some(2), 0));
    assert_eq!(run(&["--state", "a.state"]), (Some(2), 0));
    // One of them has lost its mark: it does not hold, and the other does.
    std::fs::remove_file(second.join("published")).expect("the mark");
    assert_eq!(run(&[]), (Some(1), 1));
    std::fs::remove_dir_all(second).expect("a folder");
    rig.begin_again();
}
