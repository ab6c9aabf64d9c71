//! `/log/<account>/…`: the tree as C2SP clients read it, and evidence out of it.

use axum::{
    extract::{Path, Query, State, rejection::QueryRejection},
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse, Response},
};
use countersign_log::{Reader, serve};
use countersign_verifier::hash::Hash;
use serde::Deserialize;
use serde_json::json;

use super::{Shared, readable};
use crate::{
    account::Account,
    error::{Code, Problem},
    query::{self, By},
    state,
    tools::{head, identity::row},
};

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
/// What follows the newest checkpoint is good for that long.
const NO_STORE: &str = "no-store";

/// Runs a read of one account's log where blocking is allowed.
pub(super) async fn read(
    app: Shared,
    account: &str,
    headers: HeaderMap,
    work: impl FnOnce(&Account, &HeaderMap) -> Result<Response, Problem> + Send + 'static,
) -> Response {
    let account = match readable(&app, account, &headers) {
        Ok(account) => account.clone(),
        Err(problem) => return open_to_all(problem.into_response()),
    };
    let public = account.public;
    let read = move || work(&account, &headers).unwrap_or_else(IntoResponse::into_response);
    let answer = tokio::task::spawn_blocking(read).await;
    let answer = answer.unwrap_or_else(|e| Problem::internal(&e).into_response());
    if public {
        open_to_all(answer)
    } else {
        for_one_alone(answer)
    }
}

/// What anybody may read, a page from anywhere may read too.
fn open_to_all(mut answer: Response) -> Response {
    let headers = answer.headers_mut();
    headers
        .entry(header::ACCESS_CONTROL_ALLOW_ORIGIN)
        .or_insert(HeaderValue::from_static("*"));
    answer
}

/// What was read with a token: no cache may keep it for somebody without one, and no foreign page may read it.
fn for_one_alone(mut answer: Response) -> Response {
    let headers = answer.headers_mut();
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("private, no-store"),
    );
    headers.remove(header::ACCESS_CONTROL_ALLOW_ORIGIN);
    answer
}

pub(super) async fn checkpoint(
    State(app): State<Shared>,
    Path(account): Path<String>,
    headers: HeaderMap,
) -> Response {
    read(app, &account, headers, |account, headers| {
        let reader = &account.reader();
        Ok(serve::checkpoint(reader, headers))
    })
    .await
}

