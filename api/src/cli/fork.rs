//! `countersign fork`: evidence that a log has signed two histories.

use std::process::ExitCode;

use clap::Args;
use countersign_verifier::command::fork::{self, ForkArgs};

use super::out::Out;

/// Show or judge evidence that a log has signed two histories; no service is asked
#[derive(Debug, Args)]
pub struct Fork {
    #[command(flatten)]
    args: ForkArgs,
}

/// Runs it.
pub fn run(args: &Fork) -> ExitCode {
    ExitCode::from(fork::run(&args.args, &mut Out::stdout()))
}
