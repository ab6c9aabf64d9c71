//! Evidence files, from bytes to verdict: frozen examples that hold, do not hold, and cannot be told.

use countersign_verifier::dsse::pae;
use countersign_verifier::evidence::{Evidence, EvidenceError, EvidenceSet, File};
use countersign_verifier::hash::{leaf_hash, sha256};
use countersign_verifier::key::PrivateKey;
use countersign_verifier::leaf::{Class, Decision};
use countersign_verifier::operation;
use countersign_verifier::statement;
use countersign_verifier::verdict::{Options, Outcome, Status, Verdict, Verifier};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::keys::ed25519;
use crate::leaf::{frozen, own};
use crate::support::{self, V1_TIME, text, vectors};
use crate::world::{self, TYPE, World, eras, judge, options, relabel};

/// An example: what it is, the file, the policy's quorum, what the reader holds, and what comes out.
struct Example {
    id: &'static str,
    file: Vec<u8>,
    quorum: &'static str,
    options: Options,
    /// The name and status of the check that decides, and words of its reason.
    decides: (&'static str, &'static str, &'static str),
}

fn example(
    id: &'static str,
    file: Vec<u8>,
    decides: (&'static str, &'static str, &'static str),
) -> Example {
    Example {
        id,
        file,
        quorum: "w",
        options: options(),
        decides,
    }
}

/// The agent's receipt at 2, enrolled at 1 by the owner.
fn receipt() -> (World, Evidence) {
    let mut world = World::with_agent();
    let at = world.agent_receipt(br#"{"run":"r-1","amount":9007199254740993}"#);
    world.system(r#"{"type":"session_expired","session":"s-1"}"#);
    let evidence = world.evidence(at, &[0, 1]);
    (world, evidence)
}

fn pinned(keys: &[&PrivateKey]) -> Options {
    Options {
        keys: Some(keys.iter().map(|key| key.public()).collect()),
        ..options()
    }
}

fn holding() -> Vec<Example> {
    let (world, evidence) = receipt();
    let mut all = vec![example(
        "receipt",
        evidence.to_json(),
        (
            "signers",
            "pass",
            "enrolled at 1 by the owner in leaf 0; enrolled by the log, not pinned by you",
        ),
    )];
    let mut one = example(
        "receipt-pinned",
        evidence.to_json(),
        ("signers", "pass", "pinned by you"),
    );
    one.options = pinned(&[&ed25519(3)]);
    all.push(one);
    let mut one = example(
        "receipt-pinned-without-support",
        world.evidence(2, &[]).to_json(),
        ("signers", "pass", "pinned by you; no leaf here enrols it"),
    );
    one.options = pinned(&[&ed25519(3)]);
    all.push(one);
    let mut one = example(
        "receipt-and-its-payload",
        evidence.to_json(),
        ("payload", "pass", "equals the file of 39 bytes"),
    );
    one.options.payload = Some(br#"{"run":"r-1","amount":9007199254740993}"#.to_vec());
    all.push(one);
    let mut one = example(
        "quorum-none",
        evidence.to_json(),
        ("witnesses", "skipped", "quorum none"),
    );
    one.quorum = "none";
    all.push(one);
    all.push(example(
        "opening",
        world.evidence(0, &[]).to_json(),
        ("signers", "skipped", "the service's own statement"),
    ));
    all.push(example(
        "system",
        world.evidence(3, &[]).to_json(),
        ("envelope", "skipped", "the service's own statement"),
    ));
    all.push(example(
        "operation",
        world.evidence(1, &[0]).to_json(),
        (
            "payload",
            "pass",
            "operation identity_enroll for log \"log.example/a\"",
        ),
    ));
    all.push(example(
        "set",
        world.set(&[1, 2, 3], &[0, 1]).to_json(),
        ("inclusion", "pass", "3 leaves included"),
    ));

    let mut world = World::with_agent();
    let (owner, agent, second) = (ed25519(4), ed25519(3), ed25519(6));
    let id = agent.public().identity();
    let before = world.agent_receipt(b"before");
    let rotation = world.rotate(&owner, id, &second, Class::AgentKey);
    let after = world.receipt(TYPE, b"after", &[(id, &second)]);
    all.push(example(
        "before-a-rotation",
        world.evidence(before, &[0, 1, rotation]).to_json(),
        ("signers", "pass", "retired at leaf 3"),
    ));
    all.push(example(
        "after-a-rotation",
        world.evidence(after, &[rotation, 1, 0]).to_json(),
        ("signers", "pass", "with its key since leaf 3"),
    ));

    let mut world = World::with_agent();
    let (deputy, seat) = (ed25519(7), ed25519(8));
    world.enroll(&agent, "deputy", &deputy, Class::AgentKey, true);
    let at = world.enroll(&deputy, "seat", &seat, Class::SeatKey, false);
    let payload = world
        .operation_payload("task_add", json!({"title": "x"}))
        .to_json();
    let seat_id = seat.public().identity();
    let at_operation = world.operate(
        (seat_id, Class::SeatKey, &seat),
        &payload,
        Decision::Refused {
            code: "NOT_ALLOWED",
            detail: "{}",
        },
    );
    assert_eq!((at, at_operation), (3, 4));
    all.push(example(
        "a-seat-three-enrolments-deep",
        world.evidence(4, &[0, 1, 2, 3]).to_json(),
        ("signers", "pass", "the service holds this key"),
    ));

    let mut world = World::with_agent();
    let artifact = sha256(b"an artifact");
    let value = json!({"_type": statement::TYPE, "predicateType": "https://example.com/built/v1",
        "subject": [{"name": "out", "digest": {"sha256": artifact.to_hex()}}]});
    let at = world.receipt(
        statement::PAYLOAD_TYPE,
        value.to_string().as_bytes(),
        &[(id, &agent)],
    );
    let mut one = example(
        "an-artifact",
        world.evidence(at, &[0, 1]).to_json(),
        ("payload", "pass", "has subject sha256"),
    );
    one.options.artifact = Some(artifact);
    all.push(one);
    all
}

/// A leaf that lies, with honest proofs: only what it says can be wrong with it.
fn lying(change: impl FnOnce(&mut World)) -> World {
    let (mut world, _) = receipt();
    change(&mut world);
    world
}

fn failing() -> Vec<Example> {
    let (world, evidence) = receipt();
    let other = |change: &dyn Fn(&mut Evidence)| {
        let mut evidence = evidence.clone();
        change(&mut evidence);
        evidence.to_json()
    };
    let mut all = vec![
        example(
            "another-leaf",
            other(&|e| e.leaf = relabel(&e.leaf, "22.468Z", "23.468Z")),
            (
                "inclusion",
                "fail",
                "not shown to be at index 2 in a tree of size 4",
            ),
        ),
        example(
            "another-index",
            other(&|e| e.proof.index = 3),
            ("inclusion", "fail", "not shown to be at index 3"),
        ),
        example(
            "a-hash-too-many",
            other(&|e| e.proof.path.push(leaf_hash(b"x"))),
            ("inclusion", "fail", "size 4"),
        ),
        example(
            "a-support-leaf-elsewhere",
            other(&|e| e.support[1].index = 3),
            ("signers", "fail", "support leaf 3"),
        ),
        example(
            "a-support-leaf-twice",
            other(&|e| {
                let mut two = e.support[0].clone();
                two.path.pop();
                e.support.push(two);
            }),
            ("signers", "fail", "two leaves at this index"),
        ),
        example(
            "unsigned-checkpoint",
            other(&|e| e.proof.checkpoint = world.head() + "\n\u{2014} x AAAAAAA=\n"),
            ("checkpoint", "fail", "no signature from a trusted key"),
        ),
        example(
            "no-witness",
            other(&|e| e.proof.checkpoint = without_witness(&world)),
            (
                "witnesses",
                "fail",
                "signed by the log, but by no witness of quorum w",
            ),
        ),
        example(
            "not-a-leaf",
            other(&|e| e.leaf = b"{\"v\":1,\"kind\":\"receipt\"}".to_vec()),
            ("leaf", "fail", "malformed leaf"),
        ),
    ];
    let mut one = example(
        "another-payload",
        evidence.to_json(),
        ("payload", "fail", "from byte 22 on"),
    );
    one.options.payload = Some(br#"{"run":"r-1","amount":9007199254740992}"#.to_vec());
    one.options.payload.as_mut().unwrap()[22] = b'8';
    all.push(one);
    let mut one = example(
        "no-statement",
        evidence.to_json(),
        ("payload", "fail", "is no in-toto statement"),
    );
    one.options.artifact = Some(sha256(b"x"));
    all.push(one);
    let (owner, agent, id) = (ed25519(4), ed25519(3), ed25519(3).public().identity());
    let forged = lying(|world| {
        world.receipt(TYPE, b"forged", &[(id, &ed25519(9))]);
    });
    all.push(example(
        "a-signature-by-another-key",
        forged.evidence(4, &[0, 1]).to_json(),
        ("envelope", "fail", "bad signature"),
    ));
    let revoked = lying(|world| {
        world.revoke(&owner, id);
        world.agent_receipt(b"too late");
    });
    all.push(example(
        "after-the-revocation",
        revoked.evidence(5, &[0, 1, 4]).to_json(),
        ("signers", "fail", "revoked at 4, before this leaf"),
    ));
    all.push(example(
        "before-the-enrolment",
        {
            let mut w = World::open();
            w.agent_receipt(b"early");
            w.enroll(&owner, "agent", &agent, Class::AgentKey, true);
            w.evidence(1, &[0, 2]).to_json()
        },
        ("signers", "fail", "enrolled at 2, not before this leaf"),
    ));
    let class = lying(|world| {
        world.receipt_of(TYPE, b"x", &[(id, &agent)], Class::ServiceKey);
    });
    all.push(example(
        "another-class",
        class.evidence(4, &[0, 1]).to_json(),
        ("signers", "fail", "the leaf says service_key"),
    ));
    let elsewhere = lying(|world| {
        let payload = world.operation_payload("task_add", json!({})).to_json();
        let payload = String::from_utf8(payload)
            .unwrap()
            .replace("log.example/a", "log.example/b");
        world.operate(
            (id, Class::AgentKey, &agent),
            payload.as_bytes(),
            Decision::Applied { effect: "{}" },
        );
    });
    all.push(example(
        "an-operation-for-another-log",
        elsewhere.evidence(4, &[0, 1]).to_json(),
        ("payload", "fail", "signed for log \"log.example/b\""),
    ));
    let typed = lying(|world| {
        world.receipt(operation::PAYLOAD_TYPE, b"{}", &[(id, &agent)]);
    });
    all.push(example(
        "an-operation-as-a-receipt",
        typed.evidence(4, &[0, 1]).to_json(),
        ("envelope", "fail", "in a leaf of kind receipt"),
    ));
    let mut late = World::with_agent();
    late.clock_ms = V1_TIME * 1000 + 660_001;
    late.agent_receipt(b"x");
    all.push(example("a-time-after-its-witness", late.evidence(2, &[0, 1]).to_json(), ("witnesses", "fail", "660.001 s after the earliest of them: a later time than its witnesses can have seen it at")));
    let (set, mut wrong) = (world.set(&[1, 2], &[0, 1]), world.set(&[1, 2], &[0, 1]));
    wrong.leaves[1].1 = world.leaves[3].clone();
    all.push(example(
        "a-set-with-another-leaf",
        wrong.to_json(),
        ("inclusion", "fail", "the leaves do not lead to the root"),
    ));
    let doubled = EvidenceSet {
        leaves: vec![
            set.leaves[0].clone(),
            set.leaves[1].clone(),
            set.leaves[1].clone(),
        ],
        ..set
    };
    all.push(example(
        "a-set-with-a-leaf-twice",
        doubled.to_json(),
        ("inclusion", "fail", "index 2 is out of order"),
    ));
    all.push(example(
        "malformed",
        b"{\"format\":\"countersign.evidence/1\",\"leaf\":\"!\"}".to_vec(),
        ("leaf", "fail", "malformed evidence"),
    ));
    all.push(example(
        "not-json",
        b"hello".to_vec(),
        ("leaf", "fail", "malformed evidence"),
    ));
    all
}

fn without_witness(world: &World) -> String {
    let text = world.head();
    format!("{text}\n{}", support::log_signer().sign(&text))
}

fn untold() -> Vec<Example> {
    let (world, evidence) = receipt();
    let mut all = vec![
        example(
            "a-newer-format",
            b"{\"leaf\":7,\"format\":\"countersign.evidence/2\"}".to_vec(),
            ("leaf", "unknown", "unsupported version"),
        ),
        example(
            "another-format",
            b"{\"format\":\"countersign.fork/1\",\"checkpoints\":[]}".to_vec(),
            ("leaf", "unknown", "unsupported version"),
        ),
        example(
            "no-support",
            world.evidence(2, &[]).to_json(),
            ("signers", "unknown", "unknown key: no leaf here enrols it"),
        ),
        example(
            "a-link-missing",
            world.evidence(2, &[1]).to_json(),
            ("signers", "unknown", "whom no leaf here shows"),
        ),
    ];
    let mut one = example(
        "a-key-that-is-not-pinned",
        evidence.to_json(),
        (
            "signers",
            "unknown",
            "unknown key: not among the keys that you gave",
        ),
    );
    one.options = pinned(&[&ed25519(9)]);
    all.push(one);
    let mut newer = World::with_agent();
    let leaf = relabel(&newer.leaves[1], "\"v\":1", "\"v\":2");
    newer.leaves.push(leaf);
    newer.agent_receipt(b"x");
    all.push(example(
        "a-newer-leaf",
        newer.evidence(2, &[0, 1]).to_json(),
        ("leaf", "unknown", "newer form"),
    ));
    all.push(example(
        "a-newer-leaf-in-the-support",
        newer.evidence(3, &[0, 1, 2]).to_json(),
        ("signers", "unknown", "newer form"),
    ));
    let mut other = World::open();
    other.origin = "other.example/log".into();
    all.push(example(
        "a-log-that-the-policy-does-not-name",
        other.evidence(0, &[]).to_json(),
        ("checkpoint", "unknown", "is not in the policy"),
    ));
    all
}

fn run(example: &Example) -> Verdict {
    Verifier::new(eras(example.quorum), example.options.clone()).evidence(&example.file)
}

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
    assert_eq!(made.len(), 42);
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

#[test]
fn chains_cannot_be_talked_into_anything() {
    let (owner, agent, other) = (ed25519(4), ed25519(3), ed25519(9));
    let (id, other_id) = (agent.public().identity(), other.public().identity());
    // Each world has a receipt by seed 9 at its end; the enrolment before it is not what it should be.
    type Change = Box<dyn Fn(&mut World)>;
    let text = |leaf: &[u8]| String::from_utf8(leaf.to_vec()).unwrap();
    let cases: Vec<(&str, &str, Change)> = vec![
        (
            "signed by somebody else",
            "the signature of",
            Box::new(move |w| {
                let payload = w
                    .operation_payload(
                        "identity_enroll",
                        json!({"name": "x", "public_key": world::spki(&ed25519(9).public())}),
                    )
                    .to_json();
                let effect = json!({"identity": other_id.to_string(), "class": "agent_key", "possession": "stated"}).to_string();
                w.operate(
                    (ed25519(4).public().identity(), Class::AgentKey, &ed25519(9)),
                    &payload,
                    Decision::Applied { effect: &effect },
                );
            }),
        ),
        (
            "the service enrols",
            "under an agent_key only",
            Box::new(move |w| {
                let payload = w
                    .operation_payload(
                        "identity_enroll",
                        json!({"name": "x", "public_key": world::spki(&ed25519(9).public())}),
                    )
                    .to_json();
                let effect = json!({"identity": other_id.to_string(), "class": "service_key", "possession": "stated"}).to_string();
                w.operate(
                    (
                        ed25519(5).public().identity(),
                        Class::ServiceKey,
                        &ed25519(5),
                    ),
                    &payload,
                    Decision::Applied { effect: &effect },
                );
            }),
        ),
        (
            "the effect names another identity",
            "not this key's identity",
            Box::new(move |w| {
                w.enroll(&ed25519(4), "x", &ed25519(9), Class::AgentKey, false);
                let last = w.leaves.last_mut().unwrap();
                let (head, effect) = std::str::from_utf8(last)
                    .unwrap()
                    .split_once("\"effect\"")
                    .unwrap();
                *last = format!(
                    "{head}\"effect\"{}",
                    effect.replace(
                        &other_id.to_string(),
                        &ed25519(8).public().identity().to_string()
                    )
                )
                .into();
            }),
        ),
        (
            "a possession that is not there",
            "possession",
            Box::new(move |w| {
                w.enroll(&ed25519(4), "x", &ed25519(9), Class::AgentKey, false);
                let last = w.leaves.last_mut().unwrap();
                *last = relabel(last, "\"stated\"", "\"proved\"");
            }),
        ),
        (
            "a class that was not asked for",
            "enrol a key of this class",
            Box::new(move |w| {
                w.enroll(&ed25519(4), "x", &ed25519(9), Class::SeatKey, false);
                let last = w.leaves.last_mut().unwrap();
                *last = relabel(last, "\"class\":\"seat_key\"", "\"class\":\"session_key\"");
            }),
        ),
        (
            "twice",
            "had been enrolled before",
            Box::new(move |w| {
                w.enroll(&ed25519(4), "x", &ed25519(9), Class::AgentKey, false);
                w.enroll(&ed25519(4), "x", &ed25519(9), Class::AgentKey, false);
            }),
        ),
        (
            "by one who was revoked",
            "it had been revoked",
            Box::new(move |w| {
                w.revoke(&ed25519(4), id);
                w.enroll(&ed25519(3), "x", &ed25519(9), Class::AgentKey, false);
            }),
        ),
        (
            "for another log",
            "it is for log \"elsewhere.example/x\"",
            Box::new(move |w| {
                w.origin = "elsewhere.example/x".into();
                w.enroll(&ed25519(4), "x", &ed25519(9), Class::AgentKey, false);
                w.origin = world::ORIGIN.into();
            }),
        ),
        (
            "another opening later on",
            "not the opening of a log",
            Box::new(move |w| {
                let event = w.opened(&ed25519(9).public());
                w.system(&event);
            }),
        ),
    ];
    for (name, words, change) in cases {
        let mut world = World::with_agent();
        change(&mut world);
        let at = world.receipt(TYPE, b"x", &[(other_id, &other)]);
        let support: Vec<u64> = (0..at).collect();
        let verdict = judge(&world.evidence(at, &support).to_json(), options());
        let signers = &verdict.checks[2];
        assert_eq!(
            (verdict.outcome, signers.status),
            (Outcome::DoesNotHold, Status::Fail),
            "{name}: {signers:?}"
        );
        assert!(signers.detail.contains(words), "{name}: {signers:?}");
    }
    // A refused enrolment enrols nobody.
    let mut world = World::with_agent();
    let payload = world
        .operation_payload(
            "identity_enroll",
            json!({"name": "x", "public_key": world::spki(&other.public())}),
        )
        .to_json();
    world.operate(
        (owner.public().identity(), Class::AgentKey, &owner),
        &payload,
        Decision::Refused {
            code: "NO",
            detail: "{}",
        },
    );
    let at = world.receipt(TYPE, b"x", &[(other_id, &other)]);
    assert_eq!(
        judge(&world.evidence(at, &[0, 1, 2]).to_json(), options()).outcome,
        Outcome::CannotTell
    );
    // Leaf 0 of another origin under this checkpoint.
    let mut world = World::open();
    world.leaves[0] = text(&world.leaves[0])
        .replace(
            "\"origin\":\"log.example/a\"",
            "\"origin\":\"log.example/b\"",
        )
        .into();
    let at = world.receipt(TYPE, b"x", &[(owner.public().identity(), &owner)]);
    let verdict = judge(&world.evidence(at, &[0]).to_json(), options());
    assert!(
        verdict.checks[2].detail.contains("log.example/b"),
        "{verdict:#?}"
    );
    assert_eq!(verdict.outcome, Outcome::DoesNotHold);
}

#[test]
fn b155_b156_rotation_does_not_look_like_forgery() {
    let mut world = World::with_agent();
    let (owner, first, second) = (ed25519(4), ed25519(3), ed25519(6));
    let id = first.public().identity();
    let receipt = world.agent_receipt(b"under key 1");
    let rotation = world.rotate(&first, id, &second, Class::AgentKey);
    let later = world.receipt(TYPE, b"under key 2", &[(id, &second)]);
    world.rotate(&owner, id, &ed25519(7), Class::AgentKey);
    let (old, new) = (
        world.evidence(receipt, &[0, 1, rotation]),
        world.evidence(later, &[0, 1, rotation, 5]),
    );
    let signers = |evidence: &Evidence, options| {
        let verdict = judge(&evidence.to_json(), options);
        (verdict.outcome, verdict.checks[2].detail.clone())
    };
    let (outcome, detail) = signers(&old, pinned(&[&first]));
    assert_eq!(outcome, Outcome::Holds);
    assert!(
        detail.contains("retired at leaf 3") && detail.contains("pinned by you"),
        "{detail}"
    );
    let (outcome, detail) = signers(&new, pinned(&[&first]));
    assert_eq!(outcome, Outcome::CannotTell);
    assert!(detail.contains("unknown key"), "{detail}");
    assert_eq!(signers(&new, pinned(&[&second])).0, Outcome::Holds);
    assert_eq!(signers(&old, options()).0, Outcome::Holds);
    // Without the chain: a later key of the identity and a forgery look alike, so it cannot be told.
    let bare = world.evidence(later, &[]);
    assert_eq!(signers(&bare, pinned(&[&first])).0, Outcome::CannotTell);
    let (outcome, detail) = signers(&bare, pinned(&[&second]));
    assert_eq!(outcome, Outcome::Holds);
    assert!(
        detail.contains("which may be a later key of it"),
        "{detail}"
    );
}

#[test]
fn b124_cosignatures_of_the_future_do_not_count() {
    let (_, evidence) = receipt();
    let at = |now_s| {
        let verdict = judge(&evidence.to_json(), Options { now_s, ..options() });
        (
            verdict.outcome,
            verdict.checks[6].detail.clone(),
            verdict.cosigners.len(),
        )
    };
    assert_eq!(at(Some(V1_TIME - 30)).0, Outcome::Holds);
    let (outcome, detail, cosigners) = at(Some(V1_TIME - 31));
    assert_eq!((outcome, cosigners), (Outcome::DoesNotHold, 0));
    assert!(
        detail.contains("not counted, as dated ahead of this clock: w at 2023-11-14T22:13:20.000Z"),
        "{detail}"
    );
    assert_eq!(at(None).0, Outcome::Holds);
}

#[test]
fn the_claimed_time_is_shown_beside_the_witnesses() {
    for (offset_ms, outcome) in [
        (-3_600_000, Outcome::Holds),
        (0, Outcome::Holds),
        (660_000, Outcome::Holds),
        (660_001, Outcome::DoesNotHold),
    ] {
        let mut world = World::with_agent();
        world.clock_ms = (V1_TIME * 1000).checked_add_signed(offset_ms).unwrap();
        let at = world.agent_receipt(b"x");
        let verdict = judge(&world.evidence(at, &[0, 1]).to_json(), options());
        assert_eq!(verdict.outcome, outcome, "{offset_ms}");
        let side = if offset_ms < 0 { "before" } else { "after" };
        assert!(
            verdict.checks[6]
                .detail
                .contains(&format!(" s {side} the earliest of them")),
            "{:?}",
            verdict.checks[6]
        );
    }
}

#[test]
fn a_witness_that_no_quorum_needs_has_no_say_in_the_time() {
    use countersign_verifier::policy::{Eras, Policy};
    use countersign_verifier::vkey::CosignSigner;
    let mut world = World::with_agent();
    world.clock_ms = V1_TIME * 1000;
    let at = world.agent_receipt(b"x");
    let text = world.head();
    let signer = |name: &str, seed| {
        CosignSigner::new(name, ed25519_dalek::SigningKey::from_bytes(&[seed; 32])).unwrap()
    };
    let (extra, second) = (
        signer("extra.example/w", 20),
        signer("second.example/w", 21),
    );
    let checkpoint = format!(
        "{}{}{}",
        world.checkpoint(),
        extra.sign(&text, V1_TIME - 5_000),
        second.sign(&text, V1_TIME + 50)
    );
    let file = world.evidence_under(at, &[0, 1], &checkpoint).to_json();
    let policy = |quorum: &str| {
        let policy = format!(
            "log {}\nwitness w {}\nwitness extra {}\nwitness second {}\n{quorum}\n",
            support::LOG_VKEY,
            support::WITNESS_VKEY,
            extra.vkey(),
            second.vkey()
        );
        Verifier::new(Eras::one(Policy::parse(policy).unwrap()), options()).evidence(&file)
    };
    for (quorum, outcome) in [
        ("quorum w", Outcome::Holds),
        ("group both all w second\nquorum both", Outcome::Holds),
        ("group both all w extra\nquorum both", Outcome::DoesNotHold),
        ("quorum extra", Outcome::DoesNotHold),
    ] {
        let verdict = policy(quorum);
        assert_eq!(verdict.outcome, outcome, "{quorum}: {verdict:#?}");
        assert_eq!(verdict.cosigners.len(), 3);
    }
}

#[test]
fn every_example_of_one_log_comes_out_alike_from_one_verifier() {
    // What is remembered of one file must not change the answer about the next.
    let all: Vec<Example> = holding()
        .into_iter()
        .chain(failing())
        .chain(untold())
        .collect();
    let plain = || {
        all.iter().filter(|e| {
            e.quorum == "w"
                && e.options.keys.is_none()
                && e.options.payload.is_none()
                && e.options.artifact.is_none()
        })
    };
    let mut verifier = Verifier::new(eras("w"), options());
    for example in plain().chain(plain()) {
        assert_eq!(
            verifier.evidence(&example.file),
            run(example),
            "{}",
            example.id
        );
    }
}

/// T65: a signature that does not cover the origin, as RFC 6962's does not, says nothing about which log
/// it is from. Here the origin is under the log's signature, the witnesses' and each operation's.
#[test]
fn t65_the_origin_is_under_every_signature() {
    let (world, evidence) = receipt();
    let renamed = |note: String| note.replacen("log.example/a\n", "log.example/b\n", 1);
    let mut moved = evidence.clone();
    moved.proof.checkpoint = renamed(world.checkpoint());
    assert_ne!(judge(&moved.to_json(), options()).outcome, Outcome::Holds);
    let key = ed25519(3);
    let (id, class) = (key.public().identity(), Class::AgentKey);
    let message = operation::possession_message("log.example/a", id, class);
    assert_ne!(
        message,
        operation::possession_message("log.example/b", id, class)
    );
    assert!(message.starts_with(&pae(operation::POSSESSION_TYPE, b"")[..20]));
}

#[test]
fn every_proof_vector_comes_out_through_the_verdict() {
    let all = vectors("tlog_proof");
    assert_eq!(all.len(), 34);
    let mut judged = 0;
    for v in all {
        let (id, result) = (text(&v, "id"), text(&v, "result"));
        let logs = support::texts(&v, "log_vkeys");
        if logs.is_empty() || result == "container-ok" {
            continue;
        }
        let witnesses = support::texts(&v, "witness_vkeys");
        let mut policy: String = logs.iter().map(|key| format!("log {key}\n")).collect();
        for (i, key) in witnesses.iter().enumerate() {
            policy += &format!("witness w{i} {key}\n");
        }
        let names: Vec<String> = (0..witnesses.len()).map(|i| format!("w{i}")).collect();
        match v["quorum"].as_u64() {
            // A group has at most as many as it has members; one that asks for more can never be met.
            Some(k) if k as usize <= names.len() => {
                policy += &format!("group g {k} {}\nquorum g\n", names.join(" "))
            }
            Some(_) => {
                let other = "witness missing witness.example/w+cb1393dc+BIE5dw6ofRdfVqNUZsNMfszLjYqRtO43ol32D1uPybOU\n";
                policy += &format!("{other}group g all {} missing\nquorum g\n", names.join(" "));
            }
            None => policy += "quorum none\n",
        }
        let policy = countersign_verifier::policy::Policy::parse(&policy).expect(id);
        let mut verifier = Verifier::new(
            countersign_verifier::policy::Eras::one(policy),
            Options::default(),
        );
        let leaf =
            countersign_verifier::base64::decode(v["leaf_b64"].as_str().unwrap_or("")).unwrap();
        let verdict = verifier.proof(text(&v, "proof").as_bytes(), &leaf);
        judged += 1;
        let want = match result {
            "ok" => Outcome::Holds,
            "ok-or-malformed" => continue,
            // A newer version is not a broken one.
            "malformed" if text(&v, "proof").starts_with("c2sp.org/tlog-proof@v2") => {
                Outcome::CannotTell
            }
            _ => Outcome::DoesNotHold,
        };
        assert_eq!(verdict.outcome, want, "{id} {result}: {verdict:#?}");
    }
    assert!(judged >= 20, "{judged}");
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
