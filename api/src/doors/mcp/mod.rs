//! `POST /mcp`: the tools for clients of the Model Context Protocol, both eras on one path, without transport sessions.
//!
//! A body is one JSON-RPC message and stands alone: whatever a server would keep for a session (revision, client, who asks) is in
//! the request, so that a restart, or another copy of the service, changes nothing for a client. Calls go where those of
//! `/v1` go; docs/decisions/0017-mcp.md says why this door is our own.

mod accept;
mod answers;
mod call;
mod era;
mod message;
mod oauth;
pub mod stdio;

use std::sync::Arc;

use axum::{
    extract::{Query, Request, State, rejection::QueryRejection},
    http::{HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;

use self::{
    accept::{Accepts, origin_is_known},
    answers::Answers,
    era::Era,
    message::{Fault, METHOD, Message, PARAMS},
};
use super::{
    auth::{Bearer, bearer_or_subject},
    http::body,
};
pub(super) use oauth::protected_resource;

use crate::{
    app::App,
    error::{Code, Problem},
    limits::{BODY_BYTES_MAX, CONTENT_BYTES_MAX},
};

/// What the address may carry.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Named {
    account: Option<String>,
}

/// Who asks, and for which account where the token leaves that open.
#[derive(Clone)]
struct Caller {
    bearer: Option<Bearer>,
    account: Option<String>,
}

/// Any method: all but POST is refused, after the same look at where it comes from.
pub(super) async fn door(
    State(app): State<Arc<App>>,
    named: Result<Query<Named>, QueryRejection>,
    request: Request,
) -> Response {
    let answer = take(&app, named, request).await;
    answer.unwrap_or_else(|problem| oauth::refused(&app, problem))
}

async fn take(
    app: &Arc<App>,
    named: Result<Query<Named>, QueryRejection>,
    request: Request,
) -> Result<Response, Problem> {
    // Before anything else is read: a page that may not ask learns nothing from how it is refused.
    if !origin_is_known(request.headers(), app.url(), &app.config.mcp.origins) {
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
    let bearer = bearer_or_subject(app, request.headers(), named.account.as_deref()).await;
    let caller = Caller {
        bearer: bearer.map_err(with_help)?,
        account: named.account,
    };
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
    // Which tool it is stands in the body. Whoever is known may send as much as any tool takes, and is held to this one's bound then.
    let most = match caller.bearer {
        Some(_) => CONTENT_BYTES_MAX,
        None => BODY_BYTES_MAX,
    };
    let (bytes, held) = body::read(app, request, most).await?;
    let message = match Message::read(&bytes) {
        Ok(message) => message,
        Err((id, fault)) => {
            caller.bearer.as_ref().ok_or_else(no_token)?;
            return Ok(Answers::new(id, accepts, Era::Modern).fault(&fault));
        }
    };
    let tool = message.tool();
    let limit = tool.map_or(BODY_BYTES_MAX, body::limit_of);
    if bytes.len() > limit {
        return Err(body::too_large(limit).with("bytes", bytes.len()));
    }
    let era = Era::of(&headers, &message);
    let Some(id) = message.id.clone() else {
        caller.bearer.as_ref().ok_or_else(no_token)?;
        // Nothing that a client can notify of concerns a server that keeps nothing of it.
        return Ok(StatusCode::ACCEPTED.into_response());
    };
    let era = match era {
        Ok(era) => era,
        Err(fault) => {
            caller.bearer.as_ref().ok_or_else(no_token)?;
            return Ok(Answers::new(Some(id), accepts, Era::Modern).fault(&fault));
        }
    };
    let answers = Answers::new(Some(id), accepts, era);
    if message.method == "tools/call" {
        return call::run(app, caller, (&message, tool), answers, held).await;
    }
    let bearer = caller.bearer.as_ref().ok_or_else(no_token)?;
    Ok(answer(era, &message, bearer, &answers))
}

/// The answer to any request but a call.
fn answer(era: Era, message: &Message<'_>, bearer: &Bearer, answers: &Answers) -> Response {
    match (era, message.method.as_str()) {
        (Era::Modern, "server/discover") => answers.result(answers::discovered()),
        (Era::Legacy, "initialize") => {
            let asked = message.params.protocol_version.as_ref();
            answers.result(answers::initialized(era::negotiated(asked)))
        }
        (Era::Legacy, "ping") => answers.result(serde_json::json!({})),
        (_, "tools/list") => match message.params.cursor {
            None => answers.result(answers::listed(bearer)),
            Some(_) => answers.fault(&Fault::new(PARAMS, "cursor: the list has one page")),
        },
        (_, method) => {
            let shown: String = method.chars().take(64).collect();
            answers.fault(&Fault::new(METHOD, format!("Method not found: {shown}")))
        }
    }
}

fn no_token() -> Problem {
    let why = "a token is needed, or a call that is signed (`signed`): Authorization: Bearer cst_…";
    with_help(Problem::new(Code::KeyRequired, why))
}

/// How one comes by a token.
fn with_help(problem: Problem) -> Problem {
    if !matches!(problem.code, Code::TokenInvalid | Code::KeyRequired) {
        return problem;
    }
    problem.with(
        "help",
        "`countersign token new NAME` makes one, where the owner's key is; the owner's own is in the data directory, owner.token",
    )
}
