//! `countersign head`: heads of other logs, as leaves of an account.

pub mod leaf;
mod list;
mod submit;
mod track;

use std::process::ExitCode;

use clap::{Args, Subcommand};

/// Track other logs: record their signed heads as leaves of an account, with what each is beside those before it
#[derive(Debug, Args)]
pub struct HeadArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Track(track::TrackArgs),
    Submit(submit::SubmitArgs),
    List(list::ListArgs),
}

/// Runs it.
///
/// # Errors
/// A file or an address that cannot be used, or what the service says.
pub fn run(args: &HeadArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Track(args) => super::block_on(track::run(args)),
        Command::Submit(args) => submit::run(args),
        Command::List(args) => super::block_on(list::run(args)),
    }
}
