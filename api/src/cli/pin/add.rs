//! `countersign pin add`: a head is kept.

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use countersign_verifier::{
    checkpoint::Checkpoint,
    command::read_policy,
    policy::Eras,
    signed,
    verdict::{Status, judge_checkpoint},
    vkey::VerifierKey,
};

use super::{PinsArg, show};
use crate::{
    cli::{
        Fail, REFUSED,
        audit::now_s,
        foreign::{LogArg, explain},
        head::leaf::{self, LeafArgs},
        out::Out,
    },
    foreign::edge,
    pins::{LogFile, signer},
};

/// Keep the newest head of a log, once it is signed by whom you say
///
/// Where an earlier head of the log is kept, the new one must continue it.
#[derive(Debug, Args)]
pub struct AddArgs {
    #[command(flatten)]
    log: LogArg,
    /// The log's verifier key
    #[arg(long, value_name = "VKEY", required_unless_present = "policy")]
    vkey: Option<String>,
    /// The origin in its checkpoints [default: the key's name]
    #[arg(long, value_name = "ORIGIN", requires = "vkey")]
    origin: Option<String>,
    /// The tlog-policy that names the log's key, and the witnesses that must have cosigned
    #[arg(long, value_name = "FILE|FOLDER", conflicts_with = "vkey")]
    policy: Option<PathBuf>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pins: PinsArg,
    #[command(flatten)]
    leaf: LeafArgs,
}

pub(super) fn run(args: &AddArgs) -> anyhow::Result<ExitCode> {
    let eras = match &args.policy {
        Some(path) => Some(read_policy(path).map_err(|why| anyhow!(why))?),
        None => None,
    };
    let log = args.log.open()?;
    let note = show::newest(&log)?;
    let (origin, key) = match (&args.vkey, &eras) {
        (Some(vkey), _) => {
            let key = VerifierKey::parse(vkey).context("--vkey")?;
            let origin = args.origin.clone().unwrap_or_else(|| key.name.clone());
            (origin, key)
        }
        (None, Some(eras)) => of_policy(eras, &note)?,
        (None, None) => bail!("--vkey or --policy says whose head this must be"),
    };
    let now = open(&note, &origin, &key)?;
    let pins = args.pins.open()?;
    let mut out = Out::stdout();
    if let Some(pinned) = pins.of(&origin)? {
        if pinned.key != key {
            bail!(
                "{origin} is pinned under another key, {}: a log has one key for good",
                pinned.log.vkey
            );
        }
        let shown = show::show(&pins, &pinned, &log, (&now, &note))?;
        if args.json {
            out.line(&shown.json)?;
        } else {
            out.bytes(shown.lines.as_bytes())?;
        }
        if shown.code != 0 {
            return Ok(ExitCode::from(shown.code));
        }
    } else {
        let edge = edge(&log, now.size, &now.root).map_err(explain)?;
        let address = absolute(&args.log.log);
        let file = pins.add(
            &LogFile::new(&origin, &key, &address),
            &note,
            &now,
            Some(&edge),
        )?;
        if args.json {
            let now = serde_json::json!({"size": now.size, "root": now.root.to_base64()});
            let row = serde_json::json!({"origin": origin, "log": address, "status": "pinned", "pinned": now, "file": file});
            out.line(row)?;
        } else {
            let (size, file) = (now.size, file.display());
            out.line(format_args!(
                "{origin}: pinned at {size} leaves, root {}; kept in {file}",
                now.root
            ))?;
        }
    }
    leaf::submit(&args.leaf, &log, (&origin, &key), (&now, &note))
}

/// The log's key in a policy, whose witnesses must have cosigned.
fn of_policy(eras: &Eras, note: &str) -> anyhow::Result<(String, VerifierKey)> {
    let judged = judge_checkpoint(note, eras, now_s(), None);
    if let Some(bad) = judged
        .checks
        .iter()
        .find(|c| matches!(c.status, Status::Fail | Status::Unknown))
    {
        let (name, detail) = (bad.name.as_str(), &bad.detail);
        let code = if bad.status == Status::Fail {
            REFUSED
        } else {
            crate::cli::UNKNOWN
        };
        let message = format!("{name}: {detail}");
        return Err(Fail { code, message }.into());
    }
    // OK because the check has just passed, which an unsigned or malformed note does not.
    let origin = judged.checkpoint.expect("of_policy: signed").origin;
    let key = signer(eras, &origin, note);
    let key = key.ok_or_else(|| anyhow!("no key of the policy has signed for {origin:?}"))?;
    Ok((origin, key.clone()))
}

/// A head that is signed by the key, or the reason why this one is not.
pub(super) fn open(note: &str, origin: &str, key: &VerifierKey) -> anyhow::Result<Checkpoint> {
    signed::open(note, origin, key).map_err(|error| {
        let code = match error {
            signed::SignedError::Kind(_) => crate::cli::UNUSABLE,
            _ => REFUSED,
        };
        let message = format!("the log's checkpoint: {error}");
        Fail { code, message }.into()
    })
}

/// A folder's whole path, so that it is found from anywhere; a URL as it is.
fn absolute(log: &str) -> String {
    if log.contains("://") {
        return log.to_owned();
    }
    std::path::absolute(log).map_or_else(|_| log.to_owned(), |path| path.display().to_string())
}
