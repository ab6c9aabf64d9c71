//! `witness serve`.

use std::{
    io::IsTerminal,
    net::{IpAddr, SocketAddr},
    process::ExitCode,
    time::Duration,
};

use clap::Args;
use tracing_subscriber::EnvFilter;

use super::{At, Fail, USAGE, print};
use crate::gossip::config::Given;
use crate::roster::Addition;
use crate::serve::{self, Start};
use crate::witness::Witness;

/// How long a runtime waits for its threads at the end.
const RUNTIME_END: Duration = Duration::from_secs(5);

/// Serve a witness until SIGTERM or SIGINT
#[derive(Debug, Args)]
pub struct ServeArgs {
    #[command(flatten)]
    at: At,
    /// Where to listen; port 0 picks one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8790")]
    listen: SocketAddr,
    /// A proxy in front of this witness: all others on other machines have at most 64 connections each; may be repeated
    #[arg(long = "proxy", value_name = "IP")]
    proxies: Vec<IpAddr>,
    /// Stop when standard input ends too: for a program that starts this and holds the other end of the pipe
    #[arg(long)]
    with_parent: bool,
    /// Another witness whose newest heads are compared with ours; may be repeated. Kept in the directory: a start without any
    /// follows the last ones, one with some replaces them
    #[arg(long = "peer", value_name = "URL")]
    peers: Vec<String>,
    /// A log, and where it answers `consistency` and `node`; may be repeated. Added, or given the new address, before anything is
    /// served: for a program that starts this beside a log whose address changes
    #[arg(long = "log", value_names = ["VKEY", "URL"], num_args = 2)]
    logs: Vec<String>,
    /// Seconds between two pulls of a peer, half as many more or less; kept too (60 at first)
    #[arg(long, value_name = "SECONDS")]
    gossip_interval_s: Option<u64>,
    /// Where evidence of a fork is posted to, as JSON; kept too
    #[arg(long, value_name = "URL")]
    webhook: Option<String>,
    /// What is traced on standard error
    #[arg(
        long,
        value_name = "FILTER",
        env = "COUNTERSIGN_WITNESS_TRACE",
        default_value = "info"
    )]
    trace: String,
}

impl ServeArgs {
    /// The logs of `--log`, whose values come in pairs.
    fn logs(&self) -> Vec<Addition> {
        let pairs = self.logs.chunks_exact(2);
        let addition = |pair: &[String]| Addition {
            vkey: pair[0].clone(),
            url: Some(pair[1].clone()),
            ..Addition::default()
        };
        pairs.map(addition).collect()
    }
}

pub(super) fn run(args: &ServeArgs) -> Result<ExitCode, Fail> {
    let filter = EnvFilter::try_new(&args.trace)
        .map_err(|why| Fail::new(USAGE, format!("--trace: {why}")))?;
    // A second start in one process (tests) keeps the first one's trace.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // Else what cannot be written, on a full disk for instance, is said once more by what panics.
        .log_internal_errors(false)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .try_init();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let dir = args.at.dir();
    let start = Start {
        address: args.listen,
        with_parent: args.with_parent,
        logs: args.logs(),
        proxies: args.proxies.clone(),
        given: Given {
            peers: args.peers.clone(),
            interval_s: args.gossip_interval_s,
            webhook: args.webhook.clone(),
        },
    };
    let served = runtime.block_on(serve::run(&dir, start, ready));
    runtime.shutdown_timeout(RUNTIME_END);
    served?;
    Ok(ExitCode::SUCCESS)
}

fn ready(witness: &Witness, address: SocketAddr) {
    let keys = witness.keys();
    let vkeys = keys.vkeys();
    let line = format!(
        "ready http://{address} name={} vkey={}\n",
        keys.name(),
        vkeys[0]
    );
    if let Err(error) = print(&line) {
        tracing::warn!(%error, "nobody reads the ready line");
    }
}
