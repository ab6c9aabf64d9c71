//! `countersign config check`: what a start would refuse.

use std::{path::PathBuf, process::ExitCode};

use anyhow::bail;
use clap::Args;
use serde_json::{Value, json};

use crate::{
    cli::{UNUSABLE, out::Out, place::DirArg},
    config::{Config, ConfigError, Fault},
};

/// Say everything that a start would refuse in the configuration: the file and its line, or the variable, and the key
///
/// Reads config.toml and the variables of this shell, and the files of TLS that they name. Takes no lock and changes nothing, so
/// it may be asked beside a running service, before that is started again.
///
/// Exit code 0: it is a configuration; 2: it is not, and every fault is a line.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// A file to look at in place of the directory's config.toml, before it is put there
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    dir: DirArg,
}

pub(super) fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let dir = args.dir.open();
    let of_dir = dir.config();
    if args.file.is_none() && !dir.root().is_dir() {
        bail!(
            "{}: no such directory; name the data directory with --dir, or a file",
            dir.root().display()
        );
    }
    let path = args.file.as_ref().unwrap_or(&of_dir);
    let faults: Vec<Fault> = match Config::layers(path, &super::text(args.file.as_ref(), &of_dir)?)
    {
        Ok(layers) => {
            let refused = layers.config.refused_at_a_start().into_iter();
            refused.map(|(key, why)| layers.fault(key, why)).collect()
        }
        Err(ConfigError::Faults(faults)) => faults,
        Err(error) => return Err(error.into()),
    };
    let mut out = Out::stdout();
    if args.json {
        let rows: Vec<Value> = faults.iter().map(row).collect();
        out.line(json!({"file": path, "valid": faults.is_empty(), "faults": rows}))?;
    } else {
        for fault in &faults {
            out.line(fault)?;
        }
    }
    if !faults.is_empty() {
        return Ok(ExitCode::from(UNUSABLE));
    }
    if !args.json {
        let absent = match path.exists() {
            true => "",
            false => ", since there is no such file",
        };
        out.line(format_args!("{}: a configuration{absent}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn row(fault: &Fault) -> Value {
    json!({"place": fault.place, "key": fault.key, "why": fault.why})
}
