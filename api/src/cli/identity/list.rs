//! `countersign identity list`: who may sign.

use std::process::ExitCode;

use clap::Args;

use crate::cli::{
    enrol::{Row, list},
    out::Out,
    place::{KeyArg, Place},
};

/// List the identities of the account, the revoked ones included
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
    list(&service, key.as_ref(), |row| {
        if args.json {
            out.line(row)?;
        } else {
            out.line(line(&serde_json::from_value(row)?))?;
        }
        Ok(!out.is_closed())
    })
    .await?;
    Ok(ExitCode::SUCCESS)
}

fn line(row: &Row) -> String {
    let Row {
        identity,
        name,
        class,
        algorithm,
        possession,
        enrolled_index,
        ..
    } = row;
    let mut line = format!(
        "{identity}  {class:<11}  {algorithm:<10}  {possession:<6}  {name}  enrolled at {enrolled_index}"
    );
    if let Some(index) = row.rotated_index {
        line += &format!(", another key since {index}");
    }
    if let Some(index) = row.revoked_index {
        line += &format!(", REVOKED at {index}");
    }
    line
}
