//! Signed operations: nonces, times, what was seen before, and refusals that fold.

use countersign_verifier::{
    dsse::Envelope,
    hash::{Hash, leaf_hash},
    operation::PAYLOAD_TYPE,
};
use serde_json::{Value, json};

use crate::rig::{Call, JSON, Rig, key, now, spki};

fn enroll(name: &str) -> Call {
    Call::new(
        "identity_enroll",
        json!({"name": name, "public_key": spki(&key(name))}),
    )
}

#[test]
fn a_nonce_that_is_used_again_gives_the_first_answer() {
    // B092, B093
    let mut rig = Rig::up();
    let owner = rig.owner();
    let mut call = enroll("a");
    let first = rig.call_as(&owner, &call).json();
    let before = rig.size();
    for round in 0..3 {
        if round == 1 {
            rig.restart();
        }
        // Signed again, at another time: tool and arguments are what "the same request" means.
        call.issued_at += 1;
        let again = rig.call_as(&owner, &call);
        assert_eq!(again.status, 200, "{}", again.text());
        assert_eq!(again.json()["result"], first["result"]);
        for member in ["index", "leaf_hash", "at", "by"] {
            assert_eq!(again.json()["entry"][member], first["entry"][member]);
        }
    }
    // The nonce is looked up before freshness is.
    call.issued_at = now() - 3_600_000;
    assert_eq!(rig.call_as(&owner, &call).status, 200);
    let mut other = enroll("b");
    other.nonce.clone_from(&call.nonce);
    let refused = rig.call_as(&owner, &other);
    let detail = refused.problem(422, "IDEMPOTENCY_MISMATCH");
    assert_eq!(detail["first_index"], first["entry"]["index"]);
    let mut tool = Call::new(
        "identity_revoke",
        json!({"identity": first["result"]["identity"]}),
    );
    tool.nonce.clone_from(&call.nonce);
    rig.call_as(&owner, &tool)
        .problem(422, "IDEMPOTENCY_MISMATCH");
    assert_eq!(
        rig.size(),
        before,
        "neither a repeat nor a mismatch is a leaf"
    );
    // A nonce is one identity's: somebody else's is another one.
    rig.enroll("other", &key("other"));
    let mut theirs = enroll("c");
    theirs.nonce.clone_from(&call.nonce);
    rig.call_as(&key("other"), &theirs)
        .problem(403, "NOT_ALLOWED");
}

#[test]
fn a_refusal_is_replayed_under_its_nonce() {
    let mut rig = Rig::up();
    let owner = rig.owner();
    let mut call = enroll("x");
    call.arguments["name"] = "owner".into();
    let first = rig.call_as(&owner, &call);
    first.problem(409, "NAME_TAKEN");
    let size = rig.size();
    rig.restart();
    let again = rig.call_as(&owner, &call);
    again.problem(409, "NAME_TAKEN");
    assert_eq!(again.json()["message"], first.json()["message"]);
    assert_eq!(
        again.json()["entry"]["index"],
        first.json()["entry"]["index"]
    );
    assert_eq!(
        again.json()["entry"]["folded"],
        Value::Null,
        "its own nonce, its own leaf"
    );
    assert_eq!(rig.size(), size);
}

#[test]
fn identical_refusals_fold_into_the_first() {
    let mut rig = Rig::up();
    let agent = key("agent");
    rig.enroll("agent", &agent);
    let first = rig.call_as(&agent, &enroll("a"));
    first.problem(403, "NOT_ALLOWED");
    let (size, index) = (rig.size(), first.json()["entry"]["index"].clone());
    assert_eq!(first.json()["entry"]["folded"], Value::Null);
    let mut nonce = String::new();
    for round in 0..4 {
        if round == 2 {
            rig.restart();
        }
        let call = enroll("a");
        let again = rig.call_as(&agent, &call);
        again.problem(403, "NOT_ALLOWED");
        let entry = again.json()["entry"].clone();
        assert_eq!(
            (&entry["folded"], &entry["index"]),
            (&json!(true), &index),
            "{entry}"
        );
        nonce = call.nonce;
    }
    assert!(rig.size() <= size + 1, "at most their count was written");
    // The nonce of a folded one is free.
    let mut call = enroll("b");
    call.nonce = nonce;
    let other = rig.call_as(&agent, &call);
    other.problem(403, "NOT_ALLOWED");
    assert_ne!(
        other.json()["entry"]["index"],
        index,
        "another resource is another refusal"
    );
}

