//! Heads of other logs: tracked, taken, proved, and never asked for by the service itself.

use countersign_verifier::{
    checkpoint::Checkpoint,
    fork::{Fork, Node},
    hash::{Hash, leaf_hash, sha256},
    key::{Algorithm, PrivateKey},
    note::join,
    tile::hash_of,
    vkey::NoteSigner,
};
use serde_json::{Value, json};

use super::audit::Copy;
use crate::rig::{Answer, Call, JSON, Rig, Start, clean, countersign, key, receipt, workspace};

fn vectors() -> Vec<Value> {
    let path = workspace().join("tests/vectors/checkpoint_signed.json");
    let text = std::fs::read_to_string(path).expect("vectors");
    let file: Value = serde_json::from_str(&text).expect("JSON");
    file["vectors"].as_array().expect("vectors").clone()
}

fn post(rig: &mut Rig, body: &str) -> Answer {
    let answer = rig
        .http()
        .post("/log/dev/heads", "text/plain", body.as_bytes());
    rig.check();
    answer
}

fn outcome(answer: &Answer) -> (String, u64) {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let json = answer.json();
    let word = json["result"]["outcome"].as_str().expect("an outcome");
    (
        word.to_owned(),
        json["entry"]["index"].as_u64().expect("an index"),
    )
}

#[test]
fn real_checkpoints_are_recorded_or_refused_for_the_right_reason() {
    let mut rig = Rig::up();
    let mut seen = 0;
    for vector in vectors() {
        let note = vector["note"].as_str().expect("a note");
        let origin = note.split('\n').next().expect("a line");
        let lines = vector["signatures"].as_array().cloned().unwrap_or_default();
        let signed = |vkey: &&Value| {
            let vkey = vkey.as_str().expect("a vkey");
            lines.iter().any(|line| {
                let name = format!(
                    "{}+{}+",
                    line["name"].as_str().unwrap(),
                    line["key_id"].as_str().unwrap()
                );
                line["status"] == "verifies" && vkey.starts_with(&name)
            })
        };
        let keys = vector["vkeys"].as_array().expect("vkeys");
        let log_key = keys
            .iter()
            .find(signed)
            .filter(|_| vector["result"] == "ok");
        let before = rig.size();
        match log_key {
            Some(vkey) => {
                let tracked = rig.call("head_track", json!({"vkey": vkey, "origin": origin}));
                if tracked.status != 200 {
                    tracked.problem(409, "HEAD_TRACKED");
                }
                // Several heads of one log come in no order, and some logs have two keys.
                let answer = post(&mut rig, note);
                if answer.status == 200 {
                    let (word, index) = outcome(&answer);
                    assert!(
                        ["consistent", "unproven", "stale"].contains(&&*word),
                        "{word}: {vector}"
                    );
                    assert_eq!(outcome(&post(&mut rig, note)).1, index, "{vector}");
                    seen += 1;
                } else {
                    answer.problem(422, "CHECKPOINT_INVALID");
                }
            }
            None => {
                let answer = post(&mut rig, note);
                assert!(
                    [400, 404, 422].contains(&answer.status),
                    "{vector} {}",
                    answer.text()
                );
                assert_eq!(rig.size(), before, "a refused head is no leaf");
            }
        }
    }
    assert!(seen > 35, "{seen}");
    let list = rig.get("/log/dev/heads").json();
    let origins: Vec<&str> = list["logs"]
        .as_array()
        .expect("logs")
        .iter()
        .filter_map(|l| l["origin"].as_str())
        .collect();
    assert!(
        origins.contains(&"go.sum database tree") && origins.is_sorted(),
        "{origins:?}"
    );
    rig.restart();
    assert_eq!(rig.get("/log/dev/heads").json()["logs"], list["logs"]);
    let signed = rig.call("head_list", json!({"limit": 3})).json();
    assert_eq!(signed["result"]["logs"][0], list["logs"][0]);
    // The rules say the same when they are asked again.
    let url = format!("{}/log/dev", rig.service.url);
    let audited = clean(countersign())
        .args(["audit", &url, "--replay", "--policy"])
        .arg(&rig.service.policy)
        .output()
        .expect("countersign runs");
    assert_eq!(
        audited.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&audited.stdout)
    );
}

