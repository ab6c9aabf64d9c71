//! Clocks that somebody sets, and processes that stand still: what was promised ends in its time, and time never goes back.
//!
//! The wall clock of the real executable is moved by [`injector`](crate::rig::injector); CLOCK_BOOTTIME is the machine's own.

use std::{
    thread,
    time::{Duration, Instant},
};

use countersign_verifier::{
    key::PrivateKey,
    leaf::{Leaf, Millis},
};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{
    recovery::until,
    sessions::{begin, checkin, within},
};
use crate::rig::{Answer, Call, JSON, Rig, injector::Faults, key, now, receipt, receipts};

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const YEAR: i64 = 365 * 24 * HOUR;

fn write(rig: &Rig, n: &str) -> Answer {
    let body = receipt(n, &rig.owner()).to_json();
    rig.http().post(&receipts(""), JSON, &body)
}

/// Writes are refused, clearly and for as long as the clock stays so; whatever is read goes on.
fn writes_nothing(rig: &mut Rig, n: &str) {
    let size = rig.size();
    until("the clock is seen", || write(rig, n).status == 503);
    for _ in 0..2 {
        let refused = write(rig, n);
        refused.problem(503, "READ_ONLY");
        assert!(refused.header("retry-after").is_some());
    }
    assert_eq!(rig.get("/health/ready").status, 503);
    let health = rig.get("/health").json();
    assert_eq!(health["status"], "read_only", "{health}");
    rig.check();
    assert!(rig.size() <= size + 1);
}

/// Writing goes on by itself.
fn writes(rig: &mut Rig, n: &str) {
    until("it writes again", || {
        rig.get("/health/ready").status == 200 && write(rig, n).status == 200
    });
    rig.check();
}

/// A call whose signer's clock is the log's.
fn at(call: Call, log_ms: i64) -> Call {
    let issued_at = now().saturating_add_signed(log_ms);
    Call { issued_at, ..call }
}

fn acquire(session: &str, log_ms: i64) -> Call {
    let asked = json!({"resource": "item:A", "ttl_s": 600});
    at(within(session, "ars_lease_acquire", asked), log_ms)
}

/// Two agents, of whom the first holds a lease of ten minutes. Their sessions.
fn held(rig: &mut Rig) -> [String; 2] {
    for name in ["one", "two"] {
        rig.enroll(name, &key(name));
    }
    let sessions = ["one", "two"].map(|name| begin(rig, &key(name), &json!({"ttl_s": 3_000})));
    let first = rig.call_as(&key("one"), &acquire(&sessions[0], 0));
    assert_eq!(first.status, 200, "{}", first.text());
    sessions
}

/// The second is told that the first still holds it.
fn is_still_held(rig: &mut Rig, sessions: &[String; 2], log_ms: i64) {
    let second = rig.call_as(&key("two"), &acquire(&sessions[1], log_ms));
    let detail = second.problem(409, "LEASE_CONFLICT");
    assert_eq!(detail["holder"]["session_id"], sessions[0].as_str());
}

/// Every leaf that says that the clock was accepted: from, to.
fn adjusted(rig: &Rig) -> Vec<(u64, u64)> {
    let ms = |event: &Value, name: &str| {
        let text = event[name].as_str().expect("a time");
        text.parse::<Millis>().expect("a time").0
    };
    let leaves = rig.auditor.leaves().iter();
    let events = leaves.filter_map(|leaf| match Leaf::parse(leaf).expect("a leaf") {
        Leaf::System(system) => serde_json::from_str::<Value>(system.event).ok(),
        _ => None,
    });
    events
        .filter(|event| event["type"] == "clock_adjusted")
        .map(|event| (ms(&event, "from"), ms(&event, "to")))
        .collect()
}

#[test]
fn b122_b123_a_clock_that_is_set_while_it_runs() {
    let mut rig = Rig::up();
    let faults = Faults::on(&mut rig);
    let sessions = held(&mut rig);
    // Minutes, either way: it goes on in log time, which neither jumps nor goes back, and the difference is shown.
    for (n, minutes) in [5, -5, 9, -9].into_iter().enumerate() {
        faults.wall(minutes * MINUTE);
        writes(&mut rig, &format!("minutes {n}"));
        is_still_held(&mut rig, &sessions, 0);
        let offset = rig.get("/health").json()["clock_offset_ms"].as_i64();
        let apart = offset.expect("milliseconds") - minutes * MINUTE;
        assert!(apart.abs() < MINUTE, "{minutes} minutes: {offset:?}");
        faults.wall(0);
        writes(&mut rig, &format!("back {n}"));
    }
    // Hours and years, either way: it stops until the clock is set right.
    let steps = [HOUR, -HOUR, 30 * HOUR, -30 * HOUR, 3 * YEAR, -3 * YEAR];
    for (n, step) in steps.into_iter().enumerate() {
        faults.wall(step);
        writes_nothing(&mut rig, &format!("step {n}"));
        faults.wall(0);
        writes(&mut rig, &format!("right {n}"));
        is_still_held(&mut rig, &sessions, 0);
    }
    assert_eq!(adjusted(&rig), []);
}

