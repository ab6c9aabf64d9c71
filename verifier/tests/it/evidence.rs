//! Evidence files as bytes: frozen, and read as they were written.

use countersign_verifier::evidence::{EvidenceError, File};
use countersign_verifier::hash::leaf_hash;
use countersign_verifier::verdict::Outcome;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::examples::{failing, holding, receipt, run, untold};
use crate::leaf::{frozen, own};
use crate::support;
use crate::world::{World, judge, options};

#[test]
fn evidence_is_frozen_and_comes_out_as_it_should() {
    let mut made = vec![];
    for (outcome, all) in [
        ("holds", holding()),
        ("does_not_hold", failing()),
        ("cannot_tell", untold()),
    ] {
        for example in all {
            let (id, verdict) = (example.id, run(&example));
            let (name, status, words) = example.decides;
            assert_eq!(verdict.outcome.as_str(), outcome, "{id}: {verdict:#?}");
            let check = verdict
                .checks
                .iter()
                .find(|check| check.name.as_str() == name)
                .unwrap();
            assert_eq!(check.status.as_str(), status, "{id}: {check:?}");
            assert!(check.detail.contains(words), "{id}: {check:?}");
            let mut vector = own(id);
            vector["policy"] = support::v1_policy(example.quorum).into();
            vector["now_s"] = example.options.now_s.into();
            vector["evidence"] = String::from_utf8(example.file.clone()).unwrap().into();
            if let Some(keys) = &example.options.keys {
                vector["keys"] = keys
                    .iter()
                    .map(|key| key.spki_pem())
                    .collect::<Vec<_>>()
                    .into();
            }
            if let Some(payload) = &example.options.payload {
                vector["payload"] = String::from_utf8(payload.clone()).unwrap().into();
            }
            if let Some(artifact) = &example.options.artifact {
                vector["artifact_sha256"] = artifact.to_hex().into();
            }
            vector["verdict"] = outcome.into();
            let statuses = verdict
                .checks
                .iter()
                .map(|c| (c.name.as_str().into(), c.status.as_str().into()));
            vector["checks"] = Value::Object(statuses.collect());
            vector["reason"] = json!({"check": name, "detail": check.detail});
            made.push(vector);
        }
    }
    assert_eq!(made.len(), 50);
    frozen("evidence", made);
}

#[test]
fn files_are_read_as_they_were_written() {
    let (world, evidence) = receipt();
    assert_eq!(
        File::parse(&evidence.to_json()),
        Ok(File::One(evidence.clone()))
    );
    let set = world.set(&[0, 2, 3], &[0, 1]);
    assert_eq!(File::parse(&set.to_json()), Ok(File::Set(set.clone())));
    // Unknown members, another order, white space: the same evidence.
    let mut value: Value = serde_json::from_slice(&evidence.to_json()).unwrap();
    value["comment"] = json!({"x": [1.5, null]});
    value["support"][0]["note"] = "x".into();
    let pretty = serde_json::to_vec_pretty(&value).unwrap();
    assert_eq!(File::parse(&pretty), Ok(File::One(evidence)));
    assert_eq!(judge(&pretty, options()).outcome, Outcome::Holds);
    value.as_object_mut().unwrap().remove("support");
    assert!(
        matches!(File::parse(value.to_string().as_bytes()), Ok(File::One(e)) if e.support.is_empty())
    );
    for name in ["leaf", "proof", "format"] {
        let mut value = value.clone();
        value.as_object_mut().unwrap().remove(name);
        assert!(
            matches!(
                File::parse(value.to_string().as_bytes()),
                Err(EvidenceError::Form(_))
            ),
            "{name}"
        );
    }
    for name in ["checkpoint", "leaves", "multi"] {
        let mut value: Value = serde_json::from_slice(&set.to_json()).unwrap();
        value.as_object_mut().unwrap().remove(name);
        assert!(
            matches!(
                File::parse(value.to_string().as_bytes()),
                Err(EvidenceError::Form(_))
            ),
            "{name}"
        );
    }
    let doubled = value.to_string().replacen("{\"", "{\"leaf\":\"\",\"", 1);
    assert!(matches!(
        File::parse(doubled.as_bytes()),
        Err(EvidenceError::Form(_))
    ));
    let text = value
        .to_string()
        .replacen("tlog-proof@v1", "tlog-proof@v9", 1);
    assert!(matches!(
        File::parse(text.as_bytes()),
        Err(EvidenceError::Proof(_))
    ));
}

proptest! {
    #[test]
    fn sets_and_evidence_survive_their_own_spelling(picks in prop::collection::btree_set(0u64..12, 1..8), support in prop::collection::vec(0u64..12, 0..4)) {
        let mut world = World::with_agent();
        for i in 0u8..10 {
            world.agent_receipt(&[i; 3]);
        }
        let picks: Vec<u64> = picks.into_iter().collect();
        let set = world.set(&picks, &support);
        prop_assert_eq!(File::parse(&set.to_json()), Ok(File::Set(set)));
        let evidence = world.evidence(picks[0], &support);
        prop_assert_eq!(File::parse(&evidence.to_json()), Ok(File::One(evidence)));
        prop_assert_eq!(judge(&world.set(&picks, &[0, 1]).to_json(), options()).outcome, Outcome::Holds);
    }

    #[test]
    fn one_changed_byte_of_a_file_never_holds_for_another_leaf(at in any::<prop::sample::Index>(), to in any::<u8>()) {
        let (_, evidence) = receipt();
        let mut file = evidence.to_json();
        let at = at.index(file.len());
        file[at] = to;
        let verdict = judge(&file, options());
        if verdict.outcome == Outcome::Holds {
            prop_assert_eq!(verdict.subjects[0].leaf_hash, leaf_hash(&evidence.leaf));
        }
    }
}
