//! The doors of gossip: heads, nodes and evidence for other witnesses and auditors.

use std::sync::Arc;

use axum::{
    Json, Router,
    body::Body,
    extract::{Path, Query, State},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use countersign_verifier::checkpoint::MAX_SIZE;
use countersign_verifier::hash::{Hash, HashError};
use countersign_verifier::tree::is_complete;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Semaphore;

use super::{broken, read, text};
use crate::blocking::block;
use crate::gossip::client::{Asking, Client};
use crate::gossip::page;
use crate::gossip::settle::View;
use crate::gossip::weigh::{Glance, Weighed, glance, weigh};
use crate::witness::Witness;

/// Largest body of heads that somebody saw.
pub const SEEN_BYTES_MAX: usize = 64 * 1024;
/// Most heads in it.
pub const SEEN_HEADS_MAX: usize = 16;
/// Answers at once that read many records, or ask a log; more are sent away.
const PLACES: usize = 8;

struct Doors {
    witness: Arc<Witness>,
    client: Arc<Client>,
    /// For pages.
    pages: Semaphore,
    /// For what asks a log.
    asking: Semaphore,
    weighing: Semaphore,
}

/// Where to go on.
#[derive(Debug, Deserialize)]
struct From {
    after: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Place {
    size: u64,
    level: u8,
    index: u64,
}

#[derive(Debug, Deserialize)]
struct Submitted {
    heads: Vec<String>,
}

/// The routes below `gossip/`.
pub fn router(witness: Arc<Witness>, client: Arc<Client>) -> Router {
    let doors = Doors {
        witness,
        client,
        pages: Semaphore::new(PLACES),
        asking: Semaphore::new(PLACES),
        weighing: Semaphore::new(PLACES),
    };
    Router::new()
        .route("/gossip/heads", get(heads).post(submit))
        .route("/gossip/forks", get(forks))
        .route("/gossip/forks/{log}", get(evidence))
        .route("/gossip/node/{log}", get(node))
        .with_state(Arc::new(doors))
}

async fn heads(State(doors): State<Arc<Doors>>, Query(from): Query<From>) -> Response {
    let Ok(_place) = doors.pages.try_acquire() else {
        return busy();
    };
    let after = match after(&from) {
        Ok(after) => after,
        Err(why) => return not_a_hash(&why),
    };
    let witness = doors.witness.clone();
    match block(move || page::heads(&witness, after.as_ref())).await {
        Ok(page) => fresh(Json(page)),
        Err(error) => {
            tracing::error!(%error, "the store cannot be read");
            broken()
        }
    }
}

async fn forks(State(doors): State<Arc<Doors>>, Query(from): Query<From>) -> Response {
    match after(&from) {
        Ok(after) => fresh(Json(page::forks(&doors.witness, after.as_ref()))),
        Err(why) => not_a_hash(&why),
    }
}

async fn evidence(State(doors): State<Arc<Doors>>, Path(log): Path<String>) -> Response {
    let Ok(log) = Hash::from_hex(&log) else {
        return no_such_log();
    };
    let witness = doors.witness.clone();
    match block(move || witness.forks().evidence(&log)).await {
        Ok(Some(file)) => fresh(([(header::CONTENT_TYPE, "application/json")], file)),
        Ok(None) => text(StatusCode::NOT_FOUND, "no evidence against such a log\n"),
        Err(error) => {
            tracing::error!(%error, "evidence cannot be read");
            broken()
        }
    }
}

/// A node as the log shows it to this witness. It asks the log's configured address and no other, and hands on hashes alone.
async fn node(
    State(doors): State<Arc<Doors>>,
    Path(log): Path<String>,
    Query(place): Query<Place>,
) -> Response {
    let Place { size, level, index } = place;
    if size > MAX_SIZE || !is_complete(level, index, size) {
        return text(StatusCode::BAD_REQUEST, "no complete node of such a tree\n");
    }
    let Ok(log) = Hash::from_hex(&log) else {
        return no_such_log();
    };
    let entry = match doors.witness.roster().get(&log) {
        Ok(entry) => entry,
        Err(error) => {
            tracing::error!(%error, "the roster cannot be read");
            return broken();
        }
    };
    let Some(url) = entry.and_then(|entry| entry.url) else {
        return no_such_log();
    };
    let Ok(_place) = doors.asking.try_acquire() else {
        return busy();
    };
    let asking = Asking::new(&doors.client, Some(&url), None);
    match asking.node(0, size, level, index).await {
        Some(hashes) => {
            let lines: String = hashes.iter().map(|hash| hash.to_base64() + "\n").collect();
            text(StatusCode::OK, lines)
        }
        None => text(StatusCode::BAD_GATEWAY, "the log does not show it here\n"),
    }
}

/// Heads that an auditor saw. Only what a known log signed is looked at.
async fn submit(State(doors): State<Arc<Doors>>, body: Body) -> Response {
    let body = match read(body, SEEN_BYTES_MAX).await {
        Ok(body) => body,
        Err(refused) => return refused,
    };
    // Not before the body is here: whoever sends one slowly must not hold a place. And not of those that `node` takes.
    let Ok(_place) = doors.weighing.try_acquire() else {
        return busy();
    };
    let heads = match serde_json::from_slice::<Submitted>(&body) {
        Ok(Submitted { heads }) if heads.len() <= SEEN_HEADS_MAX => heads,
        Ok(_) => {
            let why = format!("at most {SEEN_HEADS_MAX} heads\n");
            return text(StatusCode::BAD_REQUEST, why);
        }
        Err(why) => return text(StatusCode::BAD_REQUEST, format!("{why}\n")),
    };
    let mut verdicts = Vec::with_capacity(heads.len());
    for note in heads {
        let witness = doors.witness.clone();
        let weighed = match block(move || glance(&witness, note.as_bytes())).await {
            Ok(Glance::Other(pair)) => {
                let asking = Asking::new(&doors.client, pair.entry.url.as_deref(), None);
                weigh(&doors.witness, &pair, None, &asking).await
            }
            Ok(Glance::Same(_)) => Weighed::Same,
            Ok(Glance::First) => Weighed::First,
            Ok(Glance::Forked) => Weighed::Fork,
            Ok(Glance::Nothing) => Weighed::Unknown,
            Err(error) => {
                tracing::error!(%error, "the store cannot be read");
                return broken();
            }
        };
        doors.witness.metrics().weighed(weighed.word());
        verdicts.push(weighed.word());
    }
    fresh(Json(json!({ "verdicts": verdicts })))
}

fn after(from: &From) -> Result<Option<Hash>, HashError> {
    from.after.as_deref().map(Hash::from_hex).transpose()
}

fn not_a_hash(why: &HashError) -> Response {
    text(StatusCode::BAD_REQUEST, format!("after: {why}\n"))
}

fn fresh(answer: impl IntoResponse) -> Response {
    ([(header::CACHE_CONTROL, "no-store")], answer).into_response()
}

fn no_such_log() -> Response {
    text(
        StatusCode::NOT_FOUND,
        "no such log, or none that can be asked\n",
    )
}

fn busy() -> Response {
    let mut busy = text(StatusCode::TOO_MANY_REQUESTS, "not now; ask again later\n");
    let after = HeaderValue::from_static("5");
    busy.headers_mut().insert(header::RETRY_AFTER, after);
    busy
}
