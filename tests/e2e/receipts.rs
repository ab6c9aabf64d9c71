//! One receipt: the table of what is answered, row by row.

use countersign_verifier::{
    base64,
    dsse::{Envelope, Signature},
    hash::{leaf_hash, sha256},
    key::{Algorithm, PrivateKey},
    leaf::Leaf,
    proof::TlogProof,
    tree::verify_inclusion,
    vkey::NoteSigner,
};
use serde_json::json;

use crate::rig::{JSON, Rig, TYPE, hex, key, receipt, receipt_by, receipts, spki};

#[test]
fn a_receipt_becomes_a_leaf_of_what_was_signed() {
    let mut rig = Rig::up();
    let agent = key("agent");
    rig.enroll("agent", &agent);
    let mut envelope = receipt("first", &agent);
    envelope.signatures[0].keyid = String::new();
    // Members that nobody knows are dropped, whatever they hold.
    let sent = String::from_utf8(envelope.to_json()).unwrap();
    let sent = sent.replacen('{', "{\"extra\":[{\"a\":[1]}],", 1);
    let answer = rig.submit_to("", sent.as_bytes());
    let index = answer.index();
    let body = answer.json();
    assert_eq!(index, 2);
    assert_eq!(body["duplicate"], false);
    let url = format!("{}/log/dev/evidence/2", rig.service.url);
    assert_eq!(body["evidence_url"], url);
    assert!(
        body.get("dropped_signatures").is_none() && body.get("proof").is_none(),
        "{body}"
    );

    let bytes = rig.auditor.leaves()[2].clone();
    assert_eq!(body["leaf_hash"], leaf_hash(&bytes).to_hex());
    let Ok(Leaf::Receipt(leaf)) = Leaf::parse(&bytes) else {
        panic!("no receipt");
    };
    let id = agent.public().identity();
    assert_eq!(body["at"], leaf.at.to_string());
    assert_eq!((leaf.by.identity, leaf.by.class.name()), (id, "agent_key"));
    assert_eq!(leaf.signers, [id]);
    assert_eq!(
        leaf.envelope,
        receipt("first", &agent),
        "rebuilt, keyid = identity"
    );
}

#[test]
fn an_answer_says_how_far_the_write_came() {
    let mut rig = Rig::up();
    let owner = rig.owner();
    let sent = |n: &str| receipt(n, &owner).to_json();
    // With the proof: it verifies from the answer and the leaf alone.
    let answer = rig.submit_to("?include=proof", &sent("proof"));
    let body = answer.json();
    let proof = TlogProof::parse(body["proof"].as_str().unwrap().as_bytes()).unwrap();
    let index = answer.index();
    assert_eq!(proof.index, index);
    let leaf = leaf_hash(&rig.auditor.leaves()[usize::try_from(index).unwrap()]);
    let mut lines = proof.checkpoint.lines().skip(1);
    let size: u64 = lines.next().unwrap().parse().unwrap();
    let root = countersign_verifier::hash::Hash::from_base64(lines.next().unwrap()).unwrap();
    verify_inclusion(&leaf, index, size, &proof.path, &root).unwrap();

    for n in 0..20 {
        // A deadline that has passed is a 202, unless the checkpoint was quicker; either way state and status agree.
        let answer = rig.http().post(
            &receipts("?deadline_ms=0&include=proof"),
            JSON,
            &sent(&format!("late {n}")),
        );
        let body = answer.json();
        match answer.status {
            202 => assert_eq!(body["state"], "sequenced", "{body}"),
            status => {
                assert_eq!(status, 200, "{body}");
                assert_eq!(body["state"], "included", "{body}");
                assert!(body["proof"].is_string(), "{body}");
            }
        }
        // The write stands: asking again waits for it.
        let again = rig.submit_to("", &sent(&format!("late {n}")));
        assert_eq!(again.index(), body["index"].as_u64().unwrap());
        assert_eq!(again.json()["duplicate"], true);
    }
    let answer = rig.submit_to("?wait=sequenced", &sent("quick"));
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()["state"], "sequenced");
    let answer = rig.submit_to("?wait=included&deadline_ms=50000", &sent("slow"));
    assert_eq!(answer.json()["state"], "included");
}

