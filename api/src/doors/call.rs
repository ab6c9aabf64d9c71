//! One call of a tool, whichever door it came through: who asks, for which account, signed or for a seat; and its answer.

use std::sync::Arc;

use countersign_verifier::{dsse::Envelope, key::IdentityId, leaf::Millis, operation::Operation};
use serde_json::{Map, Value};

mod asked;
mod receipt;
mod seen;

pub(super) use seen::{Seen, read_answer};

use super::{
    auth::{Bearer, account_of_bearer},
    http::answer::{self, Ask, RecordedWrite},
};
use crate::{
    account::Account,
    app::App,
    error::{Code, Problem},
    ledger::{OperationRequest, Request, may_read, may_see},
    state::verb,
    submit::{self, Wanted},
    tools::{Done, Runs, Tool, blob, define::Answer, lease::until_free},
};

/// A call as it came.
pub struct Call {
    /// Which tool.
    pub tool: &'static Tool,
    /// The members of its one object: arguments, and what every call may carry.
    pub members: Map<String, Value>,
    /// `Idempotency-Key`, where the door has headers.
    pub idempotency_key: Option<String>,
    /// The account that a token which is good for several is used for.
    pub account: Option<String>,
}

/// An answer: its HTTP status, and its members.
pub type Answered = (u16, Value);

/// Runs a call.
///
/// # Errors
/// Every refusal, in the same form at both doors.
pub async fn run(app: &App, bearer: Option<&Bearer>, call: Call) -> Result<Answered, Problem> {
    let Call {
        tool,
        mut members,
        idempotency_key,
        account,
    } = call;
    // Clients that fill in what a schema names send `null` for what they leave out.
    let signed = members.remove("signed").filter(|signed| !signed.is_null());
    let own = asked::own_include(tool, &mut members);
    let ask = asked::ask(&mut members)?;
    match signed {
        Some(signed) => signed_call(app, tool, bearer, &signed, (members, own), &ask).await,
        None => {
            let nonce = asked::key(&mut members, idempotency_key)?;
            let session = asked::text(&mut members, "session_id")?;
            let unsigned = Unsigned {
                tool,
                arguments: Value::Object(members),
                session,
                nonce,
            };
            unsigned_call(app, bearer, account.as_deref(), (unsigned, own), &ask).await
        }
    }
}

async fn signed_call(
    app: &App,
    tool: &Tool,
    bearer: Option<&Bearer>,
    signed: &Value,
    (beside, own): (Map<String, Value>, Option<Value>),
    ask: &Ask,
) -> Result<Answered, Problem> {
    let in_signed = |problem: Problem| {
        let pointer = problem.detail.get("pointer").and_then(Value::as_str);
        let pointer = format!("/signed{}", pointer.unwrap_or(""));
        problem.with("pointer", pointer)
    };
    let envelope = Envelope::parse(signed.to_string().as_bytes())
        .map_err(|e| in_signed(submit::malformed(&e)))?;
    // Read before anything is verified, only to find the account whose keys could have signed.
    let claimed = Operation::parse(&envelope.payload)
        .map_err(|e| submit::malformed(&e).with("in", "the signed payload"))?;
    let account = account_of(app, &claimed, bearer)?;
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
    let seen = Seen::of(app, &account);
    let request = submit::prepare_operation(&seen.state, envelope)?;
    seen.take(app, Some(request.signer.identity))?;
    let session = claimed.session.as_deref();
    let view = seen.view(Some(&request.signer.identity), session);
    match tool.runs(&view, &claimed.arguments) {
        Runs::Writes(result) => write(app, &account, request, wanted, result).await,
        Runs::Reads(read) => {
            may_read(&seen.state, &request, account.log_now_ms())?;
            let paged = seen.paged(tool, &claimed.arguments)?;
            let view = paged.view(Some(&request.signer.identity), session);
            let arguments = asked::with_include(&claimed.arguments, own);
            read_answer(app, &view, &account, &arguments, read)
        }
        Runs::Receipt => {
            receipt::may_submit(&seen, &request, account.log_now_ms())?;
            receipt::submit(
                app,
                &account,
                (&claimed.arguments, bearer.is_some()),
                wanted,
            )
            .await
        }
        Runs::IsCut { .. } => {
            let why = format!(
                "{} signed is one part of it: `countersign board import` cuts and signs a file",
                tool.name
            );
            Err(Problem::new(Code::Malformed, why).with("pointer", "/signed"))
        }
    }
}

