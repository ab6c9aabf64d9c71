//! Leases, over HTTP: one holder whatever happens, and what is told to the others.

use std::{
    sync::{Arc, Barrier},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::sessions::{begin, within};
use crate::rig::{Answer, Call, Http, JSON, Rig, key, rounds, seed};

/// Clients that go for one resource.
const RACERS: usize = 64;
/// How long something that must come may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn post(http: &mut Http, call: &Call, who: &str) -> Answer {
    let body = call.body(&key(who)).to_string();
    http.post(&format!("/v1/{}", call.tool), JSON, body.as_bytes())
}

fn item(name: &str) -> Value {
    json!({"resource": format!("item:{name}")})
}

/// Agents of these names, and their sessions.
fn agents(rig: &mut Rig, names: &[&str], more: &Value) -> Vec<String> {
    for name in names {
        rig.enroll(name, &key(name));
    }
    names
        .iter()
        .map(|name| begin(rig, &key(name), more))
        .collect()
}

#[test]
fn b127_the_second_is_told_at_once_who_holds_it() {
    let mut rig = Rig::up();
    let sessions = agents(&mut rig, &["one", "two"], &json!({}));
    let acquire = |n: usize| within(&sessions[n], "ars_lease_acquire", item("A"));
    let first = rig.call_as(&key("one"), &acquire(0));
    assert_eq!(first.status, 200, "{}", first.text());
    let lease = first.json()["result"].clone();
    assert_eq!(lease["fence"], first.json()["entry"]["index"]);
    assert!(lease["renew_after_ms"].as_u64() <= Some(300_000), "{lease}");
    let second = rig.call_as(&key("two"), &acquire(1));
    let detail = second.problem(409, "LEASE_CONFLICT");
    assert_eq!(detail["holder"]["session_id"], sessions[0].as_str());
    assert_eq!(detail["fence"], lease["fence"]);
    assert!(detail["expires_in_ms"].as_u64() > Some(0), "{detail}");
    assert_eq!(second.json()["retry_after_ms"], detail["expires_in_ms"]);
    assert!(second.header("retry-after").is_some());
    assert!(
        second.json()["entry"]["index"].is_u64(),
        "the refusal is a leaf"
    );
    let release = json!({"lease_id": lease["lease_id"], "fence": lease["fence"]});
    let release = within(&sessions[0], "ars_lease_release", release);
    let released = rig.call_as(&key("one"), &release);
    assert_eq!(
        released.json()["result"]["released"],
        true,
        "{}",
        released.text()
    );
    let again = rig.call_as(
        &key("one"),
        &within(&sessions[0], "ars_lease_release", release.arguments),
    );
    again.problem(410, "LEASE_EXPIRED");
    assert_eq!(rig.call_as(&key("two"), &acquire(1)).status, 200);
}

