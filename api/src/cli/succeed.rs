//! `countersign succeed`: begin the log that goes on from one that cannot be recovered.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;

use super::{
    Fail, REFUSED, block_on,
    init::public_key,
    local::{self, LocalArg},
    out::{Out, note},
};
use crate::{
    account::Parts,
    succeed::{self, Plan, SucceedError},
};

/// Begin the log that goes on from one that cannot be recovered; no service may run on the directory
///
/// The old account is marked and never signs again. The new one has a key and an origin of its own, the old one's owner, with the key
/// that it had last, and policy, and a first leaf that names the old log's last witnessed head and what of it is lost. What is kept here and what the witnesses
/// show, where they answer, says which head that is. Interrupted, run it again. For a healthy log there is `countersign
/// close`; where anybody kept the leaves, `countersign recover`.
#[derive(Debug, Args)]
pub struct SucceedArgs {
    /// The new account's local name: a-z 0-9 -
    #[arg(long)]
    name: String,
    /// The new log's origin, for ever: such as log.example.com/main-2
    #[arg(long)]
    origin: String,
    /// The old log's last witnessed head, as a witness shows it, instead of the newest that is known. Several files: their signatures
    /// of one head count together
    #[arg(long, value_name = "FILE")]
    head: Vec<PathBuf>,
    /// Go on from the head given though a larger one of the old log is known here or at a witness: only where no quorum for that can be
    /// found
    #[arg(long)]
    below_known: bool,
    /// The owner's public key, instead of the one that the leaves here give it last: where they cannot be read, or that key is lost
    #[arg(long, value_name = "FILE")]
    owner: Option<PathBuf>,
    #[command(flatten)]
    local: LocalArg,
}

/// Runs it.
///
/// # Errors
/// What keeps the new log from being begun.
pub fn run(args: &SucceedArgs) -> anyhow::Result<ExitCode> {
    // After an interrupted attempt the old account is not the open one any more.
    let local = args
        .local
        .open_or(|dir| succeed::marked_for(dir, &args.name, &args.origin))?;
    let _held = local.hold()?;
    let old = Parts::read(&local.dir, &local.name)?;
    let plan = Plan {
        name: args.name.clone(),
        origin: args.origin.clone(),
        heads: local::heads(&args.head)?,
        shown: block_on(async { Ok(succeed::ask_witnesses(&old).await) })?,
        below_known: args.below_known,
        owner: args.owner.as_deref().map(public_key).transpose()?,
    };
    let begun = succeed::run(&local.dir, &old, &plan).map_err(|error| match error {
        SucceedError::Recover(_)
        | SucceedError::Another { .. }
        | SucceedError::Below { .. }
        | SucceedError::Unmet { .. }
        | SucceedError::Named { .. } => {
            let message = error.to_string();
            Fail {
                code: REFUSED,
                message,
            }
            .into()
        }
        error => anyhow::Error::from(error),
    })?;
    let before = &begun.predecessor;
    let mut out = Out::stdout();
    out.line(&begun.vkey)?;
    let size = succeed::head_of(&before.checkpoint).map_or(0, |head| head.size);
    note(format_args!(
        "account `{}` goes on from {}, whose last witnessed head has {size} leaves; {} are here",
        plan.name, before.origin, before.recovered_size
    ));
    if let Some((first, end)) = before.lost {
        note(format_args!("lost: leaves {first} to {}", end - 1));
    }
    if let Some(why) = &begun.nothing {
        note(format_args!("none are counted: {why}"));
    }
    if let Some(until) = begun.owner_until {
        note(format_args!(
            "the owner's key is the one that it had at size {until}, where the leaves that can be read end: if it was rotated later, whoever has \
             that old key owns the new log. Then begin again with --owner, under another name"
        ));
    }
    note(format_args!(
        "account `{}` never signs again. Give verifiers the new policy, and have witnesses that are not this directory's own add the new \
         key; identities are enrolled anew",
        local.name
    ));
    Ok(ExitCode::SUCCESS)
}
