//! Receipts in bodies of many lines, beside the bare rate of their signatures.

use serde_json::json;

use super::{
    answers::Wait,
    bare, load,
    report::{Report, Side, Want, say},
    rig::{self, Common, Plan, Rig},
    watch,
};

/// What is promised beside `verify_strict` alone on all processors.
const OF_THE_BARE_RATE: f64 = 0.85;

/// Signatures that the bare rate goes round: more than processor caches hold.
const BARE_SIGNATURES: usize = 20_000;

/// What `bench ndjson` takes.
#[derive(Clone, Debug)]
pub struct Options {
    /// As every bench.
    pub common: Common,
    /// Bodies under way.
    pub connections: usize,
    /// Lines of each body.
    pub lines: usize,
    /// The state asked for.
    pub wait: Wait,
}

/// Measures receipts a second, and beside it in each round the rate at which all processors verify the same signatures.
///
/// # Errors
/// A server that fails, or work that was not done.
pub fn run(options: &Options) -> anyhow::Result<Report> {
    let Options {
        common,
        connections,
        lines,
        wait,
    } = options;
    let mut rig = Rig::start(common)?;
    let plan = Plan {
        per_request: *lines,
        connections: *connections,
        wait: *wait,
        rate: None,
    };
    let mut bare = Vec::new();
    let rounds = rig.rounds(
        common,
        plan,
        |load| load::closed(load, *connections),
        |rig, receipts| {
            say("verify_strict alone");
            let signed = receipts.signed(BARE_SIGNATURES)?;
            let rate = bare::rate(
                &rig.key().public(),
                &signed,
                watch::cpus(),
                common.window / 2,
            )?;
            bare.push(vec![
                rate.per_second,
                f64::NAN,
                f64::NAN,
                rate.cpu_us_each,
                f64::NAN,
            ]);
            Ok(())
        },
    )?;
    let mut sides = rig::sides(&rounds, |part| {
        let m = &part.measured;
        vec![
            m.per_second(),
            m.latencies.percentile_ms(50),
            m.latencies.percentile_ms(99),
            part.server_us_each(),
            part.generator_us_each(),
        ]
    });
    sides.insert(
        1,
        Side {
            name: "verify_strict alone".into(),
            rounds: bare,
        },
    );
    let mut report = Report {
        bench: "ndjson",
        what: format!(
            "signed receipts as NDJSON, {lines} a body, answered when {}; {connections} connections, {}",
            wait.name(),
            common.words()
        ),
        settings: common
            .settings(json!({"connections": connections, "lines": lines, "wait": wait.name()})),
        figures: vec![
            "receipts/s",
            "p50 ms a body",
            "p99 ms a body",
            "CPU us each",
            "generator CPU us each",
        ],
        sides,
        ..Report::default()
    };
    report.compare(0, 0, 1, Want::AtLeast(OF_THE_BARE_RATE));
    report.compare(0, 0, 2, Want::Nothing);
    report.compare(3, 1, 0, Want::Nothing);
    report.notes.push(format!("the generator shares the {0} CPUs with the server that it drives; verify_strict alone has all {0}", watch::cpus()));
    rig.note(&mut report, &rounds);
    Ok(report)
}
