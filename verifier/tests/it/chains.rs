//! Enrolment chains: what a log that lies cannot make them show.

use countersign_verifier::key::{IdentityId, PrivateKey};
use countersign_verifier::leaf::{Class, Decision};
use countersign_verifier::verdict::{Outcome, Status, Verdict};
use serde_json::json;

use crate::keys::ed25519;
use crate::world::{self, TYPE, World, judge, options, relabel};

/// The verdict on a receipt in this identity's name, with all leaves before it as support.
fn verdict_on(world: &mut World, id: IdentityId, key: &PrivateKey) -> Verdict {
    let at = world.receipt(TYPE, b"x", &[(id, key)]);
    let support: Vec<u64> = (0..at).collect();
    judge(&world.evidence(at, &support).to_json(), options())
}

/// Who may change whom is the service's rule; with the log's key and one agent's alone, nobody speaks in
/// another's name.
#[test]
fn only_the_owner_enrols_and_only_oneself_or_the_owner_changes_one() {
    let id = |seed| ed25519(seed).public().identity();
    // Identities: owner 4, service 5, agent 3, and 7, of which the owner only stated the key; each world
    // ends with a receipt in the name of the first, by the second's key, which the change is meant to cover.
    type Change = fn(&mut World);
    let cases: &[(&str, &str, (u8, u8), Change)] = &[
        (
            "an agent enrols",
            "enrol: only the owner does",
            (9, 9),
            |w| {
                w.enroll(&ed25519(3), "x", &ed25519(9), Class::AgentKey, true);
            },
        ),
        (
            "one whom no leaf shows enrols",
            "enrol: only the owner does",
            (9, 9),
            |w| {
                w.enroll(&ed25519(8), "x", &ed25519(9), Class::AgentKey, true);
            },
        ),
        (
            "an agent rotates another",
            "change another identity: only the owner does",
            (7, 9),
            |w| {
                let id = ed25519(7).public().identity();
                w.rotate(&ed25519(3), id, &ed25519(9), Class::AgentKey);
            },
        ),
        (
            "an agent rotates the owner",
            "change another identity: only the owner does",
            (4, 9),
            |w| {
                let id = ed25519(4).public().identity();
                w.rotate(&ed25519(3), id, &ed25519(9), Class::AgentKey);
            },
        ),
        (
            "an agent revokes another",
            "change another identity: only the owner does",
            (3, 3),
            |w| {
                w.revoke(&ed25519(3), ed25519(7).public().identity());
            },
        ),
        (
            "one whom no leaf shows revokes another",
            "change another identity: only the owner does",
            (3, 3),
            |w| {
                w.revoke(&ed25519(8), ed25519(7).public().identity());
            },
        ),
        (
            "an unproved key enrols",
            "a key that has not proved itself",
            (9, 9),
            |w| {
                let (owner, stated) = (ed25519(4), ed25519(6));
                let id = owner.public().identity();
                w.rotate_stated(&owner, id, &stated.public());
                let new = ed25519(9).public();
                let (arguments, effect) = (
                    json!({"name": "x", "public_key": world::spki(&new)}),
                    json!({"identity": new.identity().to_string(), "class": "agent_key", "possession": "stated"}),
                );
                w.change_as((id, &stated), "identity_enroll", arguments, &effect);
            },
        ),
        (
            "an unproved key rotates itself",
            "a key that has not proved itself",
            (7, 9),
            |w| {
                let id = ed25519(7).public().identity();
                w.rotate(&ed25519(7), id, &ed25519(9), Class::AgentKey);
            },
        ),
        (
            "the owner rotates the service",
            "rotate the service, which keeps its key",
            (5, 9),
            |w| {
                let id = ed25519(5).public().identity();
                w.rotate(&ed25519(4), id, &ed25519(9), Class::ServiceKey);
            },
        ),
        (
            "the owner revokes the service",
            "revoke whom leaf 0 names",
            (3, 3),
            |w| {
                w.revoke(&ed25519(4), ed25519(5).public().identity());
            },
        ),
        (
            "the service turns a rotation that the owner signed on another",
            "not the one asked for",
            (3, 9),
            |w| {
                let id = |seed| ed25519(seed).public().identity().to_string();
                w.rotate_stated(
                    &ed25519(4),
                    ed25519(7).public().identity(),
                    &ed25519(9).public(),
                );
                let last = w.leaves.last_mut().unwrap();
                let (from, to) = (format!("\"effect\":{{\"identity\":\"{}", id(7)), id(3));
                *last = relabel(last, &from, &format!("\"effect\":{{\"identity\":\"{to}"));
            },
        ),
        (
            "the service turns a revocation that an agent signed on another",
            "not the one asked for",
            (3, 3),
            |w| {
                let id = |seed| ed25519(seed).public().identity().to_string();
                w.revoke(&ed25519(3), ed25519(3).public().identity());
                let last = w.leaves.last_mut().unwrap();
                let (from, to) = (format!("\"effect\":{{\"identity\":\"{}", id(3)), id(7));
                *last = relabel(last, &from, &format!("\"effect\":{{\"identity\":\"{to}"));
            },
        ),
    ];
    for (name, words, (of, key), change) in cases {
        let mut world = World::with_agent();
        world.enroll(&ed25519(4), "stated", &ed25519(7), Class::AgentKey, false);
        change(&mut world);
        let verdict = verdict_on(&mut world, id(*of), &ed25519(*key));
        let signers = &verdict.checks[2];
        assert_eq!(
            (verdict.outcome, signers.status),
            (Outcome::DoesNotHold, Status::Fail),
            "{name}: {signers:?}"
        );
        assert!(signers.detail.contains(words), "{name}: {signers:?}");
    }
    // A key of a lesser class changes nobody, itself included.
    let mut world = World::open();
    world.enroll(&ed25519(4), "seat", &ed25519(9), Class::SeatKey, true);
    world.rotate(&ed25519(9), id(9), &ed25519(8), Class::SeatKey);
    let verdict = verdict_on(&mut world, id(9), &ed25519(8));
    let signers = &verdict.checks[2];
    assert!(
        signers
            .detail
            .contains("with another key than an agent_key"),
        "{signers:?}"
    );
}

