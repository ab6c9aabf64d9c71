//! `countersign pin list`: what is pinned.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::PinsArg;
use crate::cli::out::Out;

/// List the pinned logs and the heads that are kept of them
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Print one line of JSON for each log
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pins: PinsArg,
}

pub(super) fn run(args: &ListArgs) -> anyhow::Result<ExitCode> {
    let mut out = Out::stdout();
    for pinned in args.pins.open()?.all()? {
        let newest = &pinned.newest().checkpoint;
        if args.json {
            let heads = pinned.heads.iter().map(|head| {
                let (size, root) = (head.checkpoint.size, head.checkpoint.root.to_base64());
                json!({"size": size, "root": root, "file": head.file})
            });
            out.line(json!({
                "origin": pinned.log.origin,
                "vkey": pinned.log.vkey,
                "log": pinned.log.log,
                "heads": heads.collect::<serde_json::Value>(),
            }))?;
        } else {
            let (origin, count) = (&pinned.log.origin, pinned.heads.len());
            out.line(format_args!(
                "{origin}  {} leaves, root {}; {count} heads kept; read at {}",
                newest.size, newest.root, pinned.log.log
            ))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
