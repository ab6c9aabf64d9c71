//! Enrolling, proving, rotating, revoking, listing.

use countersign_verifier::{
    base64,
    key::{Algorithm, PrivateKey},
    leaf::{Decision, Leaf},
};
use serde_json::{Value, json};

use crate::rig::{Answer, Call, JSON, Rig, key, possession, possession_of, receipt, spki};

/// The code that the leaf of a refusal records.
fn refused(rig: &Rig, answer: &Answer) -> String {
    let index = answer.json()["entry"]["index"]
        .as_u64()
        .expect("a refusal is a leaf");
    let leaf = &rig.auditor.leaves()[usize::try_from(index).unwrap()];
    let Ok(Leaf::Operation(leaf)) = Leaf::parse(leaf) else {
        panic!("no operation at {index}")
    };
    match leaf.decision {
        Decision::Refused { code, .. } => code.to_owned(),
        Decision::Applied { effect } => panic!("applied: {effect}"),
    }
}

#[test]
fn an_identity_is_enrolled_and_its_entry_says_by_whom() {
    let mut rig = Rig::up();
    let agent = key("agent");
    let asked = json!({"name": "ci@example.com", "public_key": spki(&agent), "possession": possession(&agent)});
    let answer = rig.call("identity_enroll", asked);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let body = answer.json();
    let id = agent.public().identity().to_string();
    let result = json!({"identity": id, "name": "ci@example.com", "class": "agent_key", "possession": "proved"});
    assert_eq!(body["result"], result);
    let entry = &body["entry"];
    let owner = rig.owner().public().identity().to_string();
    assert_eq!(
        entry["by"],
        json!({"identity": owner, "class": "agent_key"})
    );
    assert_eq!(
        (&entry["index"], &entry["state"]),
        (&json!(1), &json!("included"))
    );
    assert!(
        entry["evidence_url"]
            .as_str()
            .unwrap()
            .ends_with("/log/dev/evidence/1")
    );
    assert!(body["server_time"].as_str().unwrap().ends_with('Z'));
    // With the proof, and to the state asked for: never signed, always beside.
    let mut call = Call::new(
        "identity_enroll",
        json!({"name": "b", "public_key": spki(&key("b"))}),
    );
    call.beside = json!({"include": ["proof"], "wait": "included", "deadline_ms": 9_000})
        .as_object()
        .unwrap()
        .clone();
    let owner = rig.owner();
    let body = rig.call_as(&owner, &call).json();
    assert!(body["entry"]["proof"].is_string(), "{body}");
    assert_eq!(body["result"]["possession"], "stated");
}

