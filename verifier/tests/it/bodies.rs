//! Bodies beside a log: what a reader is told who holds one, or who knows that it is gone.

use countersign_verifier::blob::commitment;
use countersign_verifier::hash::Hash;
use countersign_verifier::leaf::{Class, Decision};
use countersign_verifier::verdict::{Body, Erasure, Name, Options, Outcome, Status, Verifier};
use serde_json::json;

use crate::keys::ed25519;
use crate::world::{ORIGIN, World, eras, judge, options};

const SALT: [u8; 32] = [9; 32];
const BODY: &[u8] = b"a long report";

fn named() -> Hash {
    commitment(&SALT, BODY)
}

/// Leaf 2 refers to the body, leaf 3 to none, leaf 4 erases it.
fn world() -> World {
    let mut world = World::with_agent();
    let reference =
        json!({"commitment": named().to_hex(), "bytes": BODY.len(), "media_type": "text/plain"});
    world.agent_receipt(
        json!({"score": 0.5, "report": reference})
            .to_string()
            .as_bytes(),
    );
    world.agent_receipt(b"{}");
    erase(&mut world, &named());
    world
}

fn erase(world: &mut World, commitment: &Hash) -> u64 {
    let owner = ed25519(4);
    let by = (owner.public().identity(), &owner);
    let arguments = json!({"commitment": commitment.to_hex()});
    world.change_as(by, "blob_erase", arguments.clone(), &arguments)
}

fn held(salt: [u8; 32], body: &[u8]) -> Option<Body> {
    Some(Body {
        commitment: commitment(&salt, body),
        bytes: body.len() as u64,
    })
}

fn erasure(world: &World, index: u64) -> Result<Erasure, String> {
    let evidence = world.evidence(index, &[0, 1]).to_json();
    Verifier::new(eras("w"), options()).erasure(&evidence)
}

fn payload_of(evidence: &[u8], options: Options) -> (Outcome, Status, String) {
    let verdict = judge(evidence, options);
    let check = verdict.checks.iter().find(|c| c.name == Name::Payload);
    let check = check.expect("a check of the payload");
    (verdict.outcome, check.status, check.detail.clone())
}

#[test]
fn the_body_that_a_payload_refers_to_holds_and_any_other_does_not() {
    let world = world();
    let about = world.evidence(2, &[0, 1]).to_json();
    let with = |body| Options { body, ..options() };
    let (outcome, status, detail) = payload_of(&about, with(held(SALT, BODY)));
    assert_eq!(
        (outcome, status),
        (Outcome::Holds, Status::Pass),
        "{detail}"
    );
    assert!(
        detail.contains("\"text/plain\" to the body of 13 bytes")
            && detail.contains(&named().to_hex()),
        "{detail}"
    );
    for (body, why) in [
        (
            held(SALT, b"another body!"),
            "none of the payload's 1 references",
        ),
        (held([8; 32], BODY), "none of the payload's 1 references"),
        (
            Some(Body {
                commitment: named(),
                bytes: 14,
            }),
            "has 13 bytes; it has 14",
        ),
    ] {
        let (outcome, _, detail) = payload_of(&about, with(body));
        assert_eq!(outcome, Outcome::DoesNotHold);
        assert!(detail.contains(why), "{detail}");
    }
    let none = world.evidence(3, &[0, 1]).to_json();
    let (outcome, _, detail) = payload_of(&none, with(held(SALT, BODY)));
    assert_eq!(outcome, Outcome::DoesNotHold);
    assert!(detail.contains("refers to no body"), "{detail}");
    let opened = world.evidence(0, &[]).to_json();
    assert_eq!(
        payload_of(&opened, with(held(SALT, BODY))).0,
        Outcome::DoesNotHold
    );
    // Among several leaves one is about it.
    let set = world.set(&[2, 3], &[0, 1]).to_json();
    let (outcome, _, detail) = payload_of(&set, with(held(SALT, BODY)));
    assert_eq!(outcome, Outcome::Holds, "{detail}");
    assert!(detail.contains("leaf 2: the payload refers"), "{detail}");
}

#[test]
fn of_an_erased_body_nothing_can_be_told_and_nothing_is_ever_invalid() {
    let world = world();
    let about = world.evidence(2, &[0, 1]).to_json();
    let erased = erasure(&world, 4).expect("an erasure");
    let expected = Erasure {
        origin: ORIGIN.into(),
        index: 4,
        commitment: named(),
    };
    assert_eq!(erased, expected);
    let with = |body| Options {
        body,
        erased: vec![erased.clone()],
        ..options()
    };
    for body in [None, held(SALT, b"another body!"), held([8; 32], BODY)] {
        let (outcome, status, detail) = payload_of(&about, with(body));
        assert_eq!(
            (outcome, status),
            (Outcome::CannotTell, Status::Unknown),
            "{detail}"
        );
        assert!(detail.starts_with("body erased: "), "{detail}");
        assert!(detail.contains("by leaf 4"), "{detail}");
    }
    // Who kept it, and its salt, can show what it was all the same.
    assert_eq!(payload_of(&about, with(held(SALT, BODY))).0, Outcome::Holds);
    // Leaves that do not speak of it are as they were, the one that erased it among them.
    for index in [3, 4] {
        let evidence = world.evidence(index, &[0, 1]).to_json();
        assert_eq!(
            payload_of(&evidence, with(None)).0,
            Outcome::Holds,
            "{index}"
        );
    }
    let set = world.set(&[2, 3], &[0, 1]).to_json();
    assert_eq!(payload_of(&set, with(None)).0, Outcome::CannotTell);
    assert_eq!(
        payload_of(&set, with(held([8; 32], BODY))).0,
        Outcome::CannotTell
    );
    // What another log erased says nothing of this one.
    let foreign = Options {
        erased: vec![Erasure {
            origin: "log.example/b".into(),
            ..erased
        }],
        ..options()
    };
    assert_eq!(payload_of(&about, foreign).0, Outcome::Holds);
}

#[test]
fn only_a_leaf_that_erased_a_body_shows_that_it_did() {
    let mut world = world();
    let (agent, name) = (ed25519(3), named().to_hex());
    let asked = world.operation_payload("blob_erase", json!({"commitment": name}));
    let by = (agent.public().identity(), Class::AgentKey, &agent);
    let detail = "{\"message\":\"no\"}";
    let refused = Decision::Refused {
        code: "NOT_ALLOWED",
        detail,
    };
    let refused = world.operate(by, &asked.to_json(), refused);
    for index in [0, 1, 2, refused] {
        let why = erasure(&world, index).expect_err("no erasure");
        assert!(why.contains("erases no body"), "{index}: {why}");
    }
    let set = world.set(&[3, 4], &[0, 1]).to_json();
    let why = Verifier::new(eras("w"), options()).erasure(&set);
    assert!(why.expect_err("a set").contains("one leaf"));
    let mut bad = world.evidence(4, &[0, 1]);
    bad.leaf = world.leaves[3].clone();
    let why = Verifier::new(eras("w"), options()).erasure(&bad.to_json());
    assert!(
        why.expect_err("a false proof")
            .starts_with("does_not_hold (inclusion")
    );
}
