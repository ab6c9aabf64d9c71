//! `countersign verify`: as `countersign-verify`.

use std::process::ExitCode;

use clap::Args;
use countersign_verifier::command::{self, HELP, VerifyArgs};

use super::out::Out;

/// Check evidence offline: files in, verdicts out; no service is asked
#[derive(Debug, Args)]
#[command(after_help = help())]
pub struct Verify {
    #[command(flatten)]
    args: VerifyArgs,
}

fn help() -> String {
    HELP.replace("countersign-verify", "countersign verify")
}

/// Runs it.
pub fn run(args: &Verify) -> ExitCode {
    ExitCode::from(command::run(&args.args, &mut Out::stdout()))
}
