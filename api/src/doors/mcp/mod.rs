//! `POST /mcp`: the tools for clients of the Model Context Protocol, both eras on one path, without transport sessions.
//!
//! A body is one JSON-RPC message and stands alone: whatever a server would keep for a session (revision, client, who asks) is in
//! the request, so that a restart, or another copy of the service, changes nothing for a client. Calls go where those of
//! `/v1` go; docs/decisions/0017-mcp.md says why this door is our own.

mod accept;
mod answers;
mod call;
mod era;
mod host;
mod message;
mod oauth;
mod product;
pub mod stdio;

use std::sync::Arc;

use axum::{
    extract::{Query, Request, State, rejection::QueryRejection},
    http::{HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::Value;

use self::{
    accept::{Accepts, origin_is_known},
    answers::Answers,
    era::Era,
    message::{Fault, METHOD, Message, PARAMS},
};
pub use host::{Asked, Called, Host, Named};
pub(super) use oauth::protected_resource;

use super::http::body;
use crate::{
    error::{Code, Problem},
    limits::BODY_BYTES_MAX,
};

/// Any method: all but POST is refused, after the same look at where it comes from.
pub async fn door<H: Host>(
    State(host): State<Arc<H>>,
    named: Result<Query<Named>, QueryRejection>,
    request: Request,
) -> Response {
    let answer = take(&host, named, request).await;
    answer.unwrap_or_else(|problem| host.refused(problem))
}

async fn take<H: Host>(
    host: &Arc<H>,
    named: Result<Query<Named>, QueryRejection>,
    request: Request,
) -> Result<Response, Problem> {
    // Before anything else is read: a page that may not ask learns nothing from how it is refused.
    if !origin_is_known(request.headers(), host.url(), host.origins()) {
        let why =
            "pages of this origin may not ask; `mcp.origins` in config.toml names those that may";
        return Err(Problem::new(Code::OriginForeign, why));
    }
    if request.method() != Method::POST {
        let why = "this address takes POST: there is no stream to open and no session to end";
        let mut answer = Problem::new(Code::MethodNotAllowed, why).into_response();
        let post = HeaderValue::from_static("POST");
        answer.headers_mut().insert(header::ALLOW, post);
        return Ok(answer);
    }
    let Query(named) =
        named.map_err(|e| Problem::new(Code::Malformed, format!("query: {}", e.body_text())))?;
    let caller = host.caller(request.headers(), named).await?;
    let accepts = Accepts::of(request.headers());
    if !accepts.json && !accepts.events {
        let why = "an answer is application/json or text/event-stream";
        return Err(Problem::new(Code::NotAcceptable, why));
    }
    if body::media_type(&request).as_deref() != Some("application/json") {
        let why = "a message is application/json";
        return Err(Problem::new(Code::MediaType, why));
    }
    let headers = request.headers().clone();
    let (bytes, held) = host.body(request, &caller).await?;
    let message = match Message::read(&bytes) {
        Ok(message) => message,
        Err((id, fault)) => {
            host.must_be_known(&caller)?;
            return Ok(Answers::new(id, accepts, Era::Modern).fault(&fault));
        }
    };
    let limit = message
        .tool()
        .map_or(BODY_BYTES_MAX, |name| host.limit_of(name));
    if bytes.len() > limit {
        return Err(body::too_large(limit).with("bytes", bytes.len()));
    }
    let era = Era::of(&headers, &message);
    let Some(id) = message.id.clone() else {
        host.must_be_known(&caller)?;
        // Nothing that a client can notify of concerns a server that keeps nothing of it.
        return Ok(StatusCode::ACCEPTED.into_response());
    };
    let era = match era {
        Ok(era) => era,
        Err(fault) => {
            host.must_be_known(&caller)?;
            return Ok(Answers::new(Some(id), accepts, Era::Modern).fault(&fault));
        }
    };
    let answers = Answers::new(Some(id), accepts, era);
    if message.method == "tools/call" {
        return call::run(host, caller, &message, answers, held).await;
    }
    host.must_be_known(&caller)?;
    let listed = || host.listed(&caller);
    Ok(answer(era, &message, listed, &answers))
}

/// The answer to any request but a call.
fn answer(
    era: Era,
    message: &Message<'_>,
    listed: impl FnOnce() -> Value,
    answers: &Answers,
) -> Response {
    match (era, message.method.as_str()) {
        (Era::Modern, "server/discover") => answers.result(answers::discovered()),
        (Era::Legacy, "initialize") => {
            let asked = message.params.protocol_version.as_ref();
            answers.result(answers::initialized(era::negotiated(asked)))
        }
        (Era::Legacy, "ping") => answers.result(serde_json::json!({})),
        (_, "tools/list") => match message.params.cursor {
            None => answers.result(listed()),
            Some(_) => answers.fault(&Fault::new(PARAMS, "cursor: the list has one page")),
        },
        (_, method) => {
            let shown: String = method.chars().take(64).collect();
            answers.fault(&Fault::new(METHOD, format!("Method not found: {shown}")))
        }
    }
}
