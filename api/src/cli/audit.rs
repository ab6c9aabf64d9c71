//! `countersign audit`: a whole log, read and judged.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use countersign_verifier::{command::read_policy, hash::sha256, policy::Eras, verdict::Outcome};
use serde_json::json;

use super::{
    REFUSED, UNKNOWN,
    bar::Bar,
    evidence::worst,
    exit_code,
    foreign::{ReadingArgs, explain},
    out::{self, Out},
};
use crate::{
    audit::{self, AuditError, Plan, Replayed, Report},
    files,
    foreign::Foreign,
    state::board::file,
    tools::nouns,
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
    /// Write the board that the replayed leaves make, as countersign.board/1: what board_export gives at that size. Only where the log
    /// holds. With - it goes to standard output, and the report to standard error
    #[arg(long, value_name = "FILE", requires = "replay")]
    board: Option<PathBuf>,
    /// Write all that the replayed leaves make (sessions, leases, items, identities, tokens by hash, settings, policy, heads), as
    /// countersign.state/1: a line of JSON a thing, as the tools that list say it at that size. Only where the log holds. With - it
    /// goes to standard output, and the report to standard error
    #[arg(long, value_name = "FILE", requires = "replay")]
    nouns: Option<PathBuf>,
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
      --state log.audit
  countersign audit https://log.example.com/log/dev --policy policy --replay \\
      --at 5000 --board board.jsonl --nouns state.jsonl";

/// Runs it.
///
/// # Errors
/// A file or an address that cannot be used, or a log that cannot be reached.
pub fn run(args: &AuditArgs) -> anyhow::Result<ExitCode> {
    if [&args.board, &args.nouns].iter().all(|to| is_stdout(to)) {
        bail!("--board and --nouns cannot both go to standard output");
    }
    let eras = read_policy(&args.policy).map_err(|why| anyhow!(why))?;
    let reading = ReadingArgs::new(args.log_token.clone(), args.account.clone());
    let Some((dir, names)) = reading.accounts(&args.log)? else {
        return Ok(ExitCode::from(one(args, &eras, &reading.open(&args.log)?)?));
    };
    match names.as_slice() {
        [] => bail!("{} is a data directory without an account", args.log),
        [_, _, ..] if args.state.is_some() || args.board.is_some() || args.nouns.is_some() => {
            bail!(
                "--state, --board and --nouns are of one log; {} has several accounts, {}: name one with --account",
                args.log,
                names.join(", ")
            )
        }
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
    let code = match report.outcome() {
        Outcome::Holds => 0,
        Outcome::DoesNotHold => REFUSED,
        Outcome::CannotTell => UNKNOWN,
    };
    let replayed = report.replayed.as_ref().filter(|_| code == 0);
    let mut files = Vec::new();
    for (what, to) in [(BOARD, &args.board), (NOUNS, &args.nouns)] {
        if let (Some(to), Some(replayed)) = (to, replayed) {
            files.push(Written::new(what, replayed, to)?);
        }
    }
    print(args, &report, &files)?;
    if replayed.is_none() && (args.board.is_some() || args.nouns.is_some()) {
        out::note(
            "no board and no state was written: there is none but of a log of Countersign that holds",
        );
        // What was asked for is not there, even where nothing is wrong with the log.
        return Ok(if code == 0 { UNKNOWN } else { code });
    }
    Ok(code)
}

fn is_stdout(to: &Option<PathBuf>) -> bool {
    to.as_ref().is_some_and(|to| to.as_os_str() == "-")
}

/// What a file is of, as the report names it, and what it counts.
type What = (&'static str, &'static str);
const BOARD: What = ("board", "items");
const NOUNS: What = ("nouns", "rows");

/// A file of what a replay came to, as it was written.
struct Written {
    what: What,
    count: u64,
    sha256: String,
    size: u64,
    /// In hexadecimal, as `board_export` says it.
    root: String,
}

impl Written {
    fn new(what: What, replayed: &Replayed, to: &Path) -> anyhow::Result<Written> {
        let (content, count) = if what == BOARD {
            let board = &replayed.state.board;
            (file::write(board), board.len() as u64)
        } else {
            nouns::write(&replayed.state, &replayed.root)
        };
        if to.as_os_str() == "-" {
            let written = Out::stdout().bytes(content.as_bytes());
            written.context("standard output")?;
        } else {
            files::replace(to, content.as_bytes(), files::PUBLIC)
                .with_context(|| to.display().to_string())?;
        }
        Ok(Written {
            what,
            count,
            sha256: sha256(content.as_bytes()).to_hex(),
            size: replayed.size,
            root: replayed.root.to_hex(),
        })
    }
}

fn print(args: &AuditArgs, report: &Report, files: &[Written]) -> anyhow::Result<()> {
    let text = if args.json {
        let mut row = report.to_json();
        for file in files {
            let (name, counts) = file.what;
            row[name] = json!({counts: file.count, "sha256": file.sha256, "size": file.size, "root": file.root});
        }
        format!("{row}\n")
    } else {
        let told = files.iter().map(|file| {
            let (name, counts) = file.what;
            format!(
                "{name} of {} {counts} as of {} leaves, root {}, sha256 {}\n",
                file.count, file.size, file.root, file.sha256
            )
        });
        report.to_lines() + &told.collect::<String>()
    };
    if is_stdout(&args.board) || is_stdout(&args.nouns) {
        out::note(text.trim_end());
        return Ok(());
    }
    Out::stdout()
        .bytes(text.as_bytes())
        .context("standard output")
}

/// The reader's clock; one before 1970 is no clock.
pub fn now_s() -> Option<u64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    Some(since.as_secs())
}
