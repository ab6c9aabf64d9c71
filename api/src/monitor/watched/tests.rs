//! Leaves of every kind, and what is watched for in them.

use countersign_verifier::{
    key::{Algorithm, PrivateKey},
    leaf::{By, Class, Millis, Signed, write_receipt, write_system},
};

use super::*;

fn id(of: &str) -> IdentityId {
    let key = PrivateKey::from_secret(Algorithm::Ed25519, &sha256(of.as_bytes()).0).unwrap();
    key.public().identity()
}

fn receipt(payload_type: &str, payload: &[u8], signers: &[IdentityId]) -> Vec<u8> {
    let by = By {
        identity: *signers.iter().min().unwrap(),
        class: Class::AgentKey,
        session: None,
    };
    let signatures: Vec<(IdentityId, &[u8])> =
        signers.iter().map(|id| (*id, &b"signature"[..])).collect();
    let signed = Signed {
        payload_type,
        payload,
        signatures: &signatures,
    };
    let mut leaf = Vec::new();
    write_receipt(&mut leaf, Millis(1), &by, signed).unwrap();
    leaf
}

fn look(watched: &Watched, entry: &[u8]) -> Found {
    let mut learned = watched.unlearned(Learned::default());
    watched.look(&mut learned, &Read::of(entry))
}

fn types(of: &[&str]) -> Watched {
    Watched {
        types: of.iter().map(|t| (*t).to_owned()).collect(),
        ..Watched::default()
    }
}

#[test]
fn each_signer_counts_and_nobody_else() {
    let leaf = receipt("text/x", b"x", &[id("a"), id("b")]);
    for (who, counts) in [("a", true), ("b", true), ("c", false)] {
        let watched = Watched {
            ids: [id(who)].into(),
            ..Watched::default()
        };
        let due: Vec<Value> = counts
            .then(|| json!({"signed_by": id(who).to_string()}))
            .into_iter()
            .collect();
        assert_eq!(look(&watched, &leaf).matched, due, "{who}");
    }
}

#[test]
fn types_are_those_of_payloads_predicates_and_events() {
    let digest = sha256(b"artifact");
    let statement = json!({
        "_type": statement::TYPE,
        "subject": [{"digest": {"sha256": digest.to_hex()}}],
        "predicateType": "https://example.com/p/v1",
    })
    .to_string();
    let leaf = receipt(statement::PAYLOAD_TYPE, statement.as_bytes(), &[id("a")]);
    for (of, matched) in [
        (statement::PAYLOAD_TYPE, true),
        ("https://example.com/p/v1", true),
        ("https://example.com/p", false),
    ] {
        assert_eq!(
            !look(&types(&[of]), &leaf).matched.is_empty(),
            matched,
            "{of}"
        );
    }
    for (subject, matched) in [
        (digest, true),
        (sha256(statement.as_bytes()), true),
        (sha256(b"other"), false),
    ] {
        let watched = Watched {
            subjects: [subject].into(),
            ..Watched::default()
        };
        assert_eq!(!look(&watched, &leaf).matched.is_empty(), matched);
    }
    let mut event = Vec::new();
    write_system(&mut event, Millis(1), "{\"type\":\"unguarded\"}").unwrap();
    assert_eq!(
        look(&types(&["unguarded"]), &event).matched,
        [json!({"type": "unguarded"})]
    );
    assert_eq!(look(&types(&["opened"]), &event), Found::default());
}

#[test]
fn what_cannot_be_read_is_told_and_nothing_else_is() {
    let leaf = receipt("text/x", b"x", &[id("a")]);
    let text = String::from_utf8(leaf.clone()).unwrap();
    let by_type = types(&["text/x"]);
    for (entry, word) in [
        (text.replace("{\"v\":1", "{\"v\":2"), "newer"),
        (
            text.replace("\"kind\":\"receipt\"", "\"kind\":\"vote\""),
            "newer",
        ),
        (text.replace("\"at\"", "\"when\""), "not a leaf"),
        (String::new(), "not a leaf"),
    ] {
        let found = look(&by_type, entry.as_bytes());
        assert!(found.odd.is_some_and(|why| why.contains(word)), "{entry}");
    }
    // A statement that another reader may take, told to those who look into statements.
    let twice = b"{\"_type\":\"x\",\"_type\":\"https://in-toto.io/Statement/v1\"}";
    let odd = receipt(statement::PAYLOAD_TYPE, twice, &[id("a")]);
    assert!(look(&by_type, &odd).odd.is_some());
    let by_id = Watched {
        ids: [id("b")].into(),
        ..Watched::default()
    };
    assert_eq!(look(&by_id, &odd), Found::default());
}

#[test]
fn a_name_or_a_key_takes_the_leaves_before() {
    let watched = Watched {
        names: ["ci".to_owned()].into(),
        keys: [id("a").0].into(),
        ..Watched::default()
    };
    let learned = Learned::default();
    assert_eq!(watched.unresolved(&learned, 0), None);
    assert_eq!(watched.unresolved(&learned, 1).as_deref(), Some("ci"));
    let learned = watched.unlearned(learned);
    assert_eq!(watched.unresolved(&learned, 1), None);
    let (names, keys) = learned.to_texts();
    assert_eq!(Learned::from_texts(&names, &keys), Some(learned));
}
