//! The forms of leaves: frozen bytes, strict reading, round trips, times.

use countersign_verifier::base64;
use countersign_verifier::dsse::pae;
use countersign_verifier::hash::leaf_hash;
use countersign_verifier::json::Fault;
use countersign_verifier::key::{Algorithm, IdentityId, PrivateKey};
use countersign_verifier::leaf::{
    By, Class, Decision, Leaf, LeafError, Millis, Signed, write_operation, write_receipt,
    write_system,
};
use countersign_verifier::limits;
use countersign_verifier::operation::{self, Observed, Operation, possession_message};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::keys::ed25519;
use crate::support::{text, vectors};
use crate::world::{ORIGIN, TYPE, World, relabel};

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
fn examples() -> Vec<(&'static str, Vec<u8>)> {
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
fn rewrite(leaf: &Leaf<'_>) -> Vec<u8> {
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

#[test]
fn times_agree_with_a_calendar() {
    let calendar = |ms: u64| {
        let time = jiff::Timestamp::from_millisecond(i64::try_from(ms).unwrap()).unwrap();
        time.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
    };
    let day = 86_400_000;
    // Every day of 430 years at a moving time of the day, then each 97 days to the end.
    let days = (0..157_000).chain((157_000..2_932_890).step_by(97));
    for ms in days
        .map(|n| n * day + n * 7_919_113 % day)
        .chain([0, 1, 951_782_400_000, 1_234])
    {
        let text = Millis(ms).to_string();
        assert_eq!(text, calendar(ms), "{ms}");
        assert_eq!(text.parse::<Millis>(), Ok(Millis(ms)));
    }
    assert_eq!(Millis(u64::MAX).to_string(), "9999-12-31T23:59:59.999Z");
    for bad in [
        "2026-02-29T00:00:00.000Z",
        "2026-13-01T00:00:00.000Z",
        "2026-00-01T00:00:00.000Z",
        "2026-01-00T00:00:00.000Z",
        "2026-01-32T00:00:00.000Z",
        "2026-01-01T24:00:00.000Z",
        "2026-01-01T00:60:00.000Z",
        "2026-01-01T00:00:60.000Z",
        "2026-01-01 00:00:00.000Z",
        "2026-01-01T00:00:00.000z",
        "2026-01-01T00:00:00.000+",
        "2026-01-01T00:00:00Z",
        "1969-12-31T23:59:59.999Z",
        "+026-01-01T00:00:00.000Z",
        "2026-01-01T00:00:00.00\u{660}Z",
        "",
        "2100-02-29T00:00:00.000Z",
    ] {
        assert!(bad.parse::<Millis>().is_err(), "{bad}");
    }
    assert!("2000-02-29T00:00:00.000Z".parse::<Millis>().is_ok());
}

#[test]
fn operations_are_read_strictly() {
    let world = World::open();
    let mut operation =
        world.operation_payload("task_add", json!({"b": 1, "a": ["x", null, true]}));
    operation.session = Some("s".into());
    operation.prev = vec![leaf_hash(b"x"); 8];
    operation.observed = Some(Observed {
        size: 3,
        root: leaf_hash(b"r"),
    });
    let json = operation.to_json();
    assert_eq!(Operation::parse(&json).unwrap(), operation);
    let text = String::from_utf8(json).unwrap();
    assert!(
        text.contains(r#""arguments":{"a":["x",null,true],"b":1}"#),
        "{text}"
    );
    let bad = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        Operation::parse(text.replacen(from, to, 1).as_bytes()).unwrap_err()
    };
    for (from, to) in [
        (r#""tool":"task_add""#, r#""tool":"Task""#),
        (r#""tool":"task_add""#, r#""tool":"""#),
        (r#"{"a":["x",null,true],"b":1}"#, "[]"),
        (r#""b":1}"#, r#""b":1,"b":2}"#),
        (r#""b":1}"#, r#""b":1.0}"#),
        (r#""b":1}"#, r#""b":9007199254740993}"#),
        ("nonce-0000000001", "short"),
        ("nonce-0000000001", "nonce-000000001\\n"),
        (r#""log":"log.example/a""#, r#""log":"""#),
        (r#""size":3"#, r#""size":-3"#),
        (r#""size":3"#, r#""size":3,"x":1"#),
        (r#""prev":["#, r#""prev":["","#),
        ("},\"log\"", "},\"log\":\"x\",\"log\""),
        ("Z\",\"prev\"", "\",\"prev\""),
    ] {
        bad(from, to);
    }
    assert_eq!(
        bad("{\"tool\"", "{\"later\":1,\"tool\"").what,
        Fault::Unknown
    );
    let nine = format!("\"prev\":[{}", format!("\"{}\",", leaf_hash(b"y")));
    assert_eq!(
        bad("\"prev\":[", &nine).what,
        Fault::TooMany {
            limit: limits::PREV_MAX
        }
    );
    for name in ["tool", "arguments", "log", "nonce", "issued_at"] {
        let mut value: Value = serde_json::from_str(&text).unwrap();
        value.as_object_mut().unwrap().remove(name);
        assert!(
            matches!(Operation::parse(value.to_string().as_bytes()).unwrap_err().what, Fault::Missing(n) if n == name)
        );
    }
    let id = ed25519(3).public().identity();
    let want = format!(r#"{{"origin":"log.example/a","identity":"{id}","class":"agent_key"}}"#);
    let message = possession_message(ORIGIN, id, Class::AgentKey);
    assert_eq!(
        message,
        pae(
            "application/vnd.countersign.possession+json",
            want.as_bytes()
        )
    );
}

fn any_class() -> impl Strategy<Value = Class> {
    prop::sample::select(vec![
        Class::AgentKey,
        Class::SessionKey,
        Class::SeatKey,
        Class::ServiceKey,
    ])
}

proptest! {
    #[test]
    fn any_receipt_is_read_as_it_was_written(
        at in 0..=Millis::MAX.0,
        class in any_class(),
        session in prop::option::of(".{0,20}"),
        payload_type in ".{0,40}",
        payload in prop::collection::vec(any::<u8>(), 0..600),
        signers in prop::collection::btree_map(any::<[u8; 32]>(), prop::collection::vec(any::<u8>(), 0..110), 1..5),
    ) {
        let owned: Vec<_> = signers.into_iter()
            .map(|(id, sig)| (IdentityId(countersign_verifier::hash::Hash(id)), sig)).collect();
        let by = By { identity: owned[0].0, class, session };
        let signatures: Vec<(IdentityId, &[u8])> = owned.iter().map(|(id, sig)| (*id, &sig[..])).collect();
        let signed = Signed { payload_type: &payload_type, payload: &payload, signatures: &signatures };
        let mut out = vec![];
        write_receipt(&mut out, Millis(at), &by, signed).unwrap();
        let leaf = Leaf::parse(&out).unwrap();
        prop_assert_eq!(leaf.at(), Millis(at));
        prop_assert_eq!(leaf.by(), Some(&by));
        let envelope = leaf.envelope().unwrap();
        prop_assert_eq!((&envelope.payload_type, &envelope.payload), (&payload_type, &payload));
        prop_assert_eq!(rewrite(&leaf), out);
    }

    #[test]
    fn nothing_makes_the_readers_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), text in r#"[\[\]{}",:\\0-9a-z. -]{0,80}"#) {
        for bytes in [&bytes[..], text.as_bytes()] {
            let _ = Leaf::parse(bytes);
            let _ = countersign_verifier::dsse::Envelope::parse(bytes);
            let _ = Operation::parse(bytes);
            let _ = countersign_verifier::statement::Statement::parse(bytes);
            let _ = countersign_verifier::evidence::File::parse(bytes);
            let _ = countersign_verifier::key::PublicKey::parse_all(bytes);
            if let Ok(value) = countersign_verifier::json::parse(bytes) {
                let canonical = countersign_verifier::json::canonical(&value);
                prop_assert_eq!(countersign_verifier::json::parse(canonical.as_bytes()).unwrap(), value);
            }
        }
    }

    #[test]
    fn one_changed_byte_of_a_leaf_is_another_leaf_or_none(which in 0usize..12, at in any::<prop::sample::Index>(), to in any::<u8>()) {
        let (_, leaf) = examples().swap_remove(which);
        let mut changed = leaf.clone();
        changed[at.index(leaf.len())] = to;
        if let Ok(parsed) = Leaf::parse(&changed) {
            prop_assert_eq!(rewrite(&parsed), changed);
        }
    }

    #[test]
    fn any_text_keeps_its_bytes(text in ".{0,60}", bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let quoted = serde_json::to_string(&text).unwrap();
        let value = countersign_verifier::json::parse(quoted.as_bytes()).unwrap();
        prop_assert_eq!(value.as_str(), Some(text.as_str()));
        prop_assert_eq!(countersign_verifier::json::canonical(&value), quoted.replace("\\u007f", "\u{7f}"));
        let envelope = countersign_verifier::dsse::Envelope {
            payload_type: text.chars().take(100).collect(),
            payload: bytes.clone(),
            signatures: vec![countersign_verifier::dsse::Signature { keyid: text, sig: bytes.clone() }],
        };
        prop_assert_eq!(countersign_verifier::dsse::Envelope::parse(&envelope.to_json()).unwrap(), envelope);
        prop_assert_eq!(base64::decode(&base64::encode(&bytes)).unwrap(), bytes);
    }
}
