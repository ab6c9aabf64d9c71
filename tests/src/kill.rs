//! `kill -9` at random moments under load: nothing that was acknowledged is ever lost, and no history is told twice.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use countersign_verifier::key::PrivateKey;
use serde_json::{Value, json};

use crate::rig::{
    Answer, Call, Http, JSON, NDJSON, Rig, key, receipt, receipts, rounds, seed, spki,
};

const SUBMITTERS: u64 = 3;
/// Receipts of one body of lines.
const LINES: u64 = 40;

/// A write that was answered: the body, and what the answer promised.
struct Acknowledged {
    body: Vec<u8>,
    index: u64,
    leaf_hash: String,
}

impl Acknowledged {
    fn new(body: Vec<u8>, answer: &Value) -> Acknowledged {
        Acknowledged {
            body,
            index: answer["index"].as_u64().expect("an index"),
            leaf_hash: answer["leaf_hash"]
                .as_str()
                .expect("a leaf hash")
                .to_owned(),
        }
    }
}

/// What all clients of a round share.
#[derive(Clone, Default)]
struct Round {
    /// How many writes were answered.
    answered: Arc<AtomicUsize>,
    over: Arc<AtomicBool>,
}

impl Round {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// One receipt after the other, in every way of waiting, until the service is gone.
fn single(mut http: Http, name: String, round: Round) -> Vec<Acknowledged> {
    let signer = key("agent");
    let queries = ["", "?wait=sequenced", "?deadline_ms=0", "?include=proof"];
    let mut done = Vec::new();
    for (n, query) in queries.iter().cycle().enumerate() {
        if round.is_over() {
            break;
        }
        let body = receipt(&format!("{name} {n}"), &signer).to_json();
        let headers = [("content-type", JSON)];
        match http.try_send("POST", &receipts(query), &headers, &body) {
            Ok(answer) => {
                assert!([200, 202].contains(&answer.status), "{}", answer.text());
                done.push(Acknowledged::new(body, &answer.json()));
                round.answered.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => break,
        }
    }
    done
}

/// Bodies of many lines. An answer that was cut off acknowledges nothing.
fn lines(mut http: Http, name: String, round: Round) -> Vec<Acknowledged> {
    let signer = key("agent");
    let mut done = Vec::new();
    for n in 0.. {
        if round.is_over() {
            break;
        }
        let bodies: Vec<Vec<u8>> = (0..LINES)
            .map(|line| receipt(&format!("{name} {n} {line}"), &signer).to_json())
            .collect();
        let headers = [("content-type", NDJSON)];
        let sent = http.try_send("POST", &receipts(""), &headers, &bodies.join(&b'\n'));
        let Ok(answer) = sent else { break };
        for (body, row) in bodies.into_iter().zip(answer.lines()) {
            // A line whose outcome is unknown says so, and is no promise.
            if row["status"] == 200 || row["status"] == 202 {
                done.push(Acknowledged::new(body, &row));
            }
        }
        round.answered.fetch_add(1, Ordering::Relaxed);
    }
    done
}

/// A signed operation that was answered: the body and the answer.
type Operated = (String, Value);

/// Enrols one key after the other.
fn operations(mut http: Http, owner: PrivateKey, name: String, round: Round) -> Vec<Operated> {
    let mut done = Vec::new();
    for n in 0.. {
        if round.is_over() {
            break;
        }
        let name = format!("{name}-{n}");
        let arguments = json!({"name": name, "public_key": spki(&key(&name))});
        let body = Call::new("identity_enroll", arguments)
            .body(&owner)
            .to_string();
        let headers = [("content-type", JSON)];
        let target = "/v1/identity_enroll";
        match http.try_send("POST", target, &headers, body.as_bytes()) {
            Ok(answer) => {
                assert!([200, 202].contains(&answer.status), "{}", answer.text());
                done.push((body, answer.json()));
            }
            Err(_) => break,
        }
    }
    done
}

/// Every checkpoint that it can get.
fn heads(mut http: Http, round: Round) -> Vec<Answer> {
    let mut seen: Vec<Answer> = Vec::new();
    while !round.is_over() {
        match http.try_send("GET", "/log/dev/checkpoint", &[], b"") {
            Ok(answer) => {
                if seen.last().is_none_or(|last| last.body != answer.body) {
                    seen.push(answer);
                }
            }
            Err(_) => break,
        }
    }
    seen
}

fn join<T>(threads: Vec<JoinHandle<Vec<T>>>) -> Vec<T> {
    let joined = threads.into_iter().map(|t| t.join().expect("a client"));
    joined.flatten().collect()
}

/// What was committed before the kill and not yet published is published after it, without another write.
fn until_published(rig: &mut Rig, written: &[Acknowledged]) {
    let end = written.iter().map(|w| w.index + 1).max().unwrap_or(0);
    for _ in 0..3_000 {
        if rig.size() >= end {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("leaf {} is not published, size is {}", end - 1, rig.size());
}

#[test]
fn what_was_acknowledged_survives_every_kill() {
    // B116, B086, B090
    let mut random = seed("kill");
    let mut rig = Rig::up();
    rig.enroll("agent", &key("agent"));
    let mut all: Vec<Acknowledged> = Vec::new();
    for n in 0..rounds(20) {
        let round = Round::default();
        let mut writers: Vec<_> = (0..SUBMITTERS)
            .map(|client| {
                let (http, round) = (rig.http(), round.clone());
                thread::spawn(move || single(http, format!("{n} {client}"), round))
            })
            .collect();
        let (http, shared) = (rig.http(), round.clone());
        writers.push(thread::spawn(move || {
            lines(http, format!("{n} lines"), shared)
        }));
        let (http, owner, shared) = (rig.http(), rig.owner(), round.clone());
        let operator = thread::spawn(move || operations(http, owner, format!("r{n}"), shared));
        let (http, shared) = (rig.http(), round.clone());
        let poller = thread::spawn(move || heads(http, shared));
        // Under load, and then at any moment: in the first commit as in the hundredth.
        let first = usize::try_from(random.below(12)).expect("a small number");
        while round.answered.load(Ordering::Relaxed) < first {
            thread::yield_now();
        }
        thread::sleep(Duration::from_micros(random.below(30_000)));
        rig.service.kill();
        round.over.store(true, Ordering::Relaxed);
        let fresh = join(writers);
        let fresh_operations = join(vec![operator]);
        for checkpoint in join(vec![poller]) {
            rig.auditor.saw(&checkpoint.body);
        }
        // A start that is killed, wherever it is, changes nothing either.
        if n % 3 == 0 {
            rig.start
                .abort(Duration::from_micros(random.below(150_000)));
        }
        rig.service = rig.start.run();
        until_published(&mut rig, &fresh);
        // `check` compares every head that anybody saw with what is served now.
        rig.check();
        for written in &fresh {
            let hash = rig.auditor.leaf_hash(written.index);
            let hash = hash.unwrap_or_else(|| panic!("round {n}: leaf {} is gone", written.index));
            assert_eq!(hash, written.leaf_hash, "round {n}, leaf {}", written.index);
        }
        for (body, first) in &fresh_operations {
            let mut http = rig.http();
            let again = http.post("/v1/identity_enroll", JSON, body.as_bytes());
            assert_eq!(again.status, 200, "{}", again.text());
            assert_eq!(again.json()["result"], first["result"]);
            assert_eq!(again.json()["entry"]["index"], first["entry"]["index"]);
        }
        all.extend(fresh);
    }
    assert!(all.len() > 100, "{} writes were no load", all.len());
    let mut http = rig.http();
    for some in all.chunks(500) {
        let body = some
            .iter()
            .map(|w| &w.body[..])
            .collect::<Vec<_>>()
            .join(&b'\n');
        let rows = http.post(&receipts(""), NDJSON, &body).lines();
        for (written, row) in some.iter().zip(rows) {
            assert_eq!(row["index"], written.index, "{row}");
            assert_eq!(row["leaf_hash"], written.leaf_hash.as_str(), "{row}");
            assert_eq!(row["duplicate"], true, "{row}");
        }
    }
    // Evidence of the last one, whole.
    let last = all
        .iter()
        .map(|written| written.index)
        .max()
        .expect("writes");
    assert_eq!(http.get(&format!("/log/dev/evidence/{last}")).status, 200);
}
