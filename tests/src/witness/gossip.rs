//! Two witnesses of a log that shows each another history, as processes: found, kept, told, and refused for ever.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    process::Output,
    sync::mpsc,
    thread,
};

use countersign_verifier::{checkpoint::origin_hash, hash::Hash, tile::hash_of};
use serde_json::{Value, json};

use super::{Log, Witness, text};
use crate::rig::{Http, clean, countersign};

impl Log {
    /// A log with the same key that goes another way behind `at` leaves, up to as many.
    fn fork(&self, at: usize) -> Log {
        let mut fork = self.clone();
        fork.leaves.truncate(at);
        fork.grow("fork", self.leaves.len());
        fork
    }

    /// A complete node and its path to the root, one a line, as a log answers.
    fn node(&self, size: usize, level: u32, index: usize) -> String {
        let (start, end) = (index << level, (index + 1) << level);
        let (mut low, mut high) = (0, size);
        let mut hashes: Vec<Hash> = Vec::new();
        while (low, high) != (start, end) {
            let middle = low + (high - low).next_power_of_two() / 2;
            let (from, to) = if end <= middle {
                (middle, std::mem::replace(&mut high, middle))
            } else {
                (std::mem::replace(&mut low, middle), middle)
            };
            hashes.push(hash_of(&self.leaves[from..to]));
        }
        hashes.push(hash_of(&self.leaves[start..end]));
        hashes.iter().rev().map(|h| h.to_base64() + "\n").collect()
    }

    /// Serves this history's nodes; it gives no consistency proof that holds.
    fn serve(&self) -> String {
        let log = self.clone();
        let address = server(move |target, _| {
            let query = target.split_once("/node?").map(|(_, query)| query);
            let numbers: Option<Vec<usize>> = query.map(|query| {
                let numbers = query.split('&').filter_map(|pair| pair.split_once('='));
                numbers.map(|(_, n)| n.parse().expect("a number")).collect()
            });
            match numbers.as_deref() {
                Some(&[size, level, index]) if size <= log.leaves.len() => {
                    let level = u32::try_from(level).expect("a level");
                    ("200 OK", log.node(size, level, index))
                }
                _ => ("404 Not Found", String::new()),
            }
        });
        format!("http://{address}")
    }
}

/// Answers every request, one a connection.
fn server(answer: impl Fn(&str, &[u8]) -> (&'static str, String) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut bytes = Vec::new();
            let head = loop {
                let at = bytes.windows(4).position(|four| four == b"\r\n\r\n");
                if let Some(at) = at {
                    break at + 4;
                }
                let mut part = [0; 4096];
                match stream.read(&mut part) {
                    Ok(n @ 1..) => bytes.extend_from_slice(&part[..n]),
                    _ => break 0,
                }
            };
            let lower = String::from_utf8_lossy(&bytes[..head]).to_lowercase();
            let length = lower
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(0, |n| n.parse().expect("a length"));
            let mut body = bytes.split_off(head);
            let have = body.len();
            body.resize(length.max(have), 0);
            if stream.read_exact(&mut body[have..]).is_err() {
                continue;
            }
            let head = text(&bytes);
            let (status, said) = answer(head.split(' ').nth(1).unwrap_or_default(), &body);
            let length = said.len();
            let said = format!(
                "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{said}"
            );
            // Whoever asked may have gone.
            let _ = stream.write_all(said.as_bytes());
        }
    });
    address
}

fn health(http: &mut Http) -> Value {
    http.get("/health").json()
}

