//! `countersign head submit`: a head of a tracked log becomes a leaf.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, bail};
use clap::Args;
use countersign_verifier::{
    fork::{Fork, ForkError},
    limits::NOTE_BYTES_MAX,
};

use super::leaf::{self, Bring};
use crate::{
    cli::{
        Fail, REFUSED, UNKNOWN, block_on,
        foreign::{ReadingArgs, explain},
        out,
        place::Place,
        tool::{self, WaitArgs},
    },
    foreign::Foreign,
};

/// Record a head of a tracked log
///
/// Of a URL or a folder the newest head is taken, and proved out of the log's own tiles to continue the last one that was recorded;
/// the service itself asks no other log. A file is a checkpoint's note, and - standard input: what it continues is then not proved.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes:
  0  recorded as consistent, or as stale: an older head is no fault
  1  a fork, a rewritten history, or a head that is refused
  2  wrong usage, a file that cannot be used, or a log that is not tracked
  3  recorded as unproven, or it cannot be told whether it was recorded")]
pub struct SubmitArgs {
    /// The log: the URL that its tiles lie under, a folder of static tiles, a data directory; or a checkpoint's file
    #[arg(value_name = "URL|DIR|FILE|-", required_unless_present = "evidence")]
    log: Option<String>,
    /// Record a fork of a tracked log, by a file of evidence as witnesses, `pin check` and others give it: it is judged by the
    /// tracked key
    #[arg(long, value_name = "FILE", conflicts_with = "log")]
    evidence: Option<PathBuf>,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    reading: ReadingArgs,
    #[command(flatten)]
    place: Place,
}

pub(super) fn run(args: &SubmitArgs) -> anyhow::Result<ExitCode> {
    let named = match (&args.log, &args.evidence) {
        (Some(log), _) => log,
        (None, Some(file)) => return evidence(args, file),
        (None, None) => bail!("name a log, a checkpoint's file or --evidence"),
    };
    let (log, note): (Option<Foreign>, String) = if is_file(named) {
        (None, read(named)?)
    } else {
        let log = args.reading.open(named)?;
        let note = log.checkpoint().map_err(explain)?;
        (Some(log), note)
    };
    let (service, tracked) = block_on(async {
        let service = args.place.service().await?;
        let logs = service.client.tracked().await;
        let logs = logs.map_err(|error| service.explain(error))?;
        let origin = note.split('\n').next().unwrap_or_default();
        match logs.into_iter().find(|log| log.origin == origin) {
            Some(log) => Ok((service, log)),
            None => bail!(
                "log {origin:?} is not tracked in account {}: `countersign head track VKEY --origin ORIGIN` names its key first",
                service.client.account()
            ),
        }
    })?;
    leaf::bring(&Bring {
        service: &service,
        tracked: &tracked,
        log: log.as_ref(),
        note: &note,
        wait: args.wait,
        json: args.json,
    })
}

/// Evidence goes as it is: the service judges it by the tracked key, as anybody could.
fn evidence(args: &SubmitArgs, file: &Path) -> anyhow::Result<ExitCode> {
    let text = fs::read(file).with_context(|| file.display().to_string())?;
    let fork = Fork::parse(&text).map_err(|error| Fail {
        code: match error {
            ForkError::Newer { .. } => UNKNOWN,
            ForkError::TooLarge { .. } | ForkError::Form(_) => REFUSED,
        },
        message: format!("{}: {error}", file.display()),
    })?;
    let body = String::from_utf8_lossy(&fork.to_json()).into_owned();
    let answer = block_on(async {
        let service = args.place.service().await?;
        let posted = service.client.post_head(body, args.wait.options());
        posted.await.map_err(|error| service.explain(error))
    })?;
    out::note(format_args!(
        "{}: FORK: the evidence is a leaf of the account now",
        fork.origin()
    ));
    tool::show(&answer, args.json)?;
    // As of a head that is one: a log that has forked is what does not hold.
    Ok(ExitCode::from(REFUSED))
}

fn is_file(log: &str) -> bool {
    log == "-" || Path::new(log).is_file()
}

fn read(log: &str) -> anyhow::Result<String> {
    let mut text = String::new();
    let limit = NOTE_BYTES_MAX as u64;
    let read = if log == "-" {
        io::stdin().lock().take(limit + 1).read_to_string(&mut text)
    } else {
        let file = File::open(log).with_context(|| log.to_owned())?;
        file.take(limit + 1).read_to_string(&mut text)
    };
    read.with_context(|| log.to_owned())?;
    if text.len() as u64 > limit {
        let bytes = fs::metadata(log).map_or(limit, |meta| meta.len());
        bail!("{log}: {bytes} bytes are more than a checkpoint has");
    }
    Ok(text)
}
