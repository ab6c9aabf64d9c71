//! The time from a write until its answer says *witnessed*, with the three witnesses that `up` runs: idle, and under load.

use serde_json::json;

use super::{
    answers::Wait,
    load,
    report::{Report, Side},
    rig::{Common, Plan, Rig},
};

/// Receipts a second of a service that has next to nothing to do.
const IDLE_RATE: f64 = 10.0;

/// What is promised of the loaded service: milliseconds at the median and at the 99th percentile.
const P50_MS_MAX: f64 = 15.0;
const P99_MS_MAX: f64 = 50.0;

/// What `bench witnessed` takes.
#[derive(Clone, Debug)]
pub struct Options {
    /// As every bench.
    pub common: Common,
    /// Receipts a second of the loaded service.
    pub rate: f64,
}

/// Measures it.
///
/// # Errors
/// A server that fails, work that was not done, or evidence that does not hold under the policy of its witnesses.
pub fn run(options: &Options) -> anyhow::Result<Report> {
    let Options { common, rate } = options;
    let mut rig = Rig::start_witnessed(common)?;
    let mut report = Report {
        bench: "witnessed",
        what: format!(
            "signed receipts over HTTP/1.1, from when each was due until it was witnessed; three witnesses beside the service, \
             idle is {IDLE_RATE} a second, loaded {rate}; {}",
            common.words()
        ),
        settings: common.settings(json!({"rate": rate, "idle_rate": IDLE_RATE, "witnesses": 3})),
        figures: vec![
            "receipts/s",
            "p50 ms",
            "p99 ms",
            "server and witnesses CPU us each",
        ],
        ..Report::default()
    };
    for (name, rate) in [("idle", IDLE_RATE), ("loaded", *rate)] {
        let plan = Plan {
            per_request: 1,
            connections: 64,
            wait: Wait::Witnessed,
            rate: Some(rate),
        };
        let rounds = rig.rounds(common, plan, |load| load::open(load, rate), |_, _| Ok(()))?;
        let row = |round: &super::rig::Round| {
            let latencies = &round.ours.measured.latencies;
            vec![
                round.ours.measured.per_second(),
                latencies.percentile_ms(50),
                latencies.percentile_ms(99),
                round.ours.server_us_each(),
            ]
        };
        report.sides.push(Side {
            name: name.to_owned(),
            rounds: rounds.iter().map(row).collect(),
        });
        rig.note(&mut report, &rounds);
    }
    report.notes.dedup();
    report.promise(1, 1, P50_MS_MAX);
    report.promise(2, 1, P99_MS_MAX);
    Ok(report)
}
