//! The doors: what is shown, what is refused at them, and how the operator reaches a running witness.

use std::io::{Read, Write};
use std::net::TcpStream;

use countersign_verifier::checkpoint::origin_hash;
use countersign_witness::http::admin::Socket;
use countersign_witness::roster::Outcome;

use crate::support::{NAME, Running, TestLog};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_say_who_the_witness_is_and_what_it_holds() {
    let log = TestLog::new("shown.example", 5);
    let running = Running::memory(&[log.addition()]).await;
    let vkey = running.witness.keys().vkeys()[0].to_string();
    let about = running.get("/").await;
    assert_eq!(
        (about.status, about.kind.as_str()),
        (200, "text/plain; charset=utf-8")
    );
    assert!(
        about.body.contains(NAME) && about.body.contains(&vkey),
        "{}",
        about.body
    );
    let health = running.get("/health").await;
    let health: serde_json::Value = serde_json::from_str(&health.body).unwrap();
    assert_eq!(
        (&health["status"], &health["logs"]),
        (&"ok".into(), &1.into())
    );
    let path = format!("/{}/checkpoint", origin_hash("shown.example").to_hex());
    assert_eq!(running.get(&path).await.status, 404, "never cosigned");
    assert_eq!(running.ask(log.request(0, 5)).await.status, 200);
    let shown = running.get(&path).await;
    assert_eq!(
        (shown.status, shown.kind.as_str()),
        (200, "text/plain; charset=utf-8")
    );
    for path in ["/nothing", "/UPPER/checkpoint", "/add-checkpoint/x"] {
        assert_eq!(running.get(path).await.status, 404, "{path}");
    }
    assert_eq!(running.get("/add-checkpoint").await.status, 405);
    let metrics = running.get("/metrics").await.body;
    for line in [
        "countersign_witness_cosigned_total 1",
        "countersign_witness_logs 1",
        "countersign_witness_answers_total{door=\"add-checkpoint\",status=\"200\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_stays_open_for_the_next_request() {
    let log = TestLog::new("kept.example", 5);
    let running = Running::memory(&[log.addition()]).await;
    let address = running.address;
    let bodies = [log.request(0, 3), log.request(3, 5), "nonsense".into()];
    let read = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        let mut statuses = Vec::new();
        for body in bodies {
            let head = format!(
                "POST /add-checkpoint HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all((head + &body).as_bytes()).unwrap();
            statuses.push(answer(&mut stream));
        }
        statuses
    });
    assert_eq!(read.await.unwrap(), [200, 200, 400]);
    running.stop().await;
}

/// 429 says how long to wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_is_too_fast_is_told_when_to_come_again() {
    let log = TestLog::new("fast.example", 62);
    let mut listed = log.addition();
    listed.qpd = Some(24);
    let running = Running::memory(&[listed]).await;
    for size in 1..=60 {
        assert_eq!(running.ask(log.request(size - 1, size)).await.status, 200);
    }
    let said = running.ask(log.request(60, 61)).await;
    assert_eq!(
        (said.status, said.retry_after.as_deref()),
        (429, Some("900"))
    );
    running.stop().await;
}

/// Reads one answer with a length; its status.
fn answer(stream: &mut TcpStream) -> u16 {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let length = head
        .lines()
        .find_map(|l| l.strip_prefix("content-length: "));
    let mut body = vec![0; length.unwrap().parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    head.split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_a_request_holds_up_nobody() {
    let log = TestLog::new("slow.example", 5);
    let running = Running::memory(&[log.addition()]).await;
    let held: Vec<TcpStream> = (0..200)
        .map(|n| {
            let mut stream = TcpStream::connect(running.address).unwrap();
            let part: &[u8] = match n % 3 {
                0 => b"",
                1 => b"POST /add-checkpoint HT",
                _ => b"POST /add-checkpoint HTTP/1.1\r\nhost: x\r\ncontent-length: 500\r\n\r\nold",
            };
            stream.write_all(part).unwrap();
            stream
        })
        .collect();
    assert_eq!(running.ask(log.request(0, 5)).await.status, 200);
    drop(held);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_operator_adds_and_lists_logs_while_it_runs() {
    let logs: Vec<TestLog> = (0..5)
        .map(|n| TestLog::new(&format!("op.example/{n}"), 4))
        .collect();
    let running = Running::rocks(&[]).await;
    let said = running.ask(logs[0].request(0, 4)).await;
    assert_eq!(said.status, 404);
    let socket = Socket::new(running.dir.admin_socket());
    let mut additions: Vec<_> = logs.iter().map(TestLog::addition).collect();
    assert_eq!(
        socket.add(&additions).await.unwrap(),
        vec![Outcome::Added; 5]
    );
    assert_eq!(
        socket.add(&additions).await.unwrap(),
        vec![Outcome::Known; 5]
    );
    additions[0].vkey = "nonsense".into();
    let refused = socket.add(&additions[..1]).await.unwrap();
    assert!(matches!(refused[0], Outcome::Refused { .. }));
    assert_eq!(running.ask(logs[0].request(0, 4)).await.status, 200);
    assert_eq!(
        running.ask(logs[0].fork(2, "x").request(4, 4)).await.status,
        422
    );
    let rows = socket.list(None).await.unwrap();
    assert_eq!(rows.len(), 5);
    let row = rows
        .iter()
        .find(|row| row.origin == "op.example/0")
        .unwrap();
    assert_eq!(
        (row.size, row.requests_today, row.refusals),
        (Some(4), 2, 1)
    );
    assert_eq!(row.age_s, Some(0));
    let behind = socket.list(Some(&rows[2].log)).await.unwrap();
    assert_eq!(behind, rows[3..]);
    let mode = std::fs::metadata(running.dir.admin_socket()).unwrap();
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 0o777,
        0o600
    );
    running.stop().await;
}
