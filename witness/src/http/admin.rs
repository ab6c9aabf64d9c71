//! The operator's socket, `admin.sock` in the witness's directory (mode 0600): how `add-log` and `list` reach a running witness.

use std::{
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use axum::{
    Json, Router,
    body::Body,
    extract::{Query, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use bytes::Bytes;
use countersign_verifier::hash::Hash;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::net::{UnixListener, UnixStream};

use super::{broken, read, text};
use crate::blocking::block;
use crate::gossip::board::Unresolved;
use crate::roster::{Addition, Outcome};
use crate::store::StoreError;
use crate::tally;
use crate::witness::{Row, Witness};

/// Most logs of one request.
pub const PAGE: usize = 1_000;
/// A page of additions or logs: 1,000 of at most 8 keys; usual ones have 500 bytes.
const BODY_BYTES_MAX: usize = 16 << 20;

/// A log as `list` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// SHA-256 of the origin, hexadecimal.
    pub log: String,
    /// The origin.
    pub origin: String,
    /// Its keys.
    pub vkeys: Vec<String>,
    /// Requests a day that a list announced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qpd: Option<u32>,
    /// The list that it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<String>,
    /// Size of the newest cosigned head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Its root, base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// When it was cosigned, POSIX seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cosigned_at: Option<u64>,
    /// How long ago that is, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_s: Option<u64>,
    /// Where it is asked for proofs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Not listed to others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub private: bool,
    /// Peers of a private log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<String>,
    /// Whether there is evidence that it showed two histories.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forked: bool,
    /// Since when, POSIX seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_at: Option<u64>,
    /// Heads of peers that could not be settled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unresolved: Vec<Unresolved>,
    /// Requests since midnight UTC.
    pub requests_today: u64,
    /// Refused requests since the log is known.
    pub refusals: u64,
}

/// Where to go on.
#[derive(Debug, Deserialize)]
struct From {
    after: Option<String>,
}

impl Listed {
    /// As a witness with this clock, POSIX seconds, shows it.
    #[must_use]
    pub fn new(row: &Row, now: u64) -> Listed {
        let record = row.record.as_ref();
        Listed {
            log: row.log.to_hex(),
            origin: row.entry.origin.clone(),
            vkeys: row.entry.keys.iter().map(ToString::to_string).collect(),
            qpd: row.entry.qpd,
            list: row.entry.list.clone(),
            size: record.map(|r| r.checkpoint.size),
            root: record.map(|r| r.checkpoint.root.to_base64()),
            cosigned_at: record.map(|r| r.time),
            age_s: record.map(|r| now.saturating_sub(r.time)),
            url: row.entry.url.clone(),
            private: row.entry.private,
            peers: row.entry.peers.clone(),
            forked: row.forked,
            forked_at: row.entry.forked,
            unresolved: row.unresolved.clone(),
            requests_today: row.tally.on(tally::day(now)),
            refusals: row.tally.refusals,
        }
    }
}

/// The operator's routes.
pub fn router(witness: Arc<Witness>) -> Router {
    Router::new()
        .route("/logs", get(list).post(add))
        .with_state(witness)
}

/// Takes the socket's place; the caller holds the witness's store, so that one found there is a leftover.
///
/// # Errors
/// What the system says.
pub fn bind(path: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

async fn list(State(witness): State<Arc<Witness>>, Query(from): Query<From>) -> Response {
    let after = match from.after.as_deref().map(Hash::from_hex).transpose() {
        Ok(after) => after,
        Err(why) => return text(StatusCode::BAD_REQUEST, format!("{why}\n")),
    };
    let listed = block(move || {
        let (rows, now) = (witness.rows(after.as_ref(), PAGE)?, witness.now());
        let listed = rows.iter().map(|row| Listed::new(row, now));
        Ok::<Vec<Listed>, StoreError>(listed.collect())
    });
    match listed.await {
        Ok(rows) => Json(rows).into_response(),
        Err(error) => {
            tracing::error!(%error, "the store cannot be read");
            broken()
        }
    }
}

async fn add(State(witness): State<Arc<Witness>>, body: Body) -> Response {
    let body = match read(body, BODY_BYTES_MAX).await {
        Ok(body) => body,
        Err(refused) => return refused,
    };
    let additions: Vec<Addition> = match serde_json::from_slice(&body) {
        Ok(additions) => additions,
        Err(why) => return text(StatusCode::BAD_REQUEST, format!("{why}\n")),
    };
    match block(move || witness.roster().add(&additions)).await {
        Ok(outcomes) => Json(outcomes).into_response(),
        Err(error) => {
            tracing::error!(%error, "no log was added");
            broken()
        }
    }
}

/// The client of that socket.
#[derive(Clone, Debug)]
pub struct Socket(PathBuf);

/// Why a running witness did not do what its operator asked.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Nobody listens.
    #[error("{path}: {source}", path = path.display())]
    Absent {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It broke off.
    #[error("the running witness broke off: {0}")]
    Broken(String),
    /// It said no.
    #[error("the running witness answered {status}: {message}")]
    Refused {
        /// Status of HTTP.
        status: u16,
        /// Its words.
        message: String,
    },
}

impl Socket {
    /// The socket at `path`.
    #[must_use]
    pub fn new(path: PathBuf) -> Socket {
        Socket(path)
    }

    /// Up to [`PAGE`] logs behind `after`.
    ///
    /// # Errors
    /// [`SocketError`].
    pub async fn list(&self, after: Option<&str>) -> Result<Vec<Listed>, SocketError> {
        let target = match after {
            None => "/logs".to_owned(),
            Some(after) => format!("/logs?after={after}"),
        };
        self.ask("GET", &target, Bytes::new()).await
    }

    /// Adds up to [`PAGE`] logs.
    ///
    /// # Errors
    /// [`SocketError`].
    pub async fn add(&self, additions: &[Addition]) -> Result<Vec<Outcome>, SocketError> {
        let body = serde_json::to_vec(additions).map_err(broke)?;
        self.ask("POST", "/logs", body.into()).await
    }

    async fn ask<T: serde::de::DeserializeOwned>(
        &self,
        method: &str,
        target: &str,
        body: Bytes,
    ) -> Result<T, SocketError> {
        let stream = UnixStream::connect(&self.0).await;
        let stream = stream.map_err(|source| SocketError::Absent {
            path: self.0.clone(),
            source,
        })?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(broke)?;
        let connection = tokio::spawn(connection);
        let request = hyper::Request::builder()
            .method(method)
            .uri(target)
            .header("host", "localhost")
            .body(Full::new(body))
            .map_err(broke)?;
        let answer = sender.send_request(request).await.map_err(broke)?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), BODY_BYTES_MAX);
        let body = body.collect().await.map_err(broke)?.to_bytes();
        connection.abort();
        if !status.is_success() {
            return Err(SocketError::Refused {
                status: status.as_u16(),
                message: String::from_utf8_lossy(&body).trim_end().to_owned(),
            });
        }
        serde_json::from_slice(&body).map_err(broke)
    }
}

fn broke(why: impl std::fmt::Display) -> SocketError {
    SocketError::Broken(why.to_string())
}
