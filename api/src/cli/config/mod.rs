//! `countersign config`: what a configuration says, before a service follows it.

mod check;
mod show;

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use clap::{Args, Subcommand};

use crate::files;

/// Look at a configuration: what is wrong with it, what is in force and where each setting comes from
#[derive(Debug, Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(check::CheckArgs),
    Show(show::ShowArgs),
}

/// Runs it.
///
/// # Errors
/// A file that cannot be read.
pub fn run(args: &ConfigArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Check(args) => check::run(args),
        Command::Show(args) => show::run(args),
    }
}

/// The text of a configuration: of the file that was named, or of the directory's, which need not be there.
fn text(named: Option<&PathBuf>, of_dir: &Path) -> anyhow::Result<String> {
    if let Some(path) = named {
        return fs::read_to_string(path).with_context(|| path.display().to_string());
    }
    match files::read_small(of_dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read.with_context(|| of_dir.display().to_string()),
    }
}