#[test]
fn oneself_and_the_owner_may_change_one() {
    let (owner, agent, stated) = (ed25519(4), ed25519(3), ed25519(7));
    let (owner_id, id) = (owner.public().identity(), agent.public().identity());
    let mut world = World::with_agent();
    world.rotate(&agent, id, &ed25519(6), Class::AgentKey);
    world.rotate(&owner, id, &ed25519(8), Class::AgentKey);
    world.rotate(&owner, owner_id, &ed25519(10), Class::AgentKey);
    assert_eq!(
        verdict_on(&mut world, id, &ed25519(8)).outcome,
        Outcome::Holds
    );
    assert_eq!(
        verdict_on(&mut world, owner_id, &ed25519(10)).outcome,
        Outcome::Holds
    );
    // Of itself: what was before stands, what comes after does not.
    let mut world = World::with_agent();
    let before = world.agent_receipt(b"before");
    world.revoke(&agent, id);
    let file = world.evidence(before, &[0, 1, 3]).to_json();
    assert_eq!(judge(&file, options()).outcome, Outcome::Holds);
    let verdict = verdict_on(&mut world, id, &agent);
    assert!(
        verdict.checks[2].detail.contains("revoked at 3"),
        "{verdict:#?}"
    );
    // A stated key signs receipts but no operation, until the owner brings it in with a proof.
    let mut world = World::open();
    let stated_id = stated.public().identity();
    world.enroll(&owner, "stated", &stated, Class::AgentKey, false);
    let verdict = verdict_on(&mut world, stated_id, &stated);
    assert_eq!(verdict.outcome, Outcome::Holds, "{verdict:#?}");
    let operation = |world: &mut World, key: &PrivateKey| {
        let at = world.change_as((stated_id, key), "task_add", json!({}), &json!({}));
        let support: Vec<u64> = (0..at).collect();
        judge(&world.evidence(at, &support).to_json(), options())
    };
    let verdict = operation(&mut world, &stated);
    assert_eq!(verdict.outcome, Outcome::DoesNotHold);
    assert!(
        verdict.checks[2].detail.contains("has not proved itself"),
        "{verdict:#?}"
    );
    world.rotate(&owner, stated_id, &ed25519(9), Class::AgentKey);
    assert_eq!(operation(&mut world, &ed25519(9)).outcome, Outcome::Holds);
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
            "only the owner does",
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
                w.rotate(&ed25519(3), id, &ed25519(9), Class::AgentKey);
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