#[test]
fn what_is_asked_of_an_answer_is_understood_or_refused_by_name() {
    let mut rig = Rig::up();
    let body = receipt("asked", &rig.owner()).to_json();
    let before = rig.size();
    for (query, named) in [
        ("?wait=soon", "wait"),
        ("?wait=", "wait"),
        // This account's policy has no witnesses: promising what cannot come would be a lie.
        ("?wait=witnessed", "wait"),
        ("?deadline_ms=50001", "deadline_ms"),
        ("?deadline_ms=-1", "deadline_ms"),
        ("?deadline_ms=1.5", "deadline_ms"),
        ("?include=tree", "include"),
        ("?include=proof,tree", "include"),
        ("?wiat=included", "wiat"),
        ("?wait=included&wait=sequenced", "wait"),
    ] {
        let answer = rig.submit_to(query, &body);
        answer.problem(400, "MALFORMED");
        assert!(answer.text().contains(named), "{query}: {}", answer.text());
    }
    assert_eq!(rig.size(), before, "a request that was refused left a leaf");
}

#[test]
fn invalid_signatures_beside_enough_valid_ones_are_dropped_and_said() {
    let mut rig = Rig::up();
    let (agent, other, stranger) = (key("agent"), key("other"), key("stranger"));
    rig.enroll("agent", &agent);
    rig.enroll("other", &other);
    let mut envelope = receipt_by("mixed", &[stranger, key("other"), key("agent")]);
    // The second is by an enrolled key and fails (B067).
    envelope.signatures[1].sig[7] ^= 1;
    let answer = rig.submit(&envelope);
    let index = answer.index();
    let dropped = answer.json()["dropped_signatures"].clone();
    let dropped = dropped.as_array().unwrap();
    assert_eq!(dropped.len(), 2, "{dropped:?}");
    for (row, position, keyid) in [
        (&dropped[0], 0, key("stranger").public().identity()),
        (&dropped[1], 1, other.public().identity()),
    ] {
        assert_eq!(row["position"], position);
        assert_eq!(row["keyid"], keyid.to_string());
        assert!(row["reason"].as_str().unwrap().len() > 10, "{row}");
    }
    let leaf = &rig.auditor.leaves()[usize::try_from(index).unwrap()];
    let Ok(Leaf::Receipt(leaf)) = Leaf::parse(leaf) else {
        panic!("no receipt")
    };
    assert_eq!(leaf.signers, [agent.public().identity()]);
}

#[test]
fn nobody_that_is_enrolled_has_signed() {
    let mut rig = Rig::up();
    let before = rig.size();
    let body = receipt("nobody", &key("stranger")).to_json();
    let answer = rig.submit_to("", &body);
    let detail = answer.problem(401, "SIGNER_UNKNOWN");
    let command = detail["enrol"].as_str().unwrap();
    assert!(
        command.starts_with("countersign identity enroll"),
        "{detail}"
    );
    assert!(answer.header("www-authenticate").is_some());
    // A token never replaces a signature, and a wrong one is not passed over.
    let token = format!("Bearer {}", rig.token());
    for (authorization, status, code) in [
        (token.as_str(), 403, "SIGNER_UNKNOWN"),
        (
            "Bearer cst_0000000000000000000000000000000000000000000",
            401,
            "TOKEN_INVALID",
        ),
        ("Basic b3duZXI6", 401, "TOKEN_INVALID"),
    ] {
        let headers = [("content-type", JSON), ("authorization", authorization)];
        let answer = rig.http().send("POST", &receipts(""), &headers, &body);
        answer.problem(status, code);
        assert!(!answer.text().contains("cst_0"), "a token is not echoed");
    }
    let detail = rig.http().send(
        "POST",
        &receipts(""),
        &[("content-type", JSON), ("authorization", &token)],
        &body,
    );
    assert!(detail.json()["detail"]["enrol"].is_string());
    assert_eq!(rig.size(), before);
}