#[test]
fn what_was_not_signed_about_now_is_refused_and_unlogged() {
    let mut rig = Rig::up();
    let owner = rig.owner();
    let before = rig.size();
    for shift in [-3_600_000_i64, -660_000, 660_000, 86_400_000] {
        let mut call = enroll("a");
        call.issued_at = call.issued_at.checked_add_signed(shift).unwrap();
        let refused = rig.call_as(&owner, &call);
        let detail = refused.problem(422, "CLOCK_SKEW");
        assert!(
            detail["server_time"]
                .as_str()
                .is_some_and(|t| t.ends_with('Z')),
            "{detail}"
        );
        assert_eq!(refused.json()["retryable"], true);
        assert_eq!(refused.json()["entry"], Value::Null);
    }
    assert_eq!(rig.size(), before);
    for shift in [-540_000_i64, 540_000] {
        let mut call = enroll(&format!("within{shift}"));
        call.issued_at = call.issued_at.checked_add_signed(shift).unwrap();
        assert_eq!(rig.call_as(&owner, &call).status, 200);
    }
}

#[test]
fn previous_operations_are_this_keys_own() {
    let mut rig = Rig::up();
    let owner = rig.owner();
    let agent = key("agent");
    let index = usize::try_from(rig.enroll("agent", &agent)).unwrap();
    let theirs = rig.submit(&crate::rig::receipt("theirs", &agent)).index();
    let hash = |rig: &Rig, index: usize| leaf_hash(&rig.auditor.leaves()[index]);
    let mut call = enroll("a");
    call.prev = vec![hash(&rig, index)];
    let answer = rig.call_as(&owner, &call);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let opened = hash(&rig, 0);
    let receipt = hash(&rig, usize::try_from(theirs).unwrap());
    for (name, prev) in [("b", Hash([7; 32])), ("c", opened), ("d", receipt)] {
        let mut call = enroll(name);
        call.prev = vec![hash(&rig, index), prev];
        let refused = rig.call_as(&owner, &call);
        refused.problem(422, "PREV_UNKNOWN");
        assert!(refused.json()["entry"]["index"].is_u64(), "a leaf");
    }
    let mut call = enroll("e");
    call.prev = vec![hash(&rig, index); 9];
    rig.call_as(&owner, &call).problem(400, "MALFORMED");
}

#[test]
fn a_head_that_was_observed_is_compared() {
    let mut rig = Rig::up();
    let owner = rig.owner();
    rig.enroll("agent", &key("agent"));
    let head = rig.auditor.head(&mut rig.http());
    let mut call = enroll("a");
    call.observed = Some((head.size, head.root));
    assert_eq!(rig.call_as(&owner, &call).status, 200);
    // An old one is as good; the empty tree has one root.
    call = enroll("b");
    call.observed = Some((head.size, head.root));
    assert_eq!(rig.call_as(&owner, &call).status, 200);
    for (name, size, root) in [
        ("c", head.size, Hash([1; 32])),
        ("d", head.size + 1, head.root),
        ("e", 1_000_000, head.root),
    ] {
        let mut call = enroll(name);
        call.observed = Some((size, root));
        let refused = rig.call_as(&owner, &call);
        refused.problem(422, "OBSERVED_MISMATCH");
        assert!(refused.json()["entry"]["index"].is_u64(), "a leaf");
    }
}

#[test]
fn an_operation_is_for_one_log_one_tool_and_one_signature() {
    let mut rig = Rig::up();
    let owner = rig.owner();
    let before = rig.size();
    let mut call = enroll("a");
    call.log = "log.example.com/other".into();
    rig.call_as(&owner, &call).problem(403, "ACCOUNT_MISMATCH");
    // Sent to the address of another tool.
    let call = enroll("a");
    let body = call.body(&owner).to_string();
    let http = |target: &str, body: &str| rig.http().post(target, JSON, body.as_bytes());
    http("/v1/identity_revoke", &body).problem(400, "MALFORMED");
    // Of another type, or with two signatures.
    let other = Envelope::sign("application/json", &call.payload(), &[rig.owner()]);
    http("/v1/identity_enroll", &call.body_of(&other).to_string()).problem(400, "MALFORMED");
    let two = Envelope::sign(PAYLOAD_TYPE, &call.payload(), &[rig.owner(), key("x")]);
    http("/v1/identity_enroll", &call.body_of(&two).to_string()).problem(400, "MALFORMED");
    // By nobody; by somebody whose signature it is not.
    let stranger = call.body(&key("stranger")).to_string();
    http("/v1/identity_enroll", &stranger).problem(401, "SIGNER_UNKNOWN");
    let mut forged = Envelope::sign(PAYLOAD_TYPE, &call.payload(), &[rig.owner()]);
    forged.signatures[0].sig[9] ^= 4;
    http("/v1/identity_enroll", &call.body_of(&forged).to_string())
        .problem(422, "SIGNATURE_INVALID");
    // As a receipt it is not taken either.
    let answer = http(
        "/log/dev/receipts",
        &call.body(&owner)["signed"].to_string(),
    );
    answer.problem(422, "TYPE_NOT_ALLOWED");
    assert_eq!(rig.size(), before);
}

