//! `countersign backup`: a copy of a data directory, beside a running service or of one at rest.

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context as _, bail};
use clap::Args;
use countersign_log::StoreError;
use countersign_verifier::{hash::Hash, leaf::Millis};
use serde_json::{Value, json};

use super::{
    Fail, REFUSED, UNKNOWN, UNUSABLE,
    audit::now_s,
    bar::Bar,
    check::{Holds, account_names, copy_beside, hold},
    local::IN_USE,
    out::{Out, note},
    place::DirArg,
};
use crate::{
    backup::{Backup, BackupError, Made},
    data_dir::DataDir,
};

/// Make a backup of a data directory, also while its service writes
///
/// A folder that holds each account's leaves, bodies and public files, the settings, and `backup.json` with the SHA-256 of every
/// file. It is made beside its place under another name and moved there whole. Beside a running service the store is copied by
/// hard links first; writers wait for nothing.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct BackupArgs {
    /// Where to: a folder that is absent or empty, outside the data directory, in one that is there
    #[arg(value_name = "DEST")]
    dest: PathBuf,
    /// Only this account; may be given several times [default: all]
    #[arg(long, value_name = "NAME")]
    account: Vec<String>,
    /// Also the private keys and tokens: whoever gets hold of it can then sign for the log. Without them, keep them elsewhere: a
    /// log whose key is lost has ended
    #[arg(long)]
    with_keys: bool,
    #[command(flatten)]
    dir: DirArg,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
Note the SHA-256 that is printed: it stands for every byte of the backup, and
`restore --sha256` asks for it. Whoever can write where the backup lies can
change `backup.json` with the rest.

Witnesses are never in it: one that is put back from an older copy cosigns a
second history of what it forgot.

Exit codes:
  0  the backup is there
  1  an account or a body beside a log is damaged, or an account cannot be
     copied: each is named, and the backup is there without it; there is none
     where no account is left, or where that account was asked for
  2  wrong usage, or a place or file that cannot be used: nothing was made
  3  cannot tell: of a newer release, or the service does not answer
  4  the directory is in use, and its service cannot be asked

Examples:
  countersign backup /mnt/backup/2026-11-29
  countersign backup /mnt/backup/main --account main --with-keys";

/// Runs it.
///
/// # Errors
/// Whatever keeps the backup from being made.
pub fn run(args: &BackupArgs) -> anyhow::Result<ExitCode> {
    let dir = args.dir.open();
    let names = account_names(&dir, &args.account)?;
    let holds = hold(&dir, false)?;
    let made_at = Millis(now_s().unwrap_or(0).saturating_mul(1_000)).to_string();
    let begun = Backup::begin(&dir, &args.dest, (args.with_keys, made_at));
    let mut backup = begun.map_err(told)?;
    let mut without = Vec::new();
    for name in &names {
        let Err(error) = take(&mut backup, &dir, &holds, name) else {
            continue;
        };
        // One that cannot be copied keeps no other from it, unless it was asked for, or there is no room for any.
        if args.account.contains(name) || names.len() == 1 || backup.place_fails() {
            return Err(error);
        }
        note(format_args!(
            "countersign: account `{name}` is not in the backup: {error:#}"
        ));
        without.push(name.clone());
    }
    if without.len() == names.len() {
        bail!("no account could be copied: there is no backup");
    }
    let made = backup.finish().map_err(told)?;
    let mut out = Out::stdout();
    let written = match args.json {
        true => out.line(to_json(&made, &without)),
        false => out.bytes(to_lines(&made).as_bytes()),
    };
    written.context("standard output")?;
    if made.left_out.is_empty() && without.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    for body in &made.left_out {
        note(format_args!(
            "countersign: left out, because it is damaged: {body}"
        ));
    }
    Ok(ExitCode::from(REFUSED))
}

/// Takes an account in: beside a service a copy that it makes.
fn take(backup: &mut Backup<'_>, dir: &DataDir, holds: &Holds, name: &str) -> anyhow::Result<()> {
    let files = dir.account(name);
    let (db, mark) = (files.db(), files.tidemark());
    let copy = copy_beside(holds, dir, name)?.map(|(copy, _)| copy);
    let bar = Bar::bytes();
    let progress = |done: u64, all: u64| bar.at(done, all);
    let taken = match &copy {
        Some(copy) => backup.account(name, (&copy.db(), &copy.mark()), &progress),
        None => backup.account(name, (&db, &mark), &progress),
    };
    bar.end();
    taken.map_err(told)
}

/// What an error ends the process with.
pub fn told(error: BackupError) -> anyhow::Error {
    let code = match &error {
        BackupError::Damaged { .. }
        | BackupError::Malformed { .. }
        | BackupError::Another { .. } => REFUSED,
        BackupError::Place { .. } | BackupError::File { .. } => UNUSABLE,
        BackupError::InUse(_)
        | BackupError::Store {
            source: StoreError::InUse(_),
            ..
        } => IN_USE,
        BackupError::Store { .. } | BackupError::Newer { .. } => UNKNOWN,
    };
    let message = error.to_string();
    Fail { code, message }.into()
}

fn to_json(made: &Made, without: &[String]) -> Value {
    let accounts = made.manifest.accounts.iter().map(|row| {
        json!({
            "name": row.name,
            "origin": row.origin,
            "size": row.size,
            "root": row.root,
            "checkpoint": row.checkpoint,
            "bodies": row.bodies,
        })
    });
    json!({
        "backup": made.place,
        "sha256": made.sha256.to_hex(),
        "with_keys": made.manifest.with_keys,
        "files": made.manifest.files.len(),
        "bytes": made.manifest.bytes(),
        "accounts": accounts.collect::<Value>(),
        "left_out": made.left_out,
        "accounts_left_out": without,
    })
}

/// As `check`, `restore` and `status` show a root to people.
fn hex(root: &str) -> String {
    Hash::from_base64(root).map_or_else(|_| root.to_owned(), |root| root.to_hex())
}

fn to_lines(made: &Made) -> String {
    let mut lines = String::new();
    for row in &made.manifest.accounts {
        lines += &format!(
            "{}: {}, {} leaves, root {}, {} bodies\n",
            row.name,
            row.origin,
            row.size,
            hex(&row.root),
            row.bodies
        );
    }
    let keys = match made.manifest.with_keys {
        true => "with keys and tokens: keep it as safe as they are",
        false => "without keys and tokens: keep those elsewhere",
    };
    lines
        + &format!(
            "backup {}: {} files, {} bytes, {keys}\nsha256 {}\n",
            made.place.display(),
            made.manifest.files.len(),
            made.manifest.bytes(),
            made.sha256.to_hex()
        )
}
