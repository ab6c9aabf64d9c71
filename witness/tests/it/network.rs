//! Witnesses that pull each other over a real network, with logs that answer, and with networks and peers that do not.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::Query;
use axum::http::StatusCode;
use axum::routing::{get, post};
use countersign_verifier::checkpoint::origin_hash;
use countersign_verifier::fork::{Differs, Fork};
use countersign_verifier::hash::Hash;
use countersign_witness::Witness;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::gossip::entry;
use crate::support::{Running, TestLog, check_lines, gossiper, witness};

/// Long enough for any machine; nothing waits for its end.
const PATIENCE: Duration = Duration::from_secs(90);

pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let done = tokio::time::timeout(PATIENCE, waiting).await;
    done.unwrap_or_else(|_| panic!("never: {what}"));
}

pub async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Serves `consistency` and `node` of a log as it shows itself at this address.
async fn log_server(log: &TestLog) -> String {
    let log = Arc::new(log.clone());
    log_servers(move |_| log.clone()).await
}

/// The same of a log that shows a history for each size that it is asked for.
pub async fn log_servers(
    history: impl Fn(usize) -> Arc<TestLog> + Clone + Send + Sync + 'static,
) -> String {
    fn lines(hashes: &[Hash]) -> String {
        hashes.iter().map(|hash| hash.to_base64() + "\n").collect()
    }
    type Asked = Query<std::collections::HashMap<String, usize>>;
    let of_size = history.clone();
    let consistency = move |Query(asked): Asked| async move {
        let (from, to) = (asked["from"], asked["to"]);
        let log = of_size(to);
        if to > log.leaves.len() {
            return (StatusCode::NOT_FOUND, String::new());
        }
        (StatusCode::OK, lines(&log.proof(from, to)))
    };
    let node = move |Query(asked): Asked| async move {
        let (size, level) = (asked["size"], u8::try_from(asked["level"]).unwrap());
        let log = history(size);
        if size > log.leaves.len() {
            return (StatusCode::NOT_FOUND, String::new());
        }
        (
            StatusCode::OK,
            lines(&log.node(size, level, asked["index"] as u64)),
        )
    };
    let router = axum::Router::new()
        .route("/log/consistency", get(consistency))
        .route("/log/node", get(node));
    let (listener, address) = listener().await;
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}/log")
}

/// A webhook that refuses twice; what it took.
async fn webhook() -> (String, Arc<Mutex<Vec<Value>>>) {
    let (asked, taken) = (Arc::new(Mutex::new(0)), Arc::<Mutex<Vec<Value>>>::default());
    let shared = taken.clone();
    let take = move |body: String| async move {
        let mut asked = asked.lock().unwrap();
        *asked += 1;
        if *asked < 3 {
            return StatusCode::INTERNAL_SERVER_ERROR;
        }
        shared
            .lock()
            .unwrap()
            .push(serde_json::from_str(&body).unwrap());
        StatusCode::NO_CONTENT
    };
    let (listener, address) = listener().await;
    let router = axum::Router::new().route("/hook", post(take));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (format!("http://{address}/hook"), taken)
}

async fn gossiper_at(log: &TestLog, url: Option<String>) -> Witness {
    let mut addition = log.addition();
    addition.url = url;
    gossiper(&[addition])
}

pub fn url(running: &Running) -> String {
    format!("http://{}", running.address)
}

pub async fn cosigned(witness: &Witness, log: &TestLog, size: usize) {
    let answer = witness
        .add_checkpoint(log.request(0, size).as_bytes())
        .await;
    assert!(matches!(answer, countersign_witness::Answer::Cosigned(_)));
}

pub fn peers(urls: &[String]) -> Value {
    json!({ "peers": urls, "interval_s": 1 })
}

