//! `POST /v1/<tool>`: the tools over HTTP.

use std::time::Instant;

use axum::{
    extract::{Path, Request as HttpRequest, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use countersign_verifier::{dsse::Envelope, json, operation::Operation};
use serde_json::{Map, Value, json};

use super::{Shared, answer, body, token};
use crate::{
    account::Account,
    app::App,
    error::{Code, Problem},
    ledger::{Request, may_read},
    limits::BODY_BYTES_MAX,
    submit,
    tools::{Handler, Tool, find},
};

pub(super) async fn call(
    State(app): State<Shared>,
    Path(name): Path<String>,
    request: HttpRequest,
) -> Response {
    let begun = Instant::now();
    let answer = run(&app, &name, request)
        .await
        .unwrap_or_else(IntoResponse::into_response);
    app.metrics.wrote(begun.elapsed().as_secs_f64());
    answer
}

async fn run(app: &Shared, name: &str, request: HttpRequest) -> Result<Response, Problem> {
    let tool = find(name).ok_or_else(|| {
        Problem::new(
            Code::ToolUnknown,
            "there is no tool of this name; docs/reference/tools.md lists them",
        )
    })?;
    if body::media_type(&request).as_deref() != Some("application/json") {
        return Err(Problem::new(Code::MediaType, "a call is application/json"));
    }
    let headers = request.headers().clone();
    let (bytes, _held) = body::read(app, request, BODY_BYTES_MAX).await?;
    let mut call = members(&bytes)?;
    let signed = call.remove("signed");
    let ask = ask(&mut call)?;
    match signed {
        Some(signed) => signed_call(app, tool, &headers, &signed, call, &ask).await,
        None => unsigned_call(app, tool, &headers, &Value::Object(call)),
    }
}

/// The members of a call, read by the strict rules that signed payloads are read by.
fn members(bytes: &[u8]) -> Result<Map<String, Value>, Problem> {
    match json::parse(bytes).map_err(|e| submit::malformed(&e))? {
        Value::Object(members) => Ok(members),
        _ => Err(Problem::new(Code::Malformed, "a call is one JSON object")),
    }
}

/// Takes `wait`, `deadline_ms` and `include` out of a call.
fn ask(call: &mut Map<String, Value>) -> Result<answer::Ask, Problem> {
    let mut asked = Map::new();
    for name in ["wait", "deadline_ms", "include"] {
        match call.remove(name) {
            // A list of names, as TOOLS has it; the query parameter is the same names with commas.
            Some(Value::Array(names)) if name == "include" => {
                let names: Option<Vec<&str>> = names.iter().map(Value::as_str).collect();
                let names = names.ok_or_else(|| {
                    Problem::new(Code::Malformed, "include: a list of names")
                        .with("pointer", "/include")
                })?;
                asked.insert(name.into(), names.join(",").into());
            }
            Some(value) => {
                asked.insert(name.into(), value);
            }
            None => {}
        }
    }
    serde_json::from_value(Value::Object(asked))
        .map_err(|e| Problem::new(Code::Malformed, e.to_string()))
}

async fn signed_call(
    app: &Shared,
    tool: &Tool,
    headers: &HeaderMap,
    signed: &Value,
    beside: Map<String, Value>,
    ask: &answer::Ask,
) -> Result<Response, Problem> {
    let in_signed = |problem: Problem| {
        let pointer = problem
            .detail
            .get("pointer")
            .and_then(Value::as_str)
            .unwrap_or("")
            .to_owned();
        problem.with("pointer", format!("/signed{pointer}"))
    };
    let envelope = Envelope::parse(signed.to_string().as_bytes())
        .map_err(|e| in_signed(submit::malformed(&e)))?;
    // Read before anything is verified, only to find the account whose keys could have signed.
    let claimed = Operation::parse(&envelope.payload)
        .map_err(|e| submit::malformed(&e).with("in", "the signed payload"))?;
    let account = account_of(app, &claimed, headers)?;
    let wanted = ask.wanted(&account)?;
    if claimed.tool != tool.name {
        let why = format!(
            "the signed operation asks for `{}`, the address for `{}`",
            claimed.tool, tool.name
        );
        return Err(Problem::new(Code::Malformed, why).with("pointer", "/signed"));
    }
    agree(&claimed, beside)?;
    tool.check_names(&claimed.arguments)?;
    let nonce = claimed.nonce.clone();
    let request = submit::prepare_operation(&account.reader().version(), envelope)?;
    let result = match tool.handler {
        Handler::Write(result) => result,
        Handler::Read(read) => {
            may_read(&account.reader().version(), &request, app.now_ms())?;
            return read_answer(app, &account, |state| read(state, &claimed.arguments));
        }
    };
    let mut written = submit::write(
        &account,
        vec![Request::Operation(Box::new(request))],
        wanted,
    )
    .await?;
    // OK because one request has one answer.
    let written = written.pop().expect("tools::signed_call")?;
    let (status, value) = answer::operation(app, &account, &written, wanted, &nonce, result)?;
    // OK because both statuses are constants of `answer`.
    Ok(body::json(
        StatusCode::from_u16(status).expect("tools::signed_call: status"),
        value.to_string(),
    ))
}

/// The account that an operation is signed for. A token beside it must not name another.
fn account_of(
    app: &App,
    operation: &Operation,
    headers: &HeaderMap,
) -> Result<std::sync::Arc<Account>, Problem> {
    // The owner's token is good for every account here, so there is nothing that it could contradict.
    token(app, headers)?;
    let account = app.account_of_origin(&operation.log).cloned();
    account.ok_or_else(|| {
        let why =
            "the operation is signed for a log that is not kept here; `log` is the log's origin";
        Problem::new(Code::AccountMismatch, why).with("log", operation.log.as_str())
    })
}

/// Whatever stands beside `signed` must be what was signed.
fn agree(operation: &Operation, beside: Map<String, Value>) -> Result<(), Problem> {
    for (name, value) in beside {
        let signed = match name.as_str() {
            "session_id" => operation.session.clone().map(Value::String),
            "idempotency_key" => Some(Value::String(operation.nonce.clone())),
            other => operation.arguments.get(other).cloned(),
        };
        if signed.as_ref() != Some(&value) {
            let why = format!("{name:?} stands beside `signed` and is not what was signed");
            return Err(Problem::new(Code::Malformed, why).with("pointer", format!("/{name}")));
        }
    }
    Ok(())
}

fn unsigned_call(
    app: &App,
    tool: &Tool,
    headers: &HeaderMap,
    arguments: &Value,
) -> Result<Response, Problem> {
    if token(app, headers)?.is_none() {
        let why = "a signed operation or a token is needed: `countersign call` signs one, Authorization: Bearer carries the other";
        return Err(Problem::new(Code::KeyRequired, why));
    }
    tool.check_names(arguments)?;
    let Handler::Read(read) = tool.handler else {
        let why = "this changes who may sign: it needs a signature by a key that the service does not hold (`signed`), whatever the token";
        return Err(Problem::new(Code::AttributionTooLow, why));
    };
    // Tokens do not name an account as yet, so there must be but one.
    let mut accounts = app.accounts.values();
    let (Some(account), None) = (accounts.next(), accounts.next()) else {
        let why = "several accounts are kept here, and the token names none of them: sign the call";
        return Err(Problem::new(Code::Malformed, why));
    };
    read_answer(app, account, |state| read(state, arguments))
}

/// The answer to a read, all of it as of one committed size.
fn read_answer(
    app: &App,
    account: &Account,
    read: impl FnOnce(&crate::state::State) -> Result<Value, Problem>,
) -> Result<Response, Problem> {
    let (head, state) = account.reader().committed();
    let body = json!({
        "result": read(&state)?,
        "as_of": {
            "size": head.size,
            "root": head.root.to_hex(),
            "at": countersign_verifier::leaf::Millis(state.at).to_string(),
            // Nobody but the log has signed: without witnesses there is no witnessed head.
            "witnessed_size": 0,
        },
        "server_time": app.server_time(),
    });
    Ok(body::json(StatusCode::OK, body.to_string()))
}
