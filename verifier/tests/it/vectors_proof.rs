//! Every vector of the policy and proof kinds.

use countersign_verifier::base64;
use countersign_verifier::hash::leaf_hash;
use countersign_verifier::note::NoteError;
use countersign_verifier::policy::{Policy, PolicyError};
use countersign_verifier::proof::{TlogProof, UnprovenError};
use countersign_verifier::vkey::CosignSigner;
use ed25519_dalek::SigningKey;
use serde_json::Value;

use crate::support::{text, texts, vectors};

#[test]
fn policy() {
    let all = vectors("policy");
    assert_eq!(all.len(), 22);
    let mut cases = 0;
    for v in all {
        let (id, policy) = (text(&v, "id"), Policy::parse(text(&v, "policy")));
        assert_eq!(
            policy.is_ok(),
            v["valid"].as_bool().unwrap(),
            "{id}: {:?}",
            policy.err()
        );
        for case in v["quorum_cases"].as_array().into_iter().flatten() {
            let policy = policy.as_ref().unwrap();
            let names = texts(case, "cosigned");
            let cosigned: Vec<bool> = policy
                .witnesses()
                .iter()
                .map(|w| names.iter().any(|name| w.name == **name))
                .collect();
            assert_eq!(cosigned.iter().filter(|c| **c).count(), names.len());
            assert_eq!(
                policy.quorum_met(&cosigned),
                case["met"].as_bool().unwrap(),
                "{id} {names:?}"
            );
            cases += 1;
        }
    }
    assert_eq!(cases, 9);
}

/// A policy file of a vector's keys: `quorum` of the witnesses, with others where it lists too few.
fn policy_of(v: &Value) -> Policy {
    let mut file: String = texts(v, "log_vkeys")
        .iter()
        .map(|key| format!("log {key}\n"))
        .collect();
    let Some(quorum) = v["quorum"].as_u64() else {
        return Policy::parse(file + "quorum none\n").unwrap();
    };
    let mut witnesses: Vec<String> = texts(v, "witness_vkeys")
        .into_iter()
        .map(String::from)
        .collect();
    while (witnesses.len() as u64) < quorum {
        let name = format!("other-{}.example", witnesses.len());
        let key = SigningKey::from_bytes(&[100 + u8::try_from(witnesses.len()).unwrap(); 32]);
        witnesses.push(CosignSigner::new(&name, key).unwrap().vkey().to_string());
    }
    let mut group = format!("group g {quorum}");
    for (i, key) in witnesses.iter().enumerate() {
        file += &format!("witness w{i} {key}\n");
        group += &format!(" w{i}");
    }
    Policy::parse(file + &group + "\nquorum g\n").unwrap()
}

#[test]
fn tlog_proof() {
    let all = vectors("tlog_proof");
    assert_eq!(all.len(), 34);
    for v in all {
        let (id, file, want) = (text(&v, "id"), text(&v, "proof"), text(&v, "result"));
        let Ok(proof) = TlogProof::parse(file.as_bytes()) else {
            // Empty extra data is malformed here: absence has one spelling.
            assert!(want == "malformed" || want == "ok-or-malformed", "{id}");
            continue;
        };
        assert_eq!(proof.to_text(), file, "{id}");
        if want == "container-ok" {
            continue;
        }
        let leaf = leaf_hash(&base64::decode(text(&v, "leaf_b64")).unwrap());
        let policy = policy_of(&v);
        let got = match proof.verify(&leaf, &policy) {
            Ok(accepted) => {
                assert_eq!(Some(accepted.checkpoint.size), v["size"].as_u64(), "{id}");
                assert_eq!(Some(proof.index), v["index"].as_u64(), "{id}");
                "ok"
            }
            Err(UnprovenError::Inclusion(_)) => "inclusion-fails",
            Err(UnprovenError::Policy(PolicyError::Quorum(_))) => "quorum-fails",
            Err(UnprovenError::Policy(PolicyError::Note(NoteError::Signature { .. }))) => {
                if want == "signature-fails" {
                    want
                } else {
                    "quorum-or-note-fails"
                }
            }
            Err(other) => panic!("{id}: {other}"),
        };
        assert_eq!(got, want, "{id}");
    }
}
