//! `countersign recover`: bring back the leaves that a directory has lost.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use countersign_verifier::policy::Quorum;

use super::{
    Fail, REFUSED,
    bar::Bar,
    foreign::ReadingArgs,
    foreign::explain,
    local::{self, LocalArg},
    out::Out,
    out::note,
};
use crate::{
    account::Parts,
    recover::{self, Plan, RecoverError},
};

/// Bring back leaves that this directory has lost, from a mirror or any reader that kept the log; no service may run on it
///
/// A head that this log signed and the quorum of its size cosigned says what is missing. The tree there must begin with what is
/// here, and the leaves must lead to its root: else nothing is changed. What is here is read first: a database that is damaged is
/// refused, and must be moved away. Copy the directory first. Where the disk was lost and the
/// account's keys were kept (`db/` missing or empty), all of it comes back. Interrupted, run it again; until it is through, the
/// log does not start.
#[derive(Debug, Args)]
pub struct RecoverArgs {
    /// Who kept the log: the URL that its tiles lie under, or a folder of static tiles
    #[arg(long, value_name = "URL|DIR")]
    from: String,
    /// The head to go back to, as a witness shows it, instead of the newest checkpoint of who kept the log. Several files: their
    /// signatures of one head count together
    #[arg(long, value_name = "FILE")]
    head: Vec<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
    #[command(flatten)]
    local: LocalArg,
}

/// Runs it.
///
/// # Errors
/// What keeps anything from being brought back.
pub fn run(args: &RecoverArgs) -> anyhow::Result<ExitCode> {
    let local = args.local.open()?;
    let _held = local.hold()?;
    let parts = Parts::read(&local.dir, &local.name)?;
    let source = args.reading.open(&args.from)?;
    let bar = Bar::new();
    let plan = Plan {
        source: &source,
        heads: local::heads(&args.head)?,
        progress: &|done, all| bar.at(done, all),
    };
    let recovered = recover::run(&parts, &plan);
    bar.end();
    let recovered = recovered.map_err(told)?;
    let mut out = Out::stdout();
    if recovered.from.size == recovered.to.size {
        out.line(format_args!(
            "nothing is missing: {} leaves are here, and lead to root {}",
            recovered.to.size, recovered.to.root
        ))?;
    } else {
        out.line(format_args!(
            "brought back {} leaves: size {}, root {}",
            recovered.to.size - recovered.from.size,
            recovered.to.size,
            recovered.to.root
        ))?;
    }
    if recovered.quorum == Quorum::None {
        note(
            "warning: the policy of that size asks for no witness: that nothing newer was lost is nobody's word",
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn told(error: RecoverError) -> anyhow::Error {
    match error {
        RecoverError::Foreign(error) => explain(error),
        RecoverError::Note(_)
        | RecoverError::Heads
        | RecoverError::Policy(_)
        | RecoverError::Log { .. }
        | RecoverError::Short { .. }
        | RecoverError::Mark { .. }
        | RecoverError::Damaged { .. }
        | RecoverError::Fork(_)
        | RecoverError::Root { .. }
        | RecoverError::Import(_) => {
            let message = error.to_string();
            Fail {
                code: REFUSED,
                message,
            }
            .into()
        }
        error => error.into(),
    }
}
