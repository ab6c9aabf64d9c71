//! `POST /v1/<tool>`: the tools over HTTP.

use std::time::Instant;

use axum::{
    extract::{Path, Query, Request as HttpRequest, State, rejection::QueryRejection},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use countersign_verifier::json;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Shared, body};
use crate::{
    doors::{
        auth::bearer,
        call::{self, Call},
    },
    error::{Code, Problem},
    submit,
    tools::{find, tool_hint},
};

/// What the address of a call may carry.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Named {
    account: Option<String>,
}

pub(super) async fn call(
    State(app): State<Shared>,
    Path(name): Path<String>,
    named: Result<Query<Named>, QueryRejection>,
    request: HttpRequest,
) -> Response {
    let begun = Instant::now();
    let answer = run(&app, &name, named, request)
        .await
        .unwrap_or_else(IntoResponse::into_response);
    app.metrics.wrote(begun.elapsed().as_secs_f64());
    answer
}

async fn run(
    app: &Shared,
    name: &str,
    named: Result<Query<Named>, QueryRejection>,
    request: HttpRequest,
) -> Result<Response, Problem> {
    let tool = find(name).ok_or_else(|| {
        let hint = tool_hint(name);
        let why = format!("docs/reference/tools.md lists the tools, and none has this name{hint}");
        Problem::new(Code::ToolUnknown, why)
    })?;
    let Query(named) =
        named.map_err(|e| Problem::new(Code::Malformed, format!("query: {}", e.body_text())))?;
    if body::media_type(&request).as_deref() != Some("application/json") {
        return Err(Problem::new(Code::MediaType, "a call is application/json"));
    }
    let headers = request.headers().clone();
    let key = headers.get("idempotency-key").map(|value| {
        let text = value.to_str().map(str::to_owned);
        text.map_err(|_| Problem::new(Code::Malformed, "Idempotency-Key: 16 to 64 characters"))
    });
    let (bytes, _held) = body::read(app, request, body::limit_of(tool)).await?;
    let call = Call {
        tool,
        members: members(&bytes)?,
        idempotency_key: key.transpose()?,
        account: named.account,
    };
    let bearer = bearer(app, &headers)?;
    let (status, value) = call::run(app, bearer.as_ref(), call).await?;
    // OK because statuses of answers are constants.
    let status = StatusCode::from_u16(status).expect("tools::run: status");
    Ok(body::json(status, value.to_string()))
}

/// The members of a call, read by the strict rules that signed payloads are read by.
fn members(bytes: &[u8]) -> Result<Map<String, Value>, Problem> {
    match json::parse(bytes).map_err(|e| submit::malformed(&e))? {
        Value::Object(members) => Ok(members),
        _ => Err(Problem::new(Code::Malformed, "a call is one JSON object")),
    }
}
