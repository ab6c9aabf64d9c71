//! Envelopes and statements that others have published, through the door that everybody's go through.

use countersign_verifier::{base64, dsse::Envelope, key::PublicKey, leaf::Leaf};
use serde_json::{Value, json};

use crate::rig::{Answer, Rig, verify, workspace};

fn vectors(kind: &str) -> Vec<Value> {
    let path = workspace().join(format!("tests/vectors/{kind}.json"));
    let text = std::fs::read_to_string(path).expect("vectors");
    let file: Value = serde_json::from_str(&text).expect("JSON");
    let vectors = file["vectors"].as_array().expect("vectors").clone();
    assert_eq!(Some(vectors.len() as u64), file["count"].as_u64());
    vectors
}

fn keys(vector: &Value) -> Vec<PublicKey> {
    let one = |key: &Value| match key["spki_b64"].as_str() {
        Some(spki) => PublicKey::from_spki(&base64::decode(spki).expect("base64")).expect("a key"),
        None => {
            let hex = key["public_key_hex"].as_str().expect("a key");
            let byte = |i: usize| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).expect("hex");
            PublicKey::from_ed25519(&std::array::from_fn(byte)).expect("a key")
        }
    };
    vector["keys"]
        .as_array()
        .expect("keys")
        .iter()
        .map(one)
        .collect()
}

/// Enrols what is not enrolled yet: of published keys nobody here has the private half.
fn enroll(rig: &mut Rig, keys: &[PublicKey]) {
    for key in keys {
        let spki = base64::encode(&key.spki_der());
        let name = key.identity().to_string()[3..35].to_owned();
        let answer = rig.call("identity_enroll", json!({"name": name, "public_key": spki}));
        if answer.status != 200 {
            answer.problem(409, "KEY_ENROLLED");
        }
    }
}

fn body(vector: &Value) -> String {
    match vector["envelope_text"].as_str() {
        Some(text) => text.to_owned(),
        None => vector["envelope"].to_string(),
    }
}

#[test]
fn published_envelopes_are_taken_or_refused_for_the_right_reason() {
    let mut rig = Rig::up();
    let mut counts = [0; 3];
    for vector in vectors("dsse_envelope") {
        let id = &vector["id"];
        let keys = keys(&vector);
        enroll(&mut rig, &keys);
        let need = vector["threshold"].as_u64().expect("a threshold");
        let set = rig.call("receipt_policy", json!({"threshold": need}));
        assert_eq!(set.status, 200, "{}", set.text());
        let size = rig.size();
        let answer = rig.submit_to("", body(&vector).as_bytes());
        match vector["result"].as_str().expect("a result") {
            "ok" => {
                counts[0] += 1;
                taken(&mut rig, &vector, &answer);
            }
            "threshold-fails" => {
                counts[1] += 1;
                let code = answer.json()["code"].clone();
                let right = ["SIGNATURE_INVALID", "SIGNER_UNKNOWN", "THRESHOLD_NOT_MET"];
                assert!(
                    right.iter().any(|right| code == *right),
                    "{id}: {}",
                    answer.text()
                );
                assert_eq!(rig.size(), size, "{id}");
            }
            "malformed" => {
                counts[2] += 1;
                answer.problem(400, "MALFORMED");
                assert_eq!(rig.size(), size, "{id}");
            }
            other => panic!("{id}: {other}"),
        }
    }
    assert_eq!(counts, [17, 5, 6], "as many as the file has");
}

/// Its leaf holds the very bytes that were signed, and its evidence holds under the keys that its publisher names.
fn taken(rig: &mut Rig, vector: &Value, answer: &Answer) {
    let index = answer.index();
    let sent = Envelope::parse(body(vector).as_bytes()).expect("an envelope");
    let leaf = &rig.auditor.leaves()[usize::try_from(index).expect("an index")];
    let Ok(Leaf::Receipt(leaf)) = Leaf::parse(leaf) else {
        panic!("{}: no receipt", vector["id"])
    };
    assert_eq!(leaf.envelope.payload, sent.payload);
    assert_eq!(leaf.envelope.payload_type, sent.payload_type);
    let accepted = vector["accepted_keys"].as_u64().expect("a count");
    assert!(leaf.signers.len() as u64 >= accepted, "{}", vector["id"]);
    let folder = rig.scratch();
    let (file, pinned) = (folder.join("evidence.json"), folder.join("keys.pem"));
    let evidence = rig.get(&format!("/log/dev/evidence/{index}"));
    std::fs::write(&file, &evidence.body).expect("an evidence file");
    let pem: String = keys(vector).iter().map(PublicKey::spki_pem).collect();
    std::fs::write(&pinned, pem).expect("a file of keys");
    let more = ["--keys".as_ref(), pinned.as_os_str()];
    let verified = verify(&[file], rig.auditor.policy_file(), &more);
    assert_eq!(verified.code, 0, "{}: {verified:#?}", vector["id"]);
}

#[test]
fn published_statements_are_opaque_and_the_good_ones_are_found_by_subject() {
    let mut rig = Rig::up();
    let owner = [rig.owner()];
    let (mut found, mut opaque) = (0, 0);
    for vector in vectors("intoto_statement") {
        let id = &vector["id"];
        let text = match &vector["statement"] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let envelope = Envelope::sign("application/vnd.in-toto+json", text.as_bytes(), &owner);
        let answer = rig.submit(&envelope);
        let index = answer.index();
        let statement: Value = serde_json::from_str(&text).unwrap_or_default();
        let digests: Vec<String> = statement["subject"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|subject| Some(subject["digest"]["sha256"].as_str()?.to_owned()))
            .collect();
        if vector["valid"] != true {
            opaque += 1;
            continue;
        }
        for digest in digests {
            let answer = rig.get(&format!("/log/dev/lookup?subject_sha256={digest}"));
            let rows = answer.json()["entries"]
                .as_array()
                .expect("entries")
                .clone();
            assert!(
                rows.iter().any(|row| row["index"] == index),
                "{id}: {rows:?}"
            );
            found += 1;
        }
    }
    assert!(found >= 6 && opaque >= 8, "{found} found, {opaque} opaque");
}

#[test]
fn published_checkpoints_are_carried_as_payloads_byte_for_byte() {
    let mut rig = Rig::up();
    let owner = [rig.owner()];
    let notes: Vec<String> = vectors("checkpoint_signed")
        .iter()
        .filter_map(|vector| Some(vector["note"].as_str()?.to_owned()))
        .collect();
    assert!(notes.len() > 20);
    let lines: Vec<Vec<u8>> = notes
        .iter()
        .map(|note| {
            Envelope::sign(
                "application/vnd.example.checkpoint",
                note.as_bytes(),
                &owner,
            )
            .to_json()
        })
        .collect();
    let rows = rig.submit_lines(&lines);
    for (note, row) in notes.iter().zip(rows) {
        let index = row["index"].as_u64().expect("an index");
        let leaf = &rig.auditor.leaves()[usize::try_from(index).expect("an index")];
        let leaf = Leaf::parse(leaf).expect("a leaf");
        assert_eq!(leaf.envelope().expect("a receipt").payload, note.as_bytes());
    }
}
