//! `countersign close`: end a log.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::{block_on, tool::SignedArgs};

/// Close a log for ever, naming the one that goes on; signed by the owner
///
/// The last leaf says so, and every later write is refused. What was written is served and proved as before: leave the service
/// running, or keep a mirror. For a log that cannot be recovered there is `countersign succeed`.
#[derive(Debug, Args)]
pub struct CloseArgs {
    /// The log that goes on: its verifier key, or its origin
    #[arg(long, value_name = "VKEY|ORIGIN")]
    successor: String,
    #[command(flatten)]
    signed: SignedArgs,
}

/// Runs it.
///
/// # Errors
/// A file that cannot be used, or what the service says.
pub fn run(args: &CloseArgs) -> anyhow::Result<ExitCode> {
    block_on(async {
        let asked = json!({"successor": args.successor});
        let to = args.signed.open().await?;
        args.signed.write(&to, "log_close", asked).await
    })
}
