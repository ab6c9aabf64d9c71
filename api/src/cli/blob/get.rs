//! `countersign blob get`: a body is read, and held against its commitment.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use clap::Args;
use countersign_verifier::hash::Hash;
use serde_json::json;

use super::{Asking, commitment};
use crate::{
    cli::{
        out,
        out::Out,
        place::{KeyArg, Place},
        tool,
    },
    files,
};

/// Read a body and hold it against its commitment; nothing else than that body is ever written
///
/// Exit code 1: there is none, or it was erased (the leaf that erased it is named).
#[derive(Debug, Args)]
pub struct GetArgs {
    /// The commitment, 64 hexadecimal digits
    #[arg(value_parser = commitment)]
    commitment: Hash,
    /// Write it to this file [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print one line of JSON: commitment, bytes, media_type, salt
    #[arg(long, requires = "out")]
    json: bool,
    #[command(flatten)]
    key: KeyArg,
    #[command(flatten)]
    place: Place,
}

pub(super) async fn run(args: &GetArgs) -> anyhow::Result<ExitCode> {
    let asking = Asking::of(&args.key, &args.place).await?;
    let found = tool::again(&asking.service, || {
        asking.service.client.blob(&args.commitment, asking.by())
    });
    let found = found.await?;
    match &args.out {
        Some(path) => files::replace(path, &found.body, files::SECRET)
            .with_context(|| path.display().to_string())?,
        None => Out::stdout()
            .bytes(&found.body)
            .context("standard output")?,
    }
    let bytes = found.body.len();
    if args.json {
        let shown = json!({
            "commitment": args.commitment.to_hex(),
            "bytes": bytes,
            "media_type": found.media_type,
            "salt": found.salt,
        });
        Out::stdout().line(shown.to_string())?;
    } else {
        out::note(format_args!(
            "{bytes} bytes of {}, salt {}",
            found.media_type, found.salt
        ));
    }
    Ok(ExitCode::SUCCESS)
}