#[test]
fn a_signature_that_its_keyid_belies() {
    let mut rig = Rig::up();
    let (agent, before) = (key("agent"), 2);
    rig.enroll("agent", &agent);
    // B080: one digit of the signed bytes differs.
    let signed = Envelope::sign(TYPE, b"{\"n\":9007199254740992}", &[key("agent")]);
    let mut presented = signed.clone();
    presented.payload = b"{\"n\":9007199254740993}".to_vec();
    let detail = rig.submit(&presented).problem(422, "SIGNATURE_INVALID");
    assert_eq!(detail["identity"], agent.public().identity().to_string());
    // The type is signed too.
    let mut presented = signed.clone();
    presented.payload_type = "application/vnd.example.other+json".into();
    rig.submit(&presented).problem(422, "SIGNATURE_INVALID");
    // A keyid without a signature that could be one.
    let mut presented = signed;
    presented.signatures[0].sig = vec![0; 3];
    rig.submit(&presented).problem(422, "SIGNATURE_INVALID");
    assert_eq!(rig.size(), before);
}

#[test]
fn a_keyid_is_a_hint_and_no_identity() {
    let mut rig = Rig::up();
    let (agent, other) = (key("agent"), key("other"));
    rig.enroll("agent", &agent);
    rig.enroll("other", &other);
    let PrivateKey::Ed25519(signing) = key("agent") else {
        unreachable!()
    };
    let vkey = NoteSigner::new("agent.example.com", signing)
        .unwrap()
        .vkey()
        .to_string();
    let id = agent.public().identity();
    let raw = agent.public().raw();
    let ssh = [&b"\0\0\0\x0bssh-ed25519\0\0\0\x20"[..], &raw].concat();
    let print = base64::encode(&sha256(&ssh).0);
    for keyid in [
        String::new(),
        id.to_string(),
        id.to_string().trim_start_matches("id_").to_owned(),
        hex(&raw),
        format!("SHA256:{}", print.trim_end_matches('=')),
        vkey,
        "something else entirely".into(),
        // B073: the keyid of somebody else.
        other.public().identity().to_string(),
    ] {
        let mut envelope = receipt(&keyid, &agent);
        envelope.signatures[0].keyid.clone_from(&keyid);
        let index = rig.submit(&envelope).index();
        let leaf = &rig.auditor.leaves()[usize::try_from(index).unwrap()];
        let Ok(Leaf::Receipt(leaf)) = Leaf::parse(leaf) else {
            panic!("no receipt")
        };
        assert_eq!(leaf.signers, [id], "keyid {keyid:?}");
    }
    // B065: a keyid that is missing, or null, is one that is empty.
    for unset in ["", "\"keyid\":null,"] {
        let envelope = receipt(&format!("unset {unset}"), &agent);
        let text = String::from_utf8(envelope.to_json()).unwrap();
        let text = text.replace(&format!("\"keyid\":\"{id}\","), unset);
        assert!(!text.contains("id_"), "{text}");
        rig.submit_to("", text.as_bytes()).index();
    }
}

#[test]
fn where_many_are_enrolled_a_keyid_says_which_key_to_try() {
    let mut rig = Rig::up();
    // Owner, service and 63 more: one more than are tried without a hint.
    for n in 0..63 {
        let key = key(&format!("agent {n}"));
        let call = rig.http().post(
            "/v1/identity_enroll",
            JSON,
            crate::rig::Call::new(
                "identity_enroll",
                json!({"name": format!("agent-{n}"), "public_key": spki(&key)}),
            )
            .body(&rig.owner())
            .to_string()
            .as_bytes(),
        );
        assert_eq!(call.status, 200, "{}", call.text());
    }
    let agent = key("agent 62");
    rig.submit(&receipt("with", &agent)).index();
    let mut without = receipt("without", &agent);
    without.signatures[0].keyid.clear();
    rig.submit(&without).problem(401, "SIGNER_UNKNOWN");
}

