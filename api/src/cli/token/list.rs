//! `countersign token list`: which tokens there are.

use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use crate::cli::{
    enrol::pages,
    out::Out,
    place::{KeyArg, Place},
};

/// List the tokens of the account by their hashes, with whose they are, the ended ones included
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Print one line of JSON for each
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    key: KeyArg,
    #[command(flatten)]
    place: Place,
}

pub(super) async fn run(args: &ListArgs) -> anyhow::Result<ExitCode> {
    let (service, key) = args.key.reach(&args.place).await?;
    let mut out = Out::stdout();
    pages(&service, key.as_ref(), ("token_list", "tokens"), |row| {
        if args.json {
            out.line(row)?;
        } else {
            out.line(line(&row))?;
        }
        Ok(!out.is_closed())
    })
    .await?;
    Ok(ExitCode::SUCCESS)
}

fn line(row: &Value) -> String {
    let text = |name: &str| row[name].as_str().unwrap_or("?");
    let state = match (row["good"].as_bool(), row["revoked_index"].as_u64()) {
        (_, Some(index)) => format!("REVOKED at {index}"),
        (Some(true), None) => match row["expires_at"].as_str() {
            Some(ends) => format!("until {ends}"),
            None => "until it is revoked".into(),
        },
        _ => format!("ended {}", text("expires_at")),
    };
    let (name, identity) = (text("name"), text("identity"));
    format!("{}  {name}  {identity}  {state}", text("token_sha256"))
}