/// Whether this is evidence, and of which form.
fn judge(log: &TestLog, file: &[u8]) -> Differs {
    let proven = Fork::parse(file).unwrap();
    let proven = proven.verify(&log.origin, &entry(log).keys);
    proven.unwrap().differs
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_of_two_sizes_is_found_told_and_spread() {
    let log = TestLog::new("fork.example", 60);
    let fork = log.fork(9, "fork");
    let hash = origin_hash(&log.origin);
    let (hook, told) = webhook().await;
    // The log shows each its own history, and only the second witness can ask for the second one.
    let second = gossiper_at(&fork, Some(log_server(&fork).await)).await;
    cosigned(&second, &fork, 31).await;
    let second = Running::with_gossip(second, &peers(&[])).await;
    let first = gossiper_at(&log, Some(log_server(&log).await)).await;
    cosigned(&first, &log, 20).await;
    let mut settings = peers(&[url(&second)]);
    settings["webhook"] = hook.into();
    let first = Running::with_gossip(first, &settings).await;
    // The third saw nothing wrong and cannot ask the log: it learns of it from the first.
    let third = gossiper_at(&log, None).await;
    cosigned(&third, &log, 20).await;
    let third = Running::with_gossip(third, &peers(&[url(&first)])).await;
    for running in [&first, &third] {
        eventually("evidence", || running.witness.forks().holds(&hash)).await;
        let path = format!("/gossip/forks/{}", hash.to_hex());
        let said = running.get(&path).await;
        assert_eq!((said.status, said.kind.as_str()), (200, "application/json"));
        assert!(matches!(
            judge(&log, said.body.as_bytes()),
            Differs::Leaves { .. }
        ));
        let listed: Value = serde_json::from_str(&running.get("/gossip/forks").await.body).unwrap();
        assert_eq!(listed, json!({"forks": [hash.to_hex()], "next": null}));
        let said = running.ask(log.request(20, 40)).await;
        assert_eq!(said.status, 403);
        assert!(said.body.contains("quarantined"), "{}", said.body);
        let subtree = format!("subtree 0 16\n{}\n", log.note(20));
        assert!([400, 403].contains(&running.post("/sign-subtree", subtree).await.status));
        let health: Value = serde_json::from_str(&running.get("/health").await.body).unwrap();
        assert_eq!((&health["forks"], &health["peers"]), (&1.into(), &1.into()));
        let metrics = running.get("/metrics").await.body;
        assert!(metrics.contains("countersign_witness_forks 1"), "{metrics}");
        let socket = countersign_witness::http::admin::Socket::new(running.dir.admin_socket());
        let row = &socket.list(None).await.unwrap()[0];
        assert!(row.forked && row.forked_at.is_some() && row.unresolved.is_empty());
    }
    assert!(!second.witness.forks().holds(&hash), "it pulls nobody");
    eventually("the webhook", || !told.lock().unwrap().is_empty()).await;
    let body = told.lock().unwrap()[0].clone();
    assert_eq!(
        (&body["event"], &body["origin"]),
        (&"fork".into(), &"fork.example".into())
    );
    judge(&log, body["evidence"].as_str().unwrap().as_bytes());
    eventually("it is remembered", || {
        first.witness.forks().untold().is_empty()
    })
    .await;
    for running in [first, second, third] {
        running.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn auditors_show_heads_and_are_told_what_they_are() {
    let log = TestLog::new("seen.example", 60);
    let witness = gossiper_at(&log, Some(log_server(&log).await)).await;
    cosigned(&witness, &log, 30).await;
    let running = Running::of(witness).await;
    let other = TestLog::new("unknown.example", 9);
    let heads = [
        log.note(30),
        log.note(7),
        log.note(50),
        other.note(9),
        other.sign(&log.text(7)),
    ];
    let said = running
        .post("/gossip/heads", json!({ "heads": heads }).to_string())
        .await;
    let said: Value = serde_json::from_str(&said.body).unwrap();
    let expected = ["same", "consistent", "consistent", "unknown", "unknown"];
    assert_eq!(said["verdicts"], json!(expected));
    // A head that the log does not show here says nothing, and is remembered nowhere.
    let fork = log.fork(4, "fork");
    let shown = json!({ "heads": [fork.note(20)] }).to_string();
    let said = running.post("/gossip/heads", shown).await;
    assert!(said.body.contains("unresolved"), "{}", said.body);
    assert_eq!(running.witness.board().open_rows(), (0, None));
    let many = json!({ "heads": vec!["x"; 17] }).to_string();
    assert_eq!(running.post("/gossip/heads", many).await.status, 400);
    assert_eq!(running.post("/gossip/heads", "{").await.status, 400);
    let long = json!({ "heads": ["x".repeat(70_000)] }).to_string();
    assert_eq!(running.post("/gossip/heads", long).await.status, 413);
    for path in ["/gossip/heads?after=x", "/gossip/forks?after=x"] {
        assert_eq!(running.get(path).await.status, 400, "{path}");
    }
    let hash = origin_hash(&log.origin).to_hex();
    let node = |query: &str| format!("/gossip/node/{hash}?{query}");
    let said = running.get(&node("size=50&level=4&index=1")).await;
    let expected = log
        .node(50, 4, 1)
        .iter()
        .map(|h| h.to_base64() + "\n")
        .collect::<String>();
    assert_eq!((said.status, said.body), (200, expected));
    for (query, status) in [
        ("size=50&level=4&index=3", 400),
        ("size=61&level=0&index=0", 502),
    ] {
        assert_eq!(running.get(&node(query)).await.status, status, "{query}");
    }
    let two = json!({ "heads": [fork.note(30)] }).to_string();
    let said = running.post("/gossip/heads", two).await;
    assert!(said.body.contains("fork"), "{}", said.body);
    assert_eq!(running.ask(log.request(30, 40)).await.status, 403);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_private_log_is_compared_among_its_peers_and_listed_to_nobody() {
    let log = TestLog::new("private.example", 40);
    let fork = log.fork(5, "fork");
    let hash = origin_hash(&log.origin);
    let mut addition = log.addition();
    addition.private = true;
    let second = gossiper(&[addition.clone()]);
    cosigned(&second, &fork, 20).await;
    let second = Running::with_gossip(second, &peers(&[])).await;
    addition.peers = vec![url(&second)];
    let first = gossiper(&[addition]);
    cosigned(&first, &log, 20).await;
    let first = Running::with_gossip(first, &peers(&[])).await;
    eventually("evidence", || first.witness.forks().holds(&hash)).await;
    let page: Value = serde_json::from_str(&second.get("/gossip/heads").await.body).unwrap();
    assert_eq!(page, json!({"heads": [], "next": null}));
    let page: Value = serde_json::from_str(&first.get("/gossip/forks").await.body).unwrap();
    assert_eq!(page["forks"], json!([]));
    let path = format!("/gossip/forks/{}", hash.to_hex());
    let said = first.get(&path).await;
    assert_eq!(judge(&log, said.body.as_bytes()), Differs::Roots);
    first.stop().await;
    second.stop().await;
}

/// How a connection through the proxy fares.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Passes,
    /// So many milliseconds each way, a piece.
    Late(u64),
    /// Closed once so many bytes have gone up.
    CutUp(usize),
    /// Closed once so many bytes have come down.
    CutDown(usize),
    /// Taken, and never answered.
    HalfOpen,
    /// Answers come byte by byte.
    Drips,
}

/// A proxy whose connections fare as `fates` say, in turn.
async fn proxy(target: SocketAddr, fates: &'static [Fate]) -> SocketAddr {
    let (listener, address) = listener().await;
    tokio::spawn(async move {
        for n in 0.. {
            let Ok((client, _)) = listener.accept().await else {
                return;
            };
            tokio::spawn(pass(client, target, fates[n % fates.len()]));
        }
    });
    address
}

async fn pass(mut client: TcpStream, target: SocketAddr, fate: Fate) {
    let Ok(mut server) = TcpStream::connect(target).await else {
        return;
    };
    let (mut up, mut down) = (0, 0);
    let (mut from_client, mut from_server) = ([0; 4096], [0; 4096]);
    loop {
        tokio::select! {
            read = client.read(&mut from_client) => {
                let Ok(n @ 1..) = read else { return };
                if let Fate::Late(ms) = fate {
                    tokio::time::sleep(Duration::from_millis(ms)).await;
                }
                up += n;
                let part = match fate {
                    Fate::CutUp(most) if up > most => n.saturating_sub(up - most),
                    Fate::HalfOpen => 0,
                    _ => n,
                };
                if server.write_all(&from_client[..part]).await.is_err() || (part < n && !matches!(fate, Fate::HalfOpen)) {
                    return;
                }
            }
            read = server.read(&mut from_server) => {
                let Ok(n @ 1..) = read else { return };
                down += n;
                match fate {
                    Fate::CutDown(most) if down > most => return,
                    Fate::Drips => {
                        for byte in &from_server[..n] {
                            if client.write_all(std::slice::from_ref(byte)).await.is_err() {
                                return;
                            }
                            tokio::task::yield_now().await;
                        }
                    }
                    _ => {
                        if client.write_all(&from_server[..n]).await.is_err() {
                            return;
                        }
                    }
                }
            }
        }
    }
}

const FATES: &[Fate] = &[
    Fate::CutUp(90),
    Fate::Late(15),
    Fate::HalfOpen,
    Fate::CutDown(0),
    Fate::Drips,
    Fate::CutUp(400),
    Fate::CutDown(200),
    Fate::Passes,
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_network_between_log_and_witness_signs_nothing_twice_and_delays_nobody_else() {
    let (log, mut other) = (
        TestLog::new("bad.example", 60),
        TestLog::new("good.example", 1),
    );
    let fork = log.fork(11, "fork");
    let running = Running::of(witness(
        Arc::<countersign_witness::store::Memory>::default(),
        &[log.addition(), other.addition()],
    ))
    .await;
    let proxied = proxy(running.address, FATES).await;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .pool_max_idle_per_host(0)
        .timeout(Duration::from_millis(700));
    let client = client.build().unwrap();
    let ask = async |body: String| {
        let url = format!("http://{proxied}/add-checkpoint");
        let answer = client.post(url).body(body).send().await.ok()?;
        Some((answer.status().as_u16(), answer.text().await.ok()?))
    };
    // What the log was told, and then what it asks; with its other history in between.
    let (mut old, mut lost, mut cosigned) = (0, 0, 0);
    for n in 0_usize.. {
        let new = (old + 3).min(60);
        match ask(log.request(old, new)).await {
            Some((200, lines)) => {
                check_lines(running.witness.keys(), &lines, &log.text(new));
                old = new;
                cosigned += 1;
            }
            Some((409, size)) => old = size.trim().parse().unwrap(),
            Some((status, why)) => panic!("{status}: {why}"),
            None => lost += 1,
        }
        if let Some((status, _)) = ask(fork.request(old.max(12), 60)).await {
            assert!([409, 422].contains(&status), "{status}");
        }
        // Another log is answered at once, whatever becomes of this one.
        other.grow("trunk", n + 2);
        assert_eq!(running.ask(other.request(n, n + 1)).await.status, 200);
        let shown = running.newest(&log.origin).await;
        let size = shown
            .as_ref()
            .map_or(0, |head| usize::try_from(head.size).unwrap());
        assert!(size >= old, "what was answered was stored");
        assert!(
            shown.is_none_or(|head| head == log.head(size)),
            "one history"
        );
        if old == 60 {
            break;
        }
    }
    assert!(lost > 0 && cosigned > 0);
    running.stop().await;
}

/// The same without long waits at first: a witness gives its peer more time than a test has.
const FATES_OF_PEERS: &[Fate] = &[
    Fate::CutDown(200),
    Fate::Late(5),
    Fate::Drips,
    Fate::CutUp(90),
    Fate::Passes,
    Fate::HalfOpen,
];

/// Peers that do everything but answer.
async fn bad_peers() -> Vec<String> {
    let mut peers = Vec::new();
    for manner in 0..6 {
        let (listener, address) = listener().await;
        peers.push(format!("http://{address}"));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut request = [0; 1024];
                    let _ = stream.read(&mut request).await;
                    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
                    let answer = match manner {
                        0 => std::future::pending().await, // never
                        1 => return,
                        2 => "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n".into(),
                        3 => format!("{head}content-length: 9\r\n\r\nnonsense\n"),
                        4 => format!("{head}\r\n{}", "[".repeat(4 << 20)),
                        _ => format!("{head}content-length: 100000\r\n\r\n{{\"heads\":["),
                    };
                    let _ = stream.write_all(answer.as_bytes()).await;
                    if manner == 5 {
                        // A byte a second, until it is given up.
                        while stream.write_all(b" ").await.is_ok() {
                            tokio::time::sleep(Duration::from_secs(1)).await;
                        }
                    }
                });
            }
        });
    }
    peers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_peers_and_a_bad_network_between_witnesses_hold_up_nothing() {
    let log = TestLog::new("between.example", 60);
    let (fork, honest) = (log.fork(9, "fork"), TestLog::new("honest.example", 60));
    let hash = origin_hash(&log.origin);
    let mut additions = [log.addition(), honest.addition()];
    additions[0].url = Some(log_server(&fork).await);
    let second = gossiper(&additions);
    cosigned(&second, &fork, 31).await;
    cosigned(&second, &honest, 31).await;
    let second = Running::with_gossip(second, &peers(&[])).await;
    additions[0].url = Some(log_server(&log).await);
    let first = gossiper(&additions);
    cosigned(&first, &log, 20).await;
    cosigned(&first, &honest, 20).await;
    let mut all = bad_peers().await;
    all.push(format!(
        "http://{}",
        proxy(second.address, FATES_OF_PEERS).await
    ));
    let first = Running::with_gossip(first, &peers(&all)).await;
    eventually("evidence", || first.witness.forks().holds(&hash)).await;
    assert_eq!(first.ask(honest.request(20, 40)).await.status, 200);
    let failing = || {
        let peers = first.witness.board().peers();
        peers.iter().filter(|peer| peer.error.is_some()).count() >= 3
    };
    eventually("errors of peers", failing).await;
    assert_eq!(first.witness.forks().len(), 1, "nobody else is accused");
    first.stop().await;
    second.stop().await;
}