#[test]
fn all_signatures_of_enrolled_keys_survive_sorted() {
    let mut rig = Rig::up();
    let names = ["one", "two", "three"];
    for name in names {
        rig.enroll(name, &key(name));
    }
    // B078
    let envelope = receipt_by("three", &names.map(key));
    let index = rig.submit(&envelope).index();
    let leaf = &rig.auditor.leaves()[usize::try_from(index).unwrap()];
    let Ok(Leaf::Receipt(leaf)) = Leaf::parse(leaf) else {
        panic!("no receipt")
    };
    let mut ids = names.map(|n| key(n).public().identity());
    ids.sort_unstable();
    assert_eq!(leaf.signers, ids);
    assert_eq!(leaf.by.identity, ids[0]);
    for Signature { keyid, sig } in &leaf.envelope.signatures {
        let sent = envelope.signatures.iter().find(|s| s.keyid == *keyid);
        assert_eq!(&sent.unwrap().sig, sig);
    }
}

#[test]
fn every_algorithm_signs() {
    let mut rig = Rig::up();
    for (name, algorithm, bytes) in [
        ("ed25519", Algorithm::Ed25519, 32),
        ("p256", Algorithm::EcdsaP256, 32),
        ("p384", Algorithm::EcdsaP384, 48),
    ] {
        let signer = PrivateKey::from_secret(algorithm, &vec![9; bytes]).unwrap();
        rig.enroll(name, &signer);
        rig.submit(&receipt(name, &signer)).index();
    }
}

#[test]
fn payloads_are_bytes() {
    let mut rig = Rig::up();
    let owner = [rig.owner()];
    for payload in [
        &b""[..],
        b"{\"run\":\"r-1\",\"amount\":9007199254740993}", // B081
        b"{\"amount\":1,\"amount\":82000}", // B079: opaque, so what is signed is what stands
        "{\"t\":\"<>&\u{2028}\\u0001\\ud800\"}".as_bytes(), // B084
        "{\"\u{ff5e}\":1.0,\"\u{1f600}\":-0,\"x\":1e20}".as_bytes(), // B085
        b"\xff\xfe\0not text",
        b"{\"index\":7,\"previous\":\"0000\",\"size\":99}", // B106: a place that nobody has given it
    ] {
        let envelope = Envelope::sign(TYPE, payload, &owner);
        let index = rig.submit(&envelope).index();
        let leaf = &rig.auditor.leaves()[usize::try_from(index).unwrap()];
        let leaf = Leaf::parse(leaf).unwrap();
        assert_eq!(leaf.envelope().unwrap().payload, payload);
    }
}

#[test]
fn both_alphabets_of_base64_are_one_receipt() {
    let mut rig = Rig::up();
    // The fixed vector D2 of seed 32 × 0x03 (B064).
    let agent = PrivateKey::from_secret(Algorithm::Ed25519, &[3; 32]).unwrap();
    rig.enroll("agent", &agent);
    let sig =
        "xZ0B0Z560MzVoVZBWsu5oX7GYHhK1GzafVVlKDE3ruQFltzNh5t2vAoX/xQlYZgHCSP7lFpXyEMG9i3XjZJgCA==";
    let url_safe = sig.replace('+', "-").replace('/', "_");
    let mut first = None;
    for (payload, sig) in [
        ("eyJub3RlIjoifn5+Pz8/Pj4+In0=", sig),
        ("eyJub3RlIjoifn5-Pz8_Pj4-In0=", &url_safe),
        ("eyJub3RlIjoifn5-Pz8_Pj4-In0=", sig),
    ] {
        let body = json!({"payloadType": TYPE, "payload": payload, "signatures": [{"sig": sig}]});
        let answer = rig.submit_to("", body.to_string().as_bytes());
        assert_eq!(*first.get_or_insert(answer.index()), answer.index());
    }
}
