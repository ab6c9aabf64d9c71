//! in-toto statements: the vectors and the cases of their users.

use countersign_verifier::hash::{leaf_hash, sha256};
use countersign_verifier::statement::{Statement, is_payload_type};
use serde_json::json;

use crate::support::{text, vectors};

#[test]
fn vectors_of_statements() {
    let all = vectors("intoto_statement");
    assert_eq!(all.len(), 17);
    let mut valid = 0;
    for v in all {
        let id = text(&v, "id");
        let statement = Statement::parse(text(&v, "statement").as_bytes());
        assert_eq!(v["valid"], statement.is_ok(), "{id}: {statement:?}");
        let Ok(statement) = statement else { continue };
        valid += 1;
        if let Some(subjects) = v["subjects"].as_u64() {
            assert_eq!(statement.subjects.len() as u64, subjects, "{id}");
            assert_eq!(statement.predicate_type, text(&v, "predicate_type"), "{id}");
        }
    }
    assert!(valid >= 6);
}

fn statement(
    subjects: serde_json::Value,
) -> Result<Statement, countersign_verifier::json::JsonError> {
    let value = json!({"_type": countersign_verifier::statement::TYPE, "subject": subjects, "predicateType": "https://example.com/p/v1"});
    Statement::parse(value.to_string().as_bytes())
}

#[test]
fn b076_b077_subjects_match_by_digest_alone() {
    let (one, two) = (sha256(b"one"), sha256(b"two"));
    let two_named_out = statement(json!([
        {"name": "out", "digest": {"sha256": one.to_hex()}},
        {"name": "out", "digest": {"sha256": two.to_hex()}},
    ]))
    .unwrap();
    assert!(two_named_out.speaks_of(&one) && two_named_out.speaks_of(&two));
    assert!(!two_named_out.speaks_of(&sha256(b"three")));
}

#[test]
fn t64_a_weak_algorithm_cannot_stand_in() {
    let artifact = leaf_hash(b"artifact");
    let weak = statement(
        json!([{"name": "a", "digest": {"md5": artifact.to_hex(), "sha1": artifact.to_hex(),
        "sha512": artifact.to_hex(), "sha256": sha256(b"other").to_hex()}}]),
    )
    .unwrap();
    assert!(!weak.speaks_of(&artifact));
    assert!(weak.speaks_of(&sha256(b"other")));
    for (algorithm, digest) in [
        ("sha256", "ab"),
        ("sha256", ""),
        ("sha1", "AB"),
        ("gitCommit", "xyz"),
        ("blake2b", ""),
    ] {
        assert!(
            statement(json!([{"digest": {algorithm: digest}}])).is_err(),
            "{algorithm} {digest}"
        );
    }
    // Of what the text does not define the form is not known either.
    assert!(statement(json!([{"digest": {"dirHash": "h1:AbC="}}])).is_ok());
}

#[test]
fn t62_members_of_a_statement_stand_once() {
    let type_ = countersign_verifier::statement::TYPE;
    let digest = sha256(b"x").to_hex();
    for doubled in [
        format!(
            r#"{{"_type":"{type_}","_type":"{type_}","subject":[{{"digest":{{"sha256":"{digest}"}}}}],"predicateType":"p"}}"#
        ),
        format!(
            r#"{{"_type":"{type_}","subject":[{{"digest":{{"sha256":"{digest}","sha256":"{digest}"}}}}],"predicateType":"p"}}"#
        ),
        format!(
            r#"{{"_type":"{type_}","subject":[{{"digest":{{"sha256":"{digest}"}}}}],"subject":[],"predicateType":"p"}}"#
        ),
    ] {
        assert!(Statement::parse(doubled.as_bytes()).is_err());
    }
    // The predicate is for others to read: fractions are none of our business.
    let fraction = format!(
        r#"{{"_type":"{type_}","subject":[{{"digest":{{"sha256":"{digest}"}}}}],"predicateType":"p","predicate":{{"x":1.5e3}}}}"#
    );
    assert!(Statement::parse(fraction.as_bytes()).is_ok());
}

#[test]
fn payload_types_of_statements() {
    for good in [
        "application/vnd.in-toto+json",
        "application/vnd.in-toto.provenance+json",
    ] {
        assert!(is_payload_type(good));
    }
    for bad in [
        "application/vnd.in-toto",
        "application/vnd.in-toto.+json",
        "application/vnd.in-toto+json ",
        "application/json",
    ] {
        assert!(!is_payload_type(bad));
    }
}
