//! `receipt_submit`: the very path of `POST /log/<account>/receipts`, asked for as a tool.

use serde_json::Value;

use super::{Answered, Seen};
use crate::{
    account::Account,
    app::App,
    doors::http::answer,
    error::Problem,
    ledger::{OperationRequest, may, may_run},
    state::policy::family,
    submit::{self, Wanted},
    tools::{
        View,
        receipt::{self, SUBMIT},
    },
};

/// Whether whoever signed the call may hand a receipt in. Whether it is taken, its own signatures decide.
pub(super) fn may_submit(
    seen: &Seen<'_>,
    request: &OperationRequest,
    now_ms: u64,
) -> Result<(), Problem> {
    may_run(&seen.state, request, (family(SUBMIT.name), ""), now_ms)
}

/// Whether whoever holds the token may; the owner's may.
pub(super) fn may_carry(view: &View<'_>, session: Option<&str>) -> Result<(), Problem> {
    let Some(caller) = view.caller else {
        return Ok(());
    };
    let action = (SUBMIT.name, family(SUBMIT.name));
    may(view.state, &caller.into(), action, "", session)
}

pub(super) async fn submit(
    app: &App,
    account: &Account,
    (arguments, has_token): (&Value, bool),
    wanted: Wanted,
) -> Result<Answered, Problem> {
    let envelope = receipt::envelope(arguments)?;
    let (written, dropped) = submit::receipt(account, &envelope, has_token, wanted).await?;
    let result = {
        let seen = Seen::of(app, account);
        receipt::submitted(&seen.view(None, None), &written, &dropped)?
    };
    answer::receipt_of_tool(app, account, (&written, wanted), result)
}
