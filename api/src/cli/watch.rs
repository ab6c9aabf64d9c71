//! `countersign watch`: a log is followed, and whoever it concerns hears of it.

mod broken;
mod ears;

use std::{
    fs::{File, TryLockError},
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
    time::Duration,
};

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use countersign_verifier::{command::read_policy, hash::Hash, key::IdentityId, verdict::Status};
use zeroize::Zeroizing;

use super::{
    Fail, REFUSED, UNKNOWN, UNUSABLE,
    audit::now_s,
    exit_code,
    foreign::{LogArg, explain},
    keys,
    local::IN_USE,
    out,
};
use crate::{
    files,
    foreign::Foreign,
    monitor::{Monitor, Plan, Trouble, Undelivered, Watched, Webhook},
    state::identity::is_name,
};
use ears::Ears;

/// Where a watch ends, a webhook that fails so often at one alert is left for the next time.
const ATTEMPTS: u32 = 5;

/// Follow a log, and tell of every leaf that is signed by or about somebody, or of a type
///
/// Each new head must be signed and cosigned as the policy says and continue the one before, and every entry is shown to be in it, before
/// anything is told. The position is kept after what it passes was told: a watch that is killed skips nothing, and at worst tells the
/// same again, under the same id. Without --identity, --type and --subject only sizes are told, of any log in c2sp.org/tlog-tiles form.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct WatchArgs {
    #[command(flatten)]
    log: LogArg,
    /// The tlog-policy that names the log and the witnesses you trust: a file, or a folder of <from_size>.policy files
    #[arg(long, value_name = "FILE|FOLDER")]
    policy: PathBuf,
    /// Whose leaves: an id (id_…), a name, or a key, as a file or a vkey; more than once for several. Names and keys take a watch of the
    /// whole log, from leaf 0 on
    #[arg(long, value_name = "ID|NAME|KEY")]
    identity: Vec<String>,
    /// Leaves of this payload type, predicate type of an in-toto statement, tool of an operation, or type of a system event; more than
    /// once for several
    #[arg(long = "type", value_name = "T")]
    types: Vec<String>,
    /// Leaves about what has this SHA-256: a subject of an in-toto statement, or the payload itself; more than once for several
    #[arg(long, value_name = "SHA256", value_parser = digest)]
    subject: Vec<Hash>,
    /// Keep the position in this file, and go on from there the next time
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Begin with this leaf where no position is kept yet. Without it a state file that is not there is an error
    #[arg(long, value_name = "N", required_unless_present = "state")]
    from: Option<u64>,
    /// Read up to the newest head, and end
    #[arg(long)]
    once: bool,
    /// How long to wait between two looks at the log, such as 500ms, 10s or 5m
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    interval: Duration,
    /// Post each alert to this URL, as JSON, until it answers 2xx
    #[arg(
        long,
        value_name = "URL",
        env = "COUNTERSIGN_WEBHOOK",
        hide_env_values = true
    )]
    webhook: Option<String>,
    /// Sign what is posted: X-Countersign-Signature is sha256= and the HMAC-SHA-256 of the body, in hexadecimal, by the content of this
    /// file, without the line's end
    #[arg(long, value_name = "FILE", requires = "webhook")]
    webhook_secret: Option<PathBuf>,
    /// Post over http to another machine, where everybody on the way can read and change it
    #[arg(long, requires = "webhook")]
    insecure_webhook: bool,
    /// Print a line of JSON for each alert, each step and each trouble
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
Alerts are of a leaf (receipt, operation, system; unreadable where it, or what
is watched for in it, cannot be read: that stops nothing), or of the log:
  rewritten  it has signed two histories
  shrunk     it shows an older head, and serves nothing beyond it
Of these two both heads are kept as files, with evidence of a fork where it can
be made, in FILE.forks beside the state file, else in ./countersign-forks; and
the watch ends.

A log that is not reached, that is stale, or whose entries are not those that it
signed is told of and tried again. So is a webhook that fails: nothing is read
meanwhile. With --once it is tried five times.

