//! `countersign policy`: what identities may do in an account.

use std::{fs, path::PathBuf, process::ExitCode};

use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use countersign_verifier::hash::sha256;
use serde_json::{Value, json};

use super::{
    Fail, REFUSED,
    out::Out,
    place::{KeyArg, Place},
    tool::{self, WaitArgs},
};
use crate::{
    policy::{Policy, faults, owner_reads},
    tools::actions,
};

/// What identities may do in an account: a Cedar policy (not the witnesses', which is `quorum`)
#[derive(Debug, Args)]
pub struct PolicyArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Show(ShowArgs),
    Set(SetArgs),
    Check(CheckArgs),
}

/// Print the policy in force
#[derive(Debug, Args)]
struct ShowArgs {
    /// Print one line of JSON: text, sha256, set_index
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    key: KeyArg,
    #[command(flatten)]
    place: Place,
}

/// Replace the policy; a leaf says so
#[derive(Debug, Args)]
struct SetArgs {
    /// The policy, Cedar text
    file: PathBuf,
    /// Only if the policy in force has this SHA-256, as `policy show --json` says
    #[arg(long, value_name = "SHA256")]
    if_sha256: Option<String>,
    /// Set it though `policy check` finds fault with it
    #[arg(long)]
    force: bool,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    key: KeyArg,
    #[command(flatten)]
    place: Place,
}

/// Say whether a file is a policy, and what in it can never be so: actions that no tool has, attributes that nobody has
///
/// Exit code 0: nothing is wrong with it; 1: something is.
#[derive(Debug, Args)]
struct CheckArgs {
    /// The policy, Cedar text
    file: PathBuf,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// Runs it.
///
/// # Errors
/// A file that cannot be used, or what the service says.
pub fn run(args: &PolicyArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Check(args) => check(args),
        Command::Show(args) => super::block_on(show(args)),
        Command::Set(args) => super::block_on(set(args)),
    }
}

fn read(path: &PathBuf) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| path.display().to_string())
}

fn check(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let text = read(&args.file)?;
    let place = args.file.display();
    let policy = Policy::parse(&text);
    let found = policy.as_ref().map(wrong).unwrap_or_default();
    if args.json {
        let sha256 = sha256(text.as_bytes()).to_hex();
        let shown = json!({"valid": policy.is_ok() && found.is_empty(), "fault": policy.as_ref().err(), "faults": found, "sha256": sha256});
        Out::stdout().line(shown.to_string())?;
    }
    match policy {
        Ok(_) if found.is_empty() => {
            if !args.json {
                Out::stdout().line(format!("{place}: a policy"))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        _ if args.json => Ok(ExitCode::from(REFUSED)),
        Ok(_) => Err(anyhow!(Fail {
            code: REFUSED,
            message: format!("{place}: {}", found.join("\n  ")),
        })),
        Err(why) => Err(anyhow!(Fail {
            code: REFUSED,
            message: format!("{place}: {why}"),
        })),
    }
}

/// What is most likely not meant.
fn wrong(policy: &Policy) -> Vec<String> {
    let mut found = faults(policy, &actions());
    if !owner_reads(policy) {
        found.push("under it the owner could do nothing but set another policy: a whole policy permits what may be done, and a rule is added to what `policy show` prints".into());
    }
    found
}

async fn show(args: &ShowArgs) -> anyhow::Result<ExitCode> {
    let (service, key) = args.key.reach(&args.place).await?;
    let answer = tool::read(&service, key.as_ref(), "policy_get", json!({})).await?;
    let mut out = Out::stdout();
    match answer.result.get("text").and_then(Value::as_str) {
        Some(text) if !args.json => out.line(text.trim_end())?,
        _ => out.line(answer.result.to_string())?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn set(args: &SetArgs) -> anyhow::Result<ExitCode> {
    let text = read(&args.file)?;
    let place = args.file.display();
    let policy = Policy::parse(&text).map_err(|why| anyhow!("{place}: {why}"))?;
    let found = wrong(&policy);
    if !found.is_empty() && !args.force {
        return Err(anyhow!(
            "{place}: {}\n--force sets it all the same",
            found.join("\n  ")
        ));
    }
    let caller = args.key.read(&args.place.site.dir)?;
    let service = args.key.service(&args.place).await?;
    let mut arguments = json!({ "text": text });
    if let Some(sha256) = &args.if_sha256 {
        arguments["if_sha256"] = sha256.as_str().into();
    }
    let call = ("policy_set", arguments);
    let answer = tool::write(&service, &caller, call, None, args.wait).await?;
    tool::show(&answer, args.json)
}