/// The command line's `head submit` of a log, against a rig's account.
#[test]
fn a_head_is_one_leaf_whoever_adds_lines_to_it_and_hides_no_other() {
    let mut rig = Rig::up();
    let Ok(PrivateKey::Ed25519(key)) = PrivateKey::from_secret(Algorithm::Ed25519, &[7; 32]) else {
        panic!("an Ed25519 key")
    };
    let signer = NoteSigner::new("other.example/log", key).expect("a name");
    let head = |size: u64, root: &str, junk: &str| {
        let checkpoint = Checkpoint {
            origin: "other.example/log".into(),
            size,
            root: sha256(root.as_bytes()),
            extensions: Vec::new(),
        };
        let text = checkpoint.to_text();
        join(&text, [signer.sign(&text).as_str(), junk])
    };
    let vkey = signer.vkey().to_string();
    let tracked = rig.call(
        "head_track",
        json!({"vkey": vkey, "origin": "other.example/log"}),
    );
    assert_eq!(tracked.status, 200, "{}", tracked.text());
    assert_eq!(
        outcome(&post(&mut rig, &head(10, "ten", ""))).0,
        "consistent"
    );
    let (_, index) = outcome(&post(&mut rig, &head(20, "twenty", "")));
    let size = rig.size();
    for n in 0..70 {
        let junk = format!("\u{2014} junk{n} AAAAAAAA\n");
        let mut again = head(20, "twenty", &junk);
        if n % 2 == 0 {
            // The same line twice is one, too.
            let own = again.lines().find(|line| line.contains(" other.example"));
            again += &format!("{}\n", own.expect("its line"));
        }
        assert_eq!(outcome(&post(&mut rig, &again)).1, index);
    }
    assert_eq!(rig.size(), size, "none of them is a leaf");
    assert_eq!(outcome(&post(&mut rig, &head(10, "another", ""))).0, "fork");
}