Exit codes:
  0  with --once: everything up to the newest head was read and told
  1  the log is not what it was; with --once also: it is not signed as the
     policy says, or serves something else than it signed
  2  wrong usage; a file, policy or position that cannot be used: a lost
     position is never taken for nothing new
  3  with --once: the log is not reached or stale, or an alert not delivered
  4  another watch goes by the same position

Examples:
  countersign watch https://log.example.com/log/main --policy policy \\
      --identity ci --state main.watch --from 0
  countersign watch https://log.example.com/log/main --policy policy \\
      --identity id_… --type identity_revoke --state main.watch --json \\
      --webhook https://hooks.example.com/x --webhook-secret hook.secret";

/// A step that was not made to its end.
struct Stopped {
    error: anyhow::Error,
    code: u8,
    /// Whether trying again is of no use.
    ends: bool,
}

/// Runs it.
///
/// # Errors
/// Whatever ends it before its time.
pub fn run(args: &WatchArgs) -> anyhow::Result<ExitCode> {
    let plan = Plan {
        watched: watched(args)?,
        eras: read_policy(&args.policy).map_err(|why| anyhow!(why))?,
        state: args.state.clone(),
        from: args.from,
    };
    // Of two that write one position, one would pass what only the other has told.
    let _alone = args.state.as_deref().map(alone).transpose()?;
    let mut monitor = Monitor::new(plan)?;
    let attempts = args.once.then_some(ATTEMPTS);
    let mut ears = Ears::new(args.json, webhook(args)?, attempts);
    let (mut log, mut said, mut first) = (None, None, true);
    loop {
        match step(args, &mut monitor, &mut log, &mut ears) {
            Ok(()) => {
                // A name that is misspelled is heard of by nobody, for ever.
                if std::mem::take(&mut first) {
                    for name in monitor.unknown_names() {
                        out::note(format_args!(
                            "countersign: nobody is called `{name}` in the first {} leaves: it is watched for all the same",
                            monitor.done()
                        ));
                    }
                }
                if said.take().is_some() {
                    out::note("the log is followed again");
                }
                if args.once {
                    return Ok(ExitCode::SUCCESS);
                }
            }
            Err(stopped) if stopped.ends || args.once => {
                let (code, message) = (stopped.code, format!("{:#}", stopped.error));
                return Err(Fail { code, message }.into());
            }
            Err(stopped) => {
                let what = format!("{:#}", stopped.error);
                // Once, however long it lasts.
                if said.as_ref() != Some(&what) {
                    out::note(format_args!(
                        "countersign: {what}; complete up to size {}, and it is tried again",
                        monitor.done()
                    ));
                    ears.trouble(&what, stopped.code, monitor.done())?;
                    said = Some(what);
                }
            }
        }
        thread::sleep(args.interval);
    }
}

/// Takes the position for this process.
fn alone(state: &Path) -> anyhow::Result<File> {
    let path = beside(state, ".lock");
    let file = files::lock_file(&path).with_context(|| path.display().to_string())?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let message = format!("{}: another watch goes by this position", state.display());
            let code = IN_USE;
            Err(Fail { code, message }.into())
        }
        Err(TryLockError::Error(e)) => Err(e).with_context(|| path.display().to_string()),
    }
}

fn step(
    args: &WatchArgs,
    monitor: &mut Monitor,
    log: &mut Option<Foreign>,
    ears: &mut Ears,
) -> Result<(), Stopped> {
    let place = args.log.log.as_str();
    // A folder may be moved or replaced; the service of a data directory may start, or go on under another URL.
    if log.is_none() || !place.contains("://") {
        *log = None;
        let opened = if args.once {
            args.log.open()
        } else {
            args.log.reading.open_served(place)
        };
        *log = Some(opened.map_err(|error| {
            let code = exit_code(&error);
            let ends = code == UNUSABLE;
            Stopped { error, code, ends }
        })?);
    }
    // OK because it was just opened.
    let open = log.as_ref().expect("watch::step: open");
    let trouble = match monitor.step((open, place), now_s(), ears) {
        Ok(()) => return Ok(()),
        Err(Trouble::Broken(found)) => {
            let folder = forks(args.state.as_deref());
            let error = broken::tell(&found, &folder, ears);
            return Err(Stopped {
                error,
                code: REFUSED,
                ends: true,
            });
        }
        Err(trouble) => trouble,
    };
    let (code, ends) = weigh(&trouble);
    let error = trouble.into();
    Err(Stopped { error, code, ends })
}

