//! Evidence, alone and in sets; consistency; look-ups.

use std::path::PathBuf;

use countersign_verifier::{
    dsse::Envelope,
    evidence,
    hash::{Hash, leaf_hash, node_hash},
    proof::TlogProof,
    tree::{consistency_proof_len, is_complete, verify_consistency, verify_node},
};
use serde_json::{Value, json};

use crate::rig::{Answer, Rig, TYPE, hex, key, receipt, verify};

fn numbers(answer: &Answer) -> (Value, Value) {
    let detail = answer.problem(404, "NOT_IN_TREE");
    assert!(answer.header("retry-after").is_some(), "when to ask again");
    assert_eq!(answer.json()["retryable"], true);
    (detail["index"].clone(), detail["size"].clone())
}

#[test]
fn beyond_the_published_tree_both_numbers_are_said() {
    // B042, B043
    let mut rig = Rig::up();
    for _ in 0..2 {
        let size = rig.size();
        for index in [size, size + 1, u64::MAX] {
            let answer = rig.get(&format!("/log/dev/evidence/{index}"));
            assert_eq!(numbers(&answer), (json!(index), json!(size)));
        }
        let next = receipt(&format!("{size}"), &rig.owner());
        assert_eq!(rig.submit(&next).index(), size);
        assert_eq!(rig.get(&format!("/log/dev/evidence/{size}")).status, 200);
        rig.restart();
    }
    for index in [
        "x",
        "-1",
        "+1",
        "01",
        "1.0",
        "0x1",
        "%31%20",
        "18446744073709551616",
        "1e0",
    ] {
        let answer = rig.get(&format!("/log/dev/evidence/{index}"));
        answer.problem(400, "MALFORMED");
    }
}

