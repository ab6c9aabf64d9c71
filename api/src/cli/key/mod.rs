//! `countersign key`: key files.

mod new;
mod prove;
mod show;

use std::process::ExitCode;

use clap::{Args, Subcommand};

/// Make, show and prove keys
#[derive(Debug, Args)]
pub struct KeyArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    New(new::NewArgs),
    Show(show::ShowArgs),
    Prove(prove::ProveArgs),
}

/// Runs it.
///
/// # Errors
/// A file that cannot be used.
pub fn run(args: &KeyArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::New(args) => new::run(args),
        Command::Show(args) => show::run(args),
        Command::Prove(args) => prove::run(args),
    }
}
