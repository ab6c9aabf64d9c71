//! `countersign head list`: the logs that are tracked.

use std::process::ExitCode;

use clap::Args;

use crate::cli::{out::Out, place::Place};

/// List the tracked logs, each with its last proved head
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Print one line of JSON for each log
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

pub(super) async fn run(args: &ListArgs) -> anyhow::Result<ExitCode> {
    let service = args.place.service().await?;
    let logs = service
        .client
        .tracked()
        .await
        .map_err(|error| service.explain(error))?;
    let mut out = Out::stdout();
    for log in logs {
        if args.json {
            out.line(serde_json::to_string(&log)?)?;
            continue;
        }
        let mut line = match &log.proved {
            Some(head) => format!(
                "{}  {} leaves, root {}, at leaf {} ({})",
                log.origin, head.size, head.root, head.index, head.at
            ),
            None => format!("{}  no head yet", log.origin),
        };
        if let Some(since) = &log.unproven_since {
            line += &format!(", heads unproven since {since}");
        }
        if let Some([first, second]) = log.fork {
            line += &format!(", FORK: leaves {first} and {second}");
        }
        out.line(line)?;
    }
    Ok(ExitCode::SUCCESS)
}
