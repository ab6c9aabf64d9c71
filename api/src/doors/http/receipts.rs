//! `POST /log/<account>/receipts`: one envelope, or many as NDJSON.

use std::time::Instant;

use axum::{
    extract::{Path, Query, Request as HttpRequest, State, rejection::QueryRejection},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use bytes::Bytes;

use super::{Shared, answer, body, ndjson, token};
use crate::{
    account::Account,
    error::{Code, Problem},
    limits::{BODY_BYTES_MAX, NDJSON_BYTES_MAX},
    submit::{self, Wanted},
};

pub(super) async fn receipts(
    State(app): State<Shared>,
    Path(account): Path<String>,
    ask: Result<Query<answer::Ask>, QueryRejection>,
    request: HttpRequest,
) -> Response {
    let begun = Instant::now();
    let answer = take(&app, &account, ask, request)
        .await
        .unwrap_or_else(IntoResponse::into_response);
    app.metrics.wrote(begun.elapsed().as_secs_f64());
    answer
}

async fn take(
    app: &Shared,
    account: &str,
    ask: Result<Query<answer::Ask>, QueryRejection>,
    request: HttpRequest,
) -> Result<Response, Problem> {
    // Its signatures authenticate a receipt, in a private account too; so the account's name is all that is looked at here. It is taken
    // once the body is here: who sends by the drop would otherwise keep it open, and another one closed.
    app.accounts.place(account)?;
    let has_token = token(app, request.headers())?.is_some();
    match body::media_type(&request).as_deref() {
        Some("application/json" | "application/vnd.dsse.envelope.v1+json") => {
            let (bytes, _held) = body::read(app, request, BODY_BYTES_MAX).await?;
            let (account, wanted) = answer::asked(app, account, ask)?;
            one(app, &account, &bytes, has_token, wanted).await
        }
        Some("application/x-ndjson") => {
            let (bytes, _held) = body::read(app, request, NDJSON_BYTES_MAX).await?;
            let (account, wanted) = answer::asked(app, account, ask)?;
            ndjson::many(app, &account, bytes, has_token, wanted).await
        }
        _ => {
            let why = "a receipt is application/json or application/vnd.dsse.envelope.v1+json; many are application/x-ndjson";
            Err(Problem::new(Code::MediaType, why))
        }
    }
}

async fn one(
    app: &Shared,
    account: &Account,
    bytes: &Bytes,
    has_token: bool,
    wanted: Wanted,
) -> Result<Response, Problem> {
    let (written, dropped) = submit::receipt(account, bytes, has_token, wanted).await?;
    let (status, value) = answer::receipt(app, account, &written, wanted, &dropped);
    // OK because both statuses are constants of `answer`.
    Ok(body::json(
        StatusCode::from_u16(status).expect("receipts::one: status"),
        value.to_string(),
    ))
}
