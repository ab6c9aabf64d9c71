//! `countersign board export`: the board as a file.

use std::{fs, path::PathBuf, process::ExitCode};

use anyhow::{Context as _, bail};
use clap::Args;
use countersign_verifier::hash::sha256;
use serde_json::json;

use super::ask;
use crate::{
    cli::{
        out::{self, Out},
        place::{KeyArg, Place},
    },
    tools::board::Exported,
};

/// Take the board out as a file
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The file; standard output if absent or -
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// countersign.board/1 for machines and other accounts, markdown for people
    #[arg(long, default_value = "countersign.board/1", value_parser = ["countersign.board/1", "markdown"])]
    format: String,
    #[command(flatten)]
    key: KeyArg,
    #[command(flatten)]
    place: Place,
}

pub(super) async fn run(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    let (service, key) = args.key.reach(&args.place).await?;
    let asked = json!({"format": args.format});
    let exported: Exported = ask(&service, key.as_ref(), "board_export", asked).await?;
    if sha256(exported.content.as_bytes()).to_hex() != exported.sha256 {
        bail!("the export is not what its digest says: it was changed on the way");
    }
    match args.file.as_deref().filter(|file| file.as_os_str() != "-") {
        Some(file) => {
            // Beside it first, so that nobody ever reads half of it.
            let half = file.with_added_extension("part");
            fs::write(&half, &exported.content).with_context(|| half.display().to_string())?;
            fs::rename(&half, file).with_context(|| file.display().to_string())?;
        }
        None => Out::stdout().bytes(exported.content.as_bytes())?,
    }
    out::note(format_args!(
        "{} items as of {} leaves, sha256 {}",
        exported.items, exported.size, exported.sha256
    ));
    Ok(ExitCode::SUCCESS)
}
