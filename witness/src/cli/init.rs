//! `witness init`: a directory with keys and an empty memory.

use std::process::ExitCode;

use clap::Args;

use super::{At, Fail, USAGE, note, print};
use crate::keys::Keys;
use crate::store::RocksStore;

/// Make a new witness and print its verifier key
#[derive(Debug, Args)]
pub struct InitArgs {
    #[command(flatten)]
    at: At,
    /// The name in its signatures: best a host and path of your own, such as example.com/witness
    #[arg(long)]
    name: String,
    /// With a key of ML-DSA-44 (type 0x06) beside the Ed25519 one: both sign. Checkpoints with extension lines are then refused
    #[arg(long)]
    ml_dsa: bool,
}

pub(super) fn run(args: &InitArgs) -> Result<ExitCode, Fail> {
    // Before anything is made: a name that cannot be signed under leaves no directory behind.
    Keys::from_seeds(&args.name, &[0; 32], None)?;
    let dir = args.at.dir();
    let place = dir.root().display().to_string();
    dir.create()
        .map_err(|error| Fail::new(USAGE, format!("{place}: {error}")))?;
    let keys = Keys::create(&dir, &args.name, args.ml_dsa)?;
    RocksStore::create(&dir.db(), &dir.commits())?;
    crate::dir::sync_dir(dir.root())?;
    let lines: Vec<String> = keys.vkeys().iter().map(|key| format!("{key}\n")).collect();
    print(&lines.concat())?;
    note(format_args!(
        "made a witness in {place}; no copy of it may ever serve beside it, and an older copy never again"
    ));
    Ok(ExitCode::SUCCESS)
}
