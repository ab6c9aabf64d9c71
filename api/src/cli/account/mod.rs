//! `countersign account`: the accounts of a directory.

mod create;
mod list;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::{Fail, local::IN_USE};
use crate::data_dir::{DataDir, Held, LockError};

/// Make an account, or list them: each is a log of its own, with its own keys, identities and board
#[derive(Debug, Args)]
pub struct AccountArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(create::CreateArgs),
    List(list::ListArgs),
}

/// Runs it.
///
/// # Errors
/// A file that cannot be used, or a service that says no.
pub fn run(args: &AccountArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Create(args) => create::run(args),
        Command::List(args) => list::run(args),
    }
}

/// Takes the directory; `None` where a service has it.
fn hold(dir: &DataDir) -> anyhow::Result<Option<Held>> {
    if !dir.root().is_dir() {
        anyhow::bail!(
            "{}: there is no such directory; `countersign init` or `countersign up` makes one",
            dir.root().display()
        );
    }
    match dir.lock() {
        Ok(held) => Ok(Some(held)),
        Err(LockError::InUse { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Another process has the directory, and is no service that could be asked.
fn in_use(dir: &DataDir) -> anyhow::Error {
    let message = match dir.lock() {
        Err(error) => format!("{error}, which does not answer"),
        Ok(_) => "another process had the directory just now: try again".into(),
    };
    Fail {
        code: IN_USE,
        message,
    }
    .into()
}
