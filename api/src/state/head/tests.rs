use countersign_verifier::{
    fork::{Fork, Node},
    hash::{EMPTY_ROOT, leaf_hash},
    leaf::Millis,
    operation::Operation,
    tile::hash_of,
    vkey::NoteSigner,
};
use serde_json::{Map, Value, json};

use super::*;
use crate::{
    code::Code,
    state::{At, Caller, Decided, Identity, State, identity::Possession},
};
use countersign_verifier::{key::PrivateKey, leaf::Class};

const ORIGIN: &str = "example.com/other";

fn signer() -> NoteSigner {
    let key = PrivateKey::from_secret(countersign_verifier::key::Algorithm::Ed25519, &[9; 32]);
    let PrivateKey::Ed25519(key) = key.unwrap() else {
        panic!("an Ed25519 key")
    };
    NoteSigner::new("example.com/key", key).unwrap()
}

fn tracking(origin: &str, vkey: &str) -> State {
    let mut state = State::default();
    state.heads.insert(Tracked {
        origin: origin.into(),
        key: VerifierKey::parse(vkey).unwrap(),
        index: 1,
        proved: None,
        unproven_since: None,
        fork: None,
        kept: OrdMap::new(),
    });
    state
}

fn operation(arguments: Value) -> Operation {
    Operation {
        tool: "head_submit".into(),
        arguments,
        log: "localhost/dev".into(),
        session: None,
        nonce: "0123456789abcdef".into(),
        issued_at: Millis(0),
        prev: Vec::new(),
        observed: None,
    }
}

fn anybody() -> Identity {
    let key = PrivateKey::from_secret(countersign_verifier::key::Algorithm::Ed25519, &[1; 32]);
    let public = key.unwrap().public();
    Identity {
        id: public.identity(),
        name: "anybody".into(),
        roles: Vec::new(),
        class: Class::AgentKey,
        key: public.into(),
        retired: Vec::new(),
        possession: Possession::Proved,
        enrolled: None,
        rotations: Vec::new(),
        revoked: None,
    }
}

/// Judges a head and takes it in at the next index; the effect, or the code of the refusal, which changes nothing.
fn submit(state: &mut State, arguments: Value) -> Result<Map<String, Value>, Code> {
    let operation = operation(arguments);
    let identity = anybody();
    let caller = Caller::from(&identity);
    let at = At {
        at: state.at,
        index: state.size,
    };
    match (SUBMIT.decide)(state, &caller, &operation, at) {
        Decided::Refused(code, ..) => Err(code),
        Decided::Applied(effect) => {
            state.at += 1_000;
            state.size += 1;
            let index = state.size;
            (SUBMIT.apply)(state, identity.id, &operation, &effect, index).unwrap();
            let again = State::from_snapshot(&state.to_snapshot());
            assert_eq!(again.as_ref().map(|s| &s.heads), Some(&state.heads));
            Ok(effect)
        }
    }
}

fn leaves(n: u64) -> Vec<Hash> {
    (0..n).map(|n| leaf_hash(&n.to_be_bytes())).collect()
}

fn note(size: u64, root: &Hash) -> String {
    let text = format!("{ORIGIN}\n{size}\n{}\n", root.to_base64());
    format!("{text}\n{}", signer().sign(&text))
}

fn head(size: u64) -> String {
    note(size, &hash_of(&leaves(size)))
}

/// RFC 9162 section 2.1.4.1.
fn proof(old: usize, leaves: &[Hash], whole: bool) -> Vec<Hash> {
    if old == leaves.len() {
        return if whole {
            Vec::new()
        } else {
            vec![hash_of(leaves)]
        };
    }
    let split = 1 << (leaves.len() - 1).ilog2();
    let (left, right) = leaves.split_at(split);
    let (mut path, sibling) = if old <= split {
        (proof(old, left, whole), right)
    } else {
        (proof(old - split, right, false), left)
    };
    path.push(hash_of(sibling));
    path
}

fn with_proof(old: usize, size: u64) -> Value {
    let hashes = proof(old, &leaves(size), true);
    let hashes: Vec<String> = hashes.iter().map(Hash::to_base64).collect();
    json!({"checkpoint": head(size), "proof": hashes})
}

fn alone(note: &str) -> Value {
    json!({ "checkpoint": note })
}

