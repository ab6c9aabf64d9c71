//! `/v1/blobs`: bodies beside the log, in and out, a piece at a time.

mod asked;
mod send;

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::{Path, Query, Request as HttpRequest, State, rejection::QueryRejection},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::{Bytes, BytesMut};
use countersign_verifier::hash::Hash;
use http_body_util::BodyExt as _;
use serde::Deserialize;
use serde_json::json;

use self::asked::{Granted, Said, digest, erased, may_keep, may_read, usable};
use super::{Shared, answer, body, logs::parameters};
use crate::{
    account::Account,
    app::App,
    blobs::{self, About, Kept, Upload},
    error::{Code, Problem},
    limits::{BLOB_BYTES_MAX, BODY_BYTES_MAX},
};

/// A body is handed to the disk in pieces of this many bytes: with what hyper holds, the memory that one on its way in takes.
const PIECE: usize = 192 << 10;
/// What is taken of the memory for bodies while one comes in: a piece and a third. As much as an envelope may take, which never has to
/// give way to others.
const HELD_BYTES: usize = BODY_BYTES_MAX;
const FULL: &str = "bodies of other requests fill the memory set aside for them; see `body_memory_bytes` in /health";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Named {
    account: Option<String>,
}

pub(super) async fn put(
    State(app): State<Shared>,
    named: Result<Query<Named>, QueryRejection>,
    request: HttpRequest,
) -> Response {
    take(&app, named, request)
        .await
        .unwrap_or_else(IntoResponse::into_response)
}

async fn take(
    app: &Arc<App>,
    named: Result<Query<Named>, QueryRejection>,
    request: HttpRequest,
) -> Result<Response, Problem> {
    body::refuse_encoded(&request)?;
    let named = parameters(named)?.account;
    let mut said = Said::of(request.headers())?;
    let granted = may_keep(app, request.headers(), named.as_deref(), &mut said)?;
    if let Some(bytes) = said.bytes.filter(|bytes| *bytes > BLOB_BYTES_MAX) {
        return Err(blobs::too_large().with("bytes", bytes));
    }
    let account = granted.account.clone();
    usable(&account)?;
    if let Some(closed) = account.closed() {
        let refused = Problem::new(Code::LogClosed, closed.to_string());
        return Err(refused.with("closed_index", closed.index));
    }
    if let Some(commitment) = &said.commitment {
        not_erased(app, &account, commitment)?;
    }
    let busy = |why: &str| Problem::new(Code::Busy, why).retry_after(1_000);
    let _place =
        app.uploads.clone().try_acquire_owned().map_err(|_| {
            busy("as many bodies come in as may; see `blob_uploads_max` in /health")
        })?;
    let mut held = app.room.enter().await.map_err(|_| busy(FULL))?;
    held.grow(HELD_BYTES).await.map_err(|_| busy(FULL))?;
    let salt = match said.salt {
        Some(salt) => salt,
        None => {
            let mut salt = [0; 32];
            getrandom::fill(&mut salt).map_err(|e| Problem::internal(&e))?;
            salt
        }
    };
    let about = About::new(&salt, said.media_type.clone(), granted.by);
    let upload = begin(app, &granted, &about, &said).await?;
    let time = Duration::from_secs(app.config.blobs.timeout_s);
    let upload = match tokio::time::timeout(time, collect(request.into_body(), upload)).await {
        Ok(upload) => upload?,
        Err(_) => {
            let why = format!("the body did not arrive within {} s", time.as_secs());
            return Err(Problem::new(Code::Timeout, why).retry_after(1_000));
        }
    };
    held.complete(app.turn()?);
    let commitment = upload.commitment();
    is_as_said(&said, &commitment, upload.bytes())?;
    not_erased(app, &account, &commitment)?;
    let kept = blocking(move || keep(&account, upload)).await?;
    not_erased(app, &granted.account, &commitment)?;
    kept_answer(app, &granted.account, (&commitment, kept), about).await
}

fn not_erased(app: &App, account: &Account, commitment: &Hash) -> Result<(), Problem> {
    match account.reader().version().erased.get(commitment) {
        Some(index) => Err(erased(index, &answer::log_url(app, account))),
        None => Ok(()),
    }
}

