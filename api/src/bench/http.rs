//! Single receipts over HTTP, every connection waiting for its answer before it sends again; and the same at a fixed rate.

use serde_json::json;

use super::{
    answers::Wait,
    load,
    report::{Report, Want},
    rig::{self, Common, Part, Plan, Rig},
    watch,
};

/// What is promised beside Tessera's POSIX driver.
const TIMES_THE_PEER: f64 = 3.0;

/// What `bench http` takes.
#[derive(Clone, Debug)]
pub struct Options {
    /// As every bench.
    pub common: Common,
    /// Requests under way.
    pub connections: usize,
    /// The state asked for.
    pub wait: Wait,
}

/// Measures requests a second and their latency, as fast as they are answered.
///
/// # Errors
/// A server that fails, or work that was not done.
pub fn run(options: &Options) -> anyhow::Result<Report> {
    let Options {
        common,
        connections,
        wait,
    } = options;
    let mut rig = Rig::start(common)?;
    let plan = Plan {
        per_request: 1,
        connections: *connections,
        wait: *wait,
        rate: None,
    };
    let rounds = rig.rounds(
        common,
        plan,
        |load| load::closed(load, *connections),
        |_, _| Ok(()),
    )?;
    let sides = rig::sides(&rounds, |part| {
        let m = &part.measured;
        vec![
            m.per_second(),
            m.latencies.percentile_ms(50),
            m.latencies.percentile_ms(99),
            part.server_us_each(),
            part.generator_us_each(),
        ]
    });
    let mut report = Report {
        bench: match wait {
            Wait::Sequenced => "http",
            Wait::Included => "included",
            Wait::Witnessed => "witnessed",
        },
        what: format!(
            "signed receipts over HTTP/1.1, one a request, answered when {}; {connections} connections, {}",
            wait.name(),
            common.words()
        ),
        settings: common.settings(json!({"connections": connections, "wait": wait.name()})),
        figures: vec![
            "receipts/s",
            "p50 ms",
            "p99 ms",
            "server CPU us each",
            "generator CPU us each",
        ],
        sides,
        ..Report::default()
    };
    report.compare(0, 0, 1, Want::AtLeast(TIMES_THE_PEER));
    report.compare(3, 1, 0, Want::Nothing);
    report.notes.push(format!(
        "the generator shares the {} CPUs with the server that it drives",
        watch::cpus()
    ));
    rig.note(&mut report, &rounds);
    Ok(report)
}

/// Measures the time to the answer at `rate` requests a second, sent when they are due whatever became of the earlier ones.
///
/// # Errors
/// As [`run`].
pub fn paced(options: &Options, rate: f64) -> anyhow::Result<Report> {
    let Options {
        common,
        connections,
        wait,
    } = options;
    let mut rig = Rig::start(common)?;
    let plan = Plan {
        per_request: 1,
        connections: *connections,
        wait: *wait,
        rate: Some(rate),
    };
    let rounds = rig.rounds(common, plan, |load| load::open(load, rate), |_, _| Ok(()))?;
    let row = |part: &Part| {
        let latencies = &part.measured.latencies;
        vec![
            part.measured.per_second(),
            latencies.percentile_ms(50),
            latencies.percentile_ms(99),
            part.server_us_each(),
        ]
    };
    let mut report = Report {
        bench: "included",
        what: format!(
            "signed receipts over HTTP/1.1 at {rate} a second, from when each was due until it was {}; {}",
            wait.name(),
            common.words()
        ),
        settings: common.settings(json!({"rate": rate, "wait": wait.name()})),
        figures: vec!["receipts/s", "p50 ms", "p99 ms", "server CPU us each"],
        sides: rig::sides(&rounds, row),
        ..Report::default()
    };
    report.compare(1, 1, 0, Want::Nothing);
    report.compare(2, 1, 0, Want::Nothing);
    rig.note(&mut report, &rounds);
    Ok(report)
}