#[test]
fn a_head_is_consistent_unproven_stale_or_a_fork() {
    let mut state = tracking(ORIGIN, &signer().vkey().to_string());
    let outcome = |state: &mut State, arguments: Value| {
        submit(state, arguments).map(|effect| effect["outcome"].as_str().unwrap().to_owned())
    };
    let ok = |word: &str| Ok(word.to_owned());
    let tracked = |state: &State| state.heads.get(ORIGIN).unwrap().clone();
    assert_eq!(outcome(&mut state, alone(&head(5))), ok("consistent"));
    assert_eq!(outcome(&mut state, alone(&head(5))), ok("consistent"));
    assert_eq!(outcome(&mut state, alone(&head(9))), ok("unproven"));
    assert_eq!(tracked(&state).proved.unwrap().size, 5);
    let since = tracked(&state).unproven_since;
    assert_eq!(outcome(&mut state, alone(&head(11))), ok("unproven"));
    assert_eq!(tracked(&state).unproven_since, since);
    // Proofs from another size, or to another tree, are refused and change nothing.
    let before = state.clone();
    for bad in [
        with_proof(4, 12),
        with_proof(5, 13)["proof"].clone(),
        json!([]),
    ] {
        let arguments = match bad {
            Value::Object(_) => bad,
            proof => json!({"checkpoint": head(12), "proof": proof}),
        };
        assert_eq!(outcome(&mut state, arguments), Err(Code::ProofInvalid));
    }
    for bad in [json!(["x"]), json!(vec!["x"; 64]), json!("x")] {
        let arguments = json!({"checkpoint": head(12), "proof": bad});
        assert_eq!(outcome(&mut state, arguments), Err(Code::Malformed));
    }
    assert_eq!(state, before);
    assert_eq!(outcome(&mut state, with_proof(5, 12)), ok("consistent"));
    assert_eq!(
        (
            tracked(&state).proved.unwrap().size,
            tracked(&state).unproven_since
        ),
        (12, None)
    );
    assert_eq!(outcome(&mut state, alone(&head(7))), ok("stale"));
    assert!(tracked(&state).fork.is_none());
    // Against the proved head, an unproven one, and a stale one.
    for size in [12, 11, 7] {
        let mut state = state.clone();
        let effect = submit(&mut state, alone(&note(size, &leaf_hash(b"other")))).unwrap();
        assert_eq!(effect["outcome"], "fork");
        assert_eq!(effect["against"]["size"], size);
        let pair = (effect["against"]["index"].as_u64().unwrap(), state.size);
        assert_eq!(tracked(&state).fork, Some(pair));
        assert_eq!(tracked(&state).proved.unwrap().size, 12);
    }
}

/// Evidence with a node: a tree of one leaf, and one of two that begins otherwise.
fn two_sizes() -> Fork {
    let [one, other, second] = [b"one", b"two", b"six"].map(|leaf| leaf_hash(leaf));
    Fork {
        checkpoints: [note(1, &one), note(2, &hash_of(&[other, second]))],
        node: Some(Node {
            level: 0,
            index: 0,
            hashes: [one, other],
            paths: [Vec::new(), vec![second]],
        }),
    }
}

#[test]
fn evidence_of_a_fork_is_judged_by_the_tracked_key_alone() {
    let fresh = || tracking(ORIGIN, &signer().vkey().to_string());
    let evidence = |fork: &Fork| json!({"evidence": String::from_utf8(fork.to_json()).unwrap()});
    let one_size = Fork {
        checkpoints: [note(5, &leaf_hash(b"a")), note(5, &leaf_hash(b"b"))],
        node: None,
    };
    for (fork, size, leaves) in [
        (one_size.clone(), 5, Value::Null),
        (two_sizes(), 2, json!({"start": 0, "end": 1})),
    ] {
        let mut state = fresh();
        let effect = submit(&mut state, evidence(&fork)).unwrap();
        assert_eq!(effect["outcome"], "fork");
        assert_eq!(
            (
                &effect["size"],
                effect.get("leaves").cloned().unwrap_or_default()
            ),
            (&json!(size), leaves)
        );
        let tracked = state.heads.get(ORIGIN).unwrap();
        assert_eq!((tracked.fork, &tracked.proved), (Some((1, 1)), &None));
        assert_eq!(state.fork_recorded(&fork), Some(1));
        // Its second head is compared from now on.
        let effect = submit(&mut state, alone(&note(size, &leaf_hash(b"c")))).unwrap();
        assert_eq!(effect["outcome"], "fork");
    }
    let mut wrong = two_sizes();
    wrong.node.as_mut().unwrap().paths[1].clear();
    let same = Fork {
        checkpoints: [head(5), head(5)],
        node: None,
    };
    let mut unsigned = one_size.clone();
    unsigned.checkpoints[1] = unsigned.checkpoints[1].replace("\n5\n", "\n6\n");
    let mut elsewhere = one_size;
    elsewhere.checkpoints[0] = elsewhere.checkpoints[0].replace(ORIGIN, "example.com/none");
    let text = String::from_utf8(two_sizes().to_json()).unwrap();
    let mut state = fresh();
    for (arguments, code) in [
        (evidence(&wrong), Code::ProofInvalid),
        (evidence(&same), Code::ProofInvalid),
        (evidence(&unsigned), Code::CheckpointInvalid),
        (evidence(&elsewhere), Code::NotFound),
        (json!({"evidence": "{}"}), Code::Malformed),
        (
            json!({"evidence": text.clone() + &" ".repeat(30_000)}),
            Code::Malformed,
        ),
        (
            json!({"evidence": text, "checkpoint": head(5)}),
            Code::Malformed,
        ),
        (json!({}), Code::Malformed),
    ] {
        assert_eq!(
            submit(&mut state, arguments.clone()),
            Err(code),
            "{arguments}"
        );
    }
    assert_eq!(state, fresh(), "what proves nothing changes nothing");
}