fn is_as_said(said: &Said, commitment: &Hash, bytes: u64) -> Result<(), Problem> {
    let mismatch = |what: &str| {
        let why =
            format!("the {what} of what came in is another one than was stated; nothing was kept");
        let refused = Problem::new(Code::DigestMismatch, why);
        refused
            .with("commitment", commitment.to_hex())
            .with("bytes", bytes)
    };
    if said.bytes.is_some_and(|stated| stated != bytes) {
        return Err(mismatch("length"));
    }
    match said.commitment {
        Some(stated) if stated != *commitment => Err(mismatch("commitment")),
        _ => Ok(()),
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(Problem::internal(&error)),
    }
}

async fn begin(
    app: &Arc<App>,
    granted: &Granted,
    about: &About,
    said: &Said,
) -> Result<Upload, Problem> {
    let (app, account, by) = (app.clone(), granted.account.clone(), granted.by);
    let (about, commitment, stated) = (about.clone(), said.commitment, said.bytes);
    blocking(move || {
        let blobs = &account.blobs;
        let known = commitment.map(|commitment| blobs.has(&commitment));
        let known = known.transpose()?.unwrap_or(false);
        blobs.begin(&about, by, &app.config.blobs, (stated, known))
    })
    .await
}

async fn collect(mut body: Body, mut upload: Upload) -> Result<Upload, Problem> {
    let mut piece = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Problem::new(Code::Malformed, "the body broke off"))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        piece.extend_from_slice(&data);
        if piece.len() >= PIECE {
            upload = write(upload, piece.split().freeze()).await?;
        }
    }
    write(upload, piece.freeze()).await
}

async fn write(mut upload: Upload, piece: Bytes) -> Result<Upload, Problem> {
    blocking(move || {
        upload.write(&piece)?;
        Ok(upload)
    })
    .await
}

/// Keeps it, unless a leaf has erased it meanwhile: whichever of the two is the second to look finds the other.
fn keep(account: &Account, upload: Upload) -> Result<Kept, Problem> {
    let commitment = upload.commitment();
    let kept = upload.keep()?;
    let is_erased = account.reader().version().erased.get(&commitment).is_some();
    if is_erased && let Err(error) = account.blobs.erase(&commitment) {
        // It is never given out, and goes when the account is opened again.
        tracing::error!(%error, "an erased body came in again and could not be taken away");
    }
    Ok(kept)
}

/// 201 for a new one, 200 for one that was here: what is said of it is then what was said first.
async fn kept_answer(
    app: &App,
    account: &Arc<Account>,
    (commitment, kept): (&Hash, Kept),
    about: About,
) -> Result<Response, Problem> {
    let about = match kept.new {
        true => about,
        false => {
            let (account, commitment) = (account.clone(), *commitment);
            let found = blocking(move || account.blobs.get(&commitment)).await?;
            found.map_or(about, |found| found.about)
        }
    };
    let address = format!("/v1/blobs/{commitment}");
    let body = json!({
        "commitment": commitment.to_hex(),
        "salt": about.salt(),
        "bytes": kept.bytes,
        "media_type": about.media_type,
        "duplicate": !kept.new,
        "url": format!("{}{address}", app.url()),
        "server_time": app.server_time(),
    });
    let status = match kept.new {
        true => StatusCode::CREATED,
        false => StatusCode::OK,
    };
    let mut answer = body::json(status, body.to_string());
    // OK because it is made of a path and hexadecimal digits.
    let address = HeaderValue::from_str(&address).expect("blobs::kept_answer: an address");
    answer.headers_mut().insert(header::LOCATION, address);
    Ok(answer)
}

pub(super) async fn get(
    State(app): State<Shared>,
    Path(commitment): Path<String>,
    named: Result<Query<Named>, QueryRejection>,
    method: Method,
    headers: HeaderMap,
) -> Response {
    find(&app, &commitment, named, (&method, &headers))
        .await
        .unwrap_or_else(IntoResponse::into_response)
}

async fn find(
    app: &Arc<App>,
    commitment: &str,
    named: Result<Query<Named>, QueryRejection>,
    (method, headers): (&Method, &HeaderMap),
) -> Result<Response, Problem> {
    let named = parameters(named)?.account;
    let commitment = digest("commitment", commitment)?;
    let Granted { account, .. } = may_read(app, headers, named.as_deref(), &commitment)?;
    usable(&account)?;
    not_erased(app, &account, &commitment)?;
    let read = account.clone();
    let found = blocking(move || read.blobs.get(&commitment)).await?;
    let Some(found) = found else {
        // Another account's, or none that ever was: nobody is told which.
        let why = "no body of this commitment is kept in this account";
        return Err(Problem::new(Code::NotFound, why));
    };
    Ok(send::answer(
        account,
        (commitment, found),
        (method, headers),
    ))
}
