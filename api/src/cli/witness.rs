//! `countersign witness`: as `countersign-witness`.

use std::process::ExitCode;

use clap::Args;
use countersign_witness::cli::{self, Command};

/// Run a witness: cosign the heads of logs that it has proved consistent, of each one branch only
#[derive(Debug, Args)]
pub struct WitnessArgs {
    #[command(subcommand)]
    command: Command,
}

/// Runs it.
pub fn run(args: &WitnessArgs) -> ExitCode {
    cli::run(&args.command)
}
