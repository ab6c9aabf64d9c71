//! `/health`, `/health/ready`, `/metrics`.

use axum::{
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::json;

use super::{Shared, body, token};
use crate::{
    doors::auth::Bearer,
    error::{Code, Problem},
};

pub(super) async fn health(State(app): State<Shared>, headers: HeaderMap) -> Response {
    // A wrong token is no reason to hide what anybody may see.
    let all = matches!(token(&app, &headers), Ok(Some(Bearer::Owner)));
    let mut answer = body::json(StatusCode::OK, app.health(all).to_string());
    answer.headers_mut().insert(
        header::ACCESS_CONTROL_ALLOW_ORIGIN,
        HeaderValue::from_static("*"),
    );
    answer
}

pub(super) async fn ready(State(app): State<Shared>) -> Response {
    match app.not_ready() {
        None => body::json(StatusCode::OK, "{\"ready\":true}".into()),
        Some(why) => body::json(
            StatusCode::SERVICE_UNAVAILABLE,
            json!({"ready": false, "why": why}).to_string(),
        ),
    }
}

pub(super) async fn metrics(State(app): State<Shared>, headers: HeaderMap) -> Response {
    match token(&app, &headers) {
        Ok(Some(Bearer::Owner)) => exposition(&app),
        Ok(_) => Problem::new(
            Code::KeyRequired,
            "metrics need the owner's token, or the listener of `metrics.listen`",
        )
        .into_response(),
        Err(problem) => problem.into_response(),
    }
}

/// What Prometheus reads.
pub(crate) fn exposition(app: &Shared) -> Response {
    let text = app.metrics.render(&app.accounts.all());
    let kind =
        HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}
