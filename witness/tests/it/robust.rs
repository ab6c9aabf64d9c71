//! What must not go unseen: panics, peers that nobody asks, heads whose proof failed, evidence that no disk takes, clients that
//! hold places and say nothing.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use countersign_verifier::checkpoint::origin_hash;
use countersign_verifier::fork::Fork;
use countersign_verifier::hash::Hash;
use countersign_witness::forks::Forks;
use countersign_witness::http::crowd::Crowd;
use countersign_witness::http::{self, listen};
use countersign_witness::record::Record;
use countersign_witness::roster::Addition;
use countersign_witness::serve;
use countersign_witness::store::{Change, Memory, Store, StoreError};
use countersign_witness::tally::Tally;
use countersign_witness::{Witness, dir::Dir};
use serde_json::Value;
use tokio::sync::watch;

use crate::gossip::entry;
use crate::network::{cosigned, eventually, listener, log_servers, peers, url};
use crate::support::{NOW, Running, TestClock, TestLog, gossiper, keys};

fn with_forks(store: Arc<dyn Store>, forks: Forks, logs: &[Addition]) -> Witness {
    let clock = TestClock::at(NOW).clock();
    let witness = Witness::with_forks(keys(false), store, clock, |_| Ok(forks)).unwrap();
    witness.roster().add(logs).unwrap();
    witness
}

async fn health(running: &Running) -> Value {
    serde_json::from_str(&running.get("/health").await.body).unwrap()
}

/// A store that panics once, when somebody reads a record.
#[derive(Default)]
struct Breaking {
    inner: Memory,
    armed: AtomicBool,
}

impl Store for Breaking {
    fn record(&self, log: &Hash) -> Result<Option<Record>, StoreError> {
        assert!(!self.armed.swap(false, Ordering::SeqCst), "a bug");
        self.inner.record(log)
    }

    fn commit(&self, changes: &[Change]) -> Result<(), StoreError> {
        self.inner.commit(changes)
    }