#[test]
fn evidence_is_found_by_index_and_by_hash_and_as_a_bare_proof() {
    let mut rig = Rig::up();
    let agent = key("agent");
    rig.enroll("agent", &agent);
    let index = rig.submit(&receipt("x", &agent)).index();
    let leaf = rig.auditor.leaves()[usize::try_from(index).unwrap()].clone();
    let hash = leaf_hash(&leaf).to_hex();
    let by_index = rig.get(&format!("/log/dev/evidence/{index}"));
    let by_hash = rig.get(&format!("/log/dev/evidence/hash/{hash}"));
    assert_eq!(by_index.body, by_hash.body);
    let Ok(evidence::File::One(file)) = evidence::File::parse(&by_index.body) else {
        panic!("{}", by_index.text())
    };
    assert_eq!(file.leaf, leaf);
    // Leaf 0 and the enrolment of the agent, and no more.
    let support: Vec<u64> = file.support.iter().map(|s| s.index).collect();
    assert_eq!(support, [0, 1]);

    let target = format!("/log/dev/evidence/{index}");
    let text = rig
        .http()
        .send("GET", &target, &[("accept", "text/plain")], b"");
    assert_eq!(
        text.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
    assert_eq!(TlogProof::parse(&text.body).unwrap().index, index);
    let folder = rig.scratch();
    let (proof, bytes) = (folder.join("x.tlog-proof"), folder.join("x.leaf"));
    std::fs::write(&proof, &text.body).unwrap();
    std::fs::write(&bytes, &leaf).unwrap();
    let policy = rig.auditor.policy_file().clone();
    // A bare proof does not show who enrolled the signer: with the key pinned it holds, without it cannot be told.
    let pinned = folder.join("agent.pub");
    std::fs::write(&pinned, agent.public().spki_pem()).unwrap();
    let more = ["--leaf".as_ref(), bytes.as_os_str()];
    let with_key = ["--keys".as_ref(), pinned.as_os_str(), more[0], more[1]];
    let proofs = [proof];
    assert_eq!(verify(&proofs, &policy, &with_key).code, 0);
    assert_eq!(verify(&proofs, &policy, &more).code, 3);
    std::fs::write(&bytes, &leaf[1..]).unwrap();
    assert_eq!(verify(&proofs, &policy, &with_key).code, 1);
    for accept in [
        "*/*",
        "application/json",
        "text/html, application/json",
        "text/plain, application/json",
    ] {
        let answer = rig.http().send("GET", &target, &[("accept", accept)], b"");
        assert_eq!(
            answer.header("content-type"),
            Some("application/json"),
            "{accept}"
        );
    }
    rig.get(&format!("/log/dev/evidence/hash/{}", "0".repeat(64)))
        .problem(404, "NOT_FOUND");
    // B048: a node above the leaves is no leaf, and neither is the root.
    let leaves = rig.auditor.leaves();
    let inner = node_hash(&leaf_hash(&leaves[0]), &leaf_hash(&leaves[1]));
    let root = rig.auditor.head(&mut rig.http()).root;
    for node in [inner, root] {
        rig.get(&format!("/log/dev/evidence/hash/{node}"))
            .problem(404, "NOT_FOUND");
    }
    for bad in ["", "0", &hash.to_uppercase(), &format!("{hash}0"), "x"] {
        let answer = rig.get(&format!("/log/dev/evidence/hash/{bad}"));
        assert!(
            [400, 404].contains(&answer.status),
            "{bad}: {}",
            answer.text()
        );
    }
}

#[test]
fn evidence_that_was_touched_does_not_hold() {
    let mut rig = Rig::up();
    let owner = rig.owner();
    let indexes = ["a", "b", "c"].map(|n| rig.submit(&receipt(n, &owner)).index());
    let read = |index: u64| match evidence::File::parse(
        &rig.get(&format!("/log/dev/evidence/{index}")).body,
    )
    .unwrap()
    {
        evidence::File::One(file) => file,
        evidence::File::Set(_) => panic!("a set"),
    };
    let good = read(indexes[0]);
    let policy = rig.auditor.policy_file().clone();
    let file = rig.scratch().join("touched.json");
    let code = |touched: &evidence::Evidence| {
        std::fs::write(&file, touched.to_json()).unwrap();
        verify(std::slice::from_ref(&file), &policy, &[]).code
    };
    assert_eq!(code(&good), 0);
    // B049, B050, B008, and leaves and signatures of others.
    let touch = |change: &dyn Fn(&mut evidence::Evidence)| {
        let mut touched = good.clone();
        change(&mut touched);
        assert_ne!(touched, good);
        touched
    };
    let other = read(indexes[1]);
    let last = good.leaf.len() - 30;
    for touched in [
        touch(&|e| e.proof.index += 1),
        touch(&|e| e.proof.path.push(Hash([0; 32]))),
        touch(&|e| e.proof.path.truncate(e.proof.path.len() - 1)),
        touch(&|e| e.proof.path.clear()),
        touch(&|e| e.proof.path[0].0[0] ^= 1),
        touch(&|e| e.leaf.clone_from(&other.leaf)),
        touch(&|e| e.leaf[last] ^= 1),
        touch(&|e| e.proof.checkpoint = e.proof.checkpoint.replacen("dev\n", "dev\n1", 1)),
        touch(&|e| e.support[0].path.clear()),
        touch(&|e| e.support[0].leaf.truncate(20)),
    ] {
        assert_eq!(code(&touched), 1, "{touched:?}");
    }
}

#[test]
fn a_set_proves_many_leaves_at_once() {
    let mut rig = Rig::up();
    let agent = key("agent");
    rig.enroll("agent", &agent);
    let lines: Vec<Vec<u8>> = (0..30)
        .map(|n| receipt(&format!("{n}"), &agent).to_json())
        .collect();
    rig.submit_lines(&lines);
    let policy = rig.auditor.policy_file().clone();
    let file = rig.scratch().join("set.json");
    let all: Vec<String> = (0..32).map(|n| n.to_string()).collect();
    for indexes in ["3", "0,1", "3,9,20", "0,31", &all.join(",")] {
        let answer = rig.get(&format!("/log/dev/evidence-set?indexes={indexes}"));
        assert_eq!(answer.status, 200, "{indexes}: {}", answer.text());
        let Ok(evidence::File::Set(set)) = evidence::File::parse(&answer.body) else {
            panic!("no set")
        };
        let found: Vec<String> = set.leaves.iter().map(|(i, _)| i.to_string()).collect();
        assert_eq!(found.join(","), indexes);
        std::fs::write(&file, &answer.body).unwrap();
        let verified = verify(std::slice::from_ref(&file), &policy, &[]);
        assert_eq!(verified.code, 0, "{verified:#?}");
        let mut touched = set.clone();
        touched.leaves[0].0 += 40;
        std::fs::write(&file, touched.to_json()).unwrap();
        assert_eq!(
            verify(std::slice::from_ref(&file), &policy, &[]).code,
            1,
            "{indexes}"
        );
    }
    for bad in ["", "x", "1,", ",1", "2,1", "1,1", "01", "-1", "1;2"] {
        let answer = rig.get(&format!("/log/dev/evidence-set?indexes={bad}"));
        answer.problem(400, "MALFORMED");
    }
    rig.get("/log/dev/evidence-set").problem(400, "MALFORMED");
    rig.get("/log/dev/evidence-set?indexes=1&x=2")
        .problem(400, "MALFORMED");
    let answer = rig.get("/log/dev/evidence-set?indexes=1,32");
    assert_eq!(numbers(&answer), (json!(32), json!(32)));
    let many: Vec<String> = (0..1_001).map(|n| n.to_string()).collect();
    rig.get(&format!("/log/dev/evidence-set?indexes={}", many.join(",")))
        .problem(400, "MALFORMED");
}

#[test]
fn every_complete_node_is_proved_at_every_size() {
    let mut rig = Rig::up();
    let owner = rig.owner();
    let mut heads = vec![rig.auditor.head(&mut rig.http())];
    for n in 0..8 {
        rig.submit(&receipt(&format!("{n}"), &owner));
        heads.push(rig.auditor.head(&mut rig.http()));
    }
    let mut http = rig.http();
    let mut node = |size, level, index| {
        http.get(&format!(
            "/log/dev/node?size={size}&level={level}&index={index}"
        ))
    };
    for head in &heads {
        for (level, index) in (0..=4).flat_map(|l| (0..=9).map(move |i| (l, i))) {
            let answer = node(head.size, level, index);
            if !is_complete(level, index, head.size) {
                assert_eq!(answer.status, 400, "{level}/{index} at {}", head.size);
                continue;
            }
            let text = answer.text();
            let hashes = text.lines().map(|l| Hash::from_base64(l).unwrap());
            let hashes: Vec<Hash> = hashes.collect();
            let (hash, path) = hashes.split_first().unwrap();
            verify_node(hash, level, index, head.size, path, &head.root).unwrap();
        }
    }
    assert_eq!(node(heads[8].size + 1, 0, 0).status, 404);
    for (size, level, index) in [(0, 0, 0), (1, 255, 0), (1, 63, u64::MAX), (1, 0, u64::MAX)] {
        assert_eq!(node(size, level, index).status, 400);
    }
    assert_eq!(
        rig.get("/log/dev/node?size=1&level=256&index=0").status,
        400
    );
}

#[test]
fn consistency_is_proved_between_any_two_sizes() {
    let mut rig = Rig::up();
    let owner = rig.owner();
    let mut heads = vec![rig.auditor.head(&mut rig.http())];
    for n in 0..12 {
        rig.submit(&receipt(&format!("{n}"), &owner));
        heads.push(rig.auditor.head(&mut rig.http()));
    }
    let mut http = rig.http();
    for (i, old) in heads.iter().enumerate() {
        for new in &heads[i..] {
            let target = format!("/log/dev/consistency?from={}&to={}", old.size, new.size);
            let text = http.get(&target);
            let path: Vec<Hash> = text
                .text()
                .lines()
                .map(|l| Hash::from_base64(l).unwrap())
                .collect();
            assert_eq!(path.len(), consistency_proof_len(old.size, new.size));
            verify_consistency(old.size, &old.root, new.size, &new.root, &path).unwrap();
            let answer = http
                .send("GET", &target, &[("accept", "application/json")], b"")
                .json();
            let hashes: Vec<String> = path.iter().map(Hash::to_base64).collect();
            assert_eq!(
                answer,
                json!({"from": old.size, "to": new.size, "hashes": hashes})
            );
        }
    }
    let size = rig.size();
    // Without `to`: to the published head. From nothing: no hash.
    let open = rig.get("/log/dev/consistency?from=3");
    assert_eq!(
        open.body,
        rig.get(&format!("/log/dev/consistency?from=3&to={size}"))
            .body
    );
    assert!(rig.get("/log/dev/consistency?from=0").body.is_empty());
    for (query, status) in [
        (format!("from=5&to={}", size + 1), 404),
        (format!("from={}", size + 1), 400),
        ("from=5&to=3".into(), 400),
        ("from=x".into(), 400),
        ("from=-1".into(), 400),
        ("to=3".into(), 400),
        (String::new(), 400),
        ("from=1&until=2".into(), 400),
        (format!("from={}", u64::MAX), 400),
    ] {
        let answer = rig.get(&format!("/log/dev/consistency?{query}"));
        assert_eq!(answer.status, status, "{query}: {}", answer.text());
    }
}

fn found(answer: &Answer) -> Vec<u64> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let entries = answer.json()["entries"].clone();
    entries
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["index"].as_u64().unwrap())
        .collect()
}

