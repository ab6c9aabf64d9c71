//! Verdicts: rotation, time, witnesses, what is remembered, and foreign proofs.

use countersign_verifier::dsse::pae;
use countersign_verifier::evidence::Evidence;
use countersign_verifier::leaf::{Class, Decision, Leaf};
use countersign_verifier::operation;
use countersign_verifier::policy::{Eras, Policy};
use countersign_verifier::verdict::{Options, Outcome, Status, Verifier};
use countersign_verifier::vkey::CosignSigner;
use serde_json::json;

use crate::examples::{Example, failing, holding, pinned, receipt, run, untold};
use crate::keys::ed25519;
use crate::support::{self, V1_TIME, text, vectors};
use crate::world::{ORIGIN, TYPE, World, eras, judge, options};

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
    // That a pinned key is a later one of this identity only the chain can show.
    let (outcome, detail) = signers(&bare, pinned(&[&second]));
    assert_eq!(outcome, Outcome::CannotTell);
    assert!(
        detail.contains(&format!("which no leaf shows to be of {id}")),
        "{detail}"
    );
}

#[test]
fn a_pinned_key_vouches_for_its_own_name_only() {
    let mut world = World::with_agent();
    let (agent, other) = (ed25519(3), ed25519(6));
    let (id, other_id) = (agent.public().identity(), other.public().identity());
    let (lent, own) = (
        world.receipt(TYPE, b"x", &[(id, &other)]),
        world.receipt(TYPE, b"x", &[(other_id, &other)]),
    );
    for keys in [&[&agent, &other][..], &[&other, &agent], &[&other]] {
        let verdict = judge(&world.evidence(lent, &[]).to_json(), pinned(keys));
        let signers = &verdict.checks[2];
        assert_eq!(
            (verdict.outcome, signers.status),
            (Outcome::CannotTell, Status::Unknown),
            "{verdict:#?}"
        );
        let words = format!(
            "verified by pinned key {}, which no leaf shows to be of {id}",
            other.public()
        );
        assert!(signers.detail.contains(&words), "{signers:?}");
        let verdict = judge(&world.evidence(own, &[]).to_json(), pinned(keys));
        assert_eq!(verdict.outcome, Outcome::Holds, "{verdict:#?}");
    }
}

#[test]
fn a_set_that_has_the_payload_is_still_judged_whole() {
    let mut world = World::with_agent();
    let agent = ed25519(3);
    let id = agent.public().identity();
    let mine = world.agent_receipt(b"mine");
    let good = world.change_as((id, &agent), "task_add", json!({}), &json!({}));
    world.origin = "log.example/b".into();
    let stray = world.change_as((id, &agent), "task_add", json!({}), &json!({}));
    world.origin = ORIGIN.into();
    let by = (id, Class::AgentKey, &agent);
    let newer = br#"{"tool":"task_add","arguments":{},"of":"a later release"}"#;
    let newer = world.operate(by, newer, Decision::Applied { effect: "{}" });
    let payload = |leaves: &[u64], payload: Option<&[u8]>| {
        let payload = payload.map(<[u8]>::to_vec);
        let options = Options {
            payload,
            ..options()
        };
        let verdict = judge(&world.set(leaves, &[0, 1]).to_json(), options);
        (verdict.outcome, verdict.checks[3].detail.clone())
    };
    let (mine_bytes, stray_bytes) = (
        Some(&b"mine"[..]),
        payload_of(&world.leaves[stray as usize]),
    );
    let (outcome, detail) = payload(&[mine, good], mine_bytes);
    assert_eq!(outcome, Outcome::Holds);
    assert!(
        detail.contains("leaf 3: operation task_add")
            && detail.contains("leaf 2: the signed payload equals"),
        "{detail}"
    );
    let (outcome, detail) = payload(&[mine, good, stray], mine_bytes);
    assert_eq!(outcome, Outcome::DoesNotHold);
    assert_eq!(
        detail,
        "leaf 4: signed for log \"log.example/b\", found in \"log.example/a\""
    );
    // Even where it is the very thing that the reader holds.
    let (outcome, _) = payload(&[mine, stray], Some(&stray_bytes));
    assert_eq!(outcome, Outcome::DoesNotHold);
    let (outcome, detail) = payload(&[mine, newer], mine_bytes);
    assert_eq!(outcome, Outcome::CannotTell);
    assert!(
        detail.starts_with("leaf 5: an operation of a newer form"),
        "{detail}"
    );
    let (outcome, _) = payload(&[good], mine_bytes);
    assert_eq!(outcome, Outcome::DoesNotHold);
    let (outcome, detail) = payload(&[1, mine], None);
    assert_eq!(outcome, Outcome::Holds);
    assert!(detail.starts_with("leaf 1: operation"), "{detail}");
    let (_, detail) = payload(&[mine], None);
    assert!(detail.starts_with("leaf 2: opaque bytes"), "{detail}");
}

fn payload_of(leaf: &[u8]) -> Vec<u8> {
    let leaf = Leaf::parse(leaf).unwrap();
    leaf.envelope().unwrap().payload.clone()
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
            Some(k) if k <= names.len() as u64 => {
                policy += &format!("group g {k} {}\nquorum g\n", names.join(" "))
            }
            Some(_) => {
                let other = "witness missing witness.example/w+cb1393dc+BIE5dw6ofRdfVqNUZsNMfszLjYqRtO43ol32D1uPybOU\n";
                policy += &format!("{other}group g all {} missing\nquorum g\n", names.join(" "));
            }
            None => policy += "quorum none\n",
        }
        let policy = Policy::parse(&policy).expect(id);
        let mut verifier = Verifier::new(Eras::one(policy), Options::default());
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
