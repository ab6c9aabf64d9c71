//! What an agent sends, to a service that speaks the contract.

use countersign_verifier::{
    base64,
    dsse::{Envelope, count},
    key::PublicKey,
    leaf::Millis,
    operation::{Operation, binding_message},
};

use super::*;
use crate::client::testing::Fake;

fn answer(result: Value) -> Vec<u8> {
    json!({
        "result": result,
        "entry": {"index": 7, "leaf_hash": "ab", "state": "included"},
    })
    .to_string()
    .into_bytes()
}

fn begun(class: &str) -> Value {
    json!({"session_id": "s_7", "identity": "id_x", "role": "agent", "class": class, "heartbeat_every_s": 5})
}

fn agent(fake: &Fake) -> Agent {
    let key = PrivateKey::from_secret(Algorithm::Ed25519, &[7; 32]).unwrap();
    Agent::new(fake.client(), "localhost/dev", key)
}

/// The operations that were asked for, each with its envelope.
fn operations(fake: &Fake) -> Vec<(Operation, Envelope)> {
    let asked = fake.inner().asked.clone();
    let read = |body: &[u8]| {
        let body: Value = serde_json::from_slice(body).unwrap();
        let envelope = Envelope::parse(body["signed"].to_string().as_bytes()).unwrap();
        (Operation::parse(&envelope.payload).unwrap(), envelope)
    };
    asked.iter().map(|asked| read(&asked.body)).collect()
}

fn signed_by(envelope: &Envelope, key: PublicKey) -> bool {
    count(&envelope.pae(), &envelope.signatures, &[key]).len() == 1
}

#[tokio::test]
async fn a_call_is_sent_again_under_the_same_key() {
    let fake = Fake::start().await;
    fake.first_answer(503, &[("retry-after", "0")], "{}");
    fake.first_answer(200, &[], answer(json!({"fine": true})));
    let agent = agent(&fake);
    let done = agent.call("board_get", json!({"id": "T-1"})).await.unwrap();
    assert_eq!(done.result["fine"], true);
    let sent = operations(&fake);
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[0].0.nonce, sent[1].0.nonce);
    // A refusal is an answer: it is not asked for again.
    fake.first_answer(409, &[], r#"{"code":"LEASE_CONFLICT","message":"m"}"#);
    let refused = agent.acquire("item:T-1", Duration::from_secs(60)).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.problem().unwrap().code, "LEASE_CONFLICT");
    let sent = operations(&fake);
    assert_eq!(sent.len(), 3);
    assert_ne!(sent[2].0.nonce, sent[1].0.nonce);
}

#[tokio::test]
async fn a_session_is_named_in_its_calls_until_it_is_over() {
    let fake = Fake::start().await;
    let mut agent = agent(&fake);
    fake.first_answer(200, &[], answer(begun("agent_key")));
    let asked = CheckIn::new("agent", "example").ttl(Duration::from_secs(30));
    let session = agent.check_in(&asked).await.unwrap();
    assert_eq!(
        (&*session.id, session.heartbeat_every),
        ("s_7", Duration::from_secs(5))
    );
    fake.first_answer(200, &[], answer(json!({})));
    agent.heartbeat(Some("here"), Some(3)).await.unwrap();
    fake.first_answer(410, &[], r#"{"code":"SESSION_EXPIRED","message":"m"}"#);
    assert!(agent.check_out("delivered", None).await.is_err());
    assert!(
        agent.session().is_some(),
        "nobody has said that it is checked out"
    );
    fake.first_answer(200, &[], answer(json!({})));
    agent.check_out("delivered", Some("n")).await.unwrap();
    fake.first_answer(200, &[], answer(json!({})));
    agent.call("identity_list", json!({})).await.unwrap();
    let sent = operations(&fake);
    let sessions: Vec<_> = sent.iter().map(|(o, _)| o.session.as_deref()).collect();
    assert_eq!(
        sessions,
        [None, Some("s_7"), Some("s_7"), Some("s_7"), None]
    );
    assert_eq!(sent[0].0.arguments["ttl_s"], 30);
    assert_eq!(sent[1].0.arguments, json!({"note": "here", "progress": 3}));
    assert!(sent.iter().all(|(_, e)| signed_by(e, agent.key().public())));
}

#[tokio::test]
async fn a_key_of_the_session_is_bound_once_and_signs_from_then_on() {
    let fake = Fake::start().await;
    let mut agent = agent(&fake);
    fake.first_answer(200, &[], answer(begun("session_key")));
    let asked = CheckIn {
        session_key: Some(Duration::from_secs(3600)),
        ..CheckIn::new("agent", "example")
    };
    agent.check_in(&asked).await.unwrap();
    fake.first_answer(200, &[], answer(json!({})));
    agent.call("board_list", json!({})).await.unwrap();
    let sent = operations(&fake);
    let (own, bound) = (agent.key().public(), agent.session_key().unwrap().public());
    assert_ne!(own, bound);
    assert!(signed_by(&sent[0].1, own.clone()));
    assert!(signed_by(&sent[1].1, bound.clone()) && !signed_by(&sent[1].1, own.clone()));
    let arguments = &sent[0].0.arguments;
    let spki = arguments["session_public_key"].as_str().unwrap();
    assert_eq!(base64::decode(spki).unwrap(), bound.spki_der());
    let ends = arguments["binding"]["expires_at"].as_str().unwrap();
    let ends: Millis = ends.parse().unwrap();
    let signature = arguments["binding"]["signature"].as_str().unwrap();
    let message = binding_message("localhost/dev", spki, "agent", ends);
    assert!(own.verify(&message, &base64::decode(signature).unwrap()));
}

#[tokio::test]
async fn a_claim_is_one_call_with_or_without_the_check_in() {
    let fake = Fake::start().await;
    let lease =
        json!({"lease_id": "l_7", "resource": "item:T-2", "fence": 7, "expires_in_ms": 60_000});
    let started = json!({"session_id": "s_7", "session": begun("agent_key"), "item": {"id": "T-2"}, "lease": lease, "pending": []});
    fake.first_answer(200, &[], answer(started));
    let mut agent = agent(&fake);
    let (wanted, ttl) = (json!({"tag": "docs"}), Duration::from_secs(60));
    let asked = CheckIn::new("agent", "example");
    let claim = agent.start(&asked, wanted.clone(), ttl).await;
    let claim = claim.unwrap().unwrap();
    assert_eq!((&claim.item["id"], claim.lease.fence), (&json!("T-2"), 7));
    assert_eq!(agent.session().unwrap().id, "s_7");
    let none = json!({"session_id": "s_7", "item": null, "lease": null, "pending": []});
    fake.first_answer(200, &[], answer(none));
    assert_eq!(agent.claim(wanted, ttl).await.unwrap(), None);
    fake.first_answer(200, &[], answer(json!({})));
    let outcome = Outcome::ChangesRequested;
    agent.resolve(&claim, outcome, None).await.unwrap();
    let sent = operations(&fake);
    let arguments: Vec<_> = sent.iter().map(|(o, _)| &o.arguments).collect();
    assert_eq!(arguments[0]["checkin"]["role"], "agent");
    assert_eq!(
        *arguments[1],
        json!({"filter": {"tag": "docs"}, "ttl_s": 60})
    );
    assert_eq!(sent[1].0.session.as_deref(), Some("s_7"));
    assert_eq!(
        *arguments[2],
        json!({"id": "T-2", "outcome": "changes_requested", "fence": 7})
    );
}
