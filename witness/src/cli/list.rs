//! `witness list`.

use std::process::ExitCode;

use clap::Args;

use super::reach::{Reach, block_on};
use super::{At, Fail, REFUSED, print};
use crate::http::admin::{Listed, PAGE};

/// Show the logs with their sizes, and how long ago each was cosigned
#[derive(Debug, Args)]
pub struct ListArgs {
    #[command(flatten)]
    at: At,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &ListArgs) -> Result<ExitCode, Fail> {
    block_on(async {
        let reach = Reach::find(&args.at.dir()).await?;
        if !args.json {
            print("        SIZE  COSIGNED      TODAY  REFUSED  ORIGIN\n")?;
        }
        let mut last: Option<Listed> = None;
        loop {
            let page = reach.page(last.as_ref()).await?;
            let lines: Result<Vec<String>, Fail> =
                page.iter().map(|listed| line(listed, args.json)).collect();
            print(&lines?.concat())?;
            if page.len() < PAGE {
                return Ok(ExitCode::SUCCESS);
            }
            last = page.into_iter().next_back();
        }
    })
}

fn line(listed: &Listed, json: bool) -> Result<String, Fail> {
    if json {
        let line = serde_json::to_string(listed).map_err(|why| Fail::new(REFUSED, why))?;
        return Ok(line + "\n");
    }
    Ok(format!(
        "{:>12}  {:>8}  {:>9}  {:>7}  {}{}\n",
        listed.size.map_or("-".into(), |size| size.to_string()),
        listed.age_s.map_or("never".into(), ago),
        listed.requests_today,
        listed.refusals,
        listed.origin,
        state(listed)
    ))
}

/// What an operator must see of a log.
fn state(listed: &Listed) -> String {
    if listed.forked {
        return "  FORKED: quarantined".into();
    }
    let oldest = listed.unresolved.iter().min_by_key(|row| row.since);
    oldest.map_or(String::new(), |row| {
        format!(
            "  unresolved since {} (size {} at {})",
            row.since, row.size, row.peer
        )
    })
}

/// Seconds in the largest unit that leaves two digits.
fn ago(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}
