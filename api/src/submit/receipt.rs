//! One receipt from its bytes to its leaf, whichever door it came through.

use super::{
    Budget, Dropped, PreparedReceipt, Signatures, Wanted, Written, prepare_receipt, write,
};
use crate::{
    account::Account,
    error::Problem,
    ledger::{ReceiptRequest, Request, receipt_key},
    state::State,
};

/// Checks an envelope's signatures, and that its first signer has a receipt left in this minute.
///
/// # Errors
/// By the table of receipts.
pub fn admit(
    account: &Account,
    state: &State,
    body: &[u8],
    has_token: bool,
    budget: &Budget,
) -> Result<PreparedReceipt, Problem> {
    let mut prepared = prepare_receipt(state, body, has_token, budget)?;
    let per_minute = state.settings.receipts_per_minute;
    // Anybody can hand in again what others have signed: that costs them nothing.
    if per_minute > 0 && !is_there(account, &prepared.request)? {
        let first = prepared.request.verified.first().map(|v| v.identity);
        if let Some(first) = first {
            account.take_receipt(first, per_minute)?;
        }
        prepared.signatures.charged = first;
    }
    Ok(prepared)
}

fn is_there(account: &Account, request: &ReceiptRequest) -> Result<bool, Problem> {
    let key = receipt_key(&request.pae_sha256, &request.verified);
    let found = account.reader().find(&key);
    Ok(found.map_err(|e| Problem::internal(&e))?.is_some())
}

/// Gives back what a receipt cost that became no leaf after all.
pub fn settle(account: &Account, signatures: &Signatures, outcome: &Result<Written, Problem>) {
    let is_new = outcome.as_ref().is_ok_and(|written| !written.leaf.existing);
    if let Some(charged) = signatures.charged.filter(|_| !is_new) {
        account.give_back_receipt(charged);
    }
}

/// Takes one envelope: its signatures checked, handed to the writer, waited for. With it the signatures that its leaf does not have.
///
/// # Errors
/// By the table of receipts; none of them is a leaf.
pub async fn receipt(
    account: &Account,
    body: &[u8],
    has_token: bool,
    wanted: Wanted,
) -> Result<(Written, Vec<Dropped>), Problem> {
    let version = account.reader().version();
    let prepared = admit(account, &version, body, has_token, &Budget::of(1))?;
    let requests = vec![Request::Receipt(prepared.request)];
    let written = match write(account, requests, wanted).await {
        // OK because one request has one answer.
        Ok(mut written) => written.pop().expect("submit::receipt"),
        Err(problem) => Err(problem),
    };
    settle(account, &prepared.signatures, &written);
    let written = written?;
    let dropped = prepared.signatures.left_out(&written.leaf.leaf);
    Ok((written, dropped))
}
