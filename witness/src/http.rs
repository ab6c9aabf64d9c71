//! The public door (c2sp.org/tlog-witness): answers as the specification has them, everything else plain text.

pub mod admin;
pub mod crowd;
pub mod gossip;
pub mod listen;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Path, State},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use countersign_verifier::add_checkpoint::{CONFLICT_TYPE, conflict};
use countersign_verifier::hash::Hash;
use countersign_verifier::limits::ADD_CHECKPOINT_BYTES_MAX;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::decide::{Refusal, SubtreeRefusal};
use crate::gossip::client::Client;
use crate::gossip::doubt::Doubts;
use crate::metrics::Now;
use crate::witness::{Answer, Witness};

const TEXT: &str = "text/plain; charset=utf-8";
/// Whoever does not send its body by then holds a place that is somebody else's.
const BODY_TIME: Duration = Duration::from_secs(10);

/// The witness's public routes.
pub fn router(witness: Arc<Witness>, client: Arc<Client>) -> Router {
    let below_gossip = gossip::router(witness.clone(), client.clone());
    let doubts = Doubts::new(witness.clone(), client);
    let add = move |State(witness), body| add_checkpoint(witness, doubts, body);
    Router::new()
        .route("/", get(about))
        .route("/add-checkpoint", post(add))
        .route("/sign-subtree", post(sign_subtree))
        .route("/{log}/checkpoint", get(newest))
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .with_state(witness)
        .merge(below_gossip)
        .fallback(|| async { text(StatusCode::NOT_FOUND, "there is nothing here\n") })
        .method_not_allowed_fallback(|| async {
            text(StatusCode::METHOD_NOT_ALLOWED, "not by this method\n")
        })
}

async fn add_checkpoint(witness: Arc<Witness>, doubts: Arc<Doubts>, body: Body) -> Response {
    let answer = match read(body, ADD_CHECKPOINT_BYTES_MAX).await {
        Ok(body) => {
            let answer = witness.add_checkpoint(&body).await;
            if matches!(answer, Answer::Refused(Refusal::Proof(_))) {
                doubts.settle(body);
            }
            say(answer)
        }
        Err(refused) => refused,
    };
    let status = answer.status().as_u16();
    witness.metrics().answered("add-checkpoint", status);
    answer
}

async fn sign_subtree(State(witness): State<Arc<Witness>>, body: Body) -> Response {
    let answer = match read(body, ADD_CHECKPOINT_BYTES_MAX).await {
        Ok(body) => match witness.sign_subtree(&body) {
            Ok(line) => text(StatusCode::OK, line),
            Err(SubtreeRefusal::Store(error)) => {
                tracing::error!(%error, "the roster cannot be read");
                broken()
            }
            Err(why) => refuse(why.status(), &why),
        },
        Err(refused) => refused,
    };
    let status = answer.status().as_u16();
    witness.metrics().answered("sign-subtree", status);
    answer
}

/// A refusal in its own words.
fn refuse(status: u16, why: &dyn std::fmt::Display) -> Response {
    // OK because refusals name statuses of HTTP only.
    let status = StatusCode::from_u16(status).expect("http::refuse");
    text(status, format!("{why}\n"))
}

/// An answer in HTTP.
fn say(answer: Answer) -> Response {
    match answer {
        Answer::Cosigned(lines) => text(StatusCode::OK, lines),
        Answer::Conflict(size) => {
            // Exactly this type: strict clients take a parameter for another one.
            let kind = [(header::CONTENT_TYPE, CONFLICT_TYPE)];
            (StatusCode::CONFLICT, kind, conflict(size)).into_response()
        }
        Answer::Refused(why) => refuse(why.status(), &why),
        Answer::Busy(after_s) => {
            let mut busy = text(StatusCode::TOO_MANY_REQUESTS, "not now; ask again later\n");
            busy.headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from(after_s));
            busy
        }
        Answer::Failed => broken(),
    }
}

