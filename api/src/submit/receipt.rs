//! One receipt from its bytes to its leaf, whichever door it came through.

use super::{Budget, Dropped, Wanted, Written, prepare_receipt, write};
use crate::{account::Account, error::Problem, ledger::Request};

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
    let prepared = prepare_receipt(&version, body, has_token, &Budget::of(1))?;
    let requests = vec![Request::Receipt(prepared.request)];
    let mut written = write(account, requests, wanted).await?;
    // OK because one request has one answer.
    let written = written.pop().expect("submit::receipt")?;
    let dropped = prepared.signatures.left_out(&written.leaf.leaf);
    Ok((written, dropped))
}