/// The account that an operation is signed for. A token beside it must not name another.
pub(super) fn account_of(
    app: &App,
    operation: &Operation,
    bearer: Option<&Bearer>,
) -> Result<Arc<Account>, Problem> {
    let mismatch =
        |why: &str| Problem::new(Code::AccountMismatch, why).with("log", operation.log.as_str());
    let account = app.accounts.of_origin(&operation.log)?.ok_or_else(|| {
        mismatch(
            "the operation is signed for a log that is not kept here; `log` is the log's origin",
        )
    })?;
    if bearer.is_some_and(|bearer| !bearer.reads(&account.origin)) {
        return Err(mismatch(
            "the operation is signed for another account than the token's",
        ));
    }
    Ok(account)
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

pub(super) struct Unsigned {
    pub tool: &'static Tool,
    pub arguments: Value,
    pub session: Option<String>,
    pub nonce: String,
}

async fn unsigned_call(
    app: &App,
    bearer: Option<&Bearer>,
    account: Option<&str>,
    (call, own): (Unsigned, Option<Value>),
    ask: &Ask,
) -> Result<Answered, Problem> {
    let Some(bearer) = bearer else {
        let why = "a signed operation or a token is needed: `countersign call` signs one, Authorization: Bearer carries the other";
        return Err(Problem::new(Code::KeyRequired, why));
    };
    call.tool.check_names(&call.arguments)?;
    let account = account_of_bearer(app, bearer, account)?;
    let identity = match bearer {
        Bearer::Owner => None,
        Bearer::Identity(_, identity) => Some(*identity),
    };
    let seen = Seen::of(app, &account);
    seen.take(app, identity)?;
    let view = seen.view(identity.as_ref(), call.session.as_deref());
    let runs = call.tool.runs(&view, &call.arguments);
    if let Runs::Reads(read) = runs {
        if let Some(caller) = view.caller {
            let session = call.session.as_deref();
            may_see(view.state, &caller.into(), call.tool.name, session)?;
        }
        let paged = seen.paged(call.tool, &call.arguments)?;
        let view = paged.view(identity.as_ref(), call.session.as_deref());
        let arguments = asked::with_include(&call.arguments, own);
        return read_answer(app, &view, &account, &arguments, read);
    }
    if let Runs::Receipt = runs {
        receipt::may_carry(&view, call.session.as_deref())?;
        let wanted = ask.wanted(&account)?;
        return receipt::submit(app, &account, (&call.arguments, true), wanted).await;
    }
    if verb::needs_own_key(call.tool.name) {
        let why = "this needs a signature by a key that the service does not hold (`signed`), whatever the token";
        return Err(Problem::new(Code::AttributionTooLow, why));
    }
    let wanted = ask.wanted(&account)?;
    let now = Millis(account.log_now_ms());
    let identity = match identity {
        Some(identity) => identity,
        None => submit::owner_seat(&account, || app.owner_key(), now).await?,
    };
    let seat = Seat {
        app,
        account: &account,
        identity,
    };
    match runs {
        Runs::Reads(_) | Runs::Receipt => {
            unreachable!("unsigned_call: OK because these were answered above")
        }
        Runs::Writes(result) => seat.write(call, wanted, result).await,
        Runs::IsCut { cut, write, sum } => {
            super::cut::run(&seat, call, wanted, (cut, write, sum)).await
        }
    }
}

/// A seat that a token speaks for.
pub(super) struct Seat<'a> {
    pub app: &'a App,
    pub account: &'a Account,
    pub identity: IdentityId,
}

impl Seat<'_> {
    /// Signs a call with the seat's key, and writes it.
    pub(super) async fn write(
        &self,
        call: Unsigned,
        wanted: Wanted,
        result: Answer,
    ) -> Result<Answered, Problem> {
        let (app, account) = (self.app, self.account);
        let version = account.reader().version();
        // OK to say so: it was enrolled when the token was looked up, and nothing is ever taken away.
        let seat = version
            .identities
            .get(&self.identity)
            .ok_or_else(|| Problem::internal(&"a token's identity is not there"))?;
        let operation = Operation {
            tool: call.tool.name.into(),
            arguments: call.arguments,
            log: account.origin.clone(),
            session: call.session,
            nonce: call.nonce,
            issued_at: Millis(account.log_now_ms()),
            prev: Vec::new(),
            observed: None,
        };
        let request = submit::sign_for_seat(account, seat, operation)?;
        write(app, account, request, wanted, result).await
    }
}

/// So many bytes of a refused operation count as one call more.
const REFUSED_BYTES_A_CALL: u64 = 512;

async fn write(
    app: &App,
    account: &Account,
    request: OperationRequest,
    wanted: Wanted,
    result: Answer,
) -> Result<Answered, Problem> {
    let nonce = request.operation.nonce.clone();
    let erases = request.operation.tool == blob::ERASE.name;
    let (by, bytes) = (request.signer.identity, request.payload.len() as u64);
    // Kept until it is decided, so that nobody behind is let in before; and no longer, whatever its caller waits for besides.
    let place = submit::in_line(account, &request, &app.waiting).await;
    let requests = vec![Request::Operation(Box::new(request))];
    let decided = move || drop(place);
    let mut written = submit::write_after(account, requests, wanted, decided).await?;
    // OK because one request has one answer.
    let written = written.pop().expect("call::write")?;
    if erases {
        // Before it is answered. Should nobody wait for the answer, it is done by and by.
        tokio::task::block_in_place(|| account.erase_owed());
    }
    let done = |recorded: &RecordedWrite<'_>| {
        let seen = Seen::of(app, account);
        result(&Done {
            view: seen.view(Some(&recorded.by), recorded.operation.session.as_deref()),
            index: recorded.index,
            at: recorded.at,
            by: recorded.by,
            operation: recorded.operation,
            effect: recorded.effect,
        })
    };
    let refused = |problem: &mut Problem| {
        // Its leaf stays for ever, and says nothing but that it was refused: a large one is worth many calls.
        let entry = problem.entry.as_ref();
        if entry.is_some_and(|entry| entry.get("folded").is_none()) {
            let caller = (account.origin.as_str(), by);
            app.quotas.charge(caller, bytes / REFUSED_BYTES_A_CALL);
        }
        until_free(&Seen::of(app, account).view(None, None), problem);
    };
    answer::operation(app, account, &written, wanted, &nonce, done, refused)
}
