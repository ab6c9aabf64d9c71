//! `countersign-witness`: a witness alone, without the log and the API.

use std::process::ExitCode;

use clap::Parser;
use countersign_witness::cli::{self, Command};

/// A witness for transparency logs: cosigns the heads of logs that it has proved consistent, of each one branch only
///
/// Begin with `countersign-witness init --name NAME`, then `add-log` and `serve`.
#[derive(Debug, Parser)]
#[command(
    name = "countersign-witness",
    version,
    propagate_version = true,
    arg_required_else_help = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    cli::run(&Cli::parse().command)
}
