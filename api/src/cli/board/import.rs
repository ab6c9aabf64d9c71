//! `countersign board import`: a file comes in, in as many signed operations as it takes.

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::ask;
use crate::{
    cli::{
        Fail, REFUSED,
        out::{self, Out},
        place::{KeyArg, Place, Service},
        tool::{self, WaitArgs},
    },
    client::Wait,
    state::board::{FileError, Mode, file},
    tools::board::{Exported, Imported, Plan, plan_afar},
};

/// A board is at most so many bytes: 250,000 items of some kilobytes.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// What wins where both sides have an item.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Wins {
    /// The newer version; comments of both are kept
    Merge,
    /// The file; what it does not have is dropped, nothing is deleted
    Replace,
}

/// Bring a file into the board
///
/// Shows what would be done; --apply does it. Importing a file twice adds nothing, so an import that was interrupted goes on where it
/// stopped when the same command is run again.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes:
  0  shown, or done
  1  the file is no board, or the service refused a part of it
  2  wrong usage, or a file that cannot be read
  3  it cannot be told whether all of it was done: run it again")]
pub struct ImportArgs {
    /// The file, countersign.board/1; - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// What wins where both sides have an item
    #[arg(long, value_enum, default_value = "merge")]
    mode: Wins,
    /// Do it, and not only show it
    #[arg(long)]
    apply: bool,
    /// Print the plan, or what was done, as one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    key: KeyArg,
    #[command(flatten)]
    place: Place,
}

pub(super) async fn run(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    let content = read(&args.file)?;
    let read = file::read(&content).map_err(|error| unfit(&args.file, &error))?;
    let mode = match args.mode {
        Wins::Merge => Mode::Merge,
        Wins::Replace => Mode::Replace,
    };
    let (service, key) = args.key.reach(&args.place).await?;
    let Some(key) = key else {
        // Without a key of one's own the service signs, for the seat of the token.
        let asked = json!({"format": file::FORMAT, "content": content, "mode": mode, "dry_run": !args.apply});
        let done: Imported = ask(&service, None, "board_import", asked).await?;
        show(&done, args)?;
        return Ok(ExitCode::SUCCESS);
    };
    let exported: Exported = ask(
        &service,
        Some(&key),
        "board_export",
        json!({"format": file::FORMAT}),
    )
    .await?;
    let (plan, parts) =
        plan_afar(&exported.content, &read, mode).map_err(|error| unfit(&args.file, &error))?;
    let count = parts.len();
    if !args.apply || count == 0 {
        let parts = count as u64;
        show(
            &Imported {
                plan,
                applied: 0,
                parts,
            },
            args,
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut done = Imported {
        // What is passed over here is not sent.
        plan: Plan {
            create: Vec::new(),
            update: Vec::new(),
            skip: plan.skip,
        },
        ..Imported::default()
    };
    let mut reached = true;
    for (at, part) in parts.into_iter().enumerate() {
        let last = at + 1 == count;
        let sent = send(&service, &key, part, wait(args.wait, last)).await.with_context(|| {
            format!("part {} of {count}; the parts before it are done, and the same command goes on from here", at + 1)
        })?;
        done.add(sent.0);
        reached = sent.1;
        if !last && at % 16 == 15 {
            out::note(format_args!("part {} of {count}", at + 1));
        }
    }
    show(&done, args)?;
    Ok(match reached {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(crate::cli::UNKNOWN),
    })
}

/// The last part waits as far as was asked for; it is after all the others.
fn wait(asked: WaitArgs, last: bool) -> WaitArgs {
    match last {
        true => asked,
        false => WaitArgs {
            wait: Some(Wait::Sequenced),
            ..asked
        },
    }
}

/// Sends one part; what became of it, and whether it is as far as was asked for.
async fn send(
    service: &Service,
    key: &countersign_verifier::key::PrivateKey,
    part: Value,
    wait: WaitArgs,
) -> anyhow::Result<(Imported, bool)> {
    let answer = tool::write(service, key, ("board_import", part), None, wait).await?;
    let done = serde_json::from_value(answer.result).context("the answer to board_import")?;
    Ok((done, answer.reached))
}

fn read(path: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let name = || path.display().to_string();
    let read = match path.as_os_str() == "-" {
        true => io::stdin()
            .lock()
            .take(FILE_BYTES_MAX + 1)
            .read_to_string(&mut text),
        false => {
            let file = fs::File::open(path).with_context(name)?;
            file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)
        }
    };
    read.with_context(name)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        bail!("{}: more than {FILE_BYTES_MAX} bytes", path.display());
    }
    Ok(text)
}

fn unfit(path: &Path, error: &FileError) -> anyhow::Error {
    let why = match error {
        FileError::Line(line, why) => format!("line {line}: {why}"),
        FileError::Digest { stated, found } => {
            format!("its trailer says {stated}, and its lines have {found}: it was changed or cut")
        }
        FileError::Duplicate { ids, lines } => format!(
            "lines {} and {}: {:?} and {:?} are one id, or look alike",
            lines[0], lines[1], ids[0], ids[1]
        ),
    };
    anyhow::Error::new(Fail {
        code: REFUSED,
        message: format!("{}: {why}", path.display()),
    })
}

fn show(done: &Imported, args: &ImportArgs) -> anyhow::Result<()> {
    let mut out = Out::stdout();
    if args.json {
        out.line(serde_json::to_string(done)?)?;
        return Ok(());
    }
    let Plan {
        create,
        update,
        skip,
    } = &done.plan;
    for why in update
        .iter()
        .map(|why| ("update", why))
        .chain(skip.iter().map(|why| ("skip", why)))
    {
        out.line(format_args!("{}  {}: {}", why.0, why.1.id, why.1.why))?;
    }
    let (new, changed, passed) = (create.len(), update.len(), skip.len());
    out.line(match args.apply {
        true => format!("{new} new, {changed} changed, {passed} passed over; in {} operations", done.parts),
        false => format!("{new} new, {changed} to change, {passed} to pass over, in {} operations; --apply does it", done.parts),
    })?;
    Ok(())
}
