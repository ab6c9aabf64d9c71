//! The forms of leaves: frozen bytes, strict reading, round trips, times.

use countersign_verifier::dsse::pae;
use countersign_verifier::hash::leaf_hash;
use countersign_verifier::json::Fault;
use countersign_verifier::key::{Algorithm, IdentityId, PrivateKey};
use countersign_verifier::leaf::{
    By, Class, Decision, Leaf, LeafError, Millis, Signed, write_operation, write_receipt,
    write_system,
};
use countersign_verifier::limits;
use countersign_verifier::operation::{self, Observed};
use serde_json::{Value, json};

use crate::keys::ed25519;
use crate::support::{text, vectors};
use crate::world::{TYPE, World, relabel};

/// Compares made vectors with the frozen file, or writes it when COUNTERSIGN_BLESS is set.
pub fn frozen(kind: &str, made: Vec<Value>) {
    let file = json!({"kind": kind, "count": made.len(), "vectors": made});
    if std::env::var_os("COUNTERSIGN_BLESS").is_some() {
        let path = format!(
            "{}/../tests/vectors/{kind}.json",
            env!("CARGO_MANIFEST_DIR")
        );
        std::fs::write(path, serde_json::to_string_pretty(&file).unwrap() + "\n").unwrap();
    }
    let kept = vectors(kind);
    assert_eq!(
        kept.len(),
        made.len(),
        "{kind}: run once with COUNTERSIGN_BLESS=1 after a wanted change"
    );
    for (kept, made) in kept.iter().zip(&made) {
        assert_eq!(
            kept, made,
            "{kind}: run once with COUNTERSIGN_BLESS=1 after a wanted change"
        );
    }
}

pub fn own(id: &str) -> Value {
    json!({"id": id, "origin": "made for this project by the verifier's own tests", "licence": "Apache-2.0"})
}