    fn entry(&self, log: &Hash) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.entry(log)
    }

    fn put_entries(&self, entries: &[(Hash, Vec<u8>)]) -> Result<(), StoreError> {
        self.inner.put_entries(entries)
    }

    fn entries(
        &self,
        after: Option<&Hash>,
        limit: usize,
    ) -> Result<Vec<(Hash, Vec<u8>)>, StoreError> {
        self.inner.entries(after, limit)
    }

    fn tally(&self, log: &Hash) -> Result<Tally, StoreError> {
        self.inner.tally(log)
    }

    fn put_tallies(&self, tallies: &[(Hash, Tally)]) -> Result<(), StoreError> {
        self.inner.put_tallies(tallies)
    }

    fn reload(&self) -> Result<(), StoreError> {
        self.inner.reload()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pull_that_ends_in_a_panic_is_counted_and_begun_anew() {
    let log = TestLog::new("panic.example", 20);
    let fork = log.fork(9, "fork");
    let second = gossiper(&[log.addition()]);
    cosigned(&second, &fork, 20).await;
    let second = Running::with_gossip(second, &peers(&[])).await;
    let store = Arc::new(Breaking::default());
    let first = with_forks(store.clone(), Forks::memory(), &[log.addition()]);
    cosigned(&first, &log, 20).await;
    store.armed.store(true, Ordering::SeqCst);
    let first = Running::with_gossip(first, &peers(&[url(&second)])).await;
    let hash = origin_hash(&log.origin);
    eventually("evidence", || first.witness.forks().holds(&hash)).await;
    assert!(!store.armed.load(Ordering::SeqCst));
    let metrics = first.get("/metrics").await.body;
    assert!(metrics.contains("_panics_total 1"), "{metrics}");
    first.stop().await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_with_more_peers_than_are_pulled_is_refused_and_says_how_many() {
    let log = TestLog::new("private.example", 1);
    let mut addition = log.addition();
    addition.private = true;
    addition.peers = vec!["http://p.example".into()];
    let witness = Arc::new(gossiper(&[addition]));
    let temp = tempfile::tempdir().unwrap();
    let dir = Dir::new(temp.path());
    let urls: Vec<String> = (0..64).map(|n| format!("http://p.example:{n}")).collect();
    std::fs::write(dir.gossip(), peers(&urls).to_string()).unwrap();
    let (_stop, stopped) = watch::channel(false);
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let ready = |_: &Witness, _| panic!("it is served");
    let refused = serve::serve(witness, &dir, (any, &[]), stopped, ready).await;
    let why = refused.unwrap_err().to_string();
    assert!(
        why.contains("at most 64 peers") && why.ends_with("65"),
        "{why}"
    );
}

/// A log that shows this history up to a size, and another one beyond.
async fn two_faced(log: &TestLog, upto: usize, fork: &TestLog) -> Addition {
    let (log_, fork) = (Arc::new(log.clone()), Arc::new(fork.clone()));
    let history = move |size| {
        if size <= upto {
            log_.clone()
        } else {
            fork.clone()
        }
    };
    Addition {
        url: Some(log_servers(history).await),
        ..log.addition()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proof_that_fails_accuses_nobody_and_has_the_log_asked() {
    let (honest, forking) = (
        TestLog::new("honest.example", 60),
        TestLog::new("two.example", 60),
    );
    let fork = forking.fork(9, "fork");
    let silent = TestLog::new("silent.example", 60);
    let additions = [
        two_faced(&honest, 60, &honest).await,
        two_faced(&forking, 20, &fork).await,
        silent.addition(),
    ];
    let running = Running::of(gossiper(&additions)).await;
    for log in [&honest, &forking, &silent] {
        cosigned(&running.witness, log, 20).await;
    }
    let wrong = |log: &TestLog| {
        log.request(20, 50)
            .replace(&log.proof(20, 50)[0].to_base64(), &log.root(3).to_base64())
    };
    for body in [wrong(&honest), wrong(&silent), fork.request(20, 50)] {
        assert_eq!(running.ask(body).await.status, 422);
    }
    let hash = origin_hash(&forking.origin);
    eventually("evidence", || running.witness.forks().holds(&hash)).await;
    let file = running.witness.forks().evidence(&hash).unwrap().unwrap();
    let fork = Fork::parse(&file).unwrap();
    fork.verify(&forking.origin, &entry(&forking).keys).unwrap();
    assert_eq!(running.ask(forking.request(20, 40)).await.status, 403);
    // The honest log is asked too, and goes on; the one whose address nobody knows as well.
    loop {
        let metrics = running.get("/metrics").await.body;
        if metrics.contains("gossip_heads_total{verdict=\"consistent\"} 1") {
            break;
        }
    }
    assert_eq!(running.ask(honest.request(20, 50)).await.status, 200);
    assert_eq!(running.ask(silent.request(20, 50)).await.status, 200);
    assert_eq!(
        (
            running.witness.forks().len(),
            running.witness.board().open_rows().0
        ),
        (1, 0)
    );
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn evidence_that_no_disk_takes_is_shown_kept_and_written_later() {
    let log = TestLog::new("full.example", 20);
    let (fork, hash) = (log.fork(9, "fork"), origin_hash(&log.origin));
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("forks");
    let forks = Forks::open(&folder, |_, _| true).unwrap();
    let store = Arc::new(Memory::default());
    let witness = with_forks(store.clone(), forks, &[log.addition()]);
    let running = Running::of(witness).await;
    assert_eq!(running.ask(log.request(0, 20)).await.status, 200);
    std::fs::remove_dir(&folder).unwrap();
    assert_eq!(running.ask(fork.request(20, 20)).await.status, 422);
    assert_eq!(running.ask(log.request(20, 20)).await.status, 403);
    running.witness.write_evidence();
    let said = health(&running).await;
    assert_eq!(
        (&said["forks_unwritten"], &said["status"]),
        (&1.into(), &"degraded".into())
    );
    let metrics = running.get("/metrics").await.body;
    assert!(metrics.contains("forks_unwritten 1"), "{metrics}");
    std::fs::create_dir(&folder).unwrap();
    running.witness.write_evidence();
    let said = health(&running).await;
    assert_eq!(
        (&said["forks_unwritten"], &said["status"]),
        (&0.into(), &"ok".into())
    );
    let shown = running
        .get(&format!("/gossip/forks/{}", hash.to_hex()))
        .await;
    let fork = Fork::parse(shown.body.as_bytes()).unwrap();
    fork.verify(&log.origin, &entry(&log).keys).unwrap();
    running.stop().await;
    // The roster's mark did not wait for the file.
    let lost = with_forks(store, Forks::memory(), &[]);
    assert_eq!(lost.roster().forked(), [hash]);
}

const ASK: &str = "GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

/// Sends the beginning of a request, and what comes back until the other side has nothing more to say.
async fn said(address: SocketAddr, part: String) -> String {
    let said = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        // Whoever is turned away may find out while it writes.
        let _ = stream.write_all(part.as_bytes());
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        String::from_utf8_lossy(&said).into_owned()
    });
    said.await.unwrap()
}

/// Waits for as long as a body may take, once for all doors.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_sends_no_body_loses_its_place_to_others_of_its_address() {
    const DOORS: [&str; 3] = ["/add-checkpoint", "/sign-subtree", "/gossip/heads"];
    let witness = Arc::new(gossiper(&[]));
    let (listener, address) = listener().await;
    let (stop, stopped) = watch::channel(false);
    let crowd = Crowd::new(&[], DOORS.len());
    let enter = move |_: &SocketAddr| crowd.enter(IpAddr::from([192, 0, 2, 1]));
    let router = http::router(witness, Arc::default());
    let served = tokio::spawn(listen::serve(listener, router, stopped, enter));
    let slow = DOORS.map(|path| {
        let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 500\r\n\r\n{{");
        tokio::spawn(said(address, head))
    });
    for slow in slow {
        let said = slow.await.unwrap();
        assert!(said.starts_with("HTTP/1.1 408 "), "{said}");
    }
    // The place is free a moment after the answer.
    while !said(address, ASK.into()).await.starts_with("HTTP/1.1 200 ") {}
    stop.send(true).unwrap();
    served.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_address_cannot_hold_all_places() {
    let witness = Arc::new(gossiper(&[]));
    let (listener, address) = listener().await;
    let (stop, stopped) = watch::channel(false);
    let crowd = Crowd::new(&[], 2);
    // The first ones come from one address, the last from another.
    let flooding = Arc::new(AtomicBool::new(true));
    let floods = flooding.clone();
    let enter = move |_: &SocketAddr| {
        let last = if floods.load(Ordering::SeqCst) { 1 } else { 2 };
        crowd.enter(IpAddr::from([192, 0, 2, last]))
    };
    let router = http::router(witness, Arc::default());
    let served = tokio::spawn(listen::serve(listener, router, stopped, enter));
    let flood: Vec<TcpStream> = (0..50)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    // All but two are closed without a word.
    let mut open = 0;
    for stream in &flood {
        stream.set_nonblocking(true).unwrap();
    }
    eventually("the others are closed", || {
        let silent = |mut s: &TcpStream| matches!(s.read(&mut [0]), Err(e) if e.kind() == std::io::ErrorKind::WouldBlock);
        open = flood.iter().filter(|s| silent(s)).count();
        open <= 2
    })
    .await;
    assert_eq!(open, 2);
    flooding.store(false, Ordering::SeqCst);
    assert!(said(address, ASK.into()).await.starts_with("HTTP/1.1 200 "));
    drop(flood);
    stop.send(true).unwrap();
    served.await.unwrap();
}
