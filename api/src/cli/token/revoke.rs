//! `countersign token revoke`: a token ends.

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context as _, bail};
use clap::Args;
use countersign_verifier::hash::Hash;
use serde_json::json;

use crate::{
    cli::{
        place::{KeyArg, Place},
        tool::{self, WaitArgs},
    },
    client::Token,
    state::token::token_hash,
};

/// End a token; signed by the owner, or by the identity whose it is
#[derive(Debug, Args)]
pub struct RevokeArgs {
    /// The token's SHA-256, as `token list` shows it
    #[arg(value_name = "SHA256", required_unless_present = "file")]
    sha256: Option<String>,
    /// A file that holds the token
    #[arg(long, value_name = "FILE", conflicts_with = "sha256")]
    file: Option<PathBuf>,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    key: KeyArg,
    #[command(flatten)]
    place: Place,
}

pub(super) async fn run(args: &RevokeArgs) -> anyhow::Result<ExitCode> {
    let caller = args.key.read(&args.place.site.dir)?;
    let service = args.key.service(&args.place).await?;
    let hash = match (&args.sha256, &args.file) {
        (Some(hex), _) => match Hash::from_hex(hex) {
            Ok(hash) => hash,
            Err(_) => bail!("not a SHA-256: 64 hexadecimal digits in lower case"),
        },
        (None, Some(path)) => {
            let read = std::fs::read_to_string(path).map(zeroize::Zeroizing::new);
            let text = read.with_context(|| path.display().to_string())?;
            let token = Token::parse(&text).with_context(|| path.display().to_string())?;
            token_hash(&service.origin().await?, token.text())
        }
        // OK because clap asks for one of the two.
        (None, None) => bail!("name a token"),
    };
    let call = ("token_revoke", json!({"token_sha256": hash.to_hex()}));
    let answer = tool::write(&service, &caller, call, None, args.wait).await?;
    tool::show(&answer, args.json)
}