async fn newest(State(witness): State<Arc<Witness>>, Path(log): Path<String>) -> Response {
    let answer = match Hash::from_hex(&log).map(|log| witness.newest(&log)) {
        Ok(Ok(Some(record))) => text(StatusCode::OK, record.note()),
        Ok(Ok(None)) => text(
            StatusCode::NOT_FOUND,
            "no head of such a log was cosigned here\n",
        ),
        Ok(Err(error)) => {
            tracing::error!(%error, "the store cannot be read");
            broken()
        }
        Err(_) => text(
            StatusCode::NOT_FOUND,
            "not the SHA-256 of an origin in lowercase hexadecimal\n",
        ),
    };
    let status = answer.status().as_u16();
    witness.metrics().answered("checkpoint", status);
    answer
}

async fn about(State(witness): State<Arc<Witness>>) -> Response {
    let keys = witness.keys();
    let mut page = format!(
        "Witness {}\n\nIt cosigns the checkpoints of {} configured logs, of each one branch only (c2sp.org/tlog-witness).\n\nKeys:\n",
        keys.name(),
        witness.roster().len()
    );
    for vkey in keys.vkeys() {
        page += &format!("  {vkey}\n");
    }
    page += "\nBelow the address of this page:\n  POST add-checkpoint\n  POST sign-subtree\n  GET  <SHA-256 of the origin, hexadecimal>/checkpoint\n  GET  gossip/heads, gossip/forks, gossip/forks/<SHA-256 of the origin>\n  POST gossip/heads\n";
    let lists = witness.roster().lists();
    page += "\nLists that logs were added from, by hand; a list never changes a log that is configured:\n";
    for list in &lists {
        page += &format!("  {list}\n");
    }
    if lists.is_empty() {
        page += "  none\n";
    }
    text(StatusCode::OK, page)
}

async fn health(State(witness): State<Arc<Witness>>) -> Response {
    let unwritten = witness.forks().unwritten();
    let (status, word) = match witness.is_running() {
        true if unwritten == 0 => (StatusCode::OK, "ok"),
        // It cosigns; what it must not lose lies in memory.
        true => (StatusCode::OK, "degraded"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "stopped"),
    };
    let (unresolved, unresolved_since) = witness.board().open_rows();
    let peers = witness.board().peers();
    let failing = peers.iter().filter(|peer| peer.failing_since.is_some());
    let body = serde_json::json!({
        "status": word,
        "version": env!("CARGO_PKG_VERSION"),
        "name": witness.keys().name(),
        "logs": witness.roster().len(),
        "forks": witness.roster().forked().len(),
        "forks_unwritten": unwritten,
        "unresolved": unresolved,
        "unresolved_since": unresolved_since,
        "peers": peers.len(),
        "peers_failing": failing.count(),
    });
    (status, axum::Json(body)).into_response()
}

async fn metrics(State(witness): State<Arc<Witness>>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let (unresolved, since) = witness.board().open_rows();
    let text = witness.metrics().render(&Now {
        logs: witness.roster().len(),
        forks: witness.roster().forked().len() as u64,
        forks_later: witness.forks().later(),
        unresolved,
        unresolved_since: since.unwrap_or(0),
        unresolved_dropped: witness.board().dropped(),
        unwritten: witness.forks().unwritten(),
    });
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// A body of at most `most` bytes that comes in time.
pub(crate) async fn read(body: Body, most: usize) -> Result<Bytes, Response> {
    let whole = Limited::new(body, most).collect();
    match tokio::time::timeout(BODY_TIME, whole).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(text(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("at most {most} bytes\n"),
        )),
        Ok(Err(_)) => Err(text(StatusCode::BAD_REQUEST, "the body was cut short\n")),
        Err(_) => Err(text(
            StatusCode::REQUEST_TIMEOUT,
            "the body came too slowly\n",
        )),
    }
}

pub(crate) fn text(status: StatusCode, body: impl Into<Body>) -> Response {
    let headers = [
        (header::CONTENT_TYPE, TEXT),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (status, headers, body.into()).into_response()
}

/// 500, without a word about what is inside.
pub(crate) fn broken() -> Response {
    text(
        StatusCode::INTERNAL_SERVER_ERROR,
        "the witness cannot tell what is stored; ask again\n",
    )
}
