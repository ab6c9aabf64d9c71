//! `countersign account list`: the accounts of a directory.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::{
    super::{block_on, out::Out, place::DirArg},
    hold, in_use,
};
use crate::{
    account::{is_public, origin_of},
    client::{ClientError, admin_accounts},
    data_dir::DataDir,
};

/// List the accounts of a directory: name, visibility, state and origin
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Print one line of JSON an account
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    dir: DirArg,
}

/// Lists them.
///
/// # Errors
/// A directory that cannot be read.
pub fn run(args: &ListArgs) -> anyhow::Result<ExitCode> {
    let dir = args.dir.open();
    let rows = match hold(&dir)? {
        Some(_held) => on_disk(&dir)?,
        None => {
            let socket = dir.admin_socket();
            let asked = block_on(async { Ok(admin_accounts(&socket).await) })?;
            let answer = match asked {
                Err(ClientError::Unreachable { .. }) => return Err(in_use(&dir)),
                asked => asked?,
            };
            answer["accounts"].as_array().cloned().unwrap_or_default()
        }
    };
    let mut out = Out::stdout();
    for row in &rows {
        if args.json {
            out.line(row)?;
            continue;
        }
        let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let who = if row["public"] == true {
            "public"
        } else {
            "private"
        };
        out.line(format_args!(
            "{} {who} {} {}",
            text("name"),
            text("state"),
            text("origin")
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What the files say, without opening anything.
fn on_disk(dir: &DataDir) -> anyhow::Result<Vec<Value>> {
    let row = |name: String| {
        let files = dir.account(&name);
        let origin = origin_of(&files).unwrap_or_default();
        let state = if files.succeeded().exists() {
            "succeeded"
        } else {
            "stopped"
        };
        json!({"name": name, "origin": origin, "public": is_public(&files), "state": state})
    };
    Ok(dir.account_names()?.into_iter().map(row).collect())
}
