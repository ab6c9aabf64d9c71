//! What the account takes as a receipt: thresholds, types, and who is revoked or retired.

use countersign_verifier::{dsse::Envelope, operation::PAYLOAD_TYPE};
use serde_json::json;

use crate::rig::{Call, Rig, TYPE, key, receipt, receipt_by, spki};

#[test]
fn a_threshold_counts_distinct_keys() {
    let mut rig = Rig::up();
    let (one, two) = (key("one"), key("two"));
    rig.enroll("one", &one);
    rig.enroll("two", &two);
    let set = rig.call("receipt_policy", json!({"threshold": 2}));
    assert_eq!(set.status, 200, "{}", set.text());
    let before = rig.size();
    let detail = rig
        .submit(&receipt("alone", &one))
        .problem(422, "THRESHOLD_NOT_MET");
    assert_eq!((&detail["have"], &detail["need"]), (&json!(1), &json!(2)));
    // B066: the same key twice, identical and under two keyids, is one key.
    let mut twice = receipt("twice", &one);
    twice.signatures.push(twice.signatures[0].clone());
    twice.signatures[1].keyid.clear();
    let detail = rig.submit(&twice).problem(422, "THRESHOLD_NOT_MET");
    assert_eq!(detail["have"], 1);
    // A stranger's does not help.
    let mut beside = receipt_by("stranger", &[key("one"), key("stranger")]);
    let detail = rig.submit(&beside).problem(422, "THRESHOLD_NOT_MET");
    assert_eq!(detail["have"], 1);
    beside = receipt_by("both", &[key("one"), key("two")]);
    assert_eq!(rig.size(), before);
    assert_eq!(rig.submit(&beside).index(), before);

    // A type of its own threshold.
    let asked = json!({"threshold": 2, "thresholds": {TYPE: 1}});
    assert_eq!(rig.call("receipt_policy", asked).status, 200);
    rig.submit(&receipt("alone now", &one)).index();
    let other = Envelope::sign("text/plain", b"x", &[key("one")]);
    rig.submit(&other).problem(422, "THRESHOLD_NOT_MET");
    // It holds after a restart, and for whoever replays.
    rig.restart();
    rig.submit(&other).problem(422, "THRESHOLD_NOT_MET");
}

#[test]
fn types_are_taken_as_listed_and_never_empty() {
    let mut rig = Rig::up();
    let owner = [rig.owner()];
    let sign = |payload_type: &str| Envelope::sign(payload_type, b"{}", &owner);
    // B074: what is there verifies as bytes; the policy says no, and why.
    for refused in [
        "",
        "application/json ",
        " text/plain",
        "a\u{7}b",
        PAYLOAD_TYPE,
    ] {
        let answer = rig.submit(&sign(refused));
        answer.problem(422, "TYPE_NOT_ALLOWED");
    }
    let missing = br#"{"payload":"e30=","signatures":[{"sig":"AAAA"}]}"#;
    rig.submit_to("", missing).problem(400, "MALFORMED");
    rig.submit(&sign("application/json")).index();
    let asked = json!({"types": [TYPE]});
    assert_eq!(rig.call("receipt_policy", asked).status, 200);
    rig.submit(&Envelope::sign("application/json", b"[]", &owner))
        .problem(422, "TYPE_NOT_ALLOWED");
    rig.submit(&sign(TYPE)).index();
    // What was taken before stays what it was: the same again is a duplicate, not a refusal.
    let again = rig.submit(&sign("application/json"));
    assert_eq!(again.json()["duplicate"], true, "{}", again.text());
}

#[test]
fn a_policy_that_nothing_could_meet_is_refused() {
    let mut rig = Rig::up();
    let many: Vec<String> = (0..65).map(|n| format!("text/x-{n}")).collect();
    let before = rig.size();
    for asked in [
        json!({"threshold": 0}),
        json!({"threshold": 17}),
        json!({"threshold": "2"}),
        json!({"threshold": 1.5}),
        json!({"thresholds": {TYPE: 0}}),
        json!({"types": [""]}),
        json!({"types": [PAYLOAD_TYPE]}),
        json!({"types": many}),
    ] {
        let answer = rig.call("receipt_policy", asked.clone());
        assert_eq!(answer.status, 400, "{asked}: {}", answer.text());
    }
    assert_eq!(rig.size(), before);
    let agent = key("agent");
    rig.enroll("agent", &agent);
    let call = Call::new("receipt_policy", json!({"threshold": 1}));
    let refused = rig.call_as(&agent, &call);
    refused.problem(403, "NOT_ALLOWED");
    assert!(
        refused.json()["entry"]["index"].is_u64(),
        "a refusal is a leaf"
    );
}

#[test]
fn who_is_revoked_signs_nothing_and_nobody_else_notices() {
    let mut rig = Rig::up();
    let (gone, stays) = (key("gone"), key("stays"));
    rig.enroll("gone", &gone);
    rig.enroll("stays", &stays);
    let old = rig.submit(&receipt("before", &gone)).index();
    let id = gone.public().identity().to_string();
    let revoked = rig.call("identity_revoke", json!({"identity": id, "reason": "left"}));
    assert_eq!(revoked.status, 200, "{}", revoked.text());
    let at = revoked.json()["entry"]["index"].as_u64();
    let detail = rig
        .submit(&receipt("after", &gone))
        .problem(403, "KEY_REVOKED");
    assert_eq!(detail["identity"], id);
    assert_eq!(detail["revoked_index"].as_u64(), at);
    rig.submit(&receipt("mine", &stays)).index();
    // Both: the revoked one's is dropped, and said.
    let both = rig.submit(&receipt_by("both", &[key("gone"), key("stays")]));
    both.index();
    assert_eq!(
        both.json()["dropped_signatures"].as_array().map(Vec::len),
        Some(1)
    );
    rig.restart();
    rig.submit(&receipt("after", &gone))
        .problem(403, "KEY_REVOKED");
    let call = Call::new("identity_list", json!({}));
    rig.call_as(&gone, &call).problem(403, "KEY_REVOKED");
    // What it signed while it could still holds.
    assert_eq!(rig.get(&format!("/log/dev/evidence/{old}")).status, 200);
}

#[test]
fn a_retired_key_signs_nothing_new_and_what_it_signed_holds() {
    // B155
    let mut rig = Rig::up();
    let (first, second) = (key("first"), key("second"));
    rig.enroll("agent", &first);
    let old = rig.submit(&receipt("old", &first)).index();
    let id = first.public().identity();
    let proof = crate::rig::possession_of(&second, id);
    let asked =
        json!({"identity": id.to_string(), "public_key": spki(&second), "possession": proof});
    let rotated = rig.call("identity_rotate", asked);
    assert_eq!(rotated.status, 200, "{}", rotated.text());
    let refused = rig.submit(&receipt("retired", &first));
    assert_eq!(refused.status, 403, "{}", refused.text());
    let new = rig.submit(&receipt("new", &second)).index();
    for index in [old, new] {
        let file = rig.scratch().join("e.json");
        std::fs::write(&file, rig.get(&format!("/log/dev/evidence/{index}")).body).unwrap();
        let verified = crate::rig::verify(&[file], rig.auditor.policy_file(), &[]);
        assert_eq!(verified.code, 0, "{verified:#?}");
        assert_eq!(verified.verdicts[0]["by"]["identity"], id.to_string());
    }
}