fn submit(rig: &mut Rig, log: &str) -> (Option<i32>, String) {
    let output = clean(countersign())
        .args(["head", "submit", log, "--dir"])
        .arg(rig.dir())
        .output()
        .expect("countersign runs");
    rig.check();
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.code(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

#[test]
fn a_log_is_followed_by_proofs_out_of_its_own_tiles() {
    let mut other = Rig::up();
    let owner = other.owner();
    let lines: Vec<Vec<u8>> = (0..300)
        .map(|n| receipt(&format!("{n}"), &owner).to_json())
        .collect();
    other.submit_lines(&lines);
    let mut copy = Copy::of(&other, "copy");
    let mut rig = Rig::up();
    let (code, text) = submit(&mut rig, copy.log());
    assert!(code == Some(2) && text.contains("head track"), "{text}");
    let denied = {
        let member = key("member");
        rig.enroll("member", &member);
        let call = crate::rig::Call::new("head_track", json!({"vkey": other.service.vkey}));
        rig.call_as(&member, &call)
    };
    denied.problem(403, "NOT_ALLOWED");
    let tracked = clean(countersign())
        .args([
            "head",
            "track",
            &other.service.vkey,
            "--origin",
            "localhost/dev",
            "--dir",
        ])
        .arg(rig.dir())
        .output()
        .expect("countersign runs");
    assert!(tracked.status.success(), "{tracked:?}");

    let (code, text) = submit(&mut rig, copy.log());
    assert!(
        code == Some(0) && text.contains("outcome=consistent"),
        "{text}"
    );
    let all = copy.leaves.clone();
    copy.leaves.extend(all[..250].to_vec());
    copy.publish();
    let (code, text) = submit(&mut rig, copy.log());
    assert!(
        code == Some(0) && text.contains("outcome=consistent") && text.contains("size=551"),
        "{text}"
    );
    let log = rig.get("/log/dev/heads").json()["logs"][0].clone();
    assert_eq!(
        (&log["proved"]["size"], &log["unproven_since"]),
        (&json!(551), &Value::Null)
    );

    // A note alone proves nothing.
    copy.leaves.extend(all[..10].to_vec());
    copy.publish();
    let file = copy.folder.join("checkpoint");
    let (code, text) = submit(&mut rig, file.to_str().expect("UTF-8"));
    assert!(
        code == Some(3) && text.contains("outcome=unproven"),
        "{text}"
    );
    let (code, text) = submit(&mut rig, copy.log());
    assert!(
        code == Some(0) && text.contains("outcome=consistent"),
        "{text}"
    );
    // A proof that fails is refused, and no leaf.
    let size = rig.size();
    let note = std::fs::read_to_string(&file).expect("a checkpoint");
    copy.leaves.extend(all[..10].to_vec());
    copy.publish();
    let newer = std::fs::read_to_string(&file).expect("a checkpoint");
    let hash = countersign_verifier::hash::leaf_hash(b"x").to_base64();
    for body in [
        format!("old 561\n{hash}\n\n{newer}"),
        format!("old 9\n{hash}\n\n{newer}"),
    ] {
        let answer = post(&mut rig, &body);
        answer.problem(422, "PROOF_INVALID");
    }
    for (body, status, code) in [
        ("old 1\n\nx", 400, "MALFORMED"),
        ("", 400, "MALFORMED"),
        (
            &note.replacen("localhost/dev", "localhost/odd", 1),
            404,
            "NOT_FOUND",
        ),
        (
            &note.replacen("\n561\n", "\n562\n", 1),
            422,
            "CHECKPOINT_INVALID",
        ),
    ] {
        post(&mut rig, body).problem(status, code);
    }
    assert_eq!(rig.size(), size);

    // Two heads of one size: both are leaves, and the log has forked.
    copy.leaves.truncate(551);
    copy.leaves.swap(5, 6);
    copy.publish();
    let (code, text) = submit(&mut rig, copy.log());
    assert!(code == Some(1) && text.contains("outcome=fork"), "{text}");
    // Behind growth the tiles show it.
    copy.leaves.extend(all);
    copy.publish();
    let (code, text) = submit(&mut rig, copy.log());
    assert!(
        code == Some(1) && text.contains("THE HISTORY WAS REWRITTEN"),
        "{text}"
    );
    assert!(text.contains("outcome=unproven"), "{text}");
    let list = clean(countersign())
        .args(["head", "list", "--dir"])
        .arg(rig.dir())
        .output()
        .expect("countersign runs");
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    assert!(
        list.contains("FORK: leaves") && list.contains("unproven since"),
        "{list}"
    );
}

#[test]
fn a_private_account_shows_no_proof_to_whoever_posts_a_head() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let dir = home.path().join("data");
    let made = clean(countersign())
        .args(["init", "--account", "dev", "--origin", "localhost/dev"])
        .args(["--private", "--dir"])
        .arg(&dir)
        .output()
        .expect("countersign runs");
    assert!(made.status.success(), "{made:?}");
    let mut start = Start::up(&dir);
    start.verb = &["serve"];
    let mut service = start.run();
    let pem = std::fs::read_to_string(dir.join("owner.key")).expect("owner.key");
    let owner = PrivateKey::parse(&pem).expect("the owner's key");
    let Ok(PrivateKey::Ed25519(key)) = PrivateKey::from_secret(Algorithm::Ed25519, &[7; 32]) else {
        panic!("an Ed25519 key")
    };
    let signer = NoteSigner::new("other.example/log", key).expect("a name");
    let track = json!({"vkey": signer.vkey().to_string(), "origin": "other.example/log"});
    let body = Call::new("head_track", track).body(&owner).to_string();
    let tracked = service.http().post("/v1/head_track", JSON, body.as_bytes());
    assert_eq!(tracked.status, 200, "{}", tracked.text());
    let checkpoint = Checkpoint {
        origin: "other.example/log".into(),
        size: 1,
        root: sha256(b"root"),
        extensions: Vec::new(),
    };
    let text = checkpoint.to_text();
    let note = join(&text, [signer.sign(&text).as_str()]);
    let token = std::fs::read_to_string(dir.join("owner.token")).expect("owner.token");
    let bearer = format!("Bearer {}", token.trim());
    let target = "/log/dev/heads?include=proof&deadline_ms=30000";
    // The head alone authenticates whoever brings it; what this log's checkpoint is, is its readers' business.
    for (headers, shown) in [(&[][..], false), (&[("authorization", &*bearer)][..], true)] {
        let headers = [&[("content-type", "text/plain")], headers].concat();
        let answer = service
            .http()
            .send("POST", target, &headers, note.as_bytes());
        assert_eq!(answer.status, 200, "{}", answer.text());
        let entry = &answer.json()["entry"];
        assert_eq!(entry["index"], 2, "{entry}");
        assert_eq!(entry.get("proof").is_some(), shown, "{entry}");
    }
    service.stop();
}

#[test]
fn evidence_that_somebody_else_has_found_is_a_leaf() {
    let mut rig = Rig::up();
    let Ok(PrivateKey::Ed25519(key)) = PrivateKey::from_secret(Algorithm::Ed25519, &[7; 32]) else {
        panic!("an Ed25519 key")
    };
    let signer = NoteSigner::new("other.example/log", key).expect("a name");
    let note = |size: u64, root: Hash, junk: &str| {
        let checkpoint = Checkpoint {
            origin: "other.example/log".into(),
            size,
            root,
            extensions: Vec::new(),
        };
        let text = checkpoint.to_text();
        join(&text, [signer.sign(&text).as_str(), junk])
    };
    let [one, other, second] = [b"one", b"two", b"six"].map(|leaf| leaf_hash(leaf));
    let fork = |junk: &str| Fork {
        checkpoints: [note(1, one, junk), note(2, hash_of(&[other, second]), "")],
        node: Some(Node {
            level: 0,
            index: 0,
            hashes: [one, other],
            paths: [Vec::new(), vec![second]],
        }),
    };
    let file = rig.scratch().join("fork.json");
    let run = |rig: &mut Rig, fork: &Fork| {
        std::fs::write(&file, fork.to_json()).expect("a file");
        let output = clean(countersign())
            .args(["head", "submit", "--evidence"])
            .arg(&file)
            .arg("--dir")
            .arg(rig.dir())
            .output()
            .expect("countersign runs");
        rig.check();
        let text = [output.stdout, output.stderr].concat();
        (
            output.status.code(),
            String::from_utf8_lossy(&text).into_owned(),
        )
    };
    let (code, text) = run(&mut rig, &fork(""));
    assert!(code == Some(1) && text.contains("NOT_FOUND"), "{text}");
    rig.call("head_track", json!({"vkey": signer.vkey().to_string()}));
    let before = rig.size();
    let mut wrong = fork("");
    wrong.node.as_mut().expect("a node").paths[1].clear();
    let (code, text) = run(&mut rig, &wrong);
    assert!(code == Some(1) && text.contains("PROOF_INVALID"), "{text}");
    assert_eq!(rig.size(), before, "what proves nothing is no leaf");
    // The same again, with lines of others or without, is the first leaf.
    for junk in ["", "", "\u{2014} junk AAAAAAAA\n"] {
        let (code, text) = run(&mut rig, &fork(junk));
        assert!(code == Some(1) && text.contains("outcome=fork"), "{text}");
        assert_eq!(rig.size(), before + 1);
    }
    let log = rig.get("/log/dev/heads").json()["logs"][0].clone();
    assert_eq!(log["fork"], json!([before, before]), "{log}");
    // Two roots of one size, by a signed operation of anybody's.
    let roots = Fork {
        checkpoints: [note(3, one, ""), note(3, other, "")],
        node: None,
    };
    let text = String::from_utf8(roots.to_json()).expect("UTF-8");
    let answer = rig.call("head_submit", json!({ "evidence": text }));
    assert_eq!(outcome(&answer).0, "fork");
}
