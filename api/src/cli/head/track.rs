//! `countersign head track`: another log is tracked.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use clap::Args;
use countersign_verifier::vkey::VerifierKey;
use serde_json::json;

use crate::cli::{
    place::{KeyArg, Place},
    tool::{self, WaitArgs},
};

/// Track a log: from then on its signed heads are taken. Signed by the owner
#[derive(Debug, Args)]
pub struct TrackArgs {
    /// The log's verifier key: of type 0x01, 0x02 or 0x05
    #[arg(value_name = "VKEY", value_parser = vkey)]
    vkey: String,
    /// The origin in its checkpoints [default: the key's name]
    #[arg(long, value_name = "ORIGIN")]
    origin: Option<String>,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    wait: WaitArgs,
    /// Your own signing key, PKCS#8 PEM or OpenSSH Ed25519 [default: owner.key in the data directory]
    #[arg(
        long,
        value_name = "FILE",
        env = "COUNTERSIGN_KEY",
        hide_env_values = true,
        help_heading = "Where"
    )]
    key: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
}

fn vkey(text: &str) -> Result<String, String> {
    let key = VerifierKey::parse(text).map_err(|e| e.to_string())?;
    countersign_verifier::signed::check_kind(&key).map_err(|e| e.to_string())?;
    Ok(text.to_owned())
}

pub(super) async fn run(args: &TrackArgs) -> anyhow::Result<ExitCode> {
    let key = KeyArg::of(args.key.clone());
    let caller = key.read(&args.place.site.dir)?;
    let service = key.service(&args.place).await?;
    let mut arguments = json!({"vkey": args.vkey});
    if let Some(origin) = &args.origin {
        arguments["origin"] = origin.as_str().into();
    }
    let call = ("head_track", arguments);
    let answer = tool::write(&service, &caller, call, None, args.wait)
        .await
        .context("head_track")?;
    tool::show(&answer, args.json)
}
