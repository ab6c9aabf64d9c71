//! The log leaf after leaf: `ars_log_read`, and the events of `/v1/events`.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use countersign_verifier::{
    base64,
    hash::{Hash, leaf_hash},
    policy::Policy,
    proof::TlogProof,
    tree::verify_consistency,
};
use serde_json::{Value, json};

use crate::rig::{Answer, Call, JSON, Rig, head, key, receipt, spki, token_hash};

fn read(rig: &Rig, asked: &Value) -> Answer {
    let token = format!("Bearer {}", rig.token());
    let headers = [("content-type", JSON), ("authorization", token.as_str())];
    let body = asked.to_string();
    rig.http()
        .send("POST", "/v1/ars_log_read", &headers, body.as_bytes())
}

fn indexes(answer: &Answer) -> Vec<u64> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let body = answer.json();
    let rows = body["result"]["entries"].as_array().expect("entries");
    rows.iter()
        .filter_map(|row| row["index"].as_u64())
        .collect()
}

/// Leaf 0, an enrolment, a receipt, a refusal of the agent's.
fn four_leaves() -> Rig {
    let mut rig = Rig::up();
    let agent = key("agent");
    rig.enroll("agent", &agent);
    rig.submit(&receipt("1", &agent));
    let call = Call::new(
        "identity_enroll",
        json!({"name": "x", "public_key": spki(&key("x"))}),
    );
    rig.call_as(&agent, &call).problem(403, "NOT_ALLOWED");
    assert_eq!(rig.size(), 4);
    rig
}

#[test]
fn the_log_is_read_in_pages_by_filter_and_with_its_proofs() {
    let rig = four_leaves();
    let all = read(&rig, &json!({"include": ["leaf", "proof"]}));
    assert_eq!(indexes(&all), [0, 1, 2, 3]);
    let all = all.json()["result"].clone();
    assert_eq!(
        (&all["next_after"], &all["has_more"]),
        (&json!(3), &json!(false))
    );
    let kinds: Vec<&str> = (0..4)
        .filter_map(|n| all["entries"][n]["kind"].as_str())
        .collect();
    assert_eq!(kinds, ["system", "operation", "receipt", "operation"]);
    assert_eq!(all["entries"][0]["type"], "opened");
    assert_eq!(all["entries"][1]["tool"], "identity_enroll");
    assert_eq!(all["entries"][1]["outcome"], "applied");
    assert_eq!(all["entries"][3]["code"], "NOT_ALLOWED");
    // Each is what it says, and in the tree of the head beside it.
    let policy = std::fs::read_to_string(&rig.service.policy).expect("a policy");
    let policy = Policy::parse(&policy).expect("a policy");
    for row in all["entries"].as_array().expect("entries") {
        let bytes = base64::decode(row["leaf"].as_str().expect("a leaf")).expect("base64");
        assert_eq!(leaf_hash(&bytes).to_hex(), row["leaf_hash"]);
        let proof = row["proof"].as_str().expect("a proof");
        let proof = TlogProof::parse(proof.as_bytes()).expect("a proof");
        let seen = proof.verify(&leaf_hash(&bytes), &policy).expect("it holds");
        assert_eq!(seen.checkpoint.root.to_hex(), all["head"]["root"]);
    }
    let agent = all["entries"][3]["by"]["identity"].clone();
    for (asked, expected) in [
        (json!({"limit": 2}), &[0, 1][..]),
        (json!({"after": 1, "limit": 2}), &[2, 3]),
        (json!({"after": 3}), &[]),
        (json!({"filter": {"kind": "operation"}}), &[1, 3]),
        (json!({"filter": {"identity": agent}}), &[2, 3]),
        (
            json!({"filter": {"identity": agent, "kind": "receipt"}}),
            &[2],
        ),
        (json!({"filter": {"code": "NOT_ALLOWED"}}), &[3]),
        (json!({"filter": {"session": "s_1"}}), &[]),
        (json!({"filter": {"run": "r_1"}}), &[]),
    ] {
        assert_eq!(indexes(&read(&rig, &asked)), expected, "{asked}");
    }
    let page = read(&rig, &json!({"limit": 2})).json()["result"].clone();
    assert_eq!(
        (&page["next_after"], &page["has_more"]),
        (&json!(1), &json!(true))
    );
    // That the log of two leaves is the beginning of this one.
    let grown = read(&rig, &json!({"after": 3, "consistency_from": 2})).json();
    let consistency = &grown["result"]["consistency"];
    let path: Vec<Hash> = consistency["path"]
        .as_array()
        .expect("a path")
        .iter()
        .map(|hash| Hash::from_base64(hash.as_str().expect("base64")).expect("a hash"))
        .collect();
    let root = |hex: &Value| Hash::from_hex(hex.as_str().expect("a root")).expect("a root");
    let range = |size: usize| {
        let mut range = countersign_verifier::range::Range::new();
        for row in &all["entries"].as_array().expect("entries")[..size] {
            range.push(root(&row["leaf_hash"]));
        }
        range.root()
    };
    let newest = root(&grown["result"]["head"]["root"]);
    verify_consistency(2, &range(2), 4, &newest, &path).expect("a consistency proof");
}