pub(super) async fn tile(
    State(app): State<Shared>,
    Path((account, path)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    read(app, &account, headers, move |account, headers| {
        let reader = &account.reader();
        Ok(serve::resource(reader, &format!("tile/{path}"), headers))
    })
    .await
}

pub(super) async fn policy(
    State(app): State<Shared>,
    Path(account): Path<String>,
    headers: HeaderMap,
) -> Response {
    read(app, &account, headers, |account, headers| {
        let policy = account.policy.clone().into_bytes();
        Ok(serve::found(headers, policy, TEXT, NO_STORE))
    })
    .await
}

pub(super) async fn keys(
    State(app): State<Shared>,
    Path(account): Path<String>,
    headers: HeaderMap,
) -> Response {
    read(app, &account, headers, |account, headers| {
        let (head, state) = account.reader().committed();
        let identities: Vec<_> = state.identities.iter().map(row).collect();
        let body = json!({
            "origin": account.origin,
            "log_vkey": account.vkey,
            "as_of": {"size": head.size},
            "identities": identities,
        });
        Ok(serve::found(
            headers,
            body.to_string().into_bytes(),
            JSON,
            NO_STORE,
        ))
    })
    .await
}

pub(super) async fn heads(
    State(app): State<Shared>,
    Path(account): Path<String>,
    headers: HeaderMap,
) -> Response {
    read(app, &account, headers, |account, headers| {
        let (head, state) = account.reader().committed();
        let logs: Vec<_> = state.heads.iter().map(head::row).collect();
        let body = json!({"as_of": {"size": head.size}, "logs": logs});
        Ok(serve::found(
            headers,
            body.to_string().into_bytes(),
            JSON,
            NO_STORE,
        ))
    })
    .await
}

pub(super) async fn evidence(
    State(app): State<Shared>,
    Path((account, index)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    read(app, &account, headers, move |account, headers| {
        let reader = &account.reader();
        let index = number(&index)?;
        evidence_at(reader, index, headers)
    })
    .await
}

pub(super) async fn evidence_by_hash(
    State(app): State<Shared>,
    Path((account, hash)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    read(app, &account, headers, move |account, headers| {
        let reader = &account.reader();
        let hash = digest("leaf_hash", &hash)?;
        evidence_at(reader, query::index_of(reader, &hash)?, headers)
    })
    .await
}

/// The proof alone where plain text is asked for, else the whole evidence.
fn evidence_at(
    reader: &Reader<state::State>,
    index: u64,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let wants_text = headers
        .get_all(header::ACCEPT)
        .iter()
        .any(|v| v.to_str().is_ok_and(|v| v.contains("text/plain")));
    if wants_text && !serve::accepts_json(headers) {
        let proof = query::proof(reader, index, false)?.0;
        return Ok(serve::found(
            headers,
            proof.to_text().into_bytes(),
            TEXT,
            NO_STORE,
        ));
    }
    Ok(serve::found(
        headers,
        query::evidence(reader, index)?.to_json(),
        JSON,
        NO_STORE,
    ))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Indexes {
    indexes: String,
}

pub(super) async fn evidence_set(
    State(app): State<Shared>,
    Path(account): Path<String>,
    asked: Result<Query<Indexes>, QueryRejection>,
    headers: HeaderMap,
) -> Response {
    read(app, &account, headers, move |account, headers| {
        let reader = &account.reader();
        let asked = parameters(asked)?;
        let indexes: Vec<u64> = asked
            .indexes
            .split(',')
            .map(number)
            .collect::<Result<_, _>>()?;
        Ok(serve::found(
            headers,
            query::evidence_set(reader, &indexes)?.to_json(),
            JSON,
            NO_STORE,
        ))
    })
    .await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lookup {
    payload_sha256: Option<String>,
    subject_sha256: Option<String>,
    after: Option<u64>,
}

pub(super) async fn lookup(
    State(app): State<Shared>,
    Path(account): Path<String>,
    asked: Result<Query<Lookup>, QueryRejection>,
    headers: HeaderMap,
) -> Response {
    read(app, &account, headers, move |account, headers| {
        let reader = &account.reader();
        let asked = parameters(asked)?;
        let by = match (asked.payload_sha256, asked.subject_sha256) {
            (Some(payload), None) => By::Payload(digest("payload_sha256", &payload)?),
            (None, Some(subject)) => By::Subject(digest("subject_sha256", &subject)?),
            _ => {
                return Err(Problem::new(
                    Code::Malformed,
                    "exactly one of payload_sha256 and subject_sha256",
                ));
            }
        };
        let found = query::lookup(reader, by, asked.after)?;
        Ok(serve::found(
            headers,
            found.to_string().into_bytes(),
            JSON,
            NO_STORE,
        ))
    })
    .await
}

pub(super) fn parameters<T>(query: Result<Query<T>, QueryRejection>) -> Result<T, Problem> {
    query
        .map(|Query(q)| q)
        .map_err(|e| Problem::new(Code::Malformed, format!("query: {}", e.body_text())))
}

/// One spelling of a number: digits, no sign, no leading zero.
fn number(text: &str) -> Result<u64, Problem> {
    let parsed = text.parse::<u64>().ok().filter(|n| n.to_string() == text);
    parsed.ok_or_else(|| {
        Problem::new(
            Code::Malformed,
            "an index is a decimal number without sign or leading zero",
        )
    })
}

fn digest(name: &str, text: &str) -> Result<Hash, Problem> {
    Hash::from_hex(text).map_err(|_| {
        Problem::new(
            Code::Malformed,
            format!("{name}: 64 lowercase hexadecimal digits"),
        )
    })
}
