//! `countersign board`: the board of an account, and files of it.

mod export;
mod import;
mod list;

use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, Subcommand};
use countersign_verifier::key::PrivateKey;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{place::Service, tool};

/// The board: list it, take it out as a file, bring a file in
#[derive(Debug, Args)]
pub struct BoardArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(list::ListArgs),
    Export(export::ExportArgs),
    Import(import::ImportArgs),
}

/// Runs it.
///
/// # Errors
/// A file that cannot be used, or what the service says.
pub fn run(args: &BoardArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::List(args) => super::block_on(list::run(args)),
        Command::Export(args) => super::block_on(export::run(args)),
        Command::Import(args) => super::block_on(import::run(args)),
    }
}

/// What a tool that reads answers, in its own form.
async fn ask<T: DeserializeOwned>(
    service: &Service,
    key: Option<&PrivateKey>,
    tool: &str,
    arguments: Value,
) -> anyhow::Result<T> {
    let answer = tool::read(service, key, tool, arguments).await?;
    match serde_json::from_value(answer.result) {
        Ok(result) => Ok(result),
        Err(error) => bail!(
            "{}: its answer to {tool} cannot be read: {error}",
            service.client.url()
        ),
    }
}
