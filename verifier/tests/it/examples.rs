//! Evidence files that hold, do not hold, and cannot be told, and what comes out of each.

use countersign_verifier::evidence::{Evidence, EvidenceSet};
use countersign_verifier::hash::{leaf_hash, sha256};
use countersign_verifier::json::canonical;
use countersign_verifier::key::PrivateKey;
use countersign_verifier::leaf::{Class, Decision};
use countersign_verifier::operation;
use countersign_verifier::statement;
use countersign_verifier::verdict::{Options, Verdict, Verifier};
use serde_json::json;

use crate::keys::ed25519;
use crate::support::{self, V1_TIME};
use crate::world::{ORIGIN, TYPE, World, eras, options, relabel};

/// An example: what it is, the file, the policy's quorum, what the reader holds, and what comes out.
pub struct Example {
    pub id: &'static str,
    pub file: Vec<u8>,
    pub quorum: &'static str,
    pub options: Options,
    /// The name and status of the check that decides, and words of its reason.
    pub decides: (&'static str, &'static str, &'static str),
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
pub fn receipt() -> (World, Evidence) {
    let mut world = World::with_agent();
    let at = world.agent_receipt(br#"{"run":"r-1","amount":9007199254740993}"#);
    world.system(r#"{"type":"session_expired","session":"s-1"}"#);
    let evidence = world.evidence(at, &[0, 1]);
    (world, evidence)
}

pub fn pinned(keys: &[&PrivateKey]) -> Options {
    Options {
        keys: Some(keys.iter().map(|key| key.public()).collect()),
        ..options()
    }
}

/// What holds.
pub fn holding() -> Vec<Example> {
    [plain(), rotated(), a_seat(), about_an_artifact()]
        .into_iter()
        .flatten()
        .collect()
}

fn plain() -> Vec<Example> {
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
    all
}

fn rotated() -> Vec<Example> {
    let mut all = vec![];
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
    all
}

fn a_seat() -> Vec<Example> {
    let mut all = vec![];
    let mut world = World::with_agent();
    let seat = ed25519(8);
    let at = world.enroll(&ed25519(4), "seat", &seat, Class::SeatKey, true);
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
    assert_eq!((at, at_operation), (2, 3));
    all.push(example(
        "a-seat",
        world.evidence(3, &[0, 1, 2]).to_json(),
        ("signers", "pass", "the service holds this key"),
    ));
    all
}

fn about_an_artifact() -> Vec<Example> {
    let mut all = vec![];
    let mut world = World::with_agent();
    let agent = ed25519(3);
    let id = agent.public().identity();
    let artifact = sha256(b"an artifact");
    let value = json!({"_type": statement::TYPE, "predicateType": "https://example.com/built/v1",
        "subject": [{"name": "out", "digest": {"sha256": artifact.to_hex()}}]});
    let at = world.receipt(
        statement::PAYLOAD_TYPE,
        canonical(&value).as_bytes(),
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

/// What does not hold.
pub fn failing() -> Vec<Example> {
    [changed(), lies(), usurped(), late_sets_and_noise()]
        .into_iter()
        .flatten()
        .collect()
}

fn changed() -> Vec<Example> {
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
    all
}

/// A leaf that lies, with honest proofs: only what it says can be wrong with it.
fn lying(change: impl FnOnce(&mut World)) -> World {
    let (mut world, _) = receipt();
    change(&mut world);
    world
}

/// Leaves that lie.
fn lies() -> Vec<Example> {
    let mut all = vec![];
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
    all
}

/// Who changes an identity without being it or the owner: all that the log's key and an agent's can sign.
fn usurped() -> Vec<Example> {
    let (owner, agent, victim, new) = (ed25519(4), ed25519(3), ed25519(6), ed25519(9));
    let id = |key: &PrivateKey| key.public().identity();
    let made = |name, words, (of, key), change: &dyn Fn(&mut World)| {
        let mut world = World::with_agent();
        world.enroll(&owner, "victim", &victim, Class::AgentKey, false);
        change(&mut world);
        let at = world.receipt(TYPE, b"in another's name", &[(of, key)]);
        let support: Vec<u64> = (0..at).collect();
        let file = world.evidence(at, &support).to_json();
        example(name, file, ("signers", "fail", words))
    };
    let other = "may not: change another identity: only the owner does";
    let mut all = vec![
        made(
            "enrolled-by-an-agent",
            "may not: enrol: only the owner does",
            (id(&new), &new),
            &|w| {
                w.enroll(&agent, "x", &new, Class::AgentKey, true);
            },
        ),
        made(
            "rotated-by-another-agent",
            other,
            (id(&victim), &new),
            &|w| {
                w.rotate(&agent, id(&victim), &new, Class::AgentKey);
            },
        ),
        made(
            "the-owner-rotated-by-an-agent",
            other,
            (id(&owner), &new),
            &|w| {
                w.rotate(&agent, id(&owner), &new, Class::AgentKey);
            },
        ),
        made(
            "another-revoked-by-an-agent",
            other,
            (id(&agent), &agent),
            &|w| {
                w.revoke(&agent, id(&victim));
            },
        ),
        made(
            "rotated-by-an-unproved-key",
            "with a key that has not proved itself",
            (id(&victim), &new),
            &|w| {
                w.rotate(&victim, id(&victim), &new, Class::AgentKey);
            },
        ),
    ];
    let mut world = World::open();
    world.enroll(&owner, "stated", &victim, Class::AgentKey, false);
    let payload = world.operation_payload("task_add", json!({})).to_json();
    let by = (id(&victim), Class::AgentKey, &victim);
    world.operate(by, &payload, Decision::Applied { effect: "{}" });
    all.push(example(
        "an-operation-by-an-unproved-key",
        world.evidence(2, &[0, 1]).to_json(),
        ("signers", "fail", "with a key that has not proved itself"),
    ));
    all
}

fn late_sets_and_noise() -> Vec<Example> {
    let (world, _) = receipt();
    let mut all = vec![];
    let mut elsewhere = World::with_agent();
    elsewhere.agent_receipt(b"mine");
    elsewhere.origin = "log.example/b".into();
    let (agent, add) = (ed25519(3), json!({}));
    elsewhere.change_as(
        (agent.public().identity(), &agent),
        "task_add",
        add,
        &json!({}),
    );
    elsewhere.origin = ORIGIN.into();
    let mut one = example(
        "a-set-with-the-payload-and-an-operation-for-another-log",
        elsewhere.set(&[2, 3], &[0, 1]).to_json(),
        (
            "payload",
            "fail",
            "leaf 3: signed for log \"log.example/b\"",
        ),
    );
    one.options.payload = Some(b"mine".to_vec());
    all.push(one);
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

/// What cannot be told.
pub fn untold() -> Vec<Example> {
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
    let (mut lent, agent, other) = (World::with_agent(), ed25519(3), ed25519(6));
    let at = lent.receipt(TYPE, b"x", &[(agent.public().identity(), &other)]);
    let mut one = example(
        "a-pinned-key-in-another-name",
        lent.evidence(at, &[]).to_json(),
        ("signers", "unknown", "which no leaf shows to be of id_"),
    );
    one.options = pinned(&[&agent, &other]);
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

pub fn run(example: &Example) -> Verdict {
    Verifier::new(eras(example.quorum), example.options.clone()).evidence(&example.file)
}