#[test]
fn receipts_are_found_by_payload_and_by_subject() {
    let mut rig = Rig::up();
    let owner = [rig.owner()];
    rig.enroll("agent", &key("agent"));
    let (one, two) = (hex(b"one"), hex(b"two"));
    // B077: one name twice, of two digests.
    let statement = json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "out", "digest": {"sha256": one}}, {"name": "out", "digest": {"sha256": two}}],
        "predicateType": "https://example.com/p/v1",
        "predicate": {},
    })
    .to_string();
    let envelope = Envelope::sign("application/vnd.in-toto+json", statement.as_bytes(), &owner);
    let index = rig.submit(&envelope).index();
    let lookup = |what: &str| rig.get(&format!("/log/dev/lookup?{what}"));
    for digest in [&one, &two] {
        assert_eq!(found(&lookup(&format!("subject_sha256={digest}"))), [index]);
    }
    let payload = hex(statement.as_bytes());
    assert_eq!(
        found(&lookup(&format!("payload_sha256={payload}"))),
        [index]
    );
    // The same payload by others, and as another type, is other receipts of it.
    let other = Envelope::sign(TYPE, statement.as_bytes(), &[key("agent")]);
    let second = rig.submit(&other).index();
    let lookup = |what: &str| rig.get(&format!("/log/dev/lookup?{what}"));
    assert_eq!(
        found(&lookup(&format!("payload_sha256={payload}"))),
        [index, second]
    );
    assert_eq!(
        found(&lookup(&format!("payload_sha256={payload}&after={index}"))),
        [second]
    );
    assert_eq!(
        found(&lookup(&format!("subject_sha256={one}"))),
        [index],
        "a statement by its type"
    );
    let nothing = lookup(&format!("payload_sha256={}", "0".repeat(64)));
    assert_eq!(nothing.json(), json!({"entries": [], "next": null}));
    for bad in [
        "",
        "payload_sha256=x",
        &format!("payload_sha256={payload}&subject_sha256={one}"),
        &format!("sha256={one}"),
    ] {
        lookup(bad).problem(400, "MALFORMED");
    }
    let row = lookup(&format!("subject_sha256={one}")).json()["entries"][0].clone();
    let leaf = &rig.auditor.leaves()[usize::try_from(index).unwrap()];
    assert_eq!(row["leaf_hash"], leaf_hash(leaf).to_hex());
    assert!(row["at"].as_str().unwrap().ends_with('Z'));
}

