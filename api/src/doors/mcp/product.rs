//! The service behind the door.

use std::{sync::Arc, time::Instant};

use axum::{extract::Request, http::HeaderMap, response::Response};
use bytes::Bytes;
use serde_json::Value;

use super::{
    answers,
    host::{Asked, Called, Host, Named},
    oauth,
};
use crate::{
    app::App,
    doors::{
        auth::{Bearer, bearer_or_subject},
        call::{self, Call},
        http::{Held, body},
    },
    error::{Code, Problem},
    limits::{BODY_BYTES_MAX, CONTENT_BYTES_MAX},
    tools::{find, tool_hint},
};

/// Who asks, and for which account where the token leaves that open.
pub struct Caller {
    bearer: Option<Bearer>,
    account: Option<String>,
}

impl Host for App {
    type Caller = Caller;
    type Held = Held;

    fn url(&self) -> &str {
        App::url(self)
    }

    fn origins(&self) -> &[String] {
        &self.config.mcp.origins
    }

    async fn caller(&self, headers: &HeaderMap, named: Named) -> Result<Caller, Problem> {
        let bearer = bearer_or_subject(self, headers, named.account.as_deref()).await;
        Ok(Caller {
            bearer: bearer.map_err(with_help)?,
            account: named.account,
        })
    }

    fn must_be_known(&self, caller: &Caller) -> Result<(), Problem> {
        caller.bearer.as_ref().map(drop).ok_or_else(no_token)
    }

    async fn body(&self, request: Request, caller: &Caller) -> Result<(Bytes, Held), Problem> {
        // Which tool it is stands in the body. Whoever is known may send as much as any tool takes, and is held to this one's bound then.
        let most = match caller.bearer {
            Some(_) => CONTENT_BYTES_MAX,
            None => BODY_BYTES_MAX,
        };
        body::read(self, request, most).await
    }

    fn limit_of(&self, tool: &str) -> usize {
        find(tool).map_or(BODY_BYTES_MAX, body::limit_of)
    }

    fn listed(&self, caller: &Caller) -> Value {
        // `must_be_known` has let only those by who have one.
        caller.bearer.as_ref().map_or(Value::Null, answers::listed)
    }

    fn call(self: &Arc<Self>, caller: Caller, asked: Asked<'_, Held>) -> Result<Called, Problem> {
        let Asked {
            name,
            arguments,
            held,
        } = asked;
        // Who signs needs no token: the signature says who asks.
        let is_signed = arguments
            .as_ref()
            .is_ok_and(|m| m.get("signed").is_some_and(Value::is_object));
        if caller.bearer.is_none() && !is_signed {
            return Err(no_token());
        }
        let Some(tool) = find(name) else {
            return Ok(Called::Unknown(tool_hint(name)));
        };
        let app = self.clone();
        Ok(Called::Work(Box::pin(async move {
            let _held = held;
            let members = match arguments {
                Ok(members) => members,
                Err(problem) => return answers::called(Err(problem.to_json())),
            };
            let call = Call {
                tool,
                members,
                idempotency_key: None,
                account: caller.account,
            };
            let begun = Instant::now();
            let answer = call::run(&app, caller.bearer.as_ref(), call).await;
            app.metrics.wrote(begun.elapsed().as_secs_f64());
            answers::called(
                answer
                    .map(|(_, value)| value)
                    .map_err(|problem| problem.to_json()),
            )
        })))
    }

    fn refused(&self, problem: Problem) -> Response {
        oauth::refused(self, problem)
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
