//! From start to stop: what a process leaves for others, and what it finishes before it goes.

use std::{
    fs,
    io::{BufReader, ErrorKind},
    net::{TcpListener, TcpStream},
    os::unix::{fs::PermissionsExt, net::UnixStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::rig::{Http, JSON, Rig, clean, countersign, head, key, receipt, receipts};

#[test]
fn a_running_service_says_where_it_is_and_takes_that_back() {
    let mut rig = Rig::up();
    let path = rig.dir().join("serve.json");
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    let said: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(
        (&said["pid"], &said["url"]),
        (&json!(rig.service.pid()), &json!(rig.service.url))
    );
    assert!(said["started_at"].as_str().unwrap().ends_with('Z'));
    let socket = rig.dir().join("admin.sock");
    assert_eq!(mode(&socket), 0o600, "the operator's door");
    assert_eq!(mode(rig.dir()), 0o700);
    for name in [
        "owner.key",
        "owner.token",
        "lock",
        "accounts/dev/log.key",
        "accounts/dev/service.key",
    ] {
        assert_eq!(mode(&rig.dir().join(name)), 0o600, "{name}");
    }
    rig.service.stop();
    assert!(!path.exists());
    rig.begin_again();
    // After a crash it lies; a new process corrects it.
    let url = rig.service.url.clone();
    rig.service.kill();
    assert!(path.exists());
    rig.begin_again();
    assert!(
        !fs::read_to_string(&path)
            .unwrap()
            .contains(&format!("{url}\""))
            || url == rig.service.url
    );
}

#[test]
fn the_operator_asks_over_a_socket() {
    let mut rig = Rig::up();
    rig.submit(&receipt("x", &rig.owner()));
    let stream = UnixStream::connect(rig.dir().join("admin.sock")).unwrap();
    let status = Http::over(Box::new(stream)).get("/status").json();
    assert_eq!(status["pid"], rig.service.pid());
    let account = &status["accounts"][0];
    assert_eq!(account["committed_size"], 2);
    assert_eq!(account["published_size"], 2);
    assert_eq!(account["read_only"], Value::Null);
    assert_eq!(account["owner_forgeable"], true);
    assert_eq!(account["vkey"], rig.service.vkey.as_str());
    let secret = fs::read_to_string(rig.account("log.key")).unwrap();
    let secret = secret.lines().nth(1).unwrap();
    assert!(!status.to_string().contains(secret) && !status.to_string().contains(&rig.token()));
    rig.restart();
    let stream = UnixStream::connect(rig.dir().join("admin.sock")).unwrap();
    assert_eq!(Http::over(Box::new(stream)).get("/status").status, 200);
}

/// Posts receipts until the service is gone. The bodies that were answered, with their index.
fn press(mut http: Http, name: String, stop: Arc<AtomicBool>) -> Vec<(Vec<u8>, u64)> {
    let signer = key("agent");
    let mut answered = Vec::new();
    for n in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let body = receipt(&format!("{name} {n}"), &signer).to_json();
        match http.try_send("POST", &receipts(""), &[("content-type", JSON)], &body) {
            Ok(answer) if answer.status == 200 || answer.status == 202 => {
                answered.push((body, answer.json()["index"].as_u64().unwrap()));
            }
            // Being told that it stops is as good an end as a closed connection.
            Ok(answer) => {
                answer.problem(503, "BUSY");
            }
            Err(_) => break,
        }
    }
    answered
}

#[test]
fn a_stop_finishes_what_was_accepted() {
    let mut rig = Rig::up();
    rig.enroll("agent", &key("agent"));
    for (round, signal) in [Signal::TERM, Signal::INT, Signal::TERM]
        .into_iter()
        .enumerate()
    {
        let stop = Arc::new(AtomicBool::new(false));
        let clients: Vec<_> = (0..4)
            .map(|n| {
                let (http, stop) = (rig.http(), stop.clone());
                thread::spawn(move || press(http, format!("{round} {n}"), stop))
            })
            .collect();
        // Load is on once the log has grown.
        let before = rig.size();
        while rig.size() < before + 40 {}
        rig.service.signal(signal);
        let ended = rig.service.wait();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        stop.store(true, Ordering::Relaxed);
        let answered: Vec<_> = clients
            .into_iter()
            .flat_map(|c| c.join().unwrap())
            .collect();
        assert!(answered.len() >= 40);
        rig.begin_again();
        for (body, index) in answered {
            assert_eq!(rig.http().post(&receipts(""), JSON, &body).index(), index);
        }
    }
}

#[test]
fn a_request_under_way_is_answered_after_the_signal() {
    let mut rig = Rig::up();
    let body = receipt("under way", &rig.owner()).to_json();
    let length = body.len().to_string();
    let headers = [
        ("content-type", JSON),
        ("content-length", length.as_str()),
        ("expect", "100-continue"),
    ];
    let request = head("POST", &receipts(""), &headers) + "\r\n";
    let mut slow = rig.http();
    // `100 Continue` says that the request has been read and its body is wanted.
    assert_eq!(slow.raw(request.as_bytes(), false).unwrap().status, 100);
    rig.service.signal(Signal::TERM);
    // No new connection from some moment on; the old one is finished.
    loop {
        match TcpStream::connect(rig.service.address) {
            Err(e) if e.kind() == ErrorKind::ConnectionRefused => break,
            _ => thread::yield_now(),
        }
    }
    let answer = slow.raw(&body, false).unwrap();
    let index = answer.index();
    drop(slow);
    assert_eq!(rig.service.wait().code, Some(0));
    rig.begin_again();
    assert_eq!(
        rig.submit(&receipt("under way", &rig.owner())).index(),
        index
    );
}

#[test]
fn an_idle_log_writes_nothing() {
    // B062
    let mut rig = Rig::up();
    rig.submit(&receipt("x", &rig.owner()));
    let note = rig.get("/log/dev/checkpoint").body;
    for _ in 0..2 {
        rig.restart();
        assert_eq!(
            rig.get("/log/dev/checkpoint").body,
            note,
            "a head is signed once"
        );
    }
    assert_eq!(rig.size(), 2);
}

#[test]
fn a_reader_that_goes_away_harms_nobody() {
    let mut rig = Rig::up();
    for _ in 0..50 {
        let stream = TcpStream::connect(rig.service.address).unwrap();
        let mut reader = BufReader::new(stream);
        let request = head("GET", "/log/dev/tile/entries/000.p/1", &[]) + "\r\n";
        std::io::Write::write_all(reader.get_mut(), request.as_bytes()).unwrap();
        drop(reader);
    }
    rig.check();
}

#[test]
fn who_listens_where_a_killed_service_did_is_shown_no_token() {
    let mut rig = Rig::up();
    let (dir, address) = (rig.dir().to_owned(), rig.service.address);
    rig.service.kill();
    assert!(dir.join("serve.json").exists(), "as a kill leaves it");
    let other = TcpListener::bind(address).expect("its address");
    other.set_nonblocking(true).expect("no waiting");
    for verb in [&["status"][..], &["board", "list"], &["token", "list"]] {
        let output = clean(countersign())
            .args(verb)
            .arg("--dir")
            .arg(&dir)
            .output()
            .expect("countersign runs");
        assert_ne!(output.status.code(), Some(101), "{output:?}");
        let asked = other.accept();
        assert!(asked.is_err(), "{verb:?}: {asked:?}");
    }
}
