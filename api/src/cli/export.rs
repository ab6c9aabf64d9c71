//! `countersign export`: a static copy of a log.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use countersign_verifier::{
    command::read_policy, limits::FILE_BYTES_MAX, policy::Eras, verdict::Status,
};

use super::{
    Fail, REFUSED, UNKNOWN,
    audit::now_s,
    bar::Bar,
    foreign::{ReadingArgs, explain},
    local::IN_USE,
    out::{self, Out},
    place::DirArg,
};
use crate::{
    account,
    export::{self, ExportError, Plan},
    files,
    foreign::Foreign,
};

/// Write a static copy of a log, which any web server can serve and any client of c2sp.org/tlog-tiles can read
///
/// Of an account of a data directory, running or stopped, or of any log under a URL, of which it is then a mirror. Every byte is
/// checked before it is written: it must lead to a head that the policy accepts. Run again, it adds what is new; the checkpoint is
/// put in place last, so that the copy is whole at any time.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct ExportArgs {
    /// The folder of the copy: a new one, an empty one, or an earlier copy of this log
    #[arg(value_name = "DEST")]
    dest: PathBuf,
    /// The log: the URL that its tiles lie under, a folder of static tiles, or a data directory [default: the data directory]
    #[arg(value_name = "URL|DIR", conflicts_with = "dir")]
    log: Option<String>,
    /// The tlog-policy that names the log and the witnesses you trust: a file, or a folder of <from_size>.policy files. It becomes
    /// part of the copy [default: the account's own]
    #[arg(long, value_name = "FILE|FOLDER")]
    policy: Option<PathBuf>,
    /// A file that holds the token to show, where the log is not public [default: owner.token, for a data directory]
    #[arg(long, value_name = "FILE")]
    log_token: Option<PathBuf>,
    /// The account of a data directory [default: the only one]
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
    /// Look at every file of the copy, and not only at what is new: adds what is missing, and names what is not what it must be
    #[arg(long)]
    whole: bool,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
The copy: checkpoint, tile/<L>/<N>[.p/<W>], tile/entries/<N>[.p/<W>], the policy
as policy (and policy.d/), log.vkey, and log.json, which says what it is.
Full tiles are never written again. Partial tiles stay until the full ones are
there. Whoever can read the folder can read every leaf, those of a private
account too; bodies beside the log are no part of it.

Exit codes:
  0  the copy is what the log has published
  1  it is not: the log is not what it has signed, or has another history than
     the copy, or a published file of the copy differs
  2  wrong usage, or a folder, file or policy that cannot be used
  3  cannot tell: the log cannot be reached, or shows an older head
  4  another export writes there, or the data directory is in use

Examples:
  countersign export /srv/www/log
  countersign export ./mirror https://log.example.com/log/dev --policy policy
  countersign audit ./mirror --policy policy --replay";

/// Runs it.
///
/// # Errors
/// A log or a folder that cannot be used.
pub fn run(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    let (log, policy) = source(args)?;
    let eras = read_policy(&policy).map_err(|why| anyhow!(why))?;
    one(args, &log, &eras, &policy_files(&policy)?)?;
    Ok(ExitCode::SUCCESS)
}

/// The log, and the policy that its heads must meet.
fn source(args: &ExportArgs) -> anyhow::Result<(Foreign, PathBuf)> {
    let reading = ReadingArgs::new(args.log_token.clone(), args.account.clone());
    let dir = args.dir.open();
    let named = args
        .log
        .clone()
        .unwrap_or_else(|| dir.root().display().to_string());
    let Some((dir, names)) = reading.accounts(&named)? else {
        let Some(log) = &args.log else {
            bail!("{named} is no data directory: name it with --dir, or the log");
        };
        let Some(policy) = &args.policy else {
            bail!("--policy: a log is not asked who may sign it; name the policy that you trust");
        };
        return Ok((reading.open(log)?, policy.clone()));
    };
    let names = match names.len() {
        1 => names,
        _ => dir.open_names(&names),
    };
    let [name] = names.as_slice() else {
        bail!(
            "{named}: {}: name one account with --account",
            names.join(", ")
        );
    };
    // A folder of a data directory would be taken for an account.
    let dest = std::path::absolute(&args.dest)?;
    // The nearest folder that is there: those below it are made.
    let there = dest.ancestors().find_map(|at| at.canonicalize().ok());
    if let (Ok(root), Some(there)) = (dir.root().canonicalize(), there)
        && there.starts_with(root)
    {
        bail!(
            "{}: in the data directory: name a folder elsewhere",
            args.dest.display()
        );
    }
    let files = dir.account(name);
    let policy = match &args.policy {
        Some(policy) => policy.clone(),
        None => files.policy_for_verifiers(),
    };
    // One that was named may be a pipe; in a directory that would wait for ever.
    if args.policy.is_none() && !policy.is_dir() {
        files::open_plain(&policy).with_context(|| policy.display().to_string())?;
    }
    if !account::is_public(&files) {
        out::note(format_args!(
            "account {name} is private: whoever can read {} can read all of its leaves",
            args.dest.display()
        ));
    }
    Ok((reading.open_account(&dir, name)?, policy))
}

fn one(
    args: &ExportArgs,
    log: &Foreign,
    eras: &Eras,
    policy: &[(String, Vec<u8>)],
) -> anyhow::Result<()> {
    let bar = Bar::new();
    let progress = |done: u64, all: u64| bar.at(done, all);
    let done = export::run(&Plan {
        log,
        eras,
        policy,
        dest: &args.dest,
        whole: args.whole,
        now_s: now_s(),
        progress: &progress,
    });
    bar.end();
    let report = done.map_err(told)?;
    let text = if args.json {
        format!("{}\n", report.to_json())
    } else {
        report.to_lines()
    };
    Out::stdout()
        .bytes(text.as_bytes())
        .context("standard output")
}

/// The files of a policy, as the copy has them: `policy`, and of several eras all of them in `policy.d`.
fn policy_files(path: &Path) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let named = |path: &Path| path.display().to_string();
    if !path.is_dir() {
        let bytes = fs::read(path).with_context(|| named(path))?;
        return Ok(vec![("policy".into(), bytes)]);
    }
    let read = |path: &Path| files::read_plain(path, FILE_BYTES_MAX).with_context(|| named(path));
    let (mut all, mut newest) = (Vec::new(), None);
    for entry in fs::read_dir(path).with_context(|| named(path))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let from: Option<u64> = name.strip_suffix(".policy").and_then(|n| n.parse().ok());
        let Some(from) = from else { continue };
        let bytes = read(&path.join(&name))?;
        if newest.as_ref().is_none_or(|(other, _)| *other < from) {
            newest = Some((from, bytes.clone()));
        }
        all.push((format!("policy.d/{name}"), bytes));
    }
    all.extend(newest.map(|(_, bytes)| ("policy".into(), bytes)));
    Ok(all)
}

/// An error with its exit code.
fn told(error: ExportError) -> anyhow::Error {
    let code = match &error {
        ExportError::Foreign(error) => return explain(error.clone()),
        ExportError::Head { status, .. } if *status == Status::Unknown => UNKNOWN,
        ExportError::Older { .. } => UNKNOWN,
        ExportError::Head { .. } | ExportError::Rewritten { .. } | ExportError::Differs { .. } => {
            REFUSED
        }
        ExportError::Busy { .. } => IN_USE,
        ExportError::Taken { .. } | ExportError::Link { .. } | ExportError::Io { .. } => {
            return error.into();
        }
    };
    let message = error.to_string();
    Fail { code, message }.into()
}
