//! `countersign check`: a data directory, recomputed from its leaves.

use std::{
    fs::{self, File},
    io::ErrorKind,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, bail};
use clap::Args;
use countersign_log::StoreError;
use countersign_verifier::verdict::Outcome;

use super::{
    Fail, REFUSED, UNKNOWN, UNUSABLE,
    audit::now_s,
    bar::Bar,
    block_on,
    evidence::worst,
    exit_code,
    local::IN_USE,
    out::{Out, note},
    place::DirArg,
};
use crate::{
    app,
    audit::check::{self, CheckError, Live, Plan, Report},
    client::{ClientError, Still, admin_still},
    data_dir::{AccountDir, DataDir, Held, LockError},
    files,
};

/// Recompute the accounts of a data directory from their leaves, and name whatever does not follow from them
///
/// Every leaf, tile, head, lookup key, signature and decision; the snapshot and what a running service holds against a replay; the
/// key files against leaf 0. Nothing is changed, unless `--repair` says so. Beside a running service a copy of its store is checked, made
/// of hard links, while it goes on.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct CheckArgs {
    /// The account [default: each, one report after the other]
    #[arg(
        long,
        value_name = "NAME",
        env = "COUNTERSIGN_ACCOUNT",
        hide_env_values = true,
        help_heading = "Where"
    )]
    account: Option<String>,
    #[command(flatten)]
    dir: DirArg,
    /// Make again what follows from the leaves, where it is not what it must be: tiles, lookup keys and the snapshot
    ///
    /// Only of a directory that no service runs on, and only where the leaves lead to the stored head. The store as it was is kept in
    /// accounts/NAME/before-repair-N first, of hard links. Then it is checked again. Where a repair was cut off so that the store does
    /// not open, what it had dropped is made first, empty: the copy from before is the one that it had made.
    #[arg(long)]
    repair: bool,
    /// Print one line of JSON an account
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
A line for each class of objects, by which faults are named:
  entry  every leaf is there, in its one form, and they lead to the head
  tile   every tile is what follows from the leaves
  head   the head, the checkpoints kept and the mark beside the database are of
         this tree, signed by the log, and meet the account's own policy
  index  the lookup keys are those that the leaves have, and no others
  state  every decision follows the rules; the snapshot, and what a running
         service holds, equal a replay
  blob   the bodies beside the log give their commitments, and none is erased
  key    every signature verifies under the key that the leaves enrol for its
         signer; the key files are those that leaf 0 names
A class passes only if all of it was seen: where leaves are missing or changed,
what follows from them is unknown. A store that does not open is a fault. Of
each fault it is said whether --repair mends it: it never touches a leaf, the
head, a checkpoint, the mark, a body or a key file. What there is to do about
these is said too (`to do`).

Exit codes:
  0  everything is as it must be
  1  it is not: the faults are named
  2  wrong usage, or a directory that cannot be read
  3  cannot tell: of a newer release
  4  the directory is in use, and its service cannot be asked; with --repair
     always when it is in use

Examples:
  countersign check
  countersign check --repair
  countersign check --dir /var/lib/countersign --json";

/// Runs it.
///
/// # Errors
/// A directory that cannot be used, or whose service cannot be asked.
pub fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let dir = args.dir.open();
    let names = account_names(&dir, args.account.as_slice())?;
    let held = hold(&dir, args.repair)?;
    let of = |name: &String| {
        let files = dir.account(name);
        match copy_beside(&held, &dir, name)? {
            Some((copy, live)) => one(args, name, &files, (&copy.db(), &copy.mark()), Some(live)),
            None => one(args, name, &files, (&files.db(), &files.tidemark()), None),
        }
    };
    if let [name] = names.as_slice() {
        return of(name).map(ExitCode::from);
    }
    // One that cannot be looked at keeps no other from it.
    let mut codes: Vec<u8> = names
        .iter()
        .map(|name| {
            of(name).unwrap_or_else(|error| {
                note(format_args!("countersign: account `{name}`: {error:#}"));
                exit_code(&error)
            })
        })
        .collect();
    let live: Vec<String> = names
        .into_iter()
        .filter(|name| !dir.account(name).succeeded().exists())
        .collect();
    if let Some((first, second, origin)) = app::copies(&dir, &live) {
        note(format_args!(
            "countersign: accounts `{first}` and `{second}` have the origin {origin}: one is a copy of the other, and no service starts"
        ));
        codes.push(REFUSED);
    }
    Ok(ExitCode::from(worst(&codes)))
}

/// The accounts of a directory, or those of them that were asked for: at least one.
pub(super) fn account_names(dir: &DataDir, asked: &[String]) -> anyhow::Result<Vec<String>> {
    let whose = dir.root().display();
    let mut names = dir.account_names().with_context(|| whose.to_string())?;
    if let Some(other) = asked.iter().find(|name| !names.contains(name)) {
        bail!("{whose} has no account `{other}`");
    }
    if !asked.is_empty() {
        names.retain(|name| asked.contains(name));
    }
    if names.is_empty() {
        bail!("{whose}: no account lies here; name the data directory with --dir");
    }
    Ok(names)
}

