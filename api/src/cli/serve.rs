//! `countersign serve`: serve a data directory.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use clap::Args;

use super::out::note;
use crate::{
    account::Explicit,
    app::App,
    config::Config,
    data_dir::{DEFAULT_DIR, DataDir},
    local_witnesses::{self, LocalWitness},
    service::{self, RUNTIME_END},
    trace,
};

/// Serve a data directory until SIGTERM or SIGINT
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// The directory that `init` or `up` made
    #[arg(long, env = "COUNTERSIGN_DIR", default_value = DEFAULT_DIR)]
    pub dir: PathBuf,
    /// Where to listen; port 0 picks one. Overrides the configuration
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<SocketAddr>,
    /// Take the wall clock as it is, if it is what keeps the log from writing; a leaf says so
    #[arg(long)]
    pub accept_clock: bool,
    /// Write though too few witnesses have shown that nothing is missing here; a leaf says so. If this is an older copy, the next
    /// head is a fork: only where the witnesses are gone for good
    #[arg(long)]
    pub unguarded: bool,
}

/// Serves.
///
/// # Errors
/// Only what is no [`service::ServiceError`]; those become exit codes.
pub fn run(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let dir = DataDir::new(&args.dir);
    if local_witnesses::find(&dir).is_ok_and(|found| !found.is_empty()) {
        note(
            "countersign: this directory has witnesses of its own, which `up` runs and `serve` does not: without them the log does not write",
        );
    }
    if args.unguarded {
        note(
            "countersign: WARNING: --unguarded: this log writes without its witnesses' word that nothing is missing here. A leaf records it.",
        );
    }
    let explicit = Explicit {
        accept_clock: args.accept_clock,
        unguarded: args.unguarded,
    };
    let start = (explicit, Vec::new());
    serve(&dir, args.listen, start, |_| {})
}

/// Serves a directory that exists, beside these witnesses of it; `ready` runs after the ready line.
pub(super) fn serve(
    dir: &DataDir,
    listen: Option<SocketAddr>,
    (explicit, witnesses): (impl Into<Explicit>, Vec<LocalWitness>),
    ready: impl FnOnce(&App),
) -> anyhow::Result<ExitCode> {
    let start = (explicit.into(), witnesses);
    let mut config = match Config::load(dir) {
        Ok(config) => config,
        Err(error) => return Ok(refuse(&error, 2)),
    };
    config.listen = listen.unwrap_or(config.listen);
    config.listen_given = listen.is_some();
    if let Err(error) = trace::init(&config.trace) {
        return Ok(refuse(&error, 2));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let served = runtime.block_on(service::run(config, dir.clone(), start, |app| {
        if let Err(error) = service::print_ready(app) {
            tracing::warn!(%error, "nobody reads the ready line");
        }
        ready(app);
    }));
    runtime.shutdown_timeout(RUNTIME_END);
    Ok(match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => refuse(&error, error.exit_code()),
    })
}

fn refuse(error: &dyn std::fmt::Display, code: u8) -> ExitCode {
    note(format_args!("countersign: {error}"));
    ExitCode::from(code)
}