/// What a trouble ends the process with, and whether it does so by itself.
fn weigh(trouble: &Trouble) -> (u8, bool) {
    match trouble {
        Trouble::Head(error) => (exit_code(&explain(error.clone())), false),
        Trouble::Log(error) if error.is_the_logs() => (REFUSED, false),
        Trouble::Log(_) | Trouble::Older { .. } => (UNKNOWN, false),
        Trouble::Unsigned { status, .. } if *status == Status::Fail => (REFUSED, false),
        Trouble::Unsigned { .. } => (UNKNOWN, false),
        Trouble::Entries { .. } => (REFUSED, false),
        Trouble::Broken(_) => (REFUSED, true),
        Trouble::Kept(_) | Trouble::Unusable(_) => (UNUSABLE, true),
        Trouble::Undelivered(Undelivered::Webhook(_)) => (UNKNOWN, false),
        Trouble::Undelivered(Undelivered::Output(_)) => (UNKNOWN, true),
    }
}

/// The file beside the position whose name ends so.
fn beside(state: &Path, end: &str) -> PathBuf {
    let mut name = state.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Where the heads of a log that is not what it was are kept.
fn forks(state: Option<&Path>) -> PathBuf {
    match state {
        Some(state) => beside(state, ".forks"),
        None => "countersign-forks".into(),
    }
}

fn watched(args: &WatchArgs) -> anyhow::Result<Watched> {
    let mut watched = Watched {
        types: args.types.iter().cloned().collect(),
        subjects: args.subject.iter().copied().collect(),
        ..Watched::default()
    };
    for who in &args.identity {
        if who.starts_with("id_") {
            let id: Result<IdentityId, _> = who.parse();
            watched.ids.insert(id.with_context(|| who.clone())?);
        } else if who.contains('+') || Path::new(who).is_file() {
            let (key, _) = keys::public(who)?;
            watched.keys.insert(key.identity().0);
        } else if let Err(why) = is_name(who) {
            bail!("--identity {who:?}: no id, no file, no vkey, and as a {why}");
        } else {
            watched.names.insert(who.to_ascii_lowercase());
        }
    }
    Ok(watched)
}

fn webhook(args: &WatchArgs) -> anyhow::Result<Option<Webhook>> {
    let Some(url) = &args.webhook else {
        return Ok(None);
    };
    let secret = match &args.webhook_secret {
        None => None,
        Some(path) => {
            let name = || path.display().to_string();
            let mut secret = Zeroizing::new(std::fs::read(path).with_context(name)?);
            while secret.last().is_some_and(|b| matches!(b, b'\n' | b'\r')) {
                secret.pop();
            }
            if secret.is_empty() {
                bail!("{}: a secret of no bytes", path.display());
            }
            Some(secret)
        }
    };
    let webhook = Webhook::new(url, secret.as_ref(), args.insecure_webhook)?;
    Ok(Some(webhook))
}

fn digest(text: &str) -> Result<Hash, String> {
    Hash::from_hex(text).map_err(|_| "64 hexadecimal digits in lower case".into())
}

fn duration(text: &str) -> Result<Duration, String> {
    let at = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let ms = match unit {
        "ms" => Some(1),
        "" | "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    let number: Option<u64> = number.parse().ok();
    let all = number.zip(ms).and_then(|(n, ms)| n.checked_mul(ms));
    match all {
        Some(all @ 1..=86_400_000) => Ok(Duration::from_millis(all)),
        _ => Err("a time such as 500ms, 10s, 5m or 1h, at most a day".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_units() {
        for (text, ms) in [
            ("500ms", 500),
            ("10s", 10_000),
            ("7", 7_000),
            ("5m", 300_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for bad in [
            "",
            "s",
            "0",
            "1.5s",
            "-1s",
            "2 s",
            "25h",
            "99999999999999999999s",
        ] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
