//! Sessions and their keys, over HTTP and on the command line.

use countersign_verifier::{
    base64,
    key::PrivateKey,
    leaf::{Class, Leaf, Millis},
    operation::binding_message,
};
use serde_json::{Value, json};

use crate::rig::{Answer, Call, JSON, Rig, clean, countersign, key, now, spki};

/// The origin of the development account.
const ORIGIN: &str = "localhost/dev";

/// What a check-in says at least, and more.
pub fn checkin(more: &Value) -> Value {
    let mut asked = json!({
        "role": "agent",
        "harness": {"name": "example", "version": "1.0"},
        "clock": Millis(now()).to_string(),
    });
    for (name, value) in more.as_object().expect("an object") {
        asked[name] = value.clone();
    }
    asked
}

/// Checks in; the session's id.
pub fn begin(rig: &mut Rig, who: &PrivateKey, more: &Value) -> String {
    let answer = rig.call_as(who, &Call::new("ars_session_checkin", checkin(more)));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let id = answer.json()["result"]["session_id"].clone();
    id.as_str().expect("an id").to_owned()
}

/// A call within a session.
pub fn within(session: &str, tool: &str, arguments: Value) -> Call {
    Call {
        session: Some(session.to_owned()),
        ..Call::new(tool, arguments)
    }
}

/// A call with the owner's token.
fn unsigned(rig: &Rig, tool: &str, body: &Value) -> Answer {
    let token = format!("Bearer {}", rig.token());
    let headers = [("content-type", JSON), ("authorization", token.as_str())];
    rig.http().send(
        "POST",
        &format!("/v1/{tool}"),
        &headers,
        body.to_string().as_bytes(),
    )
}

#[test]
fn a_session_by_token_from_check_in_to_check_out() {
    let mut rig = Rig::up();
    let answer = unsigned(
        &rig,
        "ars_session_checkin",
        &checkin(&json!({"role": "owner", "ttl_s": 600})),
    );
    assert_eq!(answer.status, 200, "{}", answer.text());
    let begun = answer.json()["result"].clone();
    let id = begun["session_id"].as_str().expect("an id");
    assert_eq!(
        (&begun["class"], &begun["heartbeat_every_s"]),
        (&json!("seat_key"), &json!(200))
    );
    let skew = begun["clock_skew_ms"].as_i64().expect("milliseconds");
    assert!(skew.abs() < 600_000, "{skew}");
    let size = rig.size();
    // Early, and with nothing to say: answered, and no leaf.
    let early = unsigned(&rig, "ars_session_heartbeat", &json!({"session_id": id}));
    assert_eq!(early.status, 200, "{}", early.text());
    let early = early.json();
    assert_eq!(early["result"]["logged"], false);
    assert!(
        early["as_of"].is_object() && early.get("entry").is_none(),
        "{early}"
    );
    assert_eq!(rig.size(), size);
    let said = unsigned(
        &rig,
        "ars_session_heartbeat",
        &json!({"session_id": id, "note": "on it"}),
    );
    assert_eq!(said.json()["result"]["logged"], true, "{}", said.text());
    assert_eq!(said.json()["entry"]["by"]["session"], id);
    let got = unsigned(&rig, "ars_session_get", &json!({"id": id})).json();
    assert_eq!(got["result"]["note"], "on it");
    let token = begun["attestation"].as_str().expect("an attestation");
    let verify = |rig: &Rig| {
        let asked = json!({"attestation": token, "policy": {"min_attribution": "seat_key"}});
        unsigned(rig, "ars_attestation_verify", &asked).json()["result"].clone()
    };
    let verified = verify(&rig);
    assert_eq!(verified["verified"], true, "{verified}");
    assert_eq!(verified["attribution"], "seat_key");
    let out = json!({"session_id": id, "outcome": "delivered"});
    let out = unsigned(&rig, "ars_session_checkout", &out).json();
    assert_eq!(out["result"]["session"]["outcome"], "delivered", "{out}");
    let ended = verify(&rig);
    assert_eq!(ended["verified"], false);
    let checks = ended["checks"].as_array().expect("checks");
    let session = checks.iter().find(|check| check["name"] == "session");
    assert_eq!(session.expect("a check")["status"], "fail");
    let list = json!({"filter": {"state": "ended", "role": "owner"}});
    let list = unsigned(&rig, "ars_session_list", &list).json();
    assert_eq!(list["result"]["sessions"][0]["session_id"], id);
    let late = unsigned(&rig, "ars_session_heartbeat", &json!({"session_id": id}));
    let detail = late.problem(410, "SESSION_EXPIRED");
    assert_eq!(detail["session_id"], id);
    rig.check();
}

