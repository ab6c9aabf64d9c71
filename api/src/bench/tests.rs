//! The generator against a small server: nothing here looks at how long anything takes.

use std::{
    collections::HashSet,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, Uri, header},
    response::Response,
    routing::post,
};
use countersign_verifier::{
    dsse::Envelope,
    key::{Algorithm, PrivateKey},
};
use http_body_util::{BodyExt as _, Full};

use super::{
    answers::Wait,
    load::{self, Door, Load},
    material::Receipts,
};

/// What the server has seen.
#[derive(Default)]
struct Seen {
    next: AtomicU64,
    queries: Mutex<HashSet<String>>,
    payloads: Mutex<Vec<Vec<u8>>>,
    /// Every so many requests one is answered with 503.
    busy_every: u64,
}

impl Seen {
    fn take(&self, line: &[u8]) -> u64 {
        let envelope = Envelope::parse(line).expect("an envelope");
        self.payloads
            .lock()
            .expect("no panic")
            .push(envelope.payload);
        self.next.fetch_add(1, Ordering::SeqCst)
    }
}

/// Answers receipts: single ones with a length and a closed connection now and then, lines in chunks.
async fn receipts(
    State(seen): State<Arc<Seen>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    seen.queries
        .lock()
        .expect("no panic")
        .insert(uri.to_string());
    if headers[header::CONTENT_TYPE] == "application/x-ndjson" {
        let lines = body.split(|b| *b == b'\n').filter(|line| !line.is_empty());
        let answers: String = lines
            .enumerate()
            .map(|(at, line)| {
                format!(
                    "{{\"line\":{},\"status\":200,\"index\":{},\"state\":\"included\"}}\n",
                    at + 1,
                    seen.take(line)
                )
            })
            .collect();
        // A mapped body no longer knows its length, so it goes out in chunks.
        return Response::new(Body::new(
            Full::new(Bytes::from(answers)).map_frame(|frame| frame),
        ));
    }
    let index = seen.take(&body);
    let response = Response::builder();
    if seen.busy_every > 0 && index % seen.busy_every == 0 {
        return response
            .status(503)
            .body(Body::from("{\"code\":\"BUSY\"}"))
            .expect("a response");
    }
    let response = if index % 7 == 0 {
        response.header(header::CONNECTION, "close")
    } else {
        response
    };
    response
        .body(Body::from(format!(
            "{{\"index\":{index},\"state\":\"included\"}}"
        )))
        .expect("a response")
}

/// Runs `client` against the server, on a thread of its own as a bench does.
fn against<T: Send + 'static>(
    busy_every: u64,
    client: impl FnOnce(SocketAddr) -> T + Send + 'static,
) -> (T, Arc<Seen>) {
    let seen = Arc::new(Seen {
        busy_every,
        ..Seen::default()
    });
    let app = Router::new()
        .route("/log/dev/receipts", post(receipts))
        .with_state(seen.clone());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let result = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move {
            axum::serve(
                listener,
                app.layer(axum::extract::DefaultBodyLimit::disable()),
            )
            .await
        });
        tokio::task::spawn_blocking(move || client(address))
            .await
            .expect("no panic")
    });
    (result, seen)
}

fn load_of(address: SocketAddr, count: u64, per_request: usize, window_ms: u64) -> Load {
    let key = PrivateKey::from_secret(Algorithm::Ed25519, &[7; 32]).expect("a seed");
    Load {
        door: Door {
            address,
            log: "/log/dev".into(),
        },
        receipts: Arc::new(Receipts::sign(&key, 1, 0..count, 100).expect("signed")),
        per_request,
        wait: Wait::Included,
        warm_up: Duration::from_millis(1),
        window: Duration::from_millis(window_ms),
    }
}

/// Every receipt was sent at most once, and in whole.
fn distinct(seen: &Seen) -> usize {
    let payloads = seen.payloads.lock().expect("no panic");
    let distinct: HashSet<&Vec<u8>> = payloads.iter().collect();
    assert_eq!(distinct.len(), payloads.len());
    assert!(payloads.iter().all(|payload| payload.len() == 100));
    payloads.len()
}

#[test]
fn a_closed_loop_counts_what_the_server_took() {
    let (measured, seen) = against(0, |address| {
        load::closed(load_of(address, 3000, 1, 10_000), 8).expect("measured")
    });
    assert!(measured.ran_out, "the window is longer than the material");
    assert_eq!((measured.accepted_in_all, distinct(&seen)), (3000, 3000));
    assert!(measured.accepted <= 3000 && measured.accepted == measured.latencies.len() as u64);
    assert_eq!((measured.refused, measured.complaint), (0, None));
    assert_eq!(
        *seen.queries.lock().expect("no panic"),
        HashSet::from(["/log/dev/receipts?wait=included".to_owned()])
    );
    let payloads = seen.payloads.lock().expect("no panic");
    let sent = load_of(([127, 0, 0, 1], 1).into(), 3000, 1, 1).receipts;
    for (at, index) in measured.sample {
        let payload = Envelope::parse(sent.one(at)).expect("an envelope").payload;
        assert_eq!(
            payloads
                .iter()
                .position(|p| *p == payload)
                .map(|p| p as u64),
            Some(index)
        );
    }
}

#[test]
fn lines_are_sent_in_whole_bodies() {
    let (measured, seen) = against(0, |address| {
        load::closed(load_of(address, 2550, 100, 10_000), 3).expect("measured")
    });
    assert_eq!(
        (measured.accepted_in_all, distinct(&seen)),
        (2500, 2500),
        "50 are left over"
    );
    assert_eq!(measured.accepted % 100, 0);
}

#[test]
fn refusals_are_counted_apart() {
    let (measured, seen) = against(10, |address| {
        load::closed(load_of(address, 1000, 1, 10_000), 4).expect("measured")
    });
    assert_eq!(
        (measured.accepted_in_all, measured.refused, distinct(&seen)),
        (900, 100, 1000)
    );
    assert!(measured.complaint.expect("one").contains("BUSY"));
}

#[test]
fn an_open_loop_sends_at_its_rate() {
    let (measured, seen) = against(0, |address| {
        load::open(load_of(address, 5000, 1, 300), 500.0).expect("measured")
    });
    assert_eq!(measured.accepted_in_all, distinct(&seen) as u64);
    assert!(!measured.ran_out && measured.accepted > 0 && measured.accepted < 5000);
}

#[test]
fn material_that_is_gone_too_soon_is_an_error() {
    let (measured, _) = against(0, |address| {
        let load = Load {
            warm_up: Duration::from_secs(60),
            ..load_of(address, 10, 1, 1)
        };
        load::closed(load, 2)
    });
    assert!(measured.is_err());
}

#[test]
fn a_server_that_is_not_there_is_an_error() {
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|l| l.local_addr())
        .expect("a port");
    assert!(load::closed(load_of(port, 10, 1, 1), 2).is_err());
    assert!(load::open(load_of(port, 10, 1, 100), 1000.0).is_err());
}
