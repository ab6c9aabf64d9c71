//! `countersign-verify`: files in, verdicts out. No sockets.

use std::io;
use std::process::ExitCode;

use clap::Parser;
use countersign_verifier::command::{HELP, VerifyArgs, run};

/// Check evidence from a Countersign log, offline
///
/// Evidence is a leaf with the proof that a log holds it under a checkpoint that the log signed and
/// witnesses cosigned, and with the leaves that show whose keys signed it. Everything is checked here,
/// against the policy that you name; no one is asked.
#[derive(Parser)]
#[command(name = "countersign-verify", version, after_help = HELP)]
struct Cli {
    #[command(flatten)]
    args: VerifyArgs,
}

fn main() -> ExitCode {
    let args = Cli::parse().args;
    ExitCode::from(run(&args, &mut io::stdout().lock()))
}
