//! `countersign pin check`: are the logs still what they were?

use std::{path::PathBuf, process::ExitCode};

use anyhow::{anyhow, bail};
use clap::Args;
use countersign_verifier::{
    command::read_policy,
    policy::Eras,
    verdict::{Status, judge_checkpoint},
};

use super::{
    PinsArg, add,
    show::{self, Shown},
};
use crate::{
    cli::{
        REFUSED, UNKNOWN, UNUSABLE,
        audit::now_s,
        evidence::worst,
        exit_code,
        foreign::ReadingArgs,
        out::{self, Out},
    },
    pins::{PinError, Pinned, Pins},
};

/// See whether pinned logs still have the history that they had, and keep their newest heads
///
/// The newest head of each log must be signed by the pinned key, and its tree must begin with the pinned one: that is proved out of
/// the log's own tiles.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes:
  0  every log continues what was pinned (an older head of the same history
     is no fault)
  1  a history was rewritten, or a head is not signed by the pinned key
  2  wrong usage, or a file that cannot be used
  3  cannot tell: a log is not reached, or does not show what it would take")]
pub struct CheckArgs {
    /// The origins of the logs to look at [default: all that are pinned]
    #[arg(value_name = "ORIGIN")]
    origins: Vec<String>,
    /// The tlog-policy whose witnesses must have cosigned the newest heads
    #[arg(long, value_name = "FILE|FOLDER")]
    policy: Option<PathBuf>,
    /// Read the log here, and not where it was pinned; of one log
    #[arg(long, value_name = "URL|DIR")]
    log: Option<String>,
    /// Print one line of JSON for each log
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reading: ReadingArgs,
    #[command(flatten)]
    pins: PinsArg,
}

pub(super) fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let eras = match &args.policy {
        Some(path) => Some(read_policy(path).map_err(|why| anyhow!(why))?),
        None => None,
    };
    let pins = args.pins.open()?;
    let mut all = pins.all()?;
    for origin in &args.origins {
        if !all.iter().any(|pinned| pinned.log.origin == *origin) {
            bail!("{origin:?} is not pinned: `countersign pin list` shows what is");
        }
    }
    all.retain(|pinned| args.origins.is_empty() || args.origins.contains(&pinned.log.origin));
    if all.is_empty() {
        bail!("nothing is pinned yet: `countersign pin add` keeps a first head");
    }
    if (args.log.is_some() || args.reading.names_a_token()) && all.len() != 1 {
        bail!(
            "--log and --log-token are for one log, and {} are meant: name one",
            all.len()
        );
    }
    let mut out = Out::stdout();
    let mut codes = Vec::new();
    for pinned in &all {
        let shown = match look(args, &pins, pinned, eras.as_ref()) {
            Ok(shown) => shown,
            Err(error) if error.is::<PinError>() => {
                // The others are looked at all the same.
                out::note(format_args!("countersign: {error:#}"));
                codes.push(UNUSABLE);
                continue;
            }
            Err(error) => {
                let code = exit_code(&error);
                show::failed(pinned, error, if code == REFUSED { code } else { UNKNOWN })
            }
        };
        codes.push(shown.code);
        if args.json {
            out.line(&shown.json)?;
        } else {
            out.bytes(shown.lines.as_bytes())?;
        }
    }
    Ok(ExitCode::from(worst(&codes)))
}

fn look(
    args: &CheckArgs,
    pins: &Pins,
    pinned: &Pinned,
    eras: Option<&Eras>,
) -> anyhow::Result<Shown> {
    let address = args.log.as_ref().unwrap_or(&pinned.log.log);
    let log = args.reading.open(address)?;
    let note = show::newest(&log)?;
    let now = add::open(&note, &pinned.log.origin, &pinned.key)?;
    let mut shown = show::show(pins, pinned, &log, (&now, &note))?;
    if let Some(eras) = eras {
        let [_, witnesses] = judge_checkpoint(&note, eras, now_s(), None).checks;
        let code = match witnesses.status {
            Status::Pass => 0,
            Status::Fail => REFUSED,
            // A policy that asks for nobody, or does not know the log, cannot have been what was meant.
            Status::Unknown | Status::Skipped => UNKNOWN,
        };
        shown.code = worst(&[shown.code, code]);
        shown.json["witnesses"] = witnesses.status.as_str().into();
        shown.lines += &format!(
            "  witnesses {}: {}\n",
            witnesses.status.as_str(),
            witnesses.detail
        );
    }
    Ok(shown)
}
