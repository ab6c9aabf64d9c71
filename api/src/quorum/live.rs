//! Another quorum while the service runs.
//!
//! The account's log is closed and opened again, by the code of a start, the guard included: so every thread that publishes has
//! one policy for its whole life, and the new era begins at a size that nobody moves meanwhile. The store stays open, and with it
//! what readers have in hand; they are shown the head published last, with the policy before, until the new log takes its place.

use std::sync::PoisonError;

use countersign_log::StoreError;
use countersign_verifier::policy::{Policy, PolicySyntax};

use super::{Policies, QuorumError, judge, next_size, of_log};
use crate::{
    account::{Account, OpenError},
    app::App,
};

/// Why another policy is not in force.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// No account of this name is open here.
    #[error("no account of this name is open here")]
    Absent,
    /// The text is no policy.
    #[error(transparent)]
    Parse(#[from] PolicySyntax),
    /// No head could be published under it.
    #[error("{0}")]
    Fault(String),
    /// The files of the policies; the log is open again, under the policy that they say.
    #[error(transparent)]
    Files(#[from] QuorumError),
    /// The store could not be read; the log is open again, under the policy before.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log could not be opened again.
    #[error(
        "the log is closed, because it could not be opened again: {0}. It is tried again every ten seconds"
    )]
    Open(#[from] OpenError),
}

/// Lets another policy hold for an account of a running service; the tree size that it holds from. Blocks: a log that is closed
/// has its last round.
///
/// # Errors
/// [`LiveError`].
pub fn change(app: &App, name: &str, text: &str) -> Result<u64, LiveError> {
    // One at a time: two logs on one store must never be open.
    let _one = app.changing.lock().unwrap_or_else(PoisonError::into_inner);
    let account = app.accounts.get(name).map_err(|_| LiveError::Absent)?;
    let policy = Policy::parse(text)?;
    let own = of_log(text, &account.vkey).is_ok();
    if let Some(fault) = judge(&policy, own).faults.pop() {
        return Err(LiveError::Fault(fault));
    }
    account.log.close();
    let begun = begin(&account, text);
    // Whatever became of it, the files say which policy holds.
    let opener = app.accounts.opener();
    let settings = (&opener.witnesses, opener.explicit);
    let opened = account.again(&app.dir, opener.clocks.clone(), settings);
    let opened = opened.inspect_err(|error| {
        tracing::error!(account = name, %error, "the log did not open again after a change of its quorum");
        app.accounts.give_up(name);
    })?;
    app.accounts.replace(opened);
    tracing::info!(account = name, from = ?begun.as_ref().ok(), "the log is open again after a change of its quorum");
    begun
}

fn begin(account: &Account, text: &str) -> Result<u64, LiveError> {
    let from = next_size(account.store())?;
    let policies = Policies::read(&account.dir, &account.vkey)?;
    policies.begin(&account.dir, text, from)?;
    Ok(from)
}
