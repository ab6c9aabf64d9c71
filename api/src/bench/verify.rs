//! Evidence verified offline, beside the bare rate of the receipts' signatures.

use std::{thread, time::Duration};

use anyhow::{Context as _, ensure};
use countersign_verifier::verdict::Verifier;
use serde_json::json;

use super::{
    answers::{self, Wait},
    bare::{self, Rate},
    fetch,
    load::Door,
    material::Receipts,
    report::{Report, Side, Want, say},
    rig::{Common, Rig},
    servers::Server,
    watch,
    wire::Connection,
};

/// What is promised beside `verify_strict` alone.
const OF_THE_BARE_RATE: f64 = 0.80;

/// Lines of a body while the log is filled.
const LINES: usize = 1000;

/// What `bench verify` takes.
#[derive(Clone, Debug)]
pub struct Options {
    /// As every bench; the peer is not asked.
    pub common: Common,
    /// Evidence files.
    pub files: usize,
}

/// Lets the service make evidence files under one checkpoint, and measures how many a second are verified from memory, on one
/// processor and on all.
///
/// # Errors
/// A service that fails, or evidence that does not hold.
pub fn run(options: &Options) -> anyhow::Result<Report> {
    let common = Common {
        peer: None,
        ..options.common.clone()
    };
    let mut rig = Rig::start(&common)?;
    let (receipts, _) = rig.receipts(options.files)?;
    say("filling the log");
    let first = fetch::published(&rig.ours.door)?;
    submit(&rig.ours.door, &receipts)?;
    let all = first + receipts.len() as u64;
    fetch::await_published(&rig.ours, all)?;
    say("fetching evidence");
    let evidence = fetch::get_all(
        &rig.ours.door,
        (first..all).map(|index| format!("evidence/{index}")),
    )?;
    let (signed, key) = (receipts.signed(receipts.len())?, rig.key().public());

    let cpus = watch::cpus();
    let mut rounds: [Vec<Vec<f64>>; 4] = Default::default();
    for round in 0..=common.rounds {
        say(&format!("round {round} of {}", common.rounds));
        let row = [
            rate(&rig.ours, &evidence, 1)?,
            bare::rate(&key, &signed, 1, common.window / 2)?,
            rate(&rig.ours, &evidence, cpus)?,
            bare::rate(&key, &signed, cpus, common.window / 2)?,
        ];
        // The first round warms caches and clocks.
        if round > 0 {
            let figures = row.map(|rate| vec![rate.per_second, rate.cpu_us_each]);
            rounds
                .iter_mut()
                .zip(figures)
                .for_each(|(side, row)| side.push(row));
        }
    }
    let names = [
        "evidence, 1 CPU".to_owned(),
        "verify_strict, 1 CPU".into(),
        format!("evidence, {cpus} CPUs"),
        format!("verify_strict, {cpus} CPUs"),
    ];
    let mut report = Report {
        bench: "verify",
        what: format!(
            "{} evidence files under one checkpoint, verified from memory; payloads of {} bytes, {} rounds",
            evidence.len(),
            common.payload_bytes,
            common.rounds
        ),
        settings: common.settings(json!({"files": evidence.len()})),
        figures: vec!["a second", "CPU us each"],
        sides: names
            .into_iter()
            .zip(rounds)
            .map(|(name, rounds)| Side { name, rounds })
            .collect(),
        ..Report::default()
    };
    report.compare(0, 0, 1, Want::AtLeast(OF_THE_BARE_RATE));
    report.compare(0, 2, 3, Want::AtLeast(OF_THE_BARE_RATE));
    report.compare(1, 3, 2, Want::Nothing);
    let bytes = evidence.iter().map(Vec::len).sum::<usize>() / evidence.len().max(1);
    report.notes.push(format!(
        "{bytes} bytes a file; each verifier judges the checkpoint and the chain of enrolments once"
    ));
    Ok(report)
}

/// How fast `threads` verifiers judge the files together, each starting from nothing and all of them finding that they hold.
fn rate(server: &Server, evidence: &[Vec<u8>], threads: usize) -> anyhow::Result<Rate> {
    let mut verifiers: Vec<Verifier> = (0..threads)
        .map(|_| fetch::verifier(server))
        .collect::<anyhow::Result<_>>()?;
    let share = evidence.len().div_ceil(threads).max(1);
    let started = watch::now();
    let cpu = thread::scope(|scope| {
        let judge = |files: &[Vec<u8>], verifier: &mut Verifier| {
            files
                .iter()
                .try_for_each(|file| fetch::holds(&verifier.evidence(file)))?;
            anyhow::Ok(watch::thread_cpu())
        };
        let shares: Vec<_> = evidence
            .chunks(share)
            .zip(&mut verifiers)
            .map(|(files, verifier)| scope.spawn(move || judge(files, verifier)))
            .collect();
        shares.into_iter().try_fold(Duration::ZERO, |sum, share| {
            let cpu = share
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            anyhow::Ok(sum + cpu)
        })
    })?;
    Ok(Rate::of(evidence.len() as u64, started.elapsed(), cpu))
}

/// Submits all receipts, a body after the other.
///
/// # Errors
/// A receipt that is not taken.
pub(super) fn submit(door: &Door, receipts: &Receipts) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut connection = Connection::new(door.address);
        for from in (0..receipts.len()).step_by(LINES) {
            let until = (from + LINES).min(receipts.len());
            let body = receipts.lines(from..until);
            let head = format!(
                "POST {}/receipts?wait=included HTTP/1.1\r\nHost: {}\r\nContent-Type: application/x-ndjson\r\nContent-Length: {}\r\n\r\n",
                door.log,
                door.address,
                body.len()
            );
            let answer = connection.exchange(head.as_bytes(), body).await.context("filling the log")?;
            let tally = answers::read(answer, until - from, true, Wait::Included);
            ensure!(tally.accepted == until - from, "filling the log: {}", tally.complaint.unwrap_or_default());
        }
        Ok(())
    })
}