#[test]
fn what_is_asked_wrongly_of_the_log_is_named() {
    let rig = four_leaves();
    for (asked, status, code) in [
        (json!({"after": 4}), 416, "RANGE"),
        (json!({"consistency_from": 5}), 416, "RANGE"),
        (json!({"after": -2}), 400, "MALFORMED"),
        (json!({"limit": 0}), 400, "MALFORMED"),
        (json!({"limit": 1001}), 400, "MALFORMED"),
        (json!({"include": ["tree"]}), 400, "MALFORMED"),
        (json!({"filter": {"identity": "x"}}), 400, "MALFORMED"),
        (json!({"filter": {"color": "x"}}), 400, "UNKNOWN_ARGUMENT"),
        (json!({"from": 1}), 400, "UNKNOWN_ARGUMENT"),
    ] {
        read(&rig, &asked).problem(status, code);
    }
    let detail = read(&rig, &json!({"after": 4})).problem(416, "RANGE");
    assert_eq!(detail["size"], 4);
    // A signed call says what to include beside what is signed: that is never signed.
    let call = Call::new("ars_log_read", json!({"after": 2}));
    let mut body = call.body(&key("agent"));
    body["include"] = json!(["leaf"]);
    let answer = rig
        .http()
        .post("/v1/ars_log_read", JSON, body.to_string().as_bytes());
    assert_eq!(indexes(&answer), [3]);
    assert!(answer.json()["result"]["entries"][0]["leaf"].is_string());
}

/// A watcher: a connection that events come over.
pub(super) struct Watcher(BufReader<TcpStream>);

impl Watcher {
    fn new(rig: &Rig, target: &str, more: &[(&str, &str)]) -> Watcher {
        Watcher::with(rig, &rig.token(), target, more)
    }

    fn with(rig: &Rig, token: &str, target: &str, more: &[(&str, &str)]) -> Watcher {
        Watcher::at(rig.service.address, token, target, more)
    }

    pub(super) fn at(
        address: SocketAddr,
        token: &str,
        target: &str,
        more: &[(&str, &str)],
    ) -> Watcher {
        let token = format!("Bearer {token}");
        let mut headers = vec![("authorization", token.as_str())];
        headers.extend(more);
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream
            .set_read_timeout(Some(Duration::from_secs(90)))
            .expect("a time-out");
        let request = head("GET", target, &headers) + "\r\n";
        stream.write_all(request.as_bytes()).expect("a request");
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        stream.read_line(&mut line).expect("a status");
        assert!(line.contains(" 200 "), "{line}");
        while line != "\r\n" {
            line.clear();
            stream.read_line(&mut line).expect("a header");
        }
        Watcher(stream)
    }

    /// The next event's id and data.
    pub(super) fn next(&mut self) -> (u64, Value) {
        let mut id = None;
        loop {
            let mut line = String::new();
            let read = self.0.read_line(&mut line).expect("a line");
            assert!(read > 0, "the stream ended");
            if let Some(text) = line.strip_prefix("id: ") {
                id = text.trim().parse().ok();
            } else if let Some(text) = line.strip_prefix("data: ") {
                let data = serde_json::from_str(text).expect("JSON");
                return (id.expect("an id"), data);
            }
        }
    }

    /// Waits until the stream ends. What came before that.
    fn end(mut self) -> String {
        let mut rest = Vec::new();
        // Cut, or ended as it should: it ends.
        let _ = self.0.read_to_end(&mut rest);
        String::from_utf8_lossy(&rest).into_owned()
    }
}

#[test]
fn watchers_see_leaves_as_they_are_published_and_resume() {
    let mut rig = four_leaves();
    let mut all = Watcher::new(&rig, "/v1/events?after=-1", &[]);
    let mut fresh = Watcher::new(&rig, "/v1/events", &[]);
    let mut resumed = Watcher::new(&rig, "/v1/events?after=-1", &[("last-event-id", "1")]);
    let rows = read(&rig, &json!({})).json()["result"]["entries"].clone();
    for index in 0..4 {
        let (id, data) = all.next();
        assert_eq!(
            (id, &data),
            (index, &rows[usize::try_from(index).unwrap_or(9)])
        );
    }
    assert_eq!((resumed.next().0, resumed.next().0), (2, 3));
    for n in 4..8 {
        rig.submit(&receipt(&n.to_string(), &key("agent")));
        for watcher in [&mut all, &mut fresh, &mut resumed] {
            let (id, data) = watcher.next();
            assert_eq!(
                (id, &data["index"], &data["kind"]),
                (n, &json!(n), &json!("receipt"))
            );
        }
    }
    // A stop ends them, and does not wait for them.
    rig.service.stop();
    for watcher in [all, fresh, resumed] {
        watcher.end();
    }
    rig.begin_again();
}

