//! Many agents that want the same at the same moment: exactly one has it, and all are told soon.

use std::rc::Rc;

use anyhow::{Context as _, ensure};
use serde_json::json;
use tokio::task::LocalSet;

use super::{
    agents::{self, Agent, Door},
    runtime, work,
};
use crate::bench::{
    answers::Wait,
    report::{Report, Side, say},
    rig::{Common, Rig},
    stats::Latencies,
    watch,
    wire::Connection,
};

/// What is promised of the answers to a race: milliseconds at the 99th percentile.
const P99_MS_MAX: f64 = 50.0;

/// What `bench claim` takes.
#[derive(Clone, Debug)]
pub struct Options {
    /// As every bench; its peer is not asked.
    pub common: Common,
    /// Agents that want the same.
    pub racers: usize,
}

/// Races for one exclusive lease after the other, for a window each round.
///
/// # Errors
/// A service that fails, or a race that not exactly one has won.
pub fn run(options: &Options) -> anyhow::Result<Report> {
    let common = Common {
        peer: None,
        ..options.common.clone()
    };
    let rig = Rig::start(&common)?;
    let runtime = runtime()?;
    let agents = runtime.block_on(agents::enrolled(&rig, options.racers))?;
    let (mut rows, mut races) = (Vec::new(), 0);
    for round in 0..=common.rounds {
        say(&format!("round {round} of {}", common.rounds));
        let (row, ran) =
            runtime.block_on(LocalSet::new().run_until(races_of(&agents, &common, races)))?;
        races += ran;
        // The first warms up.
        if round > 0 {
            rows.push(row);
        }
    }
    let mut report = Report {
        bench: "claim",
        what: format!(
            "{} agents that ask for the same exclusive lease at the same moment, answered when included; {} CPUs, {} rounds of {}",
            options.racers,
            watch::cpus(),
            common.rounds,
            crate::bench::seconds(common.window)
        ),
        settings: common.settings(json!({"racers": options.racers, "races": races})),
        figures: vec!["races/s", "p50 ms", "p99 ms", "winner's p99 ms"],
        sides: vec![Side {
            name: "countersign".into(),
            rounds: rows,
        }],
        ..Report::default()
    };
    report.promise(2, 0, P99_MS_MAX);
    report
        .notes
        .push(format!("exactly one agent won each of {races} races"));
    rig.note_scratch(&mut report);
    Ok(report)
}

/// Races from number `first` on, for a window. A row, and how many there were.
async fn races_of(
    agents: &[Rc<Agent>],
    common: &Common,
    first: usize,
) -> anyhow::Result<(Vec<f64>, usize)> {
    let mut connections: Vec<Connection> = agents.iter().map(|agent| agent.connect()).collect();
    let (mut all, mut winners) = (Latencies::default(), Latencies::default());
    let (began, mut races) = (watch::now(), 0);
    while began.elapsed() < common.window {
        let resource = format!("item:race-{}", first + races);
        let racers = agents.iter().cloned().zip(connections.drain(..));
        let running: Vec<_> = racers
            .map(|(agent, connection)| {
                tokio::task::spawn_local(claim(agent, connection, resource.clone()))
            })
            .collect();
        let mut won = Vec::new();
        for racer in running {
            let (agent, connection, answered) = racer.await??;
            all.add(answered.latency);
            match answered.status {
                200 => {
                    winners.add(answered.latency);
                    won.push((agent, answered));
                }
                _ => ensure!(
                    answered.body["code"] == "LEASE_CONFLICT",
                    "{}",
                    answered.body
                ),
            }
            connections.push(connection);
        }
        ensure!(won.len() == 1, "{} agents have won {resource}", won.len());
        let (agent, answered) = won.pop().context("nobody has won")?;
        let given = ("ars_lease_release", work::lease(&answered.body)?);
        agent
            .done(
                &mut connections[agent.place],
                (Door::Http, Wait::Included),
                given,
            )
            .await?;
        races += 1;
    }
    let row = vec![
        races as f64 / began.elapsed().as_secs_f64(),
        all.percentile_ms(50),
        all.percentile_ms(99),
        winners.percentile_ms(99),
    ];
    Ok((row, races))
}

async fn claim(
    agent: Rc<Agent>,
    mut connection: Connection,
    resource: String,
) -> anyhow::Result<(Rc<Agent>, Connection, agents::Answered)> {
    let asked = json!({"resource": resource, "ttl_s": 600});
    let how = (Door::Http, Wait::Included);
    let answered = agent
        .ask(&mut connection, how, ("ars_lease_acquire", asked))
        .await?;
    Ok((agent, connection, answered))
}
