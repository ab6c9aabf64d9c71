//! `receipt_submit` and `receipt_get`: receipts through the doors of the tools.

use serde_json::{Value, json};

use crate::rig::{Answer, Call, JSON, Rig, key, receipt, receipt_by};

fn with_token(rig: &mut Rig, tool: &str, arguments: &Value) -> Answer {
    let bearer = format!("Bearer {}", rig.token());
    let headers = [("content-type", JSON), ("authorization", bearer.as_str())];
    let (target, body) = (format!("/v1/{tool}"), arguments.to_string());
    let answer = rig.http().send("POST", &target, &headers, body.as_bytes());
    rig.check();
    answer
}

fn envelope(sent: &countersign_verifier::dsse::Envelope) -> Value {
    let sent: Value = serde_json::from_slice(&sent.to_json()).expect("an envelope");
    json!({"envelope": sent})
}

#[test]
fn a_receipt_handed_in_by_a_tool_is_the_receipt_that_its_own_door_takes() {
    let mut rig = Rig::up();
    let (agent, stranger) = (key("agent"), key("stranger"));
    rig.enroll("agent", &agent);
    let sent = receipt_by("1", &[key("agent"), key("stranger")]);
    // With a token, which adds nothing to the signatures.
    let answer = with_token(&mut rig, "receipt_submit", &envelope(&sent));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let body = answer.json();
    assert_eq!(
        (&body["entry"]["index"], &body["result"]["duplicate"]),
        (&json!(2), &json!(false))
    );
    assert_eq!(body["entry"]["state"], "included");
    assert_eq!(body["result"]["signers"][0]["name"], "agent");
    assert_eq!(
        body["entry"]["by"]["identity"],
        body["result"]["signers"][0]["identity"]
    );
    assert_eq!(
        body["result"]["dropped_signatures"][0]["reason"],
        "it verifies under no enrolled key"
    );
    // The same by its own door, and signed as a call: the first leaf.
    assert_eq!(rig.submit(&sent).json()["index"], 2);
    let call = Call::new("receipt_submit", envelope(&sent));
    let again = rig.call_as(&agent, &call).json();
    assert_eq!(
        (&again["entry"]["index"], &again["result"]["duplicate"]),
        (&json!(2), &json!(true))
    );
    assert_eq!(
        rig.size(),
        3,
        "a call that hands in a receipt is no leaf of its own"
    );

    // What its own door refuses, this one refuses in the same words.
    let foreign = receipt("2", &stranger);
    with_token(&mut rig, "receipt_submit", &envelope(&foreign)).problem(403, "SIGNER_UNKNOWN");
    let call = Call::new("receipt_submit", envelope(&foreign));
    rig.call_as(&agent, &call).problem(401, "SIGNER_UNKNOWN");
    // And whoever signs the call must be somebody.
    let call = Call::new("receipt_submit", envelope(&receipt("3", &agent)));
    rig.call_as(&stranger, &call).problem(401, "SIGNER_UNKNOWN");
    let bare = envelope(&receipt("3", &agent)).to_string();
    let bare = rig.http().post("/v1/receipt_submit", JSON, bare.as_bytes());
    bare.problem(401, "KEY_REQUIRED");
    with_token(&mut rig, "receipt_submit", &json!({"envelope": {}})).problem(400, "MALFORMED");
    with_token(&mut rig, "receipt_submit", &json!({"envelop": {}}))
        .problem(400, "UNKNOWN_ARGUMENT");
    assert_eq!(rig.size(), 3);

    // A policy may keep somebody from the tool; the receipts' own door asks for signatures alone.
    let policy =
        "permit (principal, action, resource) when { principal.roles.contains(\"owner\") };";
    assert_eq!(rig.call("policy_set", json!({"text": policy})).status, 200);
    let call = Call::new("receipt_submit", envelope(&receipt("4", &agent)));
    rig.call_as(&agent, &call).problem(403, "NOT_ALLOWED");
    assert_eq!(rig.submit(&receipt("4", &agent)).status, 200);
}

#[test]
fn a_receipt_is_found_by_leaf_payload_and_subject() {
    let mut rig = Rig::up();
    let agent = key("agent");
    rig.enroll("agent", &agent);
    let sent = receipt("1", &agent);
    rig.submit(&sent);
    let owner = rig.owner();
    rig.submit(&receipt("1", &owner));
    let by_index = with_token(&mut rig, "receipt_get", &json!({"index": 2})).json();
    let found = &by_index["result"];
    assert_eq!(found["index"], 2);
    assert_eq!(found["signers"][0]["name"], "agent");
    assert_eq!(found["payload_type"], crate::rig::TYPE);
    assert_eq!(
        found["evidence_url"],
        format!("{}/log/dev/evidence/2", rig.service.url)
    );
    assert!(found.get("envelope").is_none());
    assert_eq!(by_index["as_of"]["size"], 4);
    let hash = found["leaf_hash"].clone();
    let by_hash = with_token(&mut rig, "receipt_get", &json!({"leaf_hash": hash})).json();
    assert_eq!(by_hash["result"]["index"], 2);
    let payload = found["payload_sha256"].clone();
    let asked = json!({"payload_sha256": payload, "include": ["envelope"]});
    let first = with_token(&mut rig, "receipt_get", &asked).json();
    assert_eq!(
        (&first["result"]["index"], &first["result"]["has_more"]),
        (&json!(2), &json!(true))
    );
    let stored = first["result"]["envelope"].to_string();
    let stored =
        countersign_verifier::dsse::Envelope::parse(stored.as_bytes()).expect("an envelope");
    assert_eq!(stored.payload, sent.payload);
    // Signed, as a read: no leaf.
    let asked = json!({"payload_sha256": payload, "after": 2});
    let next = rig.call_as(&agent, &Call::new("receipt_get", asked)).json();
    assert_eq!(
        (&next["result"]["index"], &next["result"]["has_more"]),
        (&json!(3), &json!(false))
    );
    for (asked, status, code) in [
        (
            json!({"payload_sha256": payload, "after": 3}),
            404,
            "NOT_FOUND",
        ),
        (json!({"subject_sha256": payload}), 404, "NOT_FOUND"),
        (json!({"leaf_hash": payload}), 404, "NOT_FOUND"),
        (json!({"index": 0}), 404, "NOT_FOUND"),
        (json!({"index": 4}), 404, "NOT_IN_TREE"),
        (json!({}), 400, "MALFORMED"),
        (json!({"index": 2, "leaf_hash": hash}), 400, "MALFORMED"),
        (json!({"leaf_hash": "x"}), 400, "MALFORMED"),
    ] {
        with_token(&mut rig, "receipt_get", &asked).problem(status, code);
    }
    assert_eq!(rig.size(), 4);
}