/// One leaf of each kind and turn, in the order of a log.
pub fn examples() -> Vec<(&'static str, Vec<u8>)> {
    let mut world = World::with_agent();
    let (owner, agent, next) = (ed25519(4), ed25519(3), ed25519(6));
    let p256 = PrivateKey::from_secret(Algorithm::EcdsaP256, &[7; 32]).unwrap();
    let (agent_id, p256_id) = (agent.public().identity(), p256.public().identity());
    let d1 = br#"{"run":"r-1","amount":9007199254740993}"#;
    world.receipt(TYPE, d1, &[(agent_id, &agent)]);
    world.enroll(&owner, "build \u{1f600}", &p256, Class::AgentKey, false);
    world.receipt(
        "text/plain; note=\"a\\b\"",
        b"\xff\x00",
        &[(p256_id, &p256), (agent_id, &agent)],
    );
    let task = world.operation_payload("task_add", json!({"title": "write <it> \u{2028} down"}));
    world.operate(
        (agent_id, Class::AgentKey, &agent),
        &task.to_json(),
        Decision::Applied {
            effect: r#"{"task":5}"#,
        },
    );
    let mut lease = world.operation_payload("lease_acquire", json!({"path": "src/a", "ttl_s": 60}));
    lease.session = Some("s-1".into());
    lease.prev = vec![leaf_hash(&world.leaves[5])];
    lease.observed = Some(Observed {
        size: 6,
        root: world.tree().root(6),
    });
    let detail = r#"{"holder":"other","fence":7}"#;
    world.operate(
        (agent_id, Class::AgentKey, &agent),
        &lease.to_json(),
        Decision::Refused {
            code: "LEASE_CONFLICT",
            detail,
        },
    );
    world.rotate(&owner, agent_id, &next, Class::AgentKey);
    world.receipt(TYPE, b"{}", &[(agent_id, &next)]);
    world.revoke(&owner, agent_id);
    world.system(r#"{"type":"lease_expired","lease":"l-1","path":"src/a"}"#);
    let service = ed25519(5);
    let service_id = service.public().identity();
    let denied = world.operation_payload("egress_denied", json!({"host": "example.com"}));
    world.operate(
        (service_id, Class::ServiceKey, &service),
        &denied.to_json(),
        Decision::Applied { effect: "{}" },
    );
    let names = [
        "system-opened",
        "operation-enroll-proved",
        "receipt-one-signer",
        "operation-enroll-stated-p256",
        "receipt-two-signers",
        "operation-applied",
        "operation-refused",
        "operation-rotate",
        "receipt-after-rotation",
        "operation-revoke",
        "system-lease-expired",
        "operation-by-the-service",
    ];
    assert_eq!(names.len(), world.leaves.len());
    names.into_iter().zip(world.leaves).collect()
}

#[test]
fn the_forms_of_leaves_are_frozen() {
    let made = examples()
        .into_iter()
        .enumerate()
        .map(|(index, (id, leaf))| {
            let parsed = Leaf::parse(&leaf).expect(id);
            let mut vector = own(id);
            vector["index"] = index.into();
            vector["kind"] = parsed.kind().into();
            vector["leaf"] = String::from_utf8(leaf.clone()).unwrap().into();
            vector["leaf_hash"] = leaf_hash(&leaf).to_hex().into();
            vector
        });
    frozen("leaf", made.collect());
    let all = vectors("leaf");
    assert_eq!(all.len(), 12);
    for v in all {
        let leaf = text(&v, "leaf").as_bytes();
        assert_eq!(leaf_hash(leaf).to_hex(), text(&v, "leaf_hash"));
        assert_eq!(Leaf::parse(leaf).unwrap().kind(), text(&v, "kind"));
    }
}

/// What is read and written again is the same bytes.
pub fn rewrite(leaf: &Leaf<'_>) -> Vec<u8> {
    let mut out = vec![];
    let ids = |leaf: &Leaf<'_>| -> Vec<(IdentityId, Vec<u8>)> {
        let envelope = leaf.envelope().unwrap();
        // Given in reverse, as the writer sorts.
        envelope
            .signatures
            .iter()
            .rev()
            .map(|s| (s.keyid.parse().unwrap(), s.sig.clone()))
            .collect()
    };
    if let Leaf::System(system) = leaf {
        write_system(&mut out, system.at, system.event).unwrap();
        return out;
    }
    let (owned, envelope) = (ids(leaf), leaf.envelope().unwrap());
    let signatures: Vec<(IdentityId, &[u8])> =
        owned.iter().map(|(id, sig)| (*id, &sig[..])).collect();
    let signed = Signed {
        payload_type: &envelope.payload_type,
        payload: &envelope.payload,
        signatures: &signatures,
    };
    match leaf {
        Leaf::Operation(operation) => write_operation(
            &mut out,
            leaf.at(),
            leaf.by().unwrap(),
            signed,
            operation.decision,
        ),
        _ => write_receipt(&mut out, leaf.at(), leaf.by().unwrap(), signed),
    }
    .unwrap();
    out
}

#[test]
fn leaves_have_one_spelling() {
    for (id, leaf) in examples() {
        assert_eq!(rewrite(&Leaf::parse(&leaf).unwrap()), leaf, "{id}");
        for cut in 0..leaf.len() {
            assert!(Leaf::parse(&leaf[..cut]).is_err(), "{id} {cut}");
        }
        // White space anywhere between tokens, or behind the end.
        for (at, _) in leaf
            .iter()
            .enumerate()
            .filter(|(_, byte)| b"{}[]:,".contains(byte))
        {
            let mut spaced = leaf.clone();
            spaced.insert(at, b' ');
            // Inside a string a space is another text, which may be a leaf; never the same one.
            if let Ok(parsed) = Leaf::parse(&spaced) {
                assert_eq!(rewrite(&parsed), spaced, "{id} {at}");
            }
        }
        for (name, other) in [
            ("\"v\":1", "\"v\":01"),
            ("\"kind\":", "\"kind\": "),
            ("Z\",", "Z\" ,"),
            ("{\"v\"", " {\"v\""),
        ] {
            assert!(
                Leaf::parse(&relabel(&leaf, name, other)).is_err(),
                "{id} {other}"
            );
        }
        assert!(Leaf::parse(&[&leaf[..], b"\n"].concat()).is_err());
    }
}