#[test]
fn a_key_of_which_only_the_public_half_was_seen_signs_receipts_and_no_operation() {
    let mut rig = Rig::up();
    let agent = key("agent");
    let asked = json!({"name": "agent", "public_key": spki(&agent)});
    assert_eq!(rig.call("identity_enroll", asked).status, 200);
    rig.submit(&receipt("stated", &agent)).index();
    let id = agent.public().identity();
    let call = Call::new("identity_revoke", json!({"identity": id.to_string()}));
    let before = rig.size();
    rig.call_as(&agent, &call)
        .problem(403, "POSSESSION_UNPROVED");
    assert_eq!(rig.size(), before, "who has not shown a key leaves no leaf");
    // A rotation by the owner, with a proof by the new key, makes it whole.
    let new = key("new");
    let asked = json!({"identity": id.to_string(), "public_key": spki(&new), "possession": possession_of(&new, id)});
    assert_eq!(
        rig.call("identity_rotate", asked).json()["result"]["possession"],
        "proved"
    );
    let answer = rig.call_as(&new, &call);
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn a_proof_of_possession_is_for_one_log_identity_and_class() {
    let mut rig = Rig::up();
    let (agent, other) = (key("agent"), key("other"));
    let elsewhere = {
        use countersign_verifier::{leaf::Class, operation::possession_message};
        let id = agent.public().identity();
        let sign = |origin: &str, class| {
            base64::encode(&agent.sign(&possession_message(origin, id, class)))
        };
        [
            sign("log.example.com/other", Class::AgentKey),
            sign("localhost/dev", Class::SessionKey),
        ]
    };
    let wrong = [
        possession(&other),
        possession_of(&agent, other.public().identity()),
        base64::encode(&[0; 64]),
        elsewhere[0].clone(),
        elsewhere[1].clone(),
    ];
    for (n, proof) in wrong.iter().enumerate() {
        let name = format!("agent-{n}");
        let asked = json!({"name": name, "public_key": spki(&agent), "possession": proof});
        let answer = rig.call("identity_enroll", asked);
        answer.problem(422, "POSSESSION_INVALID");
        assert_eq!(refused(&rig, &answer), "POSSESSION_INVALID");
    }
    rig.submit(&receipt("no", &agent))
        .problem(401, "SIGNER_UNKNOWN");
}

#[test]
fn what_cannot_be_enrolled() {
    // B182, B183, B184: a name has letters that nobody takes for others, and no second spelling.
    let mut rig = Rig::up();
    let agent = key("agent");
    rig.enroll("Agent", &agent);
    let owner = spki(&rig.owner());
    let free = spki(&key("free"));
    let before = rig.size();
    for (asked, status, code) in [
        (
            json!({"name": "b", "public_key": spki(&agent)}),
            409,
            "KEY_ENROLLED",
        ),
        (
            json!({"name": "b", "public_key": owner}),
            409,
            "KEY_ENROLLED",
        ),
        // A name is told from another whatever its case.
        (
            json!({"name": "aGENT", "public_key": free}),
            409,
            "NAME_TAKEN",
        ),
        (
            json!({"name": "owner", "public_key": free}),
            409,
            "NAME_TAKEN",
        ),
        (
            json!({"name": "b", "public_key": free, "class": "session_key"}),
            403,
            "CLASS_NOT_ALLOWED",
        ),
        (
            json!({"name": "b", "public_key": free, "class": "service_key"}),
            403,
            "CLASS_NOT_ALLOWED",
        ),
    ] {
        let size = rig.size();
        let answer = rig.call("identity_enroll", asked.clone());
        answer.problem(status, code);
        assert_eq!(refused(&rig, &answer), code, "{asked}");
        assert!(rig.size() <= size + 1);
    }
    assert!(rig.size() > before);
    let before = rig.size();
    let weak = base64::encode(&[&base64::decode(&free).unwrap()[..12], &[0; 32]].concat());
    for asked in [
        json!({}),
        json!({"name": "b"}),
        json!({"name": "", "public_key": free}),
        json!({"name": "a b", "public_key": free}),
        json!({"name": "b\u{202e}", "public_key": free}),
        json!({"name": "Ag\u{435}nt", "public_key": free}),
        json!({"name": "caf\u{e9}", "public_key": free}),
        json!({"name": "cafe\u{301}", "public_key": free}),
        json!({"name": "b".repeat(65), "public_key": free}),
        json!({"name": 7, "public_key": free}),
        json!({"name": "b", "public_key": "AAAA"}),
        json!({"name": "b", "public_key": weak}),
        json!({"name": "b", "public_key": free.replace('=', "")}),
        json!({"name": "b", "public_key": free, "possession": "!"}),
    ] {
        let answer = rig.call("identity_enroll", asked);
        answer.problem(400, "MALFORMED");
    }
    let unknown = rig.call("identity_enroll", json!({"nmae": "b", "public_key": free}));
    unknown.problem(400, "UNKNOWN_ARGUMENT");
    assert!(unknown.text().contains("`name`"), "{}", unknown.text());
    assert_eq!(rig.size(), before, "what cannot be read leaves no leaf");
}

#[test]
fn only_the_owner_enrols_and_changes_others() {
    let mut rig = Rig::up();
    let (agent, other) = (key("agent"), key("other"));
    rig.enroll("agent", &agent);
    rig.enroll("other", &other);
    let other_id = other.public().identity().to_string();
    let free = spki(&key("free"));
    for (tool, arguments) in [
        (
            "identity_enroll",
            json!({"name": "mine", "public_key": free}),
        ),
        (
            "identity_rotate",
            json!({"identity": other_id, "public_key": free}),
        ),
        ("identity_revoke", json!({"identity": other_id})),
        ("receipt_policy", json!({})),
    ] {
        let answer = rig.call_as(&agent, &Call::new(tool, arguments));
        answer.problem(403, "NOT_ALLOWED");
        assert_eq!(refused(&rig, &answer), "NOT_ALLOWED");
        let by = answer.json()["entry"]["by"]["identity"].clone();
        assert_eq!(by, agent.public().identity().to_string());
    }
    // Itself it may rotate, and revoke.
    let id = agent.public().identity();
    let new = key("new");
    let asked = json!({"identity": id.to_string(), "public_key": spki(&new), "possession": possession_of(&new, id)});
    let call = Call::new("identity_rotate", asked);
    assert_eq!(rig.call_as(&agent, &call).status, 200);
    let call = Call::new("identity_revoke", json!({"identity": id.to_string()}));
    rig.call_as(&agent, &call).problem(403, "KEY_REVOKED");
    assert_eq!(rig.call_as(&new, &call).status, 200);
    rig.submit(&receipt("gone", &new))
        .problem(403, "KEY_REVOKED");
}

#[test]
fn a_key_is_one_identity_for_ever() {
    let mut rig = Rig::up();
    let (first, second) = (key("first"), key("second"));
    rig.enroll("agent", &first);
    let id = first.public().identity();
    let to = |key: &PrivateKey| json!({"identity": id.to_string(), "public_key": spki(key), "possession": possession_of(key, id)});
    assert_eq!(rig.call("identity_rotate", to(&second)).status, 200);
    // Neither back to a retired key, nor to the present one, nor for anybody else.
    rig.call("identity_rotate", to(&first))
        .problem(409, "KEY_ENROLLED");
    rig.call("identity_rotate", to(&second))
        .problem(409, "KEY_ENROLLED");
    let asked = json!({"name": "again", "public_key": spki(&first)});
    rig.call("identity_enroll", asked)
        .problem(409, "KEY_ENROLLED");
    // A second rotation keeps the id of the first key, and after a restart too.
    let third = PrivateKey::from_secret(Algorithm::EcdsaP256, &[5; 32]).unwrap();
    assert_eq!(rig.call("identity_rotate", to(&third)).status, 200);
    rig.restart();
    let index = rig.submit(&receipt("third", &third)).index();
    let leaf = &rig.auditor.leaves()[usize::try_from(index).unwrap()];
    assert_eq!(Leaf::parse(leaf).unwrap().by().unwrap().identity, id);
    let revoke = json!({"identity": id.to_string()});
    assert_eq!(rig.call("identity_revoke", revoke.clone()).status, 200);
    rig.call("identity_revoke", revoke)
        .problem(409, "IDENTITY_REVOKED");
    rig.call("identity_rotate", to(&key("fourth")))
        .problem(409, "IDENTITY_REVOKED");
    // A revoked identity's key is never free again, and neither is its name.
    let asked = json!({"name": "agent", "public_key": spki(&key("fifth"))});
    rig.call("identity_enroll", asked)
        .problem(409, "NAME_TAKEN");
}

#[test]
fn owner_and_service_stand_in_leaf_0() {
    let mut rig = Rig::up();
    let rows = rig.get("/log/dev/keys").json()["identities"].clone();
    let named = |name: &str| {
        rows.as_array()
            .unwrap()
            .iter()
            .find(|r| r["name"] == name)
            .unwrap()
            .clone()
    };
    let (owner, service) = (named("owner"), named("service"));
    for row in [&owner, &service] {
        let revoke = json!({"identity": row["identity"]});
        rig.call("identity_revoke", revoke)
            .problem(403, "NOT_ALLOWED");
    }
    let asked = json!({"identity": service["identity"], "public_key": spki(&key("new"))});
    rig.call("identity_rotate", asked)
        .problem(403, "NOT_ALLOWED");
    // The owner's new key must prove itself, or the account would be locked for good.
    let asked = json!({"identity": owner["identity"], "public_key": spki(&key("new"))});
    rig.call("identity_rotate", asked)
        .problem(422, "POSSESSION_REQUIRED");
    let nobody = json!({"identity": format!("id_{}", "0".repeat(64))});
    rig.call("identity_revoke", nobody)
        .problem(404, "NOT_FOUND");
    // The service's key signs what the service sees, and no receipt of anybody else's making would pass for it.
    let pem = std::fs::read_to_string(rig.account("service.key")).unwrap();
    let service = PrivateKey::parse(&pem).unwrap();
    let call = Call::new(
        "identity_enroll",
        json!({"name": "x", "public_key": spki(&key("x"))}),
    );
    rig.call_as(&service, &call)
        .problem(403, "ATTRIBUTION_TOO_LOW");
}

#[test]
fn identities_are_listed_in_pages() {
    let mut rig = Rig::up();
    for n in 0..5 {
        rig.enroll(&format!("agent-{n}"), &key(&format!("{n}")));
    }
    let token = format!("Bearer {}", rig.token());
    let headers = [("content-type", JSON), ("authorization", token.as_str())];
    let list = |asked: Value| {
        rig.http().send(
            "POST",
            "/v1/identity_list",
            &headers,
            asked.to_string().as_bytes(),
        )
    };
    let all = list(json!({})).json();
    assert_eq!(all["result"]["next"], Value::Null);
    assert_eq!(
        all["result"]["identities"],
        rig.get("/log/dev/keys").json()["identities"]
    );
    assert_eq!(all["as_of"]["size"], 6);
    assert!(
        all["as_of"]["root"].as_str().is_some_and(|r| r.len() == 64),
        "{all}"
    );
    let (mut rows, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let asked = match &cursor {
            Value::Null => json!({"limit": 3}),
            cursor => json!({"limit": 3, "cursor": cursor}),
        };
        let page = list(asked).json();
        rows.extend(page["result"]["identities"].as_array().unwrap().clone());
        cursor = page["result"]["next"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(Value::from(rows), all["result"]["identities"]);
    for asked in [
        json!({"limit": 0}),
        json!({"limit": 201}),
        json!({"limit": "x"}),
        json!({"cursor": "x"}),
    ] {
        list(asked).problem(400, "MALFORMED");
    }
    list(json!({"first": 1})).problem(400, "UNKNOWN_ARGUMENT");
    // Signed by anybody who is enrolled it needs no token; with neither it is nobody's business.
    let call = Call::new("identity_list", json!({}));
    let signed = rig.http().post(
        "/v1/identity_list",
        JSON,
        call.body(&key("3")).to_string().as_bytes(),
    );
    assert_eq!(signed.json()["result"], all["result"], "{}", signed.text());
    rig.http()
        .post("/v1/identity_list", JSON, b"{}")
        .problem(401, "KEY_REQUIRED");
}