#[test]
fn what_is_not_so_is_a_result_of_verification() {
    let mut rig = Rig::up();
    let agent = key("agent");
    let enrolled = rig.enroll("agent", &agent);
    begin(&mut rig, &agent, &json!({}));
    let verify = |asked: Value| unsigned(&rig, "ars_attestation_verify", &asked);
    let by_index = verify(json!({"index": enrolled})).json()["result"].clone();
    assert_eq!(by_index["verified"], true, "{by_index}");
    let hash = by_index["subject"]["leaf_hash"].clone();
    assert_eq!(
        verify(json!({"leaf_hash": hash})).json()["result"],
        by_index
    );
    let evidence: Value = rig.get(&format!("/log/dev/evidence/{enrolled}")).json();
    assert_eq!(
        verify(json!({"evidence": evidence.clone()})).json()["result"]["verified"],
        true
    );
    let mut other = evidence;
    other["leaf"] = base64::encode(b"another leaf").into();
    for asked in [
        json!({"evidence": other}),
        json!({"evidence": {}}),
        json!({"attestation": "csa1.x"}),
        json!({"envelope": {"payload": "", "payloadType": "text/plain", "signatures": []}}),
        json!({"index": enrolled, "policy": {"quorum": 1}}),
    ] {
        let answer = verify(asked.clone());
        assert_eq!(answer.status, 200, "{asked}: {}", answer.text());
        assert_eq!(answer.json()["result"]["verified"], false, "{asked}");
    }
    verify(json!({})).problem(400, "MALFORMED");
    verify(json!({"index": 1, "attestation": "x"})).problem(400, "MALFORMED");
}

#[test]
fn the_key_of_a_session_signs_what_anybody_can_check_offline() {
    let mut rig = Rig::up();
    let (agent, shim) = (key("agent"), key("session"));
    rig.enroll("agent", &agent);
    let ends = Millis(now() + 3_600_000);
    let message = binding_message(ORIGIN, &spki(&shim), "agent", ends);
    let bound = json!({
        "session_public_key": spki(&shim),
        "binding": {"expires_at": ends.to_string(), "signature": base64::encode(&agent.sign(&message))},
    });
    let id = begin(&mut rig, &agent, &bound);
    // `call_as` reads the evidence of every leaf with the stand-alone verifier.
    let lease = within(&id, "ars_lease_acquire", json!({"resource": "item:1"}));
    let answer = rig.call_as(&shim, &lease);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let by = &answer.json()["entry"]["by"];
    assert_eq!(by["class"], "session_key");
    assert_eq!(by["identity"], agent.public().identity().to_string());
    let stranger = rig.call_as(
        &key("stranger"),
        &within(&id, "ars_session_heartbeat", json!({})),
    );
    stranger.problem(401, "SIGNER_UNKNOWN");
    let own = rig.call_as(
        &shim,
        &within(
            &id,
            "token_new",
            json!({
                "identity": agent.public().identity().to_string(),
                "token_sha256": "0".repeat(64),
            }),
        ),
    );
    own.problem(403, "ATTRIBUTION_TOO_LOW");
    let classes = |rig: &Rig| {
        let leaves = rig.auditor.leaves().iter();
        let by = leaves.filter_map(|leaf| Leaf::parse(leaf).ok()?.by().map(|by| by.class));
        by.filter(|class| *class == Class::SessionKey).count()
    };
    assert_eq!(classes(&rig), 2);
    let audit = clean(countersign())
        .args(["audit", &format!("{}/log/dev", rig.service.url), "--replay"])
        .arg("--policy")
        .arg(&rig.service.policy)
        .output()
        .expect("countersign audit");
    assert!(
        audit.status.success(),
        "{}",
        String::from_utf8_lossy(&audit.stdout)
    );
}

#[test]
fn the_command_line_calls_the_same_tools() {
    let mut rig = Rig::up();
    let call = |tool: &str, arguments: &Value| {
        let output = clean(countersign())
            .args(["call", tool, "--json", &arguments.to_string(), "--dir"])
            .arg(rig.dir())
            .output();
        let output = output.expect("countersign call");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        (
            output.status.code(),
            serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default(),
            stderr,
        )
    };
    let (code, begun, why) = call("ars_session_checkin", &checkin(&json!({"role": "owner"})));
    assert_eq!(code, Some(0), "{why}");
    let id = &begun["result"]["session_id"];
    let (code, lease, why) = call(
        "ars_lease_acquire",
        &json!({"resource": "path:site:src/**"}),
    );
    assert_eq!(code, Some(0), "{why}");
    assert_eq!(&lease["result"]["session_id"], id);
    let (code, found, why) = call("ars_lease_get", &json!({"resource": "path:site:src/a"}));
    assert_eq!(code, Some(0), "{why}");
    assert_eq!(
        found["result"]["leases"][0]["lease_id"],
        lease["result"]["lease_id"]
    );
    rig.check();
}
