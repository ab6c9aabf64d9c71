//! What a large state costs: the write on it beside the same write on a small one, the memory of its service, and its start.

use serde_json::json;

use super::{
    FIGURES, WARM_UP,
    agents::{self, Door},
    drive::Until,
    fill, measured, runtime, settle,
    work::{Kind, Work},
};
use crate::bench::{
    answers::Wait,
    report::{Report, Side, Want, say},
    rig::{Common, Rig},
    watch,
};

/// What is promised of the memory of a service with 100,000 items, 10,000 leases and 10,000 sessions.
const MEMORY_MIB: f64 = 1024.0;
/// Agents that work, and that fill the state.
const AGENTS: usize = 64;

/// What `bench state` takes.
#[derive(Clone, Debug)]
pub struct Options {
    /// As every bench; its peer is not asked.
    pub common: Common,
    /// Items on the board of the large state.
    pub items: usize,
    /// Live leases there.
    pub leases: usize,
    /// Live sessions there.
    pub sessions: usize,
}

/// Fills one service, leaves another one with an item, and measures upserts and leases on both in turns; then stops the large one
/// and starts it again, once as it was stopped and once after it was killed.
///
/// # Errors
/// A service that fails.
pub fn run(options: &Options) -> anyhow::Result<Report> {
    let common = Common {
        peer: None,
        ..options.common.clone()
    };
    let runtime = runtime()?;
    let (small, mut large) = (Rig::start(&common)?, Rig::start(&common)?);
    let one = runtime.block_on(agents::enrolled(&small, AGENTS))?;
    let many = runtime.block_on(agents::enrolled(&large, AGENTS))?;
    runtime.block_on(fill(&one, 1))?;
    let empty = large.ours.memory();
    runtime.block_on(fill(&many, options.items))?;
    let work = |kind, items, agents| Work {
        kind,
        items,
        agents,
        wait: Wait::Included,
    };
    let mut filling = Vec::new();
    for (kind, count) in [(Kind::Sit, options.sessions), (Kind::Hold, options.leases)] {
        // In two halves: the second shows what the first has made dearer.
        for (half, range) in [0..count / 2, count / 2..count].into_iter().enumerate() {
            say(&format!("{count} {}", kind.name()));
            let all = work(kind, options.items, many.len());
            let (first, until) = (range.start, Until::Done(range.len()));
            let (row, _) = measured(&runtime, &large, &many, all, (first, until))?;
            filling.push(format!(
                "half {} of {count} {}: {:.0} a second, {:.0} us of the service each",
                half + 1,
                kind.name(),
                row[0],
                row[3]
            ));
        }
    }
    let filled = large.ours.memory();
    let mut sides = [
        (
            "upserts, 1 item",
            Kind::Upserts(Door::Http),
            &small,
            &one,
            1,
        ),
        (
            "upserts, all items",
            Kind::Upserts(Door::Http),
            &large,
            &many,
            options.items,
        ),
        ("leases, 1 item", Kind::Leases, &small, &one, 1),
        (
            "leases, all items",
            Kind::Leases,
            &large,
            &many,
            options.items,
        ),
    ]
    .map(|of| (of, Vec::new(), options.items));
    for round in 1..=common.rounds {
        for ((name, kind, rig, agents, items), rows, first) in &mut sides {
            say(&format!("round {round} of {}: {name}", common.rounds));
            settle(rig, None);
            let until = Until::Over(WARM_UP, common.window);
            let all = work(*kind, *items, agents.len());
            let (row, done) = measured(&runtime, rig, agents, all, (*first, until))?;
            *first += done;
            rows.push(row);
        }
    }
    let sides = sides.map(|((name, ..), rounds, _)| Side {
        name: name.into(),
        rounds,
    });
    let worked = large.ours.memory();
    drop(small);
    let mut report = report(options, &common, sides.into());
    report.notes.extend(filling);
    let mib =
        |bytes: Option<u64>| bytes.map_or(f64::NAN, |bytes| bytes as f64 / f64::from(1 << 20));
    report.notes.push(format!(
        "memory of the service: {:.0} MiB when it began, {:.0} MiB when it was filled, {:.0} MiB after the rounds; wanted at most {MEMORY_MIB}: {}",
        mib(empty),
        mib(filled),
        mib(worked),
        if mib(filled).max(mib(worked)) <= MEMORY_MIB { "reached" } else { "missed" }
    ));
    for how in ["ended", "killed"] {
        match how {
            "ended" => large.ours.end(),
            _ => large.ours.kill(),
        }
        let begun = watch::now();
        large.start_again(&common)?;
        report.notes.push(format!(
            "start after it was {how}: {:.2} s to serving, {:.0} MiB then",
            begun.elapsed().as_secs_f64(),
            mib(large.ours.memory())
        ));
    }
    large.note_scratch(&mut report);
    Ok(report)
}

fn report(options: &Options, common: &Common, sides: Vec<Side>) -> Report {
    let mut report = Report {
        bench: "state",
        what: format!(
            "signed writes on a board of one item, and on one of {} items with {} sessions and {} leases, {AGENTS} agents, answered when included; {} CPUs, {} rounds of {}",
            options.items,
            options.sessions,
            options.leases,
            watch::cpus(),
            common.rounds,
            crate::bench::seconds(common.window)
        ),
        settings: common.settings(json!({
            "items": options.items, "leases": options.leases, "sessions": options.sessions, "agents": AGENTS,
        })),
        figures: FIGURES.to_vec(),
        sides,
        ..Report::default()
    };
    for (large, small) in [(1, 0), (3, 2)] {
        report.compare(3, large, small, Want::Nothing);
    }
    report
}