/// Waits for something that will be, longer than any machine needs.
fn until(mut holds: impl FnMut() -> bool) {
    for _ in 0..3_000 {
        if holds() {
            return;
        }
        thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("it never came");
}

fn fork_verify(file: &std::path::Path, policy: &std::path::Path) -> Output {
    clean(countersign())
        .arg("fork")
        .arg("verify")
        .arg("--policy")
        .arg(policy)
        .arg(file)
        .output()
        .expect("countersign runs")
}

fn add(witness: &Witness, log: &Log, url: &str) {
    let vkey = log.signer.vkey().to_string();
    let done = witness.command(&["add-log", &vkey, "--url", url]);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
}

fn ask(http: &mut Http, body: &str) -> (u16, String) {
    let answer = http.post("/add-checkpoint", "text/plain", body.as_bytes());
    (answer.status, answer.text())
}

#[test]
fn a_log_that_shows_two_histories_is_quarantined_with_evidence() {
    let mut log = Log::new("log.example/forking");
    log.grow("trunk", 41);
    let mut fork = log.fork(13);
    fork.grow("fork", 50);
    let (tell, told) = mpsc::channel();
    let hook = server(move |_, body| {
        // Only the first is waited for.
        let _ = tell.send(body.to_vec());
        ("204 No Content", String::new())
    });
    let (mut first, mut second) = (Witness::init(&[]), Witness::init(&["--ml-dsa"]));
    add(&first, &log, &log.serve());
    add(&second, &log, &fork.serve());
    let other = second.serve_with(&[]);
    let mut at_second = Http::new(other, None);
    assert_eq!(ask(&mut at_second, &fork.request(0)).0, 200);
    let peer = format!("http://{other}");
    let bad = first.command(&["serve", "--listen", "127.0.0.1:0", "--peer", "nonsense"]);
    assert_eq!(bad.status.code(), Some(2), "{}", text(&bad.stderr));
    let hook = format!("http://{hook}/?token=x");
    let settings = [
        "--peer",
        &peer,
        "--gossip-interval-s",
        "1",
        "--webhook",
        &hook,
    ];
    let mut http = Http::new(first.serve_with(&settings), None);
    assert_eq!(ask(&mut http, &log.request(0)).0, 200);
    until(|| health(&mut http)["forks"] == 1);
    // Two sizes, so that it is a node that convinces.
    let hash = origin_hash(log.origin()).to_hex();
    let file = first.dir.join(format!("forks/{hash}.json"));
    let evidence = std::fs::read(&file).expect("the evidence");
    let read: Value = serde_json::from_slice(&evidence).expect("JSON");
    assert!(read["node"].is_object(), "{read}");
    assert_eq!(http.get(&format!("/gossip/forks/{hash}")).body, evidence);
    let policy = first.dir.join("policy");
    let lines = format!("log {}\nquorum none\n", log.signer.vkey());
    std::fs::write(&policy, lines).expect("a policy");
    let judged = fork_verify(&file, &policy);
    assert_eq!(judged.status.code(), Some(0), "{judged:?}");
    // The webhook has it, and what it has is the evidence.
    let body = told.recv().expect("the webhook");
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(
        body["evidence"].as_str().map(str::as_bytes),
        Some(&evidence[..])
    );
    assert_eq!(
        (&body["log"], &body["event"]),
        (&json!(hash), &json!("fork"))
    );
    // Nothing of it is signed any more: not the honest branch, not after a restart, not with another key.
    let refused = |http: &mut Http, log: &mut Log, size: usize| {
        log.grow("trunk", size);
        let (status, why) = ask(http, &log.request(41));
        assert_eq!(status, 403, "{why}");
        assert!(why.contains("quarantined") && why.contains(&hash), "{why}");
    };
    refused(&mut http, &mut log, 44);
    first.kill();
    // What is kept is followed without being said again.
    let mut http = Http::new(first.serve_with(&[]), None);
    refused(&mut http, &mut log, 45);
    until(|| health(&mut http)["peers"] == 1);
    add(&first, &log, "http://127.0.0.1:1");
    refused(&mut http, &mut log, 46);
    let shown = text(&first.command(&["list"]).stdout);
    assert!(shown.contains("FORKED"), "{shown}");
    assert_eq!(first.stop(), Some(0));
    // Without the file the roster remembers, and without the roster's mark the file.
    std::fs::remove_file(&file).expect("the evidence");
    let mut http = Http::new(first.serve_with(&[]), None);
    refused(&mut http, &mut log, 47);
    assert_eq!(health(&mut http)["forks"], 1);
    // The second never pulled anybody: an auditor shows it what it did not see.
    let seen = json!({ "heads": [log.note(41)] }).to_string();
    let said = at_second.post("/gossip/heads", "application/json", seen.as_bytes());
    assert_eq!(
        said.json()["verdicts"],
        json!(["unresolved"]),
        "it cannot ask for that history"
    );
    log.grow("trunk", 50);
    let same = json!({ "heads": [log.note(50)] }).to_string();
    let said = at_second.post("/gossip/heads", "application/json", same.as_bytes());
    assert_eq!(said.json()["verdicts"], json!(["fork"]));
    assert_eq!(ask(&mut at_second, &fork.request(50)).0, 403);
}

#[test]
fn a_second_root_that_is_sent_to_the_witness_itself_is_evidence() {
    let mut log = Log::new("log.example/two-roots");
    log.grow("trunk", 20);
    let fork = log.fork(7);
    let mut witness = Witness::init(&[]);
    witness.add(&log);
    let mut http = Http::new(witness.serve_with(&[]), None);
    assert_eq!(ask(&mut http, &log.request(0)).0, 200);
    assert_eq!(ask(&mut http, &fork.request(20)).0, 422);
    assert_eq!(ask(&mut http, &log.request(20)).0, 403);
    witness.kill();
    let mut http = Http::new(witness.serve_with(&[]), None);
    assert_eq!(ask(&mut http, &log.request(20)).0, 403);
    let hash = origin_hash(log.origin()).to_hex();
    let file = witness.dir.join(format!("forks/{hash}.json"));
    let policy = witness.dir.join("policy");
    let lines = format!("log {}\nquorum none\n", log.signer.vkey());
    std::fs::write(&policy, lines).expect("a policy");
    assert_eq!(fork_verify(&file, &policy).status.code(), Some(0));
}

#[test]
fn since_when_heads_are_unresolved_survives_a_kill() {
    let mut log = Log::new("log.example/silent");
    log.grow("trunk", 41);
    let (mut first, mut second) = (Witness::init(&[]), Witness::init(&[]));
    // Nobody knows where the log answers.
    first.add(&log);
    second.add(&log);
    let address = second.serve();
    let mut at_second = Http::new(address, None);
    assert_eq!(ask(&mut at_second, &log.request(0)).0, 200);
    log.grow("trunk", 44);
    let peer = format!("http://{address}");
    let settings = ["--peer", &peer, "--gossip-interval-s", "1"];
    let mut http = Http::new(first.serve_with(&settings), None);
    assert_eq!(ask(&mut http, &log.request(0)).0, 200);
    until(|| health(&mut http)["unresolved"] == 1);
    let since = health(&mut http)["unresolved_since"].clone();
    let file = first.dir.join("unresolved.json");
    until(|| file.exists());
    first.kill();
    // The peer is gone, so that nothing but the file can say it.
    second.kill();
    let mut http = Http::new(first.serve(), None);
    let after = health(&mut http);
    assert_eq!(
        (&after["unresolved"], &after["unresolved_since"]),
        (&1.into(), &since)
    );
    let shown = text(&first.command(&["list"]).stdout);
    assert!(
        shown.contains(&format!("unresolved since {since}")),
        "{shown}"
    );
}