#[test]
fn a_signed_read_is_judged_as_a_write_is_and_leaves_no_leaf() {
    let mut rig = Rig::up();
    let agent = key("agent");
    rig.enroll("agent", &agent);
    let asked = json!({"name": "stated", "public_key": spki(&key("stated"))});
    assert_eq!(rig.call("identity_enroll", asked).status, 200);
    let size = rig.size();
    let read = || Call::new("identity_list", json!({}));
    assert_eq!(rig.call_as(&agent, &read()).status, 200);
    rig.call_as(&key("stated"), &read())
        .problem(403, "POSSESSION_UNPROVED");
    rig.call_as(&key("stranger"), &read())
        .problem(401, "SIGNER_UNKNOWN");
    let mut old = read();
    old.issued_at -= 3_600_000;
    rig.call_as(&agent, &old).problem(422, "CLOCK_SKEW");
    assert_eq!(rig.size(), size);
}

#[test]
fn a_token_alone_changes_nothing() {
    let rig = Rig::up();
    let token = format!("Bearer {}", rig.token());
    let asked = enroll("a").arguments.to_string();
    let send = |authorization: &str| {
        let headers = [("content-type", JSON), ("authorization", authorization)];
        rig.http()
            .send("POST", "/v1/identity_enroll", &headers, asked.as_bytes())
    };
    send(&token).problem(403, "ATTRIBUTION_TOO_LOW");
    send("Bearer cst_wrong").problem(401, "TOKEN_INVALID");
    let answer = rig
        .http()
        .post("/v1/identity_enroll", JSON, asked.as_bytes());
    answer.problem(401, "KEY_REQUIRED");
}

#[test]
fn what_stands_beside_the_signed_part_must_agree_with_it() {
    let mut rig = Rig::up();
    let owner = rig.owner();
    let mut call = enroll("a");
    call.beside.insert("name".into(), "b".into());
    let refused = rig.call_as(&owner, &call);
    refused.problem(400, "MALFORMED");
    call.beside.insert("name".into(), "a".into());
    call.beside
        .insert("idempotency_key".into(), call.nonce.clone().into());
    assert_eq!(rig.call_as(&owner, &call).status, 200);
}

#[test]
fn payloads_are_read_strictly() {
    let mut rig = Rig::up();
    let owner = [rig.owner()];
    let before = rig.size();
    let call = enroll("a");
    let good = String::from_utf8(call.payload()).unwrap();
    for (from, to) in [
        // B079: one name twice, inside and outside of the arguments.
        ("{\"tool\"", "{\"nonce\":\"0123456789abcdef\",\"tool\""),
        ("\"arguments\":{", "\"arguments\":{\"name\":\"x\","),
        ("{\"tool\"", "{\"extra\":1,\"tool\""),
        ("\"name\":\"a\"", "\"name\":1e0"),
        ("\"name\":\"a\"", "\"name\":9007199254740993"),
        ("\"name\":\"a\"", "\"name\":\"\\ud800\""),
        ("\"nonce\":\"", "\"nonce\":\"\u{7}"),
        ("\"arguments\":{", "\"arguments\":[{"),
        ("Z\"", "+00:00\""),
    ] {
        let payload = good.replacen(from, to, 1);
        assert_ne!(payload, good, "{from}");
        let envelope = Envelope::sign(PAYLOAD_TYPE, payload.as_bytes(), &owner);
        let body = call.body_of(&envelope).to_string();
        let answer = rig
            .http()
            .post("/v1/identity_enroll", JSON, body.as_bytes());
        assert_eq!(answer.status, 400, "{payload}: {}", answer.text());
        answer.problem(400, "MALFORMED");
    }
    for nonce in ["short", "0123456789abcde", &"x".repeat(65)] {
        let mut call = enroll("a");
        call.nonce = nonce.into();
        rig.call_as(&owner[0], &call).problem(400, "MALFORMED");
    }
    assert_eq!(rig.size(), before);
    // The body around it is read by the same rules.
    for body in [
        "{\"signed\":{},\"signed\":{}}",
        "{\"wait\":1e9}",
        "[]",
        "",
        "{\"signed\":7}",
    ] {
        let answer = rig
            .http()
            .post("/v1/identity_enroll", JSON, body.as_bytes());
        answer.problem(400, "MALFORMED");
    }
}
