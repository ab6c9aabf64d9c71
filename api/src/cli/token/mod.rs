//! `countersign token`: who may ask without signing.

mod bind;
mod list;
mod new;
mod revoke;

use std::process::ExitCode;

use clap::{Args, Subcommand};

/// Give seats to clients that hold no key: make, revoke and list tokens
#[derive(Debug, Args)]
pub struct TokenArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    New(new::NewArgs),
    Bind(bind::BindArgs),
    Revoke(revoke::RevokeArgs),
    List(list::ListArgs),
}

/// Runs it.
///
/// # Errors
/// A file that cannot be used, or what the service says.
pub fn run(args: &TokenArgs) -> anyhow::Result<ExitCode> {
    super::block_on(async {
        match &args.command {
            Command::New(args) => new::run(args).await,
            Command::Bind(args) => bind::run(args).await,
            Command::Revoke(args) => revoke::run(args).await,
            Command::List(args) => list::run(args).await,
        }
    })
}
