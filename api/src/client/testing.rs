//! A small service that speaks the contract over real HTTP, and does what a test tells it to.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, State},
    http::{Method, StatusCode, Uri, header::HeaderMap},
    response::Response,
};
use countersign_verifier::{
    evidence::Evidence,
    hash::{Hash, leaf_hash},
    proof::TlogProof,
};
use serde_json::{Value, json};

use super::EvidenceFile;

/// What was asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) target: String,
    pub(crate) content_type: String,
    pub(crate) authorization: Option<String>,
    pub(crate) body: Vec<u8>,
}

/// Status, headers, body.
pub(crate) type Scripted = (u16, Vec<(&'static str, String)>, Vec<u8>);

#[derive(Default)]
pub(crate) struct Inner {
    pub(crate) asked: Vec<Asked>,
    /// Answers that are given first, whatever is asked.
    pub(crate) script: VecDeque<Scripted>,
    /// So many requests for evidence are answered with "not yet" first.
    pub(crate) not_yet: usize,
    /// Leaves are sequenced only, under 202.
    pub(crate) slow: bool,
    leaves: Vec<Vec<u8>>,
    known: HashMap<Vec<u8>, u64>,
    turned_away: HashMap<Vec<u8>, usize>,
}

/// The service.
pub(crate) struct Fake {
    pub(crate) url: String,
    inner: Arc<Mutex<Inner>>,
}

impl Fake {
    pub(crate) async fn start() -> Fake {
        let inner = Arc::new(Mutex::new(Inner::default()));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new()
            .fallback(answer)
            .layer(DefaultBodyLimit::disable())
            .with_state(inner.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Fake { url, inner }
    }

    pub(crate) fn client(&self) -> super::Client {
        super::Client::new(&self.url, "dev", None).unwrap()
    }

    pub(crate) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    pub(crate) fn first_answer(
        &self,
        status: u16,
        headers: &[(&'static str, &str)],
        body: impl Into<Vec<u8>>,
    ) {
        let headers = headers
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()))
            .collect();
        self.inner()
            .script
            .push_back((status, headers, body.into()));
    }
}

async fn answer(
    State(inner): State<Arc<Mutex<Inner>>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let mut inner = inner.lock().unwrap();
    let text = |name: &str| headers.get(name).map(|v| v.to_str().unwrap().to_owned());
    inner.asked.push(Asked {
        target: uri.to_string(),
        content_type: text("content-type").unwrap_or_default(),
        authorization: text("authorization"),
        body: body.to_vec(),
    });
    if let Some((status, headers, body)) = inner.script.pop_front() {
        let builder = headers
            .into_iter()
            .fold(Response::builder().status(status), |b, (name, value)| {
                b.header(name, value)
            });
        return builder.body(Body::from(body)).unwrap();
    }
    let parts: Vec<&str> = uri.path().split('/').skip(1).collect();
    match (method.as_str(), parts.as_slice()) {
        ("GET", ["health"]) => json_answer(
            200,
            &json!({"status": "ok", "version": "0", "limits": {}, "clock_offset_ms": 0,
                "accounts": [{"name": "dev", "origin": "localhost/dev", "size": 1, "witnessed_size": 1}]}),
        ),
        ("POST", ["log", "dev", "receipts"]) => {
            receipts(&mut inner, text("content-type").as_deref(), &body)
        }
        ("GET", ["log", "dev", "evidence", "hash", hash]) => {
            let found = inner
                .leaves
                .iter()
                .position(|leaf| leaf_hash(leaf).to_hex() == *hash);
            evidence(&mut inner, found)
        }
        ("GET", ["log", "dev", "evidence", index]) => {
            let index = index.parse().ok().filter(|i| *i < inner.leaves.len());
            evidence(&mut inner, index)
        }
        ("POST", ["v1", tool]) => {
            json_answer(200, &json!({"result": {"tool": tool}, "server_time": "x"}))
        }
        _ => problem(404, "NOT_FOUND"),
    }
}

fn receipts(inner: &mut Inner, content_type: Option<&str>, body: &[u8]) -> Response {
    if content_type == Some("application/vnd.dsse.envelope.v1+json") {
        let (status, value) = judge(inner, body);
        return json_answer(status, &value);
    }
    let mut text = Vec::new();
    for (i, line) in body
        .split(|b| *b == b'\n')
        .enumerate()
        .filter(|(_, line)| !line.is_empty())
    {
        let (status, mut value) = judge(inner, line);
        value["line"] = (i + 1).into();
        value["status"] = status.into();
        text.extend(value.to_string().into_bytes());
        text.push(b'\n');
    }
    Response::builder()
        .status(200)
        .header("content-type", "application/x-ndjson")
        .body(Body::from(text))
        .unwrap()
}

/// Takes everything but what holds `refuse`; what holds `busy` is turned away once.
fn judge(inner: &mut Inner, envelope: &[u8]) -> (u16, Value) {
    let text = String::from_utf8_lossy(envelope).into_owned();
    if text.contains("refuse") {
        return (422, problem_json(422, "SIGNATURE_INVALID"));
    }
    if text.contains("busy") {
        let times = inner.turned_away.entry(envelope.to_vec()).or_default();
        *times += 1;
        if *times == 1 {
            return (503, problem_json(503, "BUSY"));
        }
    }
    let new = inner.leaves.len() as u64;
    let index = *inner.known.entry(envelope.to_vec()).or_insert(new);
    if index == new {
        inner.leaves.push(envelope.to_vec());
    }
    let value = json!({
        "index": index,
        "leaf_hash": leaf_hash(envelope).to_hex(),
        "at": "2026-11-29T13:00:00.123Z",
        "state": if inner.slow { "sequenced" } else { "included" },
        "duplicate": index != new,
        "evidence_url": format!("http://localhost/log/dev/evidence/{index}"),
        "an_unknown_member": [1],
    });
    (if inner.slow { 202 } else { 200 }, value)
}

fn evidence(inner: &mut Inner, index: Option<usize>) -> Response {
    let Some(index) = index else {
        return problem(404, "NOT_FOUND");
    };
    if inner.not_yet > 0 {
        inner.not_yet -= 1;
        let mut value = problem_json(404, "NOT_IN_TREE");
        value["retry_after_ms"] = 10.into();
        return json_answer(404, &value);
    }
    Response::new(Body::from(
        evidence_of(index as u64, &inner.leaves[index]).bytes,
    ))
}

fn problem(status: u16, code: &str) -> Response {
    json_answer(status, &problem_json(status, code))
}

fn problem_json(status: u16, code: &str) -> Value {
    json!({"type": "about:blank", "title": "t", "status": status, "code": code, "message": "m", "retryable": matches!(status, 429 | 503), "detail": {}})
}

fn json_answer(status: u16, value: &Value) -> Response {
    let mut answer = Response::new(Body::from(value.to_string()));
    *answer.status_mut() = StatusCode::from_u16(status).unwrap();
    answer
}

/// Evidence of the right form, which nobody could verify.
pub(crate) fn evidence_of(index: u64, leaf: &[u8]) -> EvidenceFile {
    let proof = TlogProof {
        extra: None,
        index,
        path: vec![Hash([7; 32])],
        checkpoint: "localhost/dev\n".into(),
    };
    let evidence = Evidence {
        leaf: leaf.to_vec(),
        proof,
        support: Vec::new(),
    };
    EvidenceFile {
        index,
        leaf_hash: leaf_hash(leaf),
        bytes: evidence.to_json(),
    }
}