#[test]
fn malformed_leaves_say_where() {
    let examples = examples();
    let of = |id: &str| {
        examples
            .iter()
            .find(|(name, _)| *name == id)
            .unwrap()
            .1
            .clone()
    };
    let fault = |leaf: Vec<u8>| match Leaf::parse(&leaf).unwrap_err() {
        LeafError::Form(error) => error.what,
        other => panic!("{other}"),
    };
    let (receipt, operation, system) = (
        of("receipt-two-signers"),
        of("operation-refused"),
        of("system-lease-expired"),
    );
    // Members in another order, missing, twice, or unknown.
    for (leaf, from, to) in [
        (
            &receipt,
            r#""v":1,"kind":"receipt""#,
            r#""kind":"receipt","v":1"#,
        ),
        (&receipt, r#","by":{"#, r#","extra":1,"by":{"#),
        (
            &receipt,
            r#""class":"agent_key""#,
            r#""class":"agent_key","class":"agent_key""#,
        ),
        (&receipt, r#""outcome":"applied""#, r#""outcome":"refused""#),
        (
            &operation,
            r#""code":"LEASE_CONFLICT","detail""#,
            r#""detail":{},"code":"LEASE_CONFLICT","detail""#,
        ),
        (&system, r#""event":{"type""#, r#""event":{"a":1,"type""#),
    ] {
        fault(relabel(leaf, from, to));
    }
    // Another spelling of the same string.
    assert_eq!(
        fault(relabel(&receipt, "text/plain", "text\\/plain")),
        Fault::Spelling
    );
    assert_eq!(
        fault(relabel(&receipt, "text/plain", "\\u0074ext/plain")),
        Fault::Spelling
    );
    // Base64 of the other alphabet, or with bits behind the last byte.
    assert!(matches!(
        fault(relabel(
            &receipt,
            "\"payload\":\"/wA=",
            "\"payload\":\"_wA="
        )),
        Fault::Base64(_)
    ));
    assert!(matches!(
        fault(relabel(
            &receipt,
            "\"payload\":\"/wA=",
            "\"payload\":\"/wB="
        )),
        Fault::Base64(_)
    ));
    // Signatures out of order, a signer that the envelope has not, nobody.
    let text = String::from_utf8(receipt.clone()).unwrap();
    let (start, end) = (
        text.find(r#""signatures":["#).unwrap() + 14,
        text.find(r#"]},"decision""#).unwrap(),
    );
    let (first, second) = text[start..end].split_once("},{").unwrap();
    let swapped = format!("{}{{{second},{first}}}{}", &text[..start], &text[end..]);
    assert_eq!(
        fault(swapped.into()),
        Fault::Form("in ascending order of the signers")
    );
    let alone = format!("{}{first}}}{}", &text[..start], &text[end..]);
    assert_eq!(
        fault(alone.into()),
        Fault::Form("the signers of the envelope")
    );
    let nobody = format!("{}{}", &text[..start], &text[end..]);
    assert_eq!(fault(nobody.into()), Fault::Form("at least one signature"));
    let other = ed25519(9).public().identity().to_string();
    let by = text
        .split('"')
        .find(|word| word.starts_with("id_"))
        .unwrap()
        .to_string();
    assert_eq!(
        fault(relabel(&receipt, &by, &other)),
        Fault::Form("signed by the one named, first")
    );
    let by = std::str::from_utf8(&operation)
        .unwrap()
        .split('"')
        .find(|word| word.starts_with("id_"))
        .unwrap()
        .to_string();
    assert_eq!(
        fault(relabel(&operation, &by, &other)),
        Fault::Form("signed by the one who asked")
    );
    // Raw text is strict JSON, compact.
    for bad in [
        "[]",
        "{\"a\":1,\"a\":2}",
        "{\"a\":1.5}",
        "{ }",
        "{\"a\": 1}",
        "{",
        "1",
    ] {
        fault(relabel(&operation, r#"{"holder":"other","fence":7}"#, bad));
        fault(relabel(
            &system,
            r#"{"type":"lease_expired","lease":"l-1","path":"src/a"}"#,
            bad,
        ));
    }
    assert!(
        Leaf::parse(&relabel(
            &operation,
            r#"{"holder":"other","fence":7}"#,
            "{}"
        ))
        .is_ok()
    );
    for bad in ["\"code\":\"lease\"", "\"code\":\"\"", "\"code\":\"A B\""] {
        fault(relabel(&operation, "\"code\":\"LEASE_CONFLICT\"", bad));
    }
    fault(relabel(&receipt, "agent_key", "agent_kez"));
    // A newer form is told apart from a broken one.
    assert_eq!(
        Leaf::parse(&relabel(&receipt, "\"v\":1", "\"v\":2")),
        Err(LeafError::Newer)
    );
    assert_eq!(
        Leaf::parse(&relabel(&receipt, "\"receipt\"", "\"voucher\"")),
        Err(LeafError::Newer)
    );
    assert_eq!(
        Leaf::parse(&vec![b' '; 65_536]),
        Err(LeafError::TooLarge { bytes: 65_536 })
    );
}

#[test]
fn the_largest_of_everything_fits() {
    let keys: Vec<PrivateKey> = (1..=16)
        .map(|n| PrivateKey::from_secret(Algorithm::EcdsaP384, &[n; 48]).unwrap())
        .collect();
    let payload = vec![0xff; limits::PAYLOAD_BYTES_MAX];
    let payload_type = "\u{1}".repeat(limits::PAYLOAD_TYPE_BYTES_MAX - 100) + &"t".repeat(100);
    let pae = pae(&payload_type, &payload);
    let made: Vec<_> = keys
        .iter()
        .map(|key| {
            let der = p384::ecdsa::Signature::from_slice(&key.sign(&pae))
                .unwrap()
                .to_der();
            (key.public().identity(), der.as_bytes().to_vec())
        })
        .collect();
    let signatures: Vec<(IdentityId, &[u8])> =
        made.iter().map(|(id, sig)| (*id, &sig[..])).collect();
    let by = By {
        identity: made.iter().map(|m| m.0).min().unwrap(),
        class: Class::AgentKey,
        session: Some("s".repeat(64)),
    };
    let signed = Signed {
        payload_type: &payload_type,
        payload: &payload,
        signatures: &signatures,
    };
    let mut out = b"before".to_vec();
    write_receipt(&mut out, Millis(0), &by, signed).unwrap();
    assert!(Leaf::parse(&out[6..]).is_ok());
    let effect = format!("{{\"e\":\"{}\"}}", "x".repeat(4096 - 8));
    let mut leaf = vec![];
    write_operation(
        &mut leaf,
        Millis(0),
        &by,
        Signed {
            payload_type: operation::PAYLOAD_TYPE,
            ..signed
        },
        Decision::Applied { effect: &effect },
    )
    .unwrap();
    // What does not fit leaves nothing behind.
    let huge = format!("{{\"e\":\"{}\"}}", "x".repeat(20_000));
    let before = out.clone();
    let error = write_operation(
        &mut out,
        Millis(0),
        &by,
        signed,
        Decision::Applied { effect: &huge },
    )
    .unwrap_err();
    assert!(matches!(error, LeafError::TooLarge { bytes } if bytes > 65_535));
    assert_eq!(out, before);
}
