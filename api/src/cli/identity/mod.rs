//! `countersign identity`: who may sign in an account.

mod enroll;
mod list;
mod revoke;
mod rotate;

use std::process::ExitCode;

use clap::{Args, Subcommand};

/// Say who may sign: enroll, rotate, revoke and list identities
#[derive(Debug, Args)]
pub struct IdentityArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Enroll(enroll::EnrollArgs),
    Rotate(rotate::RotateArgs),
    Revoke(revoke::RevokeArgs),
    List(list::ListArgs),
}

/// Runs it.
///
/// # Errors
/// A file that cannot be used, or what the service says.
pub fn run(args: &IdentityArgs) -> anyhow::Result<ExitCode> {
    super::block_on(async {
        match &args.command {
            Command::Enroll(args) => enroll::run(args).await,
            Command::Rotate(args) => rotate::run(args).await,
            Command::Revoke(args) => revoke::run(args).await,
            Command::List(args) => list::run(args).await,
        }
    })
}
