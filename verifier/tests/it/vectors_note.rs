//! Every vector of the key, note, checkpoint and cosignature kinds.

use countersign_verifier::base64;
use countersign_verifier::checkpoint::{Checkpoint, origin_hash};
use countersign_verifier::cosign;
use countersign_verifier::hash::sha256;
use countersign_verifier::note::{Note, NoteError, open};
use countersign_verifier::vkey::{Algorithm, CosignSigner, NoteSigner, VerifierKey};
use serde_json::Value;

use crate::support::{seed, text, texts, unhex, vectors};

fn keys(vector: &Value, member: &str) -> Vec<VerifierKey> {
    texts(vector, member)
        .into_iter()
        .map(|key| VerifierKey::parse(key).expect(key))
        .collect()
}

/// How the vectors name the outcome of opening a note.
fn outcome(note: &[u8], keys: &[VerifierKey]) -> (&'static str, Vec<String>) {
    let Ok(note) = Note::parse(note) else {
        return ("malformed", vec![]);
    };
    match open(&note, keys) {
        Ok(verified) => (
            "ok",
            verified
                .iter()
                .map(|v| format!("{}+{}", v.key.name, v.key.id))
                .collect(),
        ),
        Err(NoteError::Untrusted) => ("unverified", vec![]),
        Err(NoteError::Signature { .. } | NoteError::TwoSignatures { .. }) => {
            ("invalid-signature", vec![])
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn vkey() {
    let all = vectors("vkey");
    assert_eq!(all.len(), 25);
    for v in all {
        let (id, key) = (text(&v, "id"), VerifierKey::parse(text(&v, "vkey")));
        if v["valid"] == false {
            assert!(key.is_err(), "{id}");
            continue;
        }
        let key = key.expect(id);
        assert_eq!(key.to_string(), text(&v, "vkey"));
        assert_eq!(
            (key.name.as_str(), key.id.to_string().as_str()),
            (text(&v, "name"), text(&v, "key_id"))
        );
        assert_eq!(
            u64::from(key.algorithm.kind()),
            v["type"].as_u64().unwrap(),
            "{id}"
        );
        assert_eq!(
            key.algorithm.public_key(),
            unhex(text(&v, "public_key_hex")),
            "{id}"
        );
        if let Some(cosigner) = v["cosignature_key_id"].as_str() {
            // T16: published as 0x01, signs as 0x04; converted only when asked to.
            assert_eq!(key.as_cosigner().unwrap().id.to_string(), cosigner, "{id}");
        }
    }
}

#[test]
fn note_open() {
    let all = vectors("note_open");
    assert_eq!(all.len(), 29);
    for v in all {
        let bytes = match v["note_b64"].as_str() {
            Some(note) => base64::decode(note).unwrap(),
            None => text(&v, "note").as_bytes().to_vec(),
        };
        let (result, verified) = outcome(&bytes, &keys(&v, "vkeys"));
        assert_eq!(result, text(&v, "result"), "{}", v["id"]);
        let mut want = texts(&v, "verified_keys");
        let mut have: Vec<&str> = verified.iter().map(String::as_str).collect();
        want.sort_unstable();
        have.sort_unstable();
        assert_eq!(have, want, "{}", v["id"]);
        if result != "malformed" {
            let note = Note::parse(&bytes).unwrap();
            assert_eq!(note.to_string().as_bytes(), bytes);
            assert!(
                v["text"].as_str().is_none_or(|text| text == note.text),
                "{}",
                v["id"]
            );
        }
    }
}

#[test]
fn checkpoint_body() {
    let all = vectors("checkpoint_body");
    assert_eq!(all.len(), 25);
    for v in all {
        let (id, parsed) = (text(&v, "id"), Checkpoint::parse(text(&v, "body")));
        if v["valid"] == false {
            let refused = match text(&v, "layer") {
                "syntax" => parsed.is_err(),
                "semantic" => parsed.unwrap().check_size().is_err(),
                other => panic!("{other}"),
            };
            assert!(refused, "{id}");
            continue;
        }
        same_checkpoint(&v, &parsed.expect(id));
    }
}

fn same_checkpoint(v: &Value, checkpoint: &Checkpoint) {
    assert_eq!(checkpoint.origin, text(v, "origin_line"), "{}", v["id"]);
    assert_eq!(checkpoint.size.to_string(), text(v, "size"), "{}", v["id"]);
    assert_eq!(checkpoint.root.to_hex(), text(v, "root_hex"), "{}", v["id"]);
    assert_eq!(checkpoint.extensions, texts(v, "extensions"), "{}", v["id"]);
    if let Some(body) = v["body"].as_str() {
        assert_eq!(checkpoint.to_text(), body);
    }
}

#[test]
fn checkpoint_signed() {
    let all = vectors("checkpoint_signed");
    assert_eq!(all.len(), 48);
    let mut tree_heads = 0;
    for v in all {
        let (id, note, keys) = (text(&v, "id"), text(&v, "note"), keys(&v, "vkeys"));
        let (result, verified) = outcome(note.as_bytes(), &keys);
        if keys.iter().all(|key| key.algorithm.kind() == 5) && !keys.is_empty() {
            tree_heads += 1; // T65: judged over size and root
        }
        assert_eq!(result, text(&v, "result"), "{id}");
        let Ok(parsed) = Note::parse(note.as_bytes()) else {
            continue;
        };
        let lines = v["signatures"].as_array().unwrap();
        assert_eq!(parsed.signatures.len(), lines.len(), "{id}");
        for (line, want) in parsed.signatures.iter().zip(lines) {
            let have = (line.name, line.id.to_string(), line.signature.len() as u64);
            let bytes = want["signature_bytes"].as_u64().unwrap();
            assert_eq!(
                have,
                (text(want, "name"), text(want, "key_id").into(), bytes),
                "{id}"
            );
            let key = format!("{}+{}", line.name, line.id);
            assert_eq!(
                verified.contains(&key),
                text(want, "status") == "verifies",
                "{id} {key}"
            );
        }
        match Checkpoint::parse(parsed.text) {
            Ok(checkpoint) => same_checkpoint(&v, &checkpoint),
            Err(_) => assert_eq!(v["body_malformed"], true, "{id}"),
        }
    }
    assert_eq!(tree_heads, 1);
}

#[test]
fn cosignature() {
    let all = vectors("cosignature");
    assert_eq!(all.len(), 17);
    let (mut good, mut bad, mut ml_dsa) = (0, 0, 0);
    for v in all {
        let (id, keys) = (text(&v, "id"), keys(&v, "witness_vkeys"));
        let note = Note::parse(text(&v, "note").as_bytes()).expect(id);
        if v["expect"] == "no cosignature verifies" {
            let known = |line: &&countersign_verifier::note::NoteSignature<'_>| {
                keys.iter()
                    .any(|key| key.name == line.name && key.id == line.id)
            };
            let matching = note.signatures.iter().filter(known).count() as u64;
            assert_eq!(matching, v["matching_lines"].as_u64().unwrap(), "{id}");
            assert!(open(&note, &keys).is_err(), "{id}");
            bad += 1;
            continue;
        }
        let verified = open(&note, &keys).expect(id);
        for want in v["cosignatures"].as_array().unwrap() {
            let key_id = text(want, "key_id");
            let line = verified
                .iter()
                .find(|line| line.key.id.to_string() == key_id);
            let line = line.expect(id);
            let time = cosign::time(&line.signature.signature).unwrap();
            assert_eq!(Some(time), want["timestamp"].as_u64(), "{id}");
            let message = if want["type"] == 6 {
                ml_dsa += 1;
                let head = Checkpoint::parse(note.text).unwrap();
                let message = cosign::subtree::Message {
                    cosigner: text(want, "name"),
                    time,
                    origin: &head.origin,
                    start: 0,
                    end: head.size,
                    hash: head.root,
                };
                message.to_bytes().unwrap()
            } else {
                cosign::message(note.text, time).into_bytes()
            };
            assert_eq!(
                base64::encode(&message),
                text(want, "signed_message_b64"),
                "{id}"
            );
            good += 1;
        }
        if v["deterministic"].is_string() {
            resign(&v, &note);
        }
        if let Some(path) = v["monitoring_path"].as_str() {
            let origin = note.text.lines().next().unwrap();
            assert!(
                path.ends_with(&format!("{}/checkpoint", origin_hash(origin))),
                "{id}"
            );
        }
    }
    assert_eq!((good, bad, ml_dsa), (12, 7, 1));
}

/// Ed25519 signs the same bytes always, so that the seeds give the lines back.
fn resign(v: &Value, note: &Note<'_>) {
    let (lines, want) = (note.to_string(), &v["cosignatures"][0]);
    let witness = CosignSigner::new(text(want, "name"), seed(text(v, "seed_hex"))).unwrap();
    let line = witness.sign(note.text, want["timestamp"].as_u64().unwrap());
    assert!(lines.contains(&line), "{}", v["id"]);
    let log = keys(v, "log_vkeys").remove(0);
    let log = NoteSigner::new(&log.name, seed(text(v, "log_seed_hex"))).unwrap();
    assert!(lines.contains(&log.sign(note.text)), "{}", v["id"]);
    assert_eq!(log.vkey().to_string(), texts(v, "log_vkeys")[0]);
}

#[test]
fn origin_hash_of() {
    let all = vectors("origin_hash");
    assert_eq!(all.len(), 6);
    for v in all {
        let origin = text(&v, "origin_line");
        assert_eq!(
            origin_hash(origin).to_hex(),
            text(&v, "tlog_witness_origin_hash")
        );
        if let Some(id) = v["distributor_log_id"].as_str() {
            // T50: another hash in the same ecosystem.
            assert_eq!(sha256(format!("o:{origin}").as_bytes()).to_hex(), id);
            assert_ne!(origin_hash(origin).to_hex(), id);
        }
    }
}

#[test]
fn the_only_keys_of_another_kind_are_of_type_5() {
    let others = vectors("vkey")
        .into_iter()
        .filter_map(|v| VerifierKey::parse(text(&v, "vkey")).ok());
    let others = others.filter(|key| matches!(key.algorithm, Algorithm::Other { .. }));
    assert!(others.map(|key| key.algorithm.kind()).all(|kind| kind == 5));
}
