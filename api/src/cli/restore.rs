//! `countersign restore`: a data directory out of a backup, all of it recomputed.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use clap::Args;
use countersign_verifier::{hash::Hash, verdict::Outcome};
use serde_json::{Value, json};

use super::{
    REFUSED, UNKNOWN,
    audit::now_s,
    backup::told,
    bar::Bar,
    out::{Out, shown},
    place::DirArg,
};
use crate::backup::restore::{self, Missing, Plan, Recomputed, Restored};

/// Make a data directory out of a backup, if all of it is what it must be
///
/// Every file is copied and its SHA-256 compared; then everything is recomputed from the leaves, as `check` does; bodies that a leaf
/// has erased are taken away. Only then does the directory get its name. Start its service next: a log with witnesses writes once
/// they have said that nothing newer is missing.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct RestoreArgs {
    /// The backup; it stays as it is
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    /// The SHA-256 that `backup` printed: that this is that backup, byte for byte
    #[arg(long, value_name = "HEX", value_parser = hash)]
    sha256: Option<Hash>,
    #[command(flatten)]
    dir: DirArg,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
The data directory must be absent or empty. To put one account back into a
directory that has others, restore it elsewhere, stop the service, and move
accounts/NAME.

What was written after the backup is not in it: see `recover`.

Exit codes:
  0  it is there
  1  a file or a leaf is not what it must be: named, and nothing was made
  2  wrong usage, no backup, or a place or file that cannot be used
  3  cannot tell: of a newer release
  4  another process is restoring to the same place

Examples:
  countersign restore /mnt/backup/2026-11-29 --dir /var/lib/countersign";

fn hash(text: &str) -> Result<Hash, String> {
    Hash::from_hex(text).map_err(|e| e.to_string())
}

/// Runs it.
///
/// # Errors
/// What keeps it from being told whether the backup is what it must be.
pub fn run(args: &RestoreArgs) -> anyhow::Result<ExitCode> {
    let dir = args.dir.open();
    let (bytes, leaves) = (Bar::bytes(), Bar::new());
    let plan = Plan {
        backup: &args.backup,
        dir: &dir,
        sha256: args.sha256,
        now_s: now_s(),
        bytes: &|done, all| bytes.at(done, all),
        leaves: &|done, all| {
            bytes.end();
            leaves.at(done, all);
        },
    };
    let restored = restore::run(&plan);
    bytes.end();
    leaves.end();
    let restored = restored.map_err(told)?;
    let mut out = Out::stdout();
    let written = match args.json {
        true => out.line(to_json(&restored)),
        false => out.bytes(shown(&to_lines(&restored)).as_bytes()),
    };
    written.context("standard output")?;
    Ok(ExitCode::from(match restored.outcome() {
        Outcome::Holds => 0,
        Outcome::DoesNotHold => REFUSED,
        Outcome::CannotTell => UNKNOWN,
    }))
}

fn to_json(restored: &Restored) -> Value {
    let account = |of: &Recomputed| {
        let mut row = of.report.to_json(&of.name);
        row["apart"] = json!(of.apart);
        row["erased"] = of.erased.into();
        row
    };
    let missing = |of: &Missing| json!({"file": of.file, "why": of.why});
    json!({
        "verdict": restored.outcome().as_str(),
        "dir": restored.place,
        "made_at": restored.manifest.made_at,
        "sha256": restored.sha256.to_hex(),
        "faults": restored.faults,
        "accounts": restored.accounts.iter().map(account).collect::<Value>(),
        "missing": restored.missing.iter().map(missing).collect::<Value>(),
    })
}

fn to_lines(restored: &Restored) -> String {
    let mut lines = String::new();
    for fault in &restored.faults {
        lines += &format!("{fault}\n");
    }
    for account in &restored.accounts {
        lines += &account.report.to_lines(&account.name);
        for apart in &account.apart {
            lines += &format!("{apart}\n");
        }
        if account.erased > 0 {
            lines += &format!(
                "{} bodies taken away again, which leaves have erased\n",
                account.erased
            );
        }
    }
    let made = &restored.manifest.made_at;
    match &restored.place {
        Some(place) => lines += &format!("restored {} as of {made}\n", place.display()),
        None => lines += "refused: nothing was restored\n",
    }
    for Missing { file, why } in &restored.missing {
        lines +=
            &format!("missing: {file}: {why}. Put it there from where you keep it, mode 0600\n");
    }
    lines
}