#[test]
fn a_look_up_goes_on_from_page_to_page() {
    let mut rig = Rig::up();
    // One payload under 250 types.
    let owner = [rig.owner()];
    let lines: Vec<Vec<u8>> = (0..250)
        .map(|n| Envelope::sign(&format!("text/x-{n}"), b"same", &owner).to_json())
        .collect();
    rig.submit_lines(&lines);
    let base = format!("/log/dev/lookup?payload_sha256={}", hex(b"same"));
    let first = rig.get(&base);
    let next = first.json()["next"].as_u64().expect("a next page");
    let second = rig.get(&format!("{base}&after={next}"));
    assert_eq!(second.json()["next"], Value::Null);
    let all: Vec<u64> = [found(&first), found(&second)].concat();
    assert_eq!(
        all,
        (1..=250).collect::<Vec<u64>>(),
        "earliest first, none twice"
    );
}

#[test]
fn an_artifact_is_the_one_that_was_spoken_of() {
    // B076, B097: only the digest is logged, the file stays at hand.
    let mut rig = Rig::up();
    let folder = rig.scratch();
    let artifact = folder.join("artifact");
    std::fs::write(&artifact, vec![7; 3_000_000]).unwrap();
    let digest = hex(&vec![7; 3_000_000]);
    let statement = json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "artifact", "digest": {"sha256": digest}}],
        "predicateType": "https://example.com/p/v1",
    });
    let statement = statement.to_string();
    let envelope = Envelope::sign(
        "application/vnd.in-toto+json",
        statement.as_bytes(),
        &[rig.owner()],
    );
    let index = rig.submit(&envelope).index();
    let file = folder.join("e.json");
    std::fs::write(&file, rig.get(&format!("/log/dev/evidence/{index}")).body).unwrap();
    let policy = rig.auditor.policy_file().clone();
    let check = |flag: &str, file_of: &PathBuf| {
        verify(
            std::slice::from_ref(&file),
            &policy,
            &[flag.as_ref(), file_of.as_os_str()],
        )
        .code
    };
    assert_eq!(check("--artifact", &artifact), 0);
    let payload = folder.join("payload");
    std::fs::write(&payload, &statement).unwrap();
    assert_eq!(check("--payload", &payload), 0);
    std::fs::write(&artifact, vec![8; 3_000_000]).unwrap();
    assert_eq!(check("--artifact", &artifact), 1);
    std::fs::write(&payload, statement + " ").unwrap();
    assert_eq!(check("--payload", &payload), 1);
    assert_eq!(check("--artifact", &folder.join("missing")), 2);
}
