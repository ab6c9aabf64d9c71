//! Who may sign changes while others sign: the order of the leaves decides, and nothing else.

use std::{
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use countersign_verifier::leaf::Leaf;
use serde_json::json;

use crate::rig::{Call, JSON, Rig, key, receipt, receipts, rounds, spki};

#[test]
fn nothing_that_was_signed_by_a_revoked_key_comes_after_its_revocation() {
    let mut rig = Rig::up();
    for round in 0..rounds(6) {
        let name = format!("agent-{round}");
        rig.enroll(&name, &key(&name));
        let id = key(&name).public().identity();
        let over = Arc::new(AtomicBool::new(false));
        let clients: Vec<_> = (0..3)
            .map(|client| {
                let (mut http, over, signer) = (rig.http(), over.clone(), key(&name));
                thread::spawn(move || {
                    let mut last = 200;
                    for n in 0.. {
                        if over.load(Ordering::Relaxed) && last != 200 {
                            break;
                        }
                        let body = receipt(&format!("{round} {client} {n}"), &signer).to_json();
                        let answer = http.post(&receipts(""), JSON, &body);
                        if answer.status != 200 {
                            answer.problem(403, "KEY_REVOKED");
                        }
                        assert!(last == 200 || answer.status != 200, "taken after a refusal");
                        last = answer.status;
                    }
                })
            })
            .collect();
        let before = rig.size();
        while rig.size() < before + 10 {}
        let call = Call::new("identity_revoke", json!({"identity": id.to_string()}));
        let body = call.body(&rig.owner()).to_string();
        let revoked = rig
            .http()
            .post("/v1/identity_revoke", JSON, body.as_bytes());
        assert_eq!(revoked.status, 200, "{}", revoked.text());
        let at = revoked.json()["entry"]["index"].as_u64().unwrap();
        over.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().unwrap();
        }
        rig.check();
        for (index, leaf) in (0..).zip(rig.auditor.leaves()) {
            let by = Leaf::parse(leaf).unwrap().by().map(|by| by.identity);
            assert!(
                by != Some(id) || index <= at,
                "leaf {index}, revoked at {at}"
            );
        }
    }
}

#[test]
fn of_two_who_ask_for_one_name_or_one_key_one_gets_it() {
    let mut rig = Rig::up();
    for round in 0..rounds(25) {
        let name = format!("name-{round}");
        // One name for two keys, then one key under two names.
        let (one, two) = (key(&format!("{round} one")), key(&format!("{round} two")));
        let (third, fourth) = (format!("third-{round}"), format!("fourth-{round}"));
        let shared = spki(&key(&format!("{round} shared")));
        for (asked, code) in [
            (
                [
                    json!({"name": name, "public_key": spki(&one)}),
                    json!({"name": name.to_uppercase(), "public_key": spki(&two)}),
                ],
                "NAME_TAKEN",
            ),
            (
                [
                    json!({"name": third, "public_key": shared}),
                    json!({"name": fourth, "public_key": shared}),
                ],
                "KEY_ENROLLED",
            ),
        ] {
            let barrier = Arc::new(Barrier::new(2));
            let clients = asked.map(|arguments| {
                let (mut http, owner, barrier) = (rig.http(), rig.owner(), barrier.clone());
                thread::spawn(move || {
                    let body = Call::new("identity_enroll", arguments)
                        .body(&owner)
                        .to_string();
                    barrier.wait();
                    http.post("/v1/identity_enroll", JSON, body.as_bytes())
                })
            });
            let answers = clients.map(|client| client.join().unwrap());
            let refused: Vec<_> = answers.iter().filter(|a| a.status != 200).collect();
            assert_eq!(refused.len(), 1, "exactly one got it");
            refused[0].problem(409, code);
        }
    }
    rig.check();
}

#[test]
fn one_nonce_at_once_is_one_operation() {
    let mut rig = Rig::up();
    let before = rig.size();
    let rounds = rounds(40);
    for round in 0..rounds {
        let arguments = json!({"name": format!("agent-{round}"), "public_key": spki(&key(&format!("{round}")))});
        let call = Call::new("identity_enroll", arguments);
        let barrier = Arc::new(Barrier::new(3));
        let clients = [0, 1, 2].map(|_| {
            let (mut http, barrier) = (rig.http(), barrier.clone());
            let body = call.body(&rig.owner()).to_string();
            thread::spawn(move || {
                barrier.wait();
                let answer = http.post("/v1/identity_enroll", JSON, body.as_bytes());
                assert_eq!(answer.status, 200, "{}", answer.text());
                answer.json()["entry"]["index"].clone()
            })
        });
        let indexes = clients.map(|client| client.join().unwrap());
        assert!(
            indexes.iter().all(|index| *index == indexes[0]),
            "{indexes:?}"
        );
    }
    rig.check();
    assert_eq!(rig.size(), before + rounds as u64);
}
