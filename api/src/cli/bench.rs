//! `countersign bench`: the figures of the documentation, measured here beside a peer.

use std::{path::PathBuf, process::ExitCode, thread};

use clap::{Args, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

use crate::bench::{
    answers::Wait,
    audit,
    coordinate::{self, claim, state, work::Work},
    flood, http, live, ndjson, open_accounts,
    report::Report,
    rig::Common,
    scale, verify, witness, witnessed,
};

mod common;
mod words;

use common::CommonArgs;
use words::{HowFarArg, WaitArg, WorkArg, at_least_two, positive};

/// Exit code after SIGTERM or SIGINT: nothing was measured.
const STOPPED: i32 = 3;

/// Measure receipts and evidence beside a peer, on this machine
///
/// Each bench starts a service of its own in a temporary directory, and the peer beside it; they are measured in turns, and
/// medians are compared. Exit code 0 says that the work was done and its evidence holds, not that a figure was reached.
#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Single receipts over HTTP, as fast as they are answered
    Http {
        #[command(flatten)]
        common: CommonArgs,
        /// Requests under way
        #[arg(long, default_value_t = 64, value_parser = positive)]
        connections: usize,
        /// The state in which an answer counts
        #[arg(long, value_enum, default_value_t = WaitArg::Sequenced)]
        wait: WaitArg,
    },
    /// The time until a receipt is under a signed head: as fast as they are answered, or at a fixed rate
    Included {
        #[command(flatten)]
        common: CommonArgs,
        /// Requests under way
        #[arg(long, default_value_t = 64, value_parser = positive)]
        connections: usize,
        /// Requests a second, each sent when it is due, whatever became of the others
        #[arg(long)]
        rate: Option<u32>,
    },
    /// Receipts in bodies of many lines, beside verify_strict alone
    Ndjson {
        #[command(flatten)]
        common: CommonArgs,
        /// Bodies under way
        #[arg(long, default_value_t = 4, value_parser = positive)]
        connections: usize,
        /// Lines of a body
        #[arg(long, default_value_t = 1000, value_parser = at_least_two)]
        lines: usize,
        /// The state in which an answer counts
        #[arg(long, value_enum, default_value_t = WaitArg::Included)]
        wait: WaitArg,
    },
    /// Cosignatures of a witness, beside another witness
    Witness {
        #[command(flatten)]
        common: CommonArgs,
        /// Logs that grow
        #[arg(long, default_value_t = 100, value_parser = positive)]
        logs: usize,
        /// Requests under way, each connection with logs of its own
        #[arg(long, default_value_t = 32, value_parser = positive)]
        connections: usize,
    },
    /// The time until a receipt is witnessed by a quorum of three witnesses on this machine, idle and loaded
    Witnessed {
        #[command(flatten)]
        common: CommonArgs,
        /// Requests a second of the loaded service, each sent when it is due, whatever became of the others
        #[arg(long, default_value_t = 500)]
        rate: u32,
    },
    /// Evidence verified offline, beside verify_strict alone
    Verify {
        #[command(flatten)]
        common: CommonArgs,
        /// Evidence files
        #[arg(long, default_value_t = 10_000, value_parser = positive)]
        files: usize,
    },
    /// Leases, sessions and board items as signed leaves, beside the same work unsigned in a PostgreSQL that is installed here
    Coordinate {
        #[command(flatten)]
        common: CommonArgs,
        /// What is done
        #[arg(long, value_enum, default_value_t = WorkArg::Leases)]
        work: WorkArg,
        /// Agents, each with a key, a session and a connection of its own
        #[arg(long, default_value_t = 64, value_parser = positive)]
        agents: usize,
        /// Items on the board
        #[arg(long, default_value_t = 1, value_parser = positive)]
        items: usize,
        /// The state in which a write is answered
        #[arg(long, value_enum, default_value_t = HowFarArg::Included)]
        wait: HowFarArg,
        /// Folder of initdb, postgres, psql and pgbench; by default they are looked for
        #[arg(long, value_name = "DIR")]
        postgres: Option<PathBuf>,
        /// Without the peer
        #[arg(long, conflicts_with = "postgres")]
        alone: bool,
    },
    /// Many agents that ask for the same exclusive lease at the same moment
    Claim {
        #[command(flatten)]
        common: CommonArgs,
        /// How many
        #[arg(long, default_value_t = 64, value_parser = positive)]
        racers: usize,
    },
    /// Writes on a large state beside the same on a small one, and what memory and start of the large one cost
    State {
        #[command(flatten)]
        common: CommonArgs,
        /// Items on the board
        #[arg(long, default_value_t = 100_000, value_parser = positive)]
        items: usize,
        /// Live leases
        #[arg(long, default_value_t = 10_000)]
        leases: usize,
        /// Live sessions
        #[arg(long, default_value_t = 10_000)]
        sessions: usize,
    },
    /// The audit of a static log of many leaves, from its folder and over HTTP, beside its signatures alone
    Audit {
        #[command(flatten)]
        common: CommonArgs,
        /// Leaves
        #[arg(long, default_value_t = 1_000_000, value_parser = positive)]
        leaves: usize,
        /// Make the log in this folder and keep it, or take the one that was made there
        #[arg(long, value_name = "DIR")]
        log: Option<PathBuf>,
    },
    /// The start of a log of many leaves, beside that of one of a few
    Start(ScaleArgs),
    /// The bytes on the disk of a log of many leaves: the leaves, the tree, the lookup index
    Disk(ScaleArgs),
    /// The memory of a service with a log of many leaves, beside that of one with a few
    Memory(ScaleArgs),
    /// Many accounts in one directory: memory with one of them open and with many, and what it costs to open another
    OpenAccounts {
        #[command(flatten)]
        common: CommonArgs,
        /// Accounts
        #[arg(long, default_value_t = 1000, value_parser = positive)]
        accounts: usize,
        /// Open at a time
        #[arg(long, default_value_t = 200, value_parser = positive)]
        open: usize,
    },
    /// What a writer waits, alone and beside others who send signatures that do not hold
    Flood {
        #[command(flatten)]
        common: CommonArgs,
        /// Receipts a second of the writer, each sent when it is due, whatever became of the others
        #[arg(long, default_value_t = 200)]
        rate: u32,
        /// Connections of the flood, each with a request under way
        #[arg(long, default_value_t = 64, value_parser = positive)]
        connections: usize,
    },
}