#[test]
fn everything_follows_the_empty_tree() {
    // T6, T22
    let mut state = tracking(ORIGIN, &signer().vkey().to_string());
    let bad = alone(&note(0, &leaf_hash(b"")));
    assert_eq!(submit(&mut state, bad), Err(Code::CheckpointInvalid));
    for arguments in [alone(&note(0, &EMPTY_ROOT)), alone(&head(3))] {
        assert_eq!(
            submit(&mut state, arguments).unwrap()["outcome"],
            "consistent"
        );
    }
}

#[test]
fn a_note_is_recorded_once_unless_a_proof_says_more() {
    let mut state = tracking(ORIGIN, &signer().vkey().to_string());
    assert_eq!(state.head_recorded(&head(5), false), None);
    submit(&mut state, alone(&head(5))).unwrap();
    submit(&mut state, alone(&head(9))).unwrap();
    assert_eq!(state.head_recorded(&head(5), true), Some(1));
    assert_eq!(state.head_recorded(&head(9), false), Some(2));
    assert_eq!(state.head_recorded(&head(9), true), None);
    submit(&mut state, with_proof(5, 9)).unwrap();
    // What is kept is bounded, whatever comes.
    for n in 0..2 * KEPT_MAX {
        let oldest = state
            .heads
            .get(ORIGIN)
            .unwrap()
            .kept
            .get_min()
            .map(|(index, _)| *index);
        let effect = submit(&mut state, alone(&head(3))).unwrap();
        // Who brings it is told which one is no longer compared: the oldest leaf's, from the 65th on.
        let forgets = effect.get("forgets").and_then(Value::as_u64);
        assert_eq!(forgets, oldest.filter(|_| n + 3 >= KEPT_MAX), "{n}");
    }
    let tracked = state.heads.get(ORIGIN).unwrap();
    assert_eq!(
        (tracked.kept.len(), tracked.proved.as_ref().unwrap().size),
        (KEPT_MAX, 9)
    );
}

#[test]
fn real_checkpoints_are_taken_or_refused_for_the_right_reason() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../tests/vectors/checkpoint_signed.json"
    );
    let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let vectors = file["vectors"].as_array().unwrap();
    let (mut taken, mut kinds) = (0, std::collections::BTreeSet::new());
    for vector in vectors {
        let note = vector["note"].as_str().unwrap();
        let origin = note.split('\n').next().unwrap();
        let keys = vector["vkeys"].as_array().unwrap();
        let mut any = false;
        for vkey in keys.iter().map(|v| v.as_str().unwrap()) {
            let key = VerifierKey::parse(vkey).unwrap();
            let line =
                |s: &&Value| s["name"] == key.name.as_str() && s["key_id"] == key.id.to_string();
            let lines = vector["signatures"].as_array();
            let status = lines
                .and_then(|l| l.iter().find(line))
                .map(|s| s["status"].as_str().unwrap());
            let got = submit(&mut tracking(origin, vkey), alone(note));
            match (status, vector["result"].as_str().unwrap()) {
                // Witnesses' keys are no log's.
                _ if matches!(key.algorithm.kind(), 0x04 | 0x06) => {
                    assert_eq!(got, Err(Code::KeyTypeNotTaken), "{vector}");
                }
                (Some("verifies"), "ok") => {
                    assert_eq!(got.as_ref().unwrap()["outcome"], "consistent", "{vector}");
                    assert_eq!(
                        got.unwrap()["size"].to_string(),
                        vector["size"].as_str().unwrap()
                    );
                    kinds.insert(key.algorithm.kind());
                    any = true;
                }
                _ => assert_eq!(got, Err(Code::CheckpointInvalid), "{vector}"),
            }
        }
        taken += usize::from(any);
    }
    // Ed25519, ECDSA (Rekor v1, Pixel), RFC 6962 (static-ct).
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), [0x01, 0x02, 0x05]);
    assert!(taken > 35, "{taken} of {}", vectors.len());
    // Of another log than the key is tracked for, nothing is taken.
    let vkey = signer().vkey().to_string();
    let mut state = tracking(ORIGIN, &vkey);
    assert_eq!(
        submit(&mut state, alone("x\n1\ny\n\n")),
        Err(Code::NotFound)
    );
}
