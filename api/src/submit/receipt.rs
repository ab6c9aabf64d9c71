//! One receipt from its bytes to its leaf, whichever door it came through.

use super::{Budget, Dropped, PreparedReceipt, Wanted, Written, prepare_receipt, write};
use crate::{account::Account, error::Problem, ledger::Request, state::State};

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
    let prepared = prepare_receipt(state, body, has_token, budget)?;
    if let Some(first) = prepared.request.verified.first() {
        account.take_receipt(first.identity, state.settings.receipts_per_minute)?;
    }
    Ok(prepared)
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
    let mut written = write(account, requests, wanted).await?;
    // OK because one request has one answer.
    let written = written.pop().expect("submit::receipt")?;
    let dropped = prepared.signatures.left_out(&written.leaf.leaf);
    Ok((written, dropped))
}
