//! What anybody may look at: the page, health, metrics; and what a private account shows to nobody.

use std::io::Read;

use serde_json::{Value, json};

use crate::rig::{Http, JSON, Rig, head, receipt, receipts};

#[test]
fn health_says_what_clients_need() {
    let mut rig = Rig::up();
    rig.submit(&receipt("x", &rig.owner()));
    let answer = rig.get("/health");
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    let health = answer.json();
    assert_eq!(health["status"], "ok");
    assert!(
        health["version"]
            .as_str()
            .is_some_and(|v| v.split('.').count() == 3),
        "{health}"
    );
    assert!(health["clock_offset_ms"].as_i64().is_some(), "{health}");
    let account = &health["accounts"][0];
    assert_eq!(
        (&account["name"], &account["origin"]),
        (&json!("dev"), &json!("localhost/dev"))
    );
    assert_eq!(
        (&account["size"], &account["witnessed_size"]),
        (&json!(2), &json!(0)),
        "nobody witnesses it"
    );
    // `up` keeps the owner's key: whoever runs the service could sign for the owner, and it says so.
    assert_eq!(account["owner_forgeable"], true);
    let ready = rig.get("/health/ready");
    assert_eq!((ready.status, ready.json()), (200, json!({"ready": true})));
}

#[test]
fn metrics_need_a_token_or_their_own_listener() {
    let mut rig = Rig::with("[metrics]\nlisten = \"127.0.0.1:0\"\n");
    rig.submit(&receipt("x", &rig.owner()));
    rig.get("/metrics").problem(401, "KEY_REQUIRED");
    let wrong = rig.http().send(
        "GET",
        "/metrics",
        &[("authorization", "Bearer cst_no")],
        b"",
    );
    wrong.problem(401, "TOKEN_INVALID");
    let token = format!("Bearer {}", rig.token());
    let answer = rig
        .http()
        .send("GET", "/metrics", &[("authorization", &token)], b"");
    assert_eq!(answer.status, 200);
    let text = answer.text();
    assert!(
        answer
            .header("content-type")
            .unwrap()
            .starts_with("application/openmetrics-text")
    );
    assert!(text.ends_with("# EOF\n"), "{text}");
    let size = text
        .lines()
        .find(|line| line.contains("size") && line.contains("dev") && line.ends_with(" 2"));
    assert!(size.is_some(), "{text}");
    assert!(
        text.contains("countersign_accounts{standing=\"open\"} 1\n"),
        "{text}"
    );
    // Nothing in it that a client chose.
    rig.get("/log/some-name-of-mine/checkpoint");
    let answer = rig
        .http()
        .send("GET", "/metrics", &[("authorization", &token)], b"");
    assert!(!answer.text().contains("some-name-of-mine"));
}

