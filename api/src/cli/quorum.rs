//! `countersign quorum`: which witnesses must have cosigned a head of an account's log.

use std::{fs, path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use countersign_log::store::rocks::{RocksStore, Shared};
use countersign_verifier::policy::Policy;
use serde_json::{Value, json};

use super::{
    Fail, REFUSED, block_on,
    local::{Local, LocalArg},
    out::Out,
};
use crate::{
    client::{ClientError, admin_set_policy},
    quorum::{self, Judged, Policies, judge, of_log},
};

/// Which witnesses must have cosigned a head of an account's log
#[derive(Debug, Args)]
pub struct QuorumArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Show(ShowArgs),
    Set(SetArgs),
    Check(CheckArgs),
}

/// Print the policy in force, what it means, and the eras before it
#[derive(Debug, Args)]
struct ShowArgs {
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    local: LocalArg,
}

/// Let another policy hold from the next published head on; a service that runs on the directory takes it over
///
/// A running service closes the account's log and opens it again as at a start: until the witnesses of the newest published head
/// have been asked, writes are refused for a moment (503); reads go on.
///
/// Heads that are published already stay judged by the policy of their size: from the first change on all policies lie in
/// `policy.d/<from_size>.policy`, which is what a verifier is given.
#[derive(Debug, Args)]
struct SetArgs {
    /// The policy (c2sp.org/tlog-policy)
    file: PathBuf,
    #[command(flatten)]
    local: LocalArg,
}

/// Say what a policy means: who must cosign, how many may fail, and what is wrong with it
///
/// Exit code 0: an account's log can be published under it; 1: something is wrong with it; 2: it is no policy.
#[derive(Debug, Args)]
struct CheckArgs {
    /// The policy (c2sp.org/tlog-policy)
    file: PathBuf,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    local: LocalArg,
}

/// Runs it.
///
/// # Errors
/// A file that cannot be used, or a directory that a service holds.
pub fn run(args: &QuorumArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Show(args) => show(args),
        Command::Set(args) => set(args),
        Command::Check(args) => check(args),
    }
}

/// The meaning in words, a line a fact.
fn lines(judged: &Judged) -> Vec<String> {
    let mut lines = Vec::new();
    match &judged.meaning {
        None => lines.push("quorum: none".into()),
        Some(meaning) => {
            lines.push(format!("quorum: {}", meaning.words));
            lines.push(format!(
                "  {} cosign at least; {} may fail, whichever",
                meaning.least, meaning.spare
            ));
            if !meaning.extra.is_empty() {
                let names: Vec<String> = meaning.extra.iter().map(ToString::to_string).collect();
                lines.push(format!("  asked, never waited for: {}", names.join(", ")));
            }
        }
    }
    let faults = judged.faults.iter().map(|what| format!("fault: {what}"));
    let warnings = judged
        .warnings
        .iter()
        .map(|what| format!("warning: {what}"));
    lines.extend(faults.chain(warnings));
    lines
}

fn to_json(judged: &Judged) -> Value {
    let quorum = judged.meaning.as_ref().map(|meaning| {
        let names = |of: &[countersign_verifier::policy::Name]| -> Vec<String> {
            of.iter().map(ToString::to_string).collect()
        };
        json!({
            "words": meaning.words,
            "least": meaning.least,
            "may_fail": meaning.spare,
            "splits": meaning.splits,
            "without_address": names(&meaning.without_address),
            "extra": names(&meaning.extra),
        })
    });
    json!({"quorum": quorum, "faults": judged.faults, "warnings": judged.warnings})
}

fn check(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let local = args.local.open()?;
    let text = read(&args.file)?;
    let policy = Policy::parse(&text).with_context(|| format!("{}", args.file.display()))?;
    let judged = judge(&policy, of_log(&text, &local.vkey).is_ok());
    let mut out = Out::stdout();
    if args.json {
        out.line(to_json(&judged))?;
    } else {
        for line in lines(&judged) {
            out.line(line)?;
        }
    }
    let code = if judged.faults.is_empty() { 0 } else { REFUSED };
    Ok(ExitCode::from(code))
}

fn show(args: &ShowArgs) -> anyhow::Result<ExitCode> {
    let local = args.local.open()?;
    let policies = Policies::read(&local.files, &local.vkey)?;
    let mut out = Out::stdout();
    let judged = judge(&policies.present, true);
    if args.json {
        let eras: Vec<Value> = policies
            .eras
            .iter()
            .zip(policies.judges.iter())
            .map(|((from, text), (_, policy))| {
                json!({"from_size": from, "policy": text, "quorum": policy.meaning().map(|m| m.words)})
            })
            .collect();
        let mut row = to_json(&judged);
        row["account"] = local.name.into();
        row["policy"] = policies.text.into();
        row["eras"] = eras.into();
        out.line(row)?;
        return Ok(ExitCode::SUCCESS);
    }
    out.bytes(policies.text.as_bytes())?;
    out.line("")?;
    for line in lines(&judged) {
        out.line(line)?;
    }
    for (from, policy) in policies.judges.iter() {
        let words = policy.meaning().map_or("none".into(), |m| m.words);
        out.line(format_args!("from size {from}: {words}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn set(args: &SetArgs) -> anyhow::Result<ExitCode> {
    let local = args.local.open()?;
    let text = read(&args.file)?;
    let policy = Policy::parse(&text).with_context(|| format!("{}", args.file.display()))?;
    let judged = judge(&policy, of_log(&text, &local.vkey).is_ok());
    if let Some(fault) = judged.faults.first() {
        let message = format!("{}: {fault}", args.file.display());
        return Err(Fail {
            code: REFUSED,
            message,
        }
        .into());
    }
    let from = match local.hold_or_none()? {
        Some(_held) => {
            let policies = Policies::read(&local.files, &local.vkey)?;
            let from = next_size(&local)?;
            policies.begin(&local.files, &text, from)?;
            from
        }
        None => tell_service(&local, &text)?,
    };
    let mut out = Out::stdout();
    out.line(format_args!("from size {from} on:"))?;
    for line in lines(&judged) {
        out.line(line)?;
    }
    if from > 0 {
        super::out::note(format_args!(
            "verifiers need all of {}, by a way that they trust",
            local.files.policies().display()
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Has the service that runs on the directory do it; the size that the new era begins at.
fn tell_service(local: &Local, text: &str) -> anyhow::Result<u64> {
    let socket = local.dir.admin_socket();
    let asked = admin_set_policy(&socket, &local.name, text);
    match block_on(async { Ok(asked.await) })? {
        Ok(from) => Ok(from),
        // Whoever holds the directory is no service, or has no socket.
        Err(ClientError::Unreachable { .. }) => Err(local.in_use()),
        Err(ClientError::Refused(problem)) => {
            let message = problem.message;
            Err(Fail {
                code: REFUSED,
                message,
            }
            .into())
        }
        Err(error) => Err(error.into()),
    }
}

/// The first size that no head of the log was published at.
fn next_size(local: &Local) -> anyhow::Result<u64> {
    // Small: one value is read.
    let shared = Shared::new(8 << 20, 8 << 20);
    let files = &local.files;
    let store = RocksStore::open(&files.db(), &files.tidemark(), &shared)
        .with_context(|| format!("account `{}`", local.name))?;
    Ok(quorum::next_size(&store)?)
}

fn read(path: &std::path::Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("{}", path.display()))
}
