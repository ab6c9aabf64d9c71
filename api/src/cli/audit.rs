//! `countersign audit`: a whole log, read and judged.

use std::{
    path::PathBuf,
    process::ExitCode,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use countersign_verifier::{command::read_policy, policy::Eras, verdict::Outcome};

use super::{
    REFUSED, UNKNOWN,
    bar::Bar,
    evidence::worst,
    exit_code,
    foreign::{ReadingArgs, explain},
    out::{self, Out},
};
use crate::{
    audit::{self, AuditError, Plan},
    foreign::Foreign,
};

/// Read a whole log and judge it: root, tiles, witnesses, and in a log of Countersign every leaf and every signature
///
/// Rebuilds tiles and root from the entries of any log in c2sp.org/tlog-tiles form, and compares them with what is served and with
/// what is signed. Nothing that the log says of itself is believed.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct AuditArgs {
    /// The log: the URL that its tiles lie under, a folder of static tiles, or a data directory: what its service serves, and where
    /// none runs what its store holds, which is only read
    #[arg(value_name = "URL|DIR")]
    log: String,
    /// A file that holds the token to show, where the log is not public [default: owner.token, for a data directory]
    #[arg(long, value_name = "FILE")]
    log_token: Option<PathBuf>,
    /// The account of a data directory [default: each, one report after the other]
    #[arg(long, value_name = "NAME", alias = "log-account")]
    account: Option<String>,
    /// The tlog-policy that names the logs and witnesses you trust: a file, or a folder of <from_size>.policy files, of which the
    /// one for the size of the tree counts
    #[arg(long, value_name = "FILE|FOLDER")]
    policy: PathBuf,
    /// Judge every decision again: it must be what the rules make of what was asked
    #[arg(long)]
    replay: bool,
    /// Only the first N leaves, which must be a part of the signed tree
    #[arg(long, value_name = "N")]
    at: Option<u64>,
    /// Keep how far the audit came in this file, and go on from there the next time; the history before must still be the same
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
Checks, each with a line of its own:
  checkpoint  a log of your policy signed the newest tree head
  witnesses   your policy's quorum cosigned it; skipped for quorum none
  entries     all entries lead to the signed root
  tiles       every tile is what follows from the entries
  leaves      of a log of Countersign: each leaf has its one form, in order
  signatures  each signature verifies under the key that the leaves before it
              enrol for its signer, who might sign then
  decisions   with --replay: what was decided follows the rules
Any fail or fault: does not hold. Else any unknown: cannot tell. Else: holds.

Exit codes:
  0  it holds
  1  it does not hold
  2  wrong usage, or a file or policy that cannot be used
  3  cannot tell: the log cannot be reached, is none of your policy, or has
     leaves of a newer form

Examples:
  countersign audit https://log.example.com/log/dev --policy policy
  countersign audit ./tiles --policy policy.d --json
  countersign audit https://log.example.com/log/dev --policy policy --replay \\
      --state log.audit";

/// Runs it.
///
/// # Errors
/// A file or an address that cannot be used, or a log that cannot be reached.
pub fn run(args: &AuditArgs) -> anyhow::Result<ExitCode> {
    let eras = read_policy(&args.policy).map_err(|why| anyhow!(why))?;
    let reading = ReadingArgs::new(args.log_token.clone(), args.account.clone());
    let Some((dir, names)) = reading.accounts(&args.log)? else {
        return Ok(ExitCode::from(one(args, &eras, &reading.open(&args.log)?)?));
    };
    match names.as_slice() {
        [] => bail!("{} is a data directory without an account", args.log),
        [_, _, ..] if args.state.is_some() => bail!(
            "--state keeps one audit, and {} has several accounts, {}: name one with --account",
            args.log,
            names.join(", ")
        ),
        names => {
            let mut codes = Vec::new();
            for name in names {
                let log = reading.open_account(&dir, name);
                let audited = log.and_then(|log| one(args, &eras, &log));
                codes.push(match audited.map_err(|error| (exit_code(&error), error)) {
                    Ok(code) => code,
                    // Of several, one that cannot be read takes nothing from the others.
                    Err((code @ (REFUSED | UNKNOWN), error)) if names.len() > 1 => {
                        out::note(format_args!("{name}: {error:#}"));
                        code
                    }
                    Err((_, error)) => return Err(error),
                });
            }
            Ok(ExitCode::from(worst(&codes)))
        }
    }
}

/// One log: its report, and what that means.
fn one(args: &AuditArgs, eras: &Eras, log: &Foreign) -> anyhow::Result<u8> {
    let bar = Bar::new();
    let progress = |done: u64, all: u64| bar.at(done, all);
    let plan = Plan {
        log,
        eras,
        at: args.at,
        state: args.state.as_deref(),
        replay: args.replay,
        now_s: now_s(),
        progress: &progress,
    };
    let report = audit::run(&plan);
    bar.end();
    let report = report.map_err(|error| match error {
        AuditError::Foreign(error) => explain(error),
        AuditError::Kept(error) => error.into(),
        error @ AuditError::Beyond { .. } => error.into(),
    })?;
    let mut out = Out::stdout();
    let written = if args.json {
        out.line(report.to_json())
    } else {
        out.bytes(report.to_lines().as_bytes())
    };
    written.context("standard output")?;
    Ok(match report.outcome() {
        Outcome::Holds => 0,
        Outcome::DoesNotHold => REFUSED,
        Outcome::CannotTell => UNKNOWN,
    })
}

/// The reader's clock; one before 1970 is no clock.
pub fn now_s() -> Option<u64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    Some(since.as_secs())
}