#[test]
fn b123_a_start_with_a_clock_behind_the_log_writes_nothing_until_it_is_set_right() {
    let mut rig = Rig::up();
    let faults = Faults::on(&mut rig);
    let sessions = held(&mut rig);
    for (n, step) in [-HOUR, -3 * YEAR].into_iter().enumerate() {
        rig.service.stop();
        faults.wall(step);
        rig.begin_again();
        writes_nothing(&mut rig, &format!("behind {n}"));
        // Whichever way it ends: nothing is written by it.
        rig.crash();
        writes_nothing(&mut rig, &format!("behind {n}"));
        faults.wall(0);
        writes(&mut rig, &format!("right {n}"));
    }
    // Minutes are no reason.
    rig.service.kill();
    faults.wall(-5 * MINUTE);
    rig.begin_again();
    writes(&mut rig, "minutes");
    is_still_held(&mut rig, &sessions, 0);
    // Told to take it as it is, log time goes on from the last leaf, and a leaf says so.
    rig.service.kill();
    faults.wall(-HOUR);
    rig.start.more.push("--accept-clock".to_owned());
    rig.begin_again();
    writes(&mut rig, "accepted");
    is_still_held(&mut rig, &sessions, 0);
    let said = adjusted(&rig);
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(said[0].0, said[0].1, "it jumps nowhere: {said:?}");
}

#[test]
fn b122_a_clock_that_was_set_ahead_and_accepted_puts_off_what_runs() {
    let mut rig = Rig::up();
    let faults = Faults::on(&mut rig);
    let sessions = held(&mut rig);
    faults.wall(HOUR);
    writes_nothing(&mut rig, "ahead");
    rig.service.stop();
    rig.start.more.push("--accept-clock".to_owned());
    rig.begin_again();
    writes(&mut rig, "accepted");
    rig.start.more.pop();
    let said = adjusted(&rig);
    assert_eq!(said.len(), 1, "{said:?}");
    let jump = i64::try_from(said[0].1 - said[0].0).expect("milliseconds");
    assert!((jump - HOUR).abs() < 5 * MINUTE, "{jump}");
    // A lease of ten minutes, an hour of the wall clock later: it is held, now and after another start.
    is_still_held(&mut rig, &sessions, HOUR);
    rig.crash();
    is_still_held(&mut rig, &sessions, HOUR);
    // A start after a year is like one of a log that was switched off: what ran has ended, and is another's to have.
    rig.service.stop();
    faults.wall(YEAR);
    rig.begin_again();
    writes(&mut rig, "a year later");
    let call = at(Call::new("ars_session_checkin", checkin(&json!({}))), YEAR);
    let session = rig.call_as(&key("two"), &call);
    assert_eq!(session.status, 200, "{}", session.text());
    let session = session.json()["result"]["session_id"].clone();
    let session = session.as_str().expect("an id");
    let taken = rig.call_as(&key("two"), &acquire(session, YEAR));
    assert_eq!(taken.status, 200, "{}", taken.text());
    assert_eq!(adjusted(&rig).len(), 1);
}

/// A lease of so many seconds.
fn lease(rig: &mut Rig, who: &PrivateKey, session: &str, (item, ttl_s): (&str, u32)) {
    let asked = json!({"resource": format!("item:{item}"), "ttl_s": ttl_s});
    let answer = rig.call_as(who, &within(session, "ars_lease_acquire", asked));
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn a_process_that_stood_still_goes_on_and_what_ended_meanwhile_has_ended() {
    let mut rig = Rig::up();
    rig.enroll("one", &key("one"));
    let session = begin(&mut rig, &key("one"), &json!({"ttl_s": 3_000}));
    lease(&mut rig, &key("one"), &session, ("short", 10));
    let begun = Instant::now();
    lease(&mut rig, &key("one"), &session, ("long", 600));
    // Somebody asks while it cannot hear.
    rig.service.signal(Signal::STOP);
    let mut asks = rig.http();
    let body = receipt("while it stood", &rig.owner()).to_json();
    let length = body.len().to_string();
    let headers = [("content-type", JSON), ("content-length", length.as_str())];
    let head = crate::rig::head("POST", &receipts(""), &headers) + "\r\n";
    asks.write(&[head.as_bytes(), &body].concat())
        .expect("sent");
    // Longer than the short one lasts, by the machine's own clock.
    while begun.elapsed() < Duration::from_millis(10_500) {
        thread::sleep(Duration::from_millis(100));
    }
    rig.service.signal(Signal::CONT);
    asks.read(false).expect("an answer").index();
    // It is no fault of the clock: nothing has to be accepted.
    let health = rig.get("/health").json();
    assert_eq!(health["status"], "ok", "{health}");
    assert_eq!(rig.get("/health/ready").status, 200);
    rig.check();
    for (item, status) in [("short", 200), ("long", 409)] {
        rig.enroll(item, &key(item));
        let other = begin(&mut rig, &key(item), &json!({}));
        let asked = json!({"resource": format!("item:{item}")});
        let answer = rig.call_as(&key(item), &within(&other, "ars_lease_acquire", asked));
        assert_eq!(answer.status, status, "{item}: {}", answer.text());
    }
    assert_eq!(adjusted(&rig), []);
}
