//! Enrolment chains: what a log that lies cannot make them show.

use countersign_verifier::leaf::{Class, Decision};
use countersign_verifier::verdict::{Outcome, Status};
use serde_json::json;

use crate::keys::ed25519;
use crate::world::{self, TYPE, World, judge, options, relabel};

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
