//! Many who want nothing good: connections without end, answers that nobody takes, floods of signatures that do not hold. Whoever
//! means well is answered all the while.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::TcpStream,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::rig::{Http, JSON, NDJSON, Rig, head, key, receipt, receipts};

const MANY: u64 = 10_000;
/// Files that this process has open beside, whatever else it tests meanwhile.
const BESIDE: u64 = 2_000;

/// How many connections this process may have, up to as many as it wants; fewer are said, not passed over in silence.
fn room() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, raised).expect("a higher limit within what is allowed");
    let most = limit.maximum.unwrap_or(u64::MAX).saturating_sub(BESIDE);
    if most < MANY {
        eprintln!("FEWER: {most} connections in place of {MANY} (ulimit -Hn)");
    }
    most.min(MANY)
}

/// What is said on a connection, and nothing more.
fn beginnings() -> [Vec<u8>; 5] {
    let length = [("content-type", JSON), ("content-length", "1000")];
    [
        Vec::new(),
        b"GE".to_vec(),
        b"GET / HTTP/1.1\r\nhost: a\r\nx-slow: ".to_vec(),
        (head("POST", &receipts(""), &length) + "\r\n{\"pay").into_bytes(),
        // Answered, and then held open; nobody reads the answer.
        (head("GET", "/health/ready", &[]) + "\r\n").into_bytes(),
    ]
}

/// A client that means well, with a connection of its own each time: a write, and what is read of it.
fn is_served(rig: &Rig, n: &str) {
    let body = receipt(n, &rig.owner()).to_json();
    let index = rig.http().post(&receipts(""), JSON, &body).index();
    let evidence = rig.get(&format!("/log/dev/evidence/{index}"));
    assert_eq!(evidence.status, 200, "{}", evidence.text());
}

#[test]
fn ten_thousand_connections_keep_nobody_out() {
    let many = room();
    // Those that are too many give way, the longest silent first; or there is room for all of them.
    for limit in [4_096, 11_000] {
        let mut rig = Rig::with(&format!(
            "[limits]\nconnections = {limit}\nheader_timeout_s = 3600\nrequest_timeout_s = 3600\n"
        ));
        let beginnings = beginnings();
        let mut held = Vec::new();
        for n in 0..many {
            let stream = TcpStream::connect(rig.service.address);
            let mut stream = stream.unwrap_or_else(|e| panic!("connection {n}: {e}"));
            // OK because it is below the number of beginnings.
            let said = &beginnings[usize::try_from(n).expect("a count") % beginnings.len()];
            // Who gave way already may be told so here.
            let _ = stream.write_all(said);
            held.push(stream);
            if n % 1_000 == 999 {
                is_served(&rig, &format!("{limit} {n}"));
            }
        }
        rig.check();
        drop(held);
        is_served(&rig, &format!("{limit} alone again"));
        rig.restart();
    }
}

#[test]
fn answers_that_nobody_takes_are_cut_off_and_keep_nobody_out() {
    let mut rig = Rig::with("[limits]\nwrite_timeout_s = 1\nconnections = 64\n");
    let owner = rig.owner();
    let lines: Vec<Vec<u8>> = (0..300)
        .map(|n| receipt(&format!("{n} {}", "x".repeat(20_000)), &owner).to_json())
        .collect();
    for some in lines.chunks(100) {
        rig.submit_lines(some);
    }
    // A full bundle of some megabytes, asked for again and again and never read.
    let asks = (head("GET", "/log/dev/tile/entries/000", &[]) + "\r\n").repeat(4);
    let mut held: Vec<TcpStream> = (0..40)
        .map(|_| {
            let mut stream = TcpStream::connect(rig.service.address).expect("a connection");
            stream.write_all(asks.as_bytes()).expect("asked");
            stream
        })
        .collect();
    for n in 0..10 {
        is_served(&rig, &format!("beside {n}"));
    }
    // Each is cut off before it has all that it asked for: what it finds, once it reads, comes to an end.
    thread::sleep(Duration::from_secs(2));
    for stream in &mut held {
        stream
            .set_read_timeout(Some(Duration::from_secs(90)))
            .expect("a time-out");
        let mut taken = Vec::new();
        match stream.read_to_end(&mut taken) {
            Ok(_) => {}
            Err(e) => assert_eq!(e.kind(), ErrorKind::ConnectionReset, "{e}"),
        }
        assert!(taken.len() < 4 * 256 * 20_000, "{} bytes", taken.len());
    }
    rig.check();
}

/// An envelope whose signature names an enrolled key and does not hold.
fn forged(n: &str, rig: &Rig) -> Vec<u8> {
    let mut envelope = receipt(n, &rig.owner());
    envelope.signatures[0].sig[40] ^= 1;
    envelope.to_json()
}

#[test]
fn a_flood_of_signatures_that_do_not_hold_keeps_no_writer_out() {
    let mut rig = Rig::up();
    let one = forged("forged", &rig);
    let lines: Vec<Vec<u8>> = (0..200).map(|n| forged(&format!("{n}"), &rig)).collect();
    let many = lines.join(&b'\n');
    // Of nobody that is known here: every enrolled key is tried.
    let stranger = receipt("stranger", &key("stranger")).to_json();
    let (over, refused) = (AtomicBool::new(false), AtomicUsize::new(0));
    let bodies = [
        (JSON, 422, &one),
        (JSON, 401, &stranger),
        (NDJSON, 200, &many),
    ];
    thread::scope(|scope| {
        for n in 0..12 {
            let (mut http, (kind, status, body)): (Http, _) = (rig.http(), bodies[n % 3]);
            let (over, refused) = (&over, &refused);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let answer = http.post(&receipts(""), kind, body);
                    assert_eq!(answer.status, status, "{}", answer.text());
                    refused.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for n in 0..40 {
            is_served(&rig, &format!("honest {n}"));
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(refused.load(Ordering::Relaxed) > 40, "{refused:?}");
    // Of none of it is there a leaf.
    rig.check();
    assert_eq!(rig.auditor.leaves().len(), 41);
}
