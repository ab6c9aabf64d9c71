//! The same again is answered with what is there: one leaf, whoever asks, how often and when.

use std::{
    sync::{Arc, Barrier},
    thread,
};

use crate::rig::{JSON, Rig, key, receipt, receipt_by, receipts};

#[test]
fn the_same_receipt_is_one_leaf_across_restarts() {
    // B086, B090
    let mut rig = Rig::up();
    let envelope = receipt("once", &rig.owner());
    let first = rig.submit(&envelope);
    let index = first.index();
    assert_eq!(first.json()["duplicate"], false);
    for round in 0..5 {
        match round {
            2 => rig.restart(),
            3 => rig.crash(),
            _ => {}
        }
        let again = rig.submit_to("?include=proof", &envelope.to_json());
        let (first, again) = (first.json(), again.json());
        for member in ["index", "leaf_hash", "at", "state"] {
            assert_eq!(first[member], again[member], "round {round}");
        }
        assert_eq!(again["duplicate"], true);
        assert!(again["proof"].is_string());
    }
    assert_eq!(rig.size(), index + 1);
}

#[test]
fn an_answer_that_was_never_read_is_given_again() {
    let mut rig = Rig::up();
    let envelope = receipt("dropped", &rig.owner());
    let before = rig.size();
    let mut http = rig.http();
    let body = envelope.to_json();
    let length = body.len().to_string();
    let headers = [("content-type", JSON), ("content-length", length.as_str())];
    let request = crate::rig::head("POST", &receipts(""), &headers);
    http.write(&[request.as_bytes(), b"\r\n", &body].concat())
        .unwrap();
    drop(http);
    let answer = rig.submit(&envelope);
    assert_eq!(answer.index(), before);
    assert_eq!(rig.size(), before + 1);
}

#[test]
fn what_is_left_out_of_a_leaf_makes_no_difference() {
    let mut rig = Rig::up();
    let agent = key("agent");
    rig.enroll("agent", &agent);
    let index = rig.submit(&receipt("same", &agent)).index();
    // Another keyid, another signature of the same key, a stranger's beside it, members that nobody knows.
    let mut other = receipt("same", &agent);
    other.signatures[0].keyid = "something".into();
    assert_eq!(rig.submit(&other).index(), index);
    let beside = receipt_by("same", &[key("stranger"), key("agent")]);
    assert_eq!(rig.submit(&beside).index(), index);
    let text = String::from_utf8(beside.to_json())
        .unwrap()
        .replacen('{', "{\"x\":1,", 1);
    assert_eq!(rig.submit_to("", text.as_bytes()).index(), index);
    // Another set of keys is another statement.
    let both = receipt_by("same", &[rig.owner(), key("agent")]);
    let second = rig.submit(&both).index();
    assert_ne!(second, index);
    assert_eq!(rig.submit(&receipt("same", &agent)).index(), index);
    assert_eq!(rig.submit(&both).index(), second);
    // Another payload, or another type, too.
    assert_ne!(rig.submit(&receipt("other", &agent)).index(), index);
}

#[test]
fn two_connections_at_once_get_one_index() {
    // B087
    const ROUNDS: usize = 200;
    let mut rig = Rig::up();
    let before = rig.size();
    let owner = rig.owner();
    let bodies: Vec<Vec<u8>> = (0..ROUNDS)
        .map(|n| receipt(&format!("{n}"), &owner).to_json())
        .collect();
    let bodies = Arc::new(bodies);
    let barrier = Arc::new(Barrier::new(2));
    let clients = [rig.http(), rig.http()].map(|mut http| {
        let (bodies, barrier) = (bodies.clone(), barrier.clone());
        thread::spawn(move || {
            let round = |body: &Vec<u8>| {
                barrier.wait();
                let answer = http.post(&receipts(""), JSON, body);
                (answer.index(), answer.json()["duplicate"] == true)
            };
            bodies.iter().map(round).collect::<Vec<_>>()
        })
    });
    let [one, two] = clients.map(|client| client.join().unwrap());
    for (n, (one, two)) in one.iter().zip(&two).enumerate() {
        assert_eq!(one.0, two.0, "round {n}");
        assert!(one.1 != two.1, "round {n}: exactly one was first");
    }
    rig.check();
    assert_eq!(rig.size(), before + ROUNDS as u64);
}

#[test]
fn lines_and_single_receipts_meet() {
    let mut rig = Rig::up();
    let owner = rig.owner();
    let lines: Vec<Vec<u8>> = ["a", "b", "a", "c", "b"]
        .iter()
        .map(|n| receipt(n, &owner).to_json())
        .collect();
    let single = rig.submit(&receipt("c", &owner)).index();
    let answers = rig.submit_lines(&lines);
    let of = |line: usize| {
        (
            answers[line]["index"].as_u64().unwrap(),
            answers[line]["duplicate"] == true,
        )
    };
    assert_eq!(of(0), (single + 1, false));
    assert_eq!(of(1), (single + 2, false));
    assert_eq!(of(2), (single + 1, true));
    assert_eq!(of(3), (single, true));
    assert_eq!(of(4), (single + 2, true));
}