/// Who has the directory.
pub(super) enum Holds {
    /// Nobody else, as long as this lives.
    Rest(#[expect(dead_code, reason = "held, not read")] Held),
    /// A service; and nobody else has it copy a store meanwhile.
    Service(#[expect(dead_code, reason = "held, not read")] File),
}

/// Finds out who has the directory, and takes it where nobody does.
pub(super) fn hold(dir: &DataDir, repair: bool) -> anyhow::Result<Holds> {
    let taken = match repair {
        true => dir.lock(),
        false => dir.lock_to_read(),
    };
    match taken {
        Ok(held) => Ok(Holds::Rest(held)),
        Err(error @ LockError::InUse { .. }) if repair => Err(in_use(format!(
            "{error}: stop it first, --repair writes where nobody else does"
        ))),
        Err(error @ LockError::InUse { .. }) => {
            let path = dir.root().join("check.lock");
            let opened = files::lock_file(&path);
            if opened
                .as_ref()
                .is_err_and(|e| e.kind() == ErrorKind::ReadOnlyFilesystem)
            {
                return Err(in_use(format!(
                    "{error}, and nothing can be written here: ask where it is served"
                )));
            }
            let file = opened.with_context(|| path.display().to_string())?;
            if file.try_lock().is_err() {
                let message = format!("{}: another check or backup is under way", path.display());
                return Err(in_use(message));
            }
            Ok(Holds::Service(file))
        }
        Err(error) => Err(error.into()),
    }
}

pub(super) fn in_use(message: String) -> anyhow::Error {
    let code = IN_USE;
    Fail { code, message }.into()
}

/// A copy of an account's store where a service has it open; `None` where it can be looked at as it lies.
pub(super) fn copy_beside(
    holds: &Holds,
    dir: &DataDir,
    name: &str,
) -> anyhow::Result<Option<(Copy, Live)>> {
    match holds {
        Holds::Service(_) if !dir.account(name).succeeded().exists() => copied(dir, name).map(Some),
        // Nobody opens the store of a log that has a successor.
        Holds::Service(_) | Holds::Rest(_) => Ok(None),
    }
}

/// Has the service make a copy of an account's store; what it says of its own state then.
fn copied(dir: &DataDir, name: &str) -> anyhow::Result<(Copy, Live)> {
    let socket = dir.admin_socket();
    let asked = block_on(async { Ok(admin_still(&socket, name).await?) });
    let still: Still = asked.map_err(|error| match error.downcast_ref() {
        Some(ClientError::Unreachable { .. }) => {
            let dir = dir.root().display();
            in_use(format!("the directory {dir} is in use: {error:#}"))
        }
        _ => error,
    })?;
    // Where it is made is known: what an answer says decides over no folder of this machine.
    let folder = Copy(dir.account(name).still());
    if !fs::symlink_metadata(&folder.0).is_ok_and(|of| of.is_dir()) {
        bail!("{}: the service has made no copy there", folder.0.display());
    }
    let live = Live {
        size: still.size,
        sha256: still.state_sha256,
    };
    Ok((folder, live))
}

/// A copy that is removed when it is not needed any more; what is left of one that could not be is removed by the next check.
pub(super) struct Copy(PathBuf);

impl Copy {
    /// The store.
    pub fn db(&self) -> PathBuf {
        self.0.join("db")
    }

    /// The mark beside it.
    pub fn mark(&self) -> PathBuf {
        self.0.join("published")
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// One account: its report, and what that means.
fn one(
    args: &CheckArgs,
    name: &str,
    files: &AccountDir,
    store: (&Path, &Path),
    live: Option<Live>,
) -> anyhow::Result<u8> {
    let bar = Bar::new();
    let progress = |done: u64, all: u64| bar.at(done, all);
    let plan = Plan {
        files,
        store,
        live,
        keys_elsewhere: false,
        now_s: now_s(),
        progress: &progress,
    };
    let report = if args.repair {
        mended(&plan, name)
    } else {
        look(&plan, name)
    };
    bar.end();
    let report = report?;
    let mut out = Out::stdout();
    let written = if args.json {
        out.line(report.to_json(name))
    } else {
        out.bytes(report.to_lines(name).as_bytes())
    };
    written.context("standard output")?;
    Ok(match report.outcome() {
        Outcome::Holds => 0,
        Outcome::DoesNotHold => REFUSED,
        Outcome::CannotTell => UNKNOWN,
    })
}

fn look(plan: &Plan<'_>, name: &str) -> anyhow::Result<Report> {
    let report = check::run(plan);
    Ok(report.map_err(|error| {
        let code = match &error {
            CheckError::Unusable(_) => UNUSABLE,
            CheckError::Unknown(StoreError::InUse(_)) => IN_USE,
            CheckError::Unknown(_) => UNKNOWN,
        };
        let message = format!("{name}: {error}");
        Fail { code, message }
    })?)
}

/// What is found once whatever follows from the leaves is made again; what was there before, where there is nothing to be made.
fn mended(plan: &Plan<'_>, name: &str) -> anyhow::Result<Report> {
    let failed = |error: &dyn std::fmt::Display| {
        let message = format!("{name}: {error}");
        Fail {
            code: UNKNOWN,
            message,
        }
    };
    check::complete(plan).map_err(|error| failed(&error))?;
    let found = look(plan, name)?;
    let Some(mended) = check::repair(plan, &found).map_err(|error| failed(&error))? else {
        return Ok(found);
    };
    let mut report = look(plan, name)?;
    report.mended = Some(mended);
    Ok(report)
}
