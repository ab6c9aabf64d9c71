//! What agents coordinate by, beside what a user would build instead: leases, sessions and items as signed leaves of a log, and as
//! rows of a PostgreSQL with an audit table.

use std::{path::PathBuf, rc::Rc, time::Duration};

use serde_json::json;

pub mod agents;
pub mod claim;
pub mod drive;
pub mod postgres;
pub mod state;
pub mod work;

use self::{
    agents::Agent,
    drive::Until,
    postgres::{Postgres, Programs},
    work::{Kind, Work},
};
use super::{
    answers::Wait,
    report::{Report, Side, Want, say},
    rig::{Common, Rig},
    servers, watch,
};

/// Time before units count; pgbench's first seconds are its slowest too.
const WARM_UP: Duration = Duration::from_secs(1);
/// Agents that fill a board.
const FILLERS: usize = 64;

/// What `bench coordinate` takes.
#[derive(Clone, Debug)]
pub struct Options {
    /// As every bench; its peer is not asked.
    pub common: Common,
    /// What is done, on how large a state, by how many.
    pub work: Work,
    /// Where PostgreSQL's programs are; `None` looks for them.
    pub postgres: Option<PathBuf>,
    /// Without the peer.
    pub alone: bool,
}

impl Kind {
    /// As reports write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Leases => "leases acquired and released",
            Kind::Checkins => "sessions begun and ended",
            Kind::Upserts(agents::Door::Http) => "board upserts over HTTP",
            Kind::Upserts(agents::Door::Mcp) => "board upserts over MCP",
            Kind::Fill => "new items",
            Kind::Sit => "sessions begun",
            Kind::Hold => "leases acquired",
        }
    }
}

/// Measures units of work a second and their latency, on our side and by PostgreSQL, in turns.
///
/// # Errors
/// A server that fails, or work that was refused.
pub fn run(options: &Options) -> anyhow::Result<Report> {
    let Options { common, work, .. } = options;
    let common = Common {
        peer: None,
        ..common.clone()
    };
    let rig = match work.wait {
        Wait::Witnessed => Rig::start_witnessed(&common)?,
        Wait::Sequenced | Wait::Included => Rig::start(&common)?,
    };
    let programs = match options.alone {
        true => None,
        false => Programs::find(options.postgres.as_deref()),
    };
    let mut peer = match &programs {
        Some(programs) => Some(Postgres::start(programs, rig.scratch(), work.items)?),
        None => None,
    };
    let runtime = runtime()?;
    let agents = runtime.block_on(agents::enrolled(&rig, FILLERS.max(work.agents)))?;
    runtime.block_on(fill(&agents, work.items))?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut first = work.items;
    for round in 1..=common.rounds {
        say(&format!("round {round} of {}: countersign", common.rounds));
        settle(&rig, peer.as_ref());
        let until = Until::Over(WARM_UP, common.window);
        let (row, done) = measured(
            &runtime,
            &rig,
            &agents[..work.agents],
            *work,
            (first, until),
        )?;
        first += done;
        ours.push(row);
        if let Some(peer) = &mut peer {
            say(&format!("round {round} of {}: PostgreSQL", common.rounds));
            settle(&rig, Some(peer));
            let measured = peer.measure(*work, WARM_UP, common.window)?;
            theirs.push(vec![
                measured.per_second,
                measured.latencies.percentile_ms(50),
                measured.latencies.percentile_ms(99),
                measured.server_us_each,
                f64::NAN,
            ]);
        }
    }
    report(options, &rig, programs.as_ref(), (ours, theirs))
}

type Rows = Vec<Vec<f64>>;

fn report(
    options: &Options,
    rig: &Rig,
    programs: Option<&Programs>,
    (ours, theirs): (Rows, Rows),
) -> anyhow::Result<Report> {
    let Options { common, work, .. } = options;
    let side = |name: &str, rounds| Side {
        name: name.to_owned(),
        rounds,
    };
    let mut report = Report {
        bench: "coordinate",
        what: format!(
            "{}, each signed by its agent and answered when {}; {} agents with a connection each, {} items on the board, {} CPUs, {} rounds of {}",
            work.kind.name(),
            work.wait.name(),
            work.agents,
            work.items,
            watch::cpus(),
            common.rounds,
            super::seconds(common.window)
        ),
        settings: common.settings(json!({
            "work": work.kind.name(), "agents": work.agents, "items": work.items, "wait": work.wait.name(),
        })),
        figures: FIGURES.to_vec(),
        sides: vec![side("countersign", ours)],
        ..Report::default()
    };
    match programs {
        Some(programs) => {
            report.sides.push(side("PostgreSQL", theirs));
            report.compare(0, 0, 1, Want::Nothing);
            report.compare(1, 0, 1, Want::Nothing);
            report.notes.push(format!(
                "the peer is {} under pgbench, unsigned, a function call and a transaction each write, with an audit row: {}",
                programs.version()?,
                postgres::settings()
            ));
        }
        None => report.notes.push(
            "no PostgreSQL was found or asked (initdb, postgres, psql and pgbench in one folder: --postgres), so nothing is beside these figures"
                .into(),
        ),
    }
    report.notes.push(format!(
        "the generator, which signs for the agents, shares the {} CPUs with the service",
        watch::cpus()
    ));
    rig.note_scratch(&mut report);
    Ok(report)
}

/// What is said of work, a row a round.
pub const FIGURES: [&str; 5] = [
    "units/s",
    "p50 ms",
    "p99 ms",
    "server CPU us each",
    "generator CPU us each",
];

/// One round on our side: its row, and how many units were done in all.
fn measured(
    runtime: &tokio::runtime::Runtime,
    rig: &Rig,
    agents: &[Rc<Agent>],
    work: Work,
    (first, until): (usize, Until),
) -> anyhow::Result<(Vec<f64>, usize)> {
    let before = rig.ours.cpu();
    let measured = runtime.block_on(drive::drive(agents, work, first, until))?;
    let cpu = rig.ours.cpu().zip(before);
    let server = cpu.map_or(f64::NAN, |(after, before)| {
        after.saturating_sub(before).as_secs_f64() * 1e6 / measured.units_in_all as f64
    });
    let row = vec![
        measured.per_second(),
        measured.latencies.percentile_ms(50),
        measured.latencies.percentile_ms(99),
        server,
        measured.generator_cpu.as_secs_f64() * 1e6 / measured.units as f64,
    ];
    // OK because units are counted one by one.
    Ok((row, usize::try_from(measured.units_in_all)?))
}

/// Puts items 0 to `items` on the board.
async fn fill(agents: &[Rc<Agent>], items: usize) -> anyhow::Result<()> {
    const PART: usize = 10_000;
    let work = Work {
        kind: Kind::Fill,
        items,
        agents: agents.len(),
        wait: Wait::Sequenced,
    };
    for first in (0..items).step_by(PART) {
        let part = PART.min(items - first);
        drive::drive(agents, work, first, Until::Done(part)).await?;
        say(&format!("{} of {items} items", first + part));
    }
    Ok(())
}

fn settle(rig: &Rig, peer: Option<&Postgres>) {
    servers::settle_by(|| {
        let peer = peer.and_then(Postgres::cpu);
        rig.ours.cpu().into_iter().chain(peer).sum()
    });
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?)
}