#[test]
fn the_page_shows_heads_and_loads_nothing() {
    let rig = Rig::up();
    let answer = rig.get("/");
    assert_eq!(answer.status, 200);
    let text = answer.text();
    assert!(
        answer
            .header("content-type")
            .unwrap()
            .starts_with("text/html")
    );
    let policy = answer.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'"), "{policy}");
    assert!(
        text.contains("localhost/dev") && text.contains(&rig.service.vkey),
        "{text}"
    );
    for foreign in ["<script", "http://", "https://", "//cdn"] {
        assert!(!text.contains(foreign), "{foreign}");
    }
    // What it links to is there.
    let links = text
        .split("href=\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap());
    for link in links {
        assert_eq!(rig.get(link).status, 200, "{link}");
    }
}

#[test]
fn a_body_that_is_waited_for_takes_no_place_from_those_who_can_be_answered() {
    let mut rig = Rig::with("[limits]\nrequests = 1\n");
    let body = receipt("waits", &rig.owner()).to_json();
    let length = body.len().to_string();
    let headers = [
        ("content-type", JSON),
        ("content-length", length.as_str()),
        ("expect", "100-continue"),
    ];
    let request = head("POST", &receipts(""), &headers) + "\r\n";
    let mut slow = rig.http();
    // `100 Continue` says that its body is wanted.
    assert_eq!(slow.raw(request.as_bytes(), false).unwrap().status, 100);
    for _ in 0..3 {
        assert_eq!(rig.get("/log/dev/checkpoint").status, 200);
    }
    let health = rig.get("/health");
    assert_eq!(health.status, 200);
    assert_eq!(health.json()["limits"]["requests_max"], 1);
    slow.raw(&body, false).unwrap().index();
    rig.check();
}

#[test]
fn connections_beyond_the_limit_wait_their_turn() {
    let rig = Rig::with("[limits]\nconnections = 4\n");
    let mut open: Vec<Http> = (0..4).map(|_| rig.http()).collect();
    for http in &mut open {
        assert_eq!(http.get("/health").status, 200);
    }
    let mut late = rig.http();
    late.write((head("GET", "/health", &[]) + "\r\n").as_bytes())
        .unwrap();
    drop(open);
    assert_eq!(late.read(false).unwrap().status, 200);
}

#[test]
fn one_connection_carries_many_requests() {
    let rig = Rig::up();
    let mut http = rig.http();
    let one = head("GET", "/health/ready", &[]) + "\r\n";
    http.write(one.repeat(20).as_bytes()).unwrap();
    for _ in 0..20 {
        assert_eq!(http.read(false).unwrap().status, 200);
    }
    // Not HTTP at all: refused, and the next client is served.
    let mut stream = std::net::TcpStream::connect(rig.service.address).unwrap();
    std::io::Write::write_all(&mut stream, b"\x16\x03\x01\x02\x00 hello\r\n\r\n").unwrap();
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said);
    assert!(
        said.is_empty() || said.starts_with(b"HTTP/1.1 400"),
        "{said:?}"
    );
    assert_eq!(rig.get("/health").status, 200);
}

#[test]
fn policy_and_keys_are_what_verifies_the_log() {
    let rig = Rig::up();
    let policy = rig.get("/log/dev/policy");
    let file = std::fs::read(&rig.service.policy).unwrap();
    assert_eq!(policy.body, file);
    let text = policy.text();
    assert!(
        text.contains(&format!("log {}\n", rig.service.vkey)) && text.contains("quorum none"),
        "{text}"
    );
    let keys = rig.get("/log/dev/keys").json();
    assert_eq!(keys["log_vkey"], rig.service.vkey.as_str());
    assert_eq!(keys["origin"], "localhost/dev");
    let line = std::fs::read_to_string(rig.account("log.vkey")).unwrap();
    assert_eq!(line.trim(), rig.service.vkey);
}

#[test]
fn a_private_account_answers_holders_of_a_token_only() {
    let mut rig = Rig::up();
    rig.service.stop();
    let about = rig.account("account.json");
    let text = std::fs::read_to_string(&about).unwrap();
    std::fs::write(
        &about,
        text.replace("\"public\": true", "\"public\": false"),
    )
    .unwrap();
    rig.service = rig.start.run();
    let token = format!("Bearer {}", rig.token());
    for target in [
        "checkpoint",
        "tile/entries/000.p/1",
        "evidence/0",
        "policy",
        "keys",
        "consistency?from=0",
        "evidence-set?indexes=0",
    ] {
        let target = format!("/log/dev/{target}");
        rig.get(&target).problem(401, "KEY_REQUIRED");
        let answer = rig
            .http()
            .send("GET", &target, &[("authorization", &token)], b"");
        assert_eq!(answer.status, 200, "{target}: {}", answer.text());
    }
    // Its signatures authenticate a receipt here too.
    let body = receipt("private", &rig.owner()).to_json();
    rig.http().post(&receipts(""), JSON, &body).index();
    assert_eq!(rig.get("/health").json()["accounts"], json!([]));
    let all = rig
        .http()
        .send("GET", "/health", &[("authorization", &token)], b"")
        .json();
    assert_ne!(all["accounts"], Value::Array(Vec::new()));
    assert!(!rig.get("/").text().contains("localhost/dev"));
    // Nothing here may be looked at without the token, the auditor included.
    rig.service.stop();
}
