//! `countersign blob put`: a body is kept.

use std::{fs, path::PathBuf, process::ExitCode};

use anyhow::{Context as _, bail};
use clap::Args;
use countersign_verifier::{blob::SALT_BYTES, hash::Hash};
use serde_json::json;

use super::Asking;
use crate::{
    cli::{
        out,
        out::Out,
        place::{KeyArg, Place},
        tool,
    },
    client::{BLOB_BYTES_MAX, new_salt},
};

/// Keep a body beside the log, at most 16 MiB, and print its commitment
///
/// A leaf refers to it as {"commitment","bytes","media_type"}. The commitment is SHA-256(salt ‖ body); the salt is made here and kept
/// with the body. Whoever is to check the body offline needs both.
#[derive(Debug, Args)]
pub struct PutArgs {
    /// The body
    file: PathBuf,
    /// What it is
    #[arg(long, value_name = "TYPE", default_value = "application/octet-stream")]
    media_type: String,
    /// The salt, 64 hexadecimal digits: the same body under the same one is answered, never kept twice [default: a fresh one]
    #[arg(long, value_name = "HEX", value_parser = salt)]
    salt: Option<[u8; SALT_BYTES]>,
    /// Print one line of JSON: commitment, bytes, media_type, salt
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    key: KeyArg,
    #[command(flatten)]
    place: Place,
}

fn salt(text: &str) -> Result<[u8; SALT_BYTES], String> {
    let salt = Hash::from_hex(text);
    salt.map(|salt| salt.0)
        .map_err(|_| "64 lowercase hexadecimal digits".into())
}

pub(super) async fn run(args: &PutArgs) -> anyhow::Result<ExitCode> {
    let name = args.file.display().to_string();
    let length = fs::metadata(&args.file)
        .with_context(|| name.clone())?
        .len();
    if length > BLOB_BYTES_MAX as u64 {
        bail!("{name}: {length} bytes; a body has at most {BLOB_BYTES_MAX}");
    }
    let body = fs::read(&args.file).with_context(|| name.clone())?;
    let salt = match args.salt {
        Some(salt) => salt,
        None => new_salt().context("no randomness")?,
    };
    let asking = Asking::of(&args.key, &args.place).await?;
    // The same salt in every attempt, so that it is kept once.
    let kept = tool::again(&asking.service, || {
        let about = (&salt, args.media_type.as_str());
        asking.service.client.put_blob(&body, about, asking.by())
    });
    let kept = kept.await?;
    if args.json {
        let shown = json!({
            "commitment": kept.commitment,
            "bytes": kept.bytes,
            "media_type": kept.media_type,
            "salt": kept.salt,
        });
        Out::stdout().line(shown.to_string())?;
    } else {
        out::note(format_args!(
            "{} bytes of {}, salt {}",
            kept.bytes, kept.media_type, kept.salt
        ));
        Out::stdout().line(&kept.commitment)?;
    }
    Ok(ExitCode::SUCCESS)
}