#[derive(Debug, Args)]
struct ScaleArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Leaves
    #[arg(long, default_value_t = 1_000_000, value_parser = positive)]
    leaves: usize,
}

/// Measures, and prints a table or JSON.
///
/// # Errors
/// A server that fails, or work that was not done.
pub fn run(args: &BenchArgs) -> anyhow::Result<ExitCode> {
    let common = match &args.what {
        What::Http { common, .. }
        | What::Included { common, .. }
        | What::Ndjson { common, .. }
        | What::Witness { common, .. }
        | What::Witnessed { common, .. }
        | What::Verify { common, .. }
        | What::Coordinate { common, .. }
        | What::Claim { common, .. }
        | What::State { common, .. }
        | What::Audit { common, .. }
        | What::Start(ScaleArgs { common, .. })
        | What::Disk(ScaleArgs { common, .. })
        | What::Memory(ScaleArgs { common, .. })
        | What::OpenAccounts { common, .. }
        | What::Flood { common, .. } => common,
    };
    thread::spawn(|| {
        if told_to_stop().is_ok() {
            live::abandon();
            std::process::exit(STOPPED);
        }
    });
    let report = measure(&args.what, common.read()?)?;
    if common.json {
        println!("{}", report.to_json());
    } else {
        print!("{}", report.to_text());
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns when this process is told to end.
fn told_to_stop() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut term = signal(SignalKind::terminate())?;
        let mut int = signal(SignalKind::interrupt())?;
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        Ok(())
    })
}

fn measure(what: &What, common: Common) -> anyhow::Result<Report> {
    match *what {
        What::Http {
            connections, wait, ..
        } => http::run(&http::Options {
            common,
            connections,
            wait: wait.into(),
        }),
        What::Included {
            connections, rate, ..
        } => {
            let options = http::Options {
                common,
                connections,
                wait: Wait::Included,
            };
            rate.map_or_else(
                || http::run(&options),
                |rate| http::paced(&options, f64::from(rate)),
            )
        }
        What::Ndjson {
            connections,
            lines,
            wait,
            ..
        } => ndjson::run(&ndjson::Options {
            common,
            connections,
            lines,
            wait: wait.into(),
        }),
        What::Witness {
            logs, connections, ..
        } => witness::run(&witness::Options {
            common,
            logs,
            connections,
        }),
        What::Witnessed { rate, .. } => witnessed::run(&witnessed::Options {
            common,
            rate: f64::from(rate),
        }),
        What::Verify { files, .. } => verify::run(&verify::Options { common, files }),
        What::Coordinate {
            work,
            agents,
            items,
            wait,
            ref postgres,
            alone,
            ..
        } => coordinate::run(&coordinate::Options {
            common,
            work: Work {
                kind: work.into(),
                items,
                agents,
                wait: wait.into(),
            },
            postgres: postgres.clone(),
            alone,
        }),
        What::Claim { racers, .. } => claim::run(&claim::Options { common, racers }),
        What::State {
            items,
            leases,
            sessions,
            ..
        } => state::run(&state::Options {
            common,
            items,
            leases,
            sessions,
        }),
        What::Audit {
            leaves, ref log, ..
        } => audit::run(&audit::Options {
            common,
            leaves: leaves as u64,
            log: log.clone(),
        }),
        What::Start(ScaleArgs { leaves, .. }) => scale::start(&scale::Options { common, leaves }),
        What::Disk(ScaleArgs { leaves, .. }) => scale::disk(&scale::Options { common, leaves }),
        What::Memory(ScaleArgs { leaves, .. }) => scale::memory(&scale::Options { common, leaves }),
        What::OpenAccounts { accounts, open, .. } => open_accounts::run(&open_accounts::Options {
            common,
            accounts,
            open,
        }),
        What::Flood {
            rate, connections, ..
        } => flood::run(&flood::Options {
            common,
            rate: f64::from(rate),
            connections,
        }),
    }
}