#[test]
fn b125_of_64_who_race_one_wins() {
    let mut rig = Rig::up();
    let names: Vec<String> = (0..RACERS).map(|n| format!("racer-{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut sessions = Vec::new();
    for name in &names {
        let mut http = rig.http();
        let enroll = json!({"name": name, "public_key": crate::rig::spki(&key(name)), "possession": crate::rig::possession(&key(name))});
        let body = Call::new("identity_enroll", enroll)
            .body(&rig.owner())
            .to_string();
        assert_eq!(
            http.post("/v1/identity_enroll", JSON, body.as_bytes())
                .status,
            200
        );
        let call = Call::new("ars_session_checkin", super::sessions::checkin(&json!({})));
        let begun = post(&mut http, &call, name);
        let id = begun.json()["result"]["session_id"].clone();
        sessions.push(id.as_str().expect("an id").to_owned());
    }
    let gate = Arc::new(Barrier::new(RACERS));
    let rounds = rounds(20);
    let racers: Vec<_> = (0..RACERS)
        .map(|n| {
            let (mut http, gate) = (rig.http(), gate.clone());
            let (name, session) = (names[n].to_owned(), sessions[n].clone());
            thread::spawn(move || {
                let mut won = Vec::new();
                for round in 0..rounds {
                    let call = within(&session, "ars_lease_acquire", item(&format!("{round}")));
                    gate.wait();
                    let answer = post(&mut http, &call, &name);
                    match answer.status {
                        200 => won.push((round, answer.json()["result"]["fence"].as_u64())),
                        _ => drop(answer.problem(409, "LEASE_CONFLICT")),
                    }
                }
                won
            })
        })
        .collect();
    let won = racers
        .into_iter()
        .flat_map(|racer| racer.join().expect("a racer"));
    let mut won: Vec<(usize, Option<u64>)> = won.collect();
    won.sort_unstable();
    let with_winner: Vec<usize> = won.iter().map(|(round, _)| *round).collect();
    assert_eq!(
        with_winner,
        (0..rounds).collect::<Vec<_>>(),
        "one winner each"
    );
    assert!(won.is_sorted_by(|a, b| a.1 < b.1), "fences rise: {won:?}");
    rig.check();
}

#[test]
fn whoever_waits_in_line_has_it_next_and_costs_no_leaf_until_then() {
    let mut rig = Rig::up();
    let sessions = agents(&mut rig, &["one", "two", "three"], &json!({}));
    let held = rig.call_as(
        &key("one"),
        &within(&sessions[0], "ars_lease_acquire", item("A")),
    );
    let lease = held.json()["result"].clone();
    // A wait that ends before anything changes is a refusal like any other.
    let mut short = item("A");
    short["wait_ms"] = 50.into();
    let call = within(&sessions[2], "ars_lease_acquire", short);
    rig.call_as(&key("three"), &call)
        .problem(409, "LEASE_CONFLICT");
    let size = rig.size();
    let mut long = item("A");
    long["wait_ms"] = 50_000.into();
    let call = within(&sessions[1], "ars_lease_acquire", long);
    let mut http = rig.http();
    let waiting = thread::spawn(move || post(&mut http, &call, "two"));
    // It waits, for as long as this takes at least: nothing of it is in the log.
    assert_eq!(rig.get("/health").status, 200);
    assert_eq!(rig.size(), size);
    let release = json!({"lease_id": lease["lease_id"], "fence": lease["fence"]});
    let released = rig.call_as(
        &key("one"),
        &within(&sessions[0], "ars_lease_release", release),
    );
    assert_eq!(released.status, 200, "{}", released.text());
    let had = waiting.join().expect("the one who waits");
    assert_eq!(had.status, 200, "{}", had.text());
    assert!(had.json()["result"]["fence"].as_u64() > lease["fence"].as_u64());
    rig.check();
    assert_eq!(rig.size(), size + 2, "the release, and the lease");
}

#[test]
fn b133_the_work_of_a_holder_who_is_gone_comes_back_by_itself_across_a_restart() {
    let mut rig = Rig::up();
    // The shortest that can be asked for.
    let sessions = agents(&mut rig, &["one", "two"], &json!({"ttl_s": 10}));
    let call = within(&sessions[0], "ars_lease_acquire", item("A"));
    assert_eq!(rig.call_as(&key("one"), &call).status, 200);
    rig.restart();
    let mut long = item("A");
    long["wait_ms"] = 50_000.into();
    let id = begin(&mut rig, &key("two"), &json!({}));
    let had = rig.call_as(&key("two"), &within(&id, "ars_lease_acquire", long));
    assert_eq!(had.status, 200, "{}", had.text());
    let until = Instant::now() + PATIENCE;
    let state = |rig: &mut Rig| {
        let call = Call::new("ars_session_get", json!({"id": sessions[0]}));
        rig.call_as(&key("two"), &call).json()["result"]["state"].clone()
    };
    while state(&mut rig) != "ended" {
        assert!(Instant::now() < until, "a session that never ends");
    }
    let late = rig.call_as(
        &key("one"),
        &within(&sessions[0], "ars_session_heartbeat", json!({})),
    );
    late.problem(410, "SESSION_EXPIRED");
}

#[test]
fn what_a_kill_cut_off_is_asked_again_and_answered_with_the_first_result() {
    let mut rig = Rig::up();
    let sessions = agents(&mut rig, &["one", "two"], &json!({}));
    let mut random = seed("kills between commit and answer");
    for round in 0..rounds(6) {
        let name = format!("{round}");
        let call = within(&sessions[0], "ars_lease_acquire", item(&name));
        let body = call.body(&key("one")).to_string();
        let (mut http, sent) = (rig.http(), body.clone());
        let client = thread::spawn(move || {
            let headers = [("content-type", JSON)];
            http.try_send("POST", "/v1/ars_lease_acquire", &headers, sent.as_bytes())
        });
        thread::sleep(Duration::from_micros(random.below(4_000)));
        rig.crash();
        let first = client.join().expect("a client").ok();
        let again = rig
            .http()
            .post("/v1/ars_lease_acquire", JSON, body.as_bytes());
        assert_eq!(again.status, 200, "{}", again.text());
        let again = again.json();
        if let Some(first) = first.filter(|first| first.status == 200) {
            assert_eq!(first.json()["entry"]["index"], again["entry"]["index"]);
            assert_eq!(first.json()["result"]["fence"], again["result"]["fence"]);
        }
        let other = rig.call_as(
            &key("two"),
            &within(&sessions[1], "ars_lease_acquire", item(&name)),
        );
        let detail = other.problem(409, "LEASE_CONFLICT");
        assert_eq!(detail["fence"], again["result"]["fence"]);
    }
}
