//! `countersign init`: a data directory with one account.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use clap::Args;
use countersign_verifier::key::PublicKey;

use super::out::note;
use crate::{
    data_dir::{DEFAULT_DIR, DataDir},
    init::{Plan, create},
};

/// Make a data directory: keys, the owner's token, and a log with its first leaf
#[derive(Debug, Args)]
pub struct InitArgs {
    /// The directory; absent or empty
    #[arg(long, env = "COUNTERSIGN_DIR", default_value = DEFAULT_DIR)]
    pub dir: PathBuf,
    /// The account's local name: a-z 0-9 -
    #[arg(long, default_value = "main")]
    pub account: String,
    /// The log's origin, for ever: such as log.example.com/main
    #[arg(long)]
    pub origin: String,
    /// The owner's public key, so that the private one never lies on this machine; without it a key is made here
    #[arg(long, value_name = "FILE")]
    pub owner: Option<PathBuf>,
    /// Let only holders of a token read
    #[arg(long)]
    pub private: bool,
}

/// Makes it.
///
/// # Errors
/// Anything that keeps it from being made; nothing is ever overwritten.
pub fn run(args: &InitArgs) -> anyhow::Result<ExitCode> {
    let owner = args.owner.as_deref().map(public_key).transpose()?;
    let dir = DataDir::new(&args.dir);
    let plan = Plan {
        name: args.account.clone(),
        origin: args.origin.clone(),
        owner,
        public: !args.private,
        witnesses: false,
    };
    create(&dir, &plan)?;
    note(format_args!(
        "made {} with account `{}`, origin {}",
        args.dir.display(),
        plan.name,
        plan.origin
    ));
    if plan.owner.is_none() {
        note(format_args!(
            "the owner's private key lies in {}: whoever runs the service could sign for the owner.",
            dir.owner_key().display()
        ));
        note("Move it elsewhere, or begin with --owner, to change that.");
    }
    note(format_args!(
        "next: countersign serve --dir {}",
        args.dir.display()
    ));
    Ok(ExitCode::SUCCESS)
}

/// The public key in a file.
pub(super) fn public_key(path: &Path) -> anyhow::Result<PublicKey> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    PublicKey::parse(&bytes).with_context(|| format!("{} holds no public key", path.display()))
}
