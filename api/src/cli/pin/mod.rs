//! `countersign pin`: heads of logs that somebody keeps.

mod add;
mod check;
mod list;
pub(in crate::cli) mod show;

use std::{path::PathBuf, process::ExitCode};

use anyhow::bail;
use clap::{Args, Subcommand};

use crate::{config::user_data_dir, pins::Pins};

/// Keep heads of logs, and see later whether a log still has the history that it had
#[derive(Debug, Args)]
pub struct PinArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Add(add::AddArgs),
    Check(check::CheckArgs),
    List(list::ListArgs),
}

/// Where pins are kept.
#[derive(Debug, Args)]
struct PinsArg {
    /// The folder of pins [default: countersign/pins in the folder for the user's data]
    #[arg(
        long,
        value_name = "DIR",
        env = "COUNTERSIGN_PINS",
        hide_env_values = true
    )]
    pins: Option<PathBuf>,
}

impl PinsArg {
    fn open(&self) -> anyhow::Result<Pins> {
        let folder = match (&self.pins, user_data_dir()) {
            (Some(folder), _) => folder.clone(),
            (None, Some(folder)) => folder.join("countersign/pins"),
            (None, None) => {
                bail!("there is no folder for the user's data: say where pins are with --pins")
            }
        };
        Ok(Pins::new(folder))
    }
}

/// Runs it.
///
/// # Errors
/// A file or an address that cannot be used, or a log that cannot be reached.
pub fn run(args: &PinArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Add(args) => add::run(args),
        Command::Check(args) => check::run(args),
        Command::List(args) => list::run(args),
    }
}