#[test]
fn who_may_watch_and_how_many() {
    let rig = Rig::with("[limits]\nwatchers = 2\n");
    rig.get("/v1/events").problem(401, "KEY_REQUIRED");
    let token = format!("Bearer {}", rig.token());
    let get = |target: &str| {
        let headers = [("authorization", token.as_str())];
        rig.http().send("GET", target, &headers, b"")
    };
    get("/v1/events?after=9").problem(416, "RANGE");
    get("/v1/events?after=x").problem(400, "MALFORMED");
    get("/v1/events?account=other").problem(404, "NOT_FOUND");
    let watchers = [(); 2].map(|()| Watcher::new(&rig, "/v1/events?after=-1", &[]));
    get("/v1/events").problem(503, "BUSY");
    drop(watchers);
    // A place is free again once the service has seen that its watcher is gone.
    let begun = std::time::Instant::now();
    while !is_taken(&rig, &token) {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "no place was given back"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A token of the agent's.
fn token_of(rig: &mut Rig, text: &str) -> String {
    let id = key("agent").public().identity();
    let hash = token_hash("localhost/dev", text);
    let asked = json!({"identity": id.to_string(), "token_sha256": hash});
    let made = rig.call("token_new", asked);
    assert_eq!(made.status, 200, "{}", made.text());
    text.to_owned()
}

#[test]
fn a_watcher_whose_identity_is_revoked_sees_nothing_further() {
    let mut rig = four_leaves();
    let (kept, ended) = (format!("cst_{:0>43}", 1), format!("cst_{:0>43}", 2));
    let (kept, ended) = (token_of(&mut rig, &kept), token_of(&mut rig, &ended));
    let mut owner = Watcher::new(&rig, "/v1/events", &[]);
    let by_ended_token = Watcher::with(&rig, &ended, "/v1/events", &[]);
    let mut by_identity = Watcher::with(&rig, &kept, "/v1/events?after=5", &[]);
    // A token that is revoked ends its own stream alone.
    let revoked = rig.call(
        "token_revoke",
        json!({"token_sha256": token_hash("localhost/dev", &ended)}),
    );
    assert_eq!(revoked.status, 200, "{}", revoked.text());
    assert!(!by_ended_token.end().contains("data:"));
    assert_eq!(by_identity.next().0, 6);
    let id = key("agent").public().identity();
    let revoked = rig.call("identity_revoke", json!({"identity": id.to_string()}));
    assert_eq!(revoked.status, 200, "{}", revoked.text());
    rig.call("head_list", json!({}));
    let rest = by_identity.end();
    assert!(!rest.contains("data:"), "{rest}");
    // Somebody else goes on.
    assert_eq!([owner.next().0, owner.next().0], [6, 7]);
}

#[test]
fn one_identity_takes_its_part_of_the_watchers_and_one_account_its_own() {
    let mut rig =
        Rig::with("[limits]\nwatchers = 9\nwatchers_per_account = 3\nwatchers_per_identity = 2\n");
    rig.enroll("agent", &key("agent"));
    let tokens = [1, 2].map(|n| format!("cst_{n:0>43}"));
    let tokens = tokens.map(|text| token_of(&mut rig, &text));
    let refused = |rig: &Rig, token: &str, name: &str| {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str())];
        let answer = rig.http().send("GET", "/v1/events", &headers, b"");
        assert!(answer.header("retry-after").is_some());
        let detail = answer.problem(429, "RATE_LIMITED");
        assert_eq!(detail["name"], name);
    };
    // Its two tokens are one identity.
    let _watchers = tokens
        .clone()
        .map(|token| Watcher::with(&rig, &token, "/v1/events", &[]));
    refused(&rig, &tokens[0], "watchers_per_identity_max");
    let _owner = Watcher::new(&rig, "/v1/events", &[]);
    refused(&rig, &rig.token(), "watchers_per_account_max");
}

/// Whether a watcher is taken.
fn is_taken(rig: &Rig, token: &str) -> bool {
    let mut stream = TcpStream::connect(rig.service.address).expect("a connection");
    let request = head("GET", "/v1/events", &[("authorization", token)]) + "\r\n";
    stream.write_all(request.as_bytes()).expect("a request");
    let mut line = String::new();
    BufReader::new(stream)
        .read_line(&mut line)
        .expect("a status");
    line.contains(" 200 ")
}
