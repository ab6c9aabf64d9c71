//! What a log of many leaves costs: its audit beside its signatures alone, its start, and its bytes on the disk.

use std::{fs, path::Path, process::Command, time::Instant};

use anyhow::{Context as _, ensure};
use countersign_verifier::evidence::File;
use serde_json::json;

use super::{
    bare, fetch,
    report::{Report, Side, Want, say},
    rig::{Common, Rig},
    verify, watch,
};

/// What is promised: an audit in so many times the time of its signatures.
const OF_THE_SIGNATURES: f64 = 1.3;
/// What is promised of the start of a log of a million leaves, seconds.
const START_S: f64 = 2.0;
/// Receipts that are made at once, so that memory is bounded.
const PART: usize = 50_000;

/// What `bench scale` takes.
#[derive(Clone, Debug)]
pub struct Options {
    /// As every bench; the peer is not asked.
    pub common: Common,
    /// Leaves.
    pub leaves: usize,
}

/// Fills a log over HTTP, stops it, and audits its directory with `--replay`, each round beside `verify_strict` alone on all
/// processors; then starts it as often.
///
/// # Errors
/// A service that fails, or an audit that does not hold.
pub fn run(options: &Options) -> anyhow::Result<Report> {
    let common = Common {
        peer: None,
        ..options.common.clone()
    };
    let mut rig = Rig::start(&common)?;
    let first = fetch::published(&rig.ours.door)?;
    let mut signed = Vec::new();
    let mut done = 0;
    while done < options.leaves {
        let (receipts, _) = rig.receipts(PART.min(options.leaves - done))?;
        verify::submit(&rig.ours.door, &receipts)?;
        done += receipts.len();
        say(&format!("{done} of {} leaves", options.leaves));
        if signed.is_empty() {
            signed = receipts.signed(receipts.len())?;
        }
    }
    fetch::await_published(&rig.ours, first + done as u64)?;
    let leaf_bytes = leaf_bytes(&rig, first)?;
    let policy = rig.ours.policy.clone().context("no policy")?;
    let (dir, key) = (rig.dir(), rig.key().public());
    // At its worst: in the middle of work, with all that such an end leaves to be read again.
    rig.ours.kill();
    let begun = Instant::now();
    rig.start_again(&common)?;
    let after_kill = begun.elapsed().as_secs_f64();
    rig.ours.end();
    let (mut audits, mut bares, mut starts) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=common.rounds {
        say(&format!("round {round} of {}: audit", common.rounds));
        audits.push(vec![audit(&common.binary, &dir, &policy)?]);
        let rate = bare::rate(&key, &signed, watch::cpus(), common.window)?;
        bares.push(vec![done as f64 / rate.per_second]);
    }
    for round in 1..=common.rounds {
        say(&format!("round {round} of {}: start", common.rounds));
        let begun = Instant::now();
        rig.start_again(&common)?;
        starts.push(vec![begun.elapsed().as_secs_f64()]);
        rig.ours.end();
    }
    let (db, log) = bytes_under(&dir.join("accounts/dev/db"))?;
    let mut report = Report {
        bench: "scale",
        what: format!("a log of {done} receipts, {}", common.words()),
        settings: common.settings(
            json!({"leaves": done, "leaf_bytes": leaf_bytes, "db_bytes": db, "wal_bytes": log}),
        ),
        figures: vec!["seconds"],
        sides: [
            ("audit --replay", audits),
            ("verify_strict alone", bares),
            ("start", starts),
        ]
        .map(|(name, rounds)| Side {
            name: name.into(),
            rounds,
        })
        .into(),
        ..Report::default()
    };
    report.compare(0, 0, 1, Want::Nothing);
    report.notes.push(format!(
        "wanted: the audit in at most {OF_THE_SIGNATURES} times the time of the signatures"
    ));
    report.promise(0, 2, START_S);
    report.notes.push(format!(
        "start after it was killed as soon as it was filled: {after_kill:.2} s to serving"
    ));
    let each = |bytes: u64| bytes as f64 / done as f64;
    report.notes.push(format!(
        "{:.0} bytes a leaf in the database, of which {:.0} in its write-ahead log, index included; a leaf has {leaf_bytes}, before compression",
        each(db),
        each(log)
    ));
    Ok(report)
}

/// How long it takes to audit the directory, seconds.
fn audit(binary: &Path, dir: &Path, policy: &Path) -> anyhow::Result<f64> {
    let begun = Instant::now();
    let output = Command::new(binary)
        .arg("audit")
        .arg(dir)
        .arg("--policy")
        .arg(policy)
        .arg("--replay")
        .output()
        .context("countersign audit")?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "the audit does not hold: {said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(begun.elapsed().as_secs_f64())
}

/// The bytes of one receipt's leaf: all have as many.
fn leaf_bytes(rig: &Rig, index: u64) -> anyhow::Result<usize> {
    let files = fetch::get_all(&rig.ours.door, std::iter::once(format!("evidence/{index}")))?;
    let file = files.first().context("no evidence")?;
    match File::parse(file)? {
        File::One(evidence) => Ok(evidence.leaf.len()),
        File::Set(_) => anyhow::bail!("a set where the evidence of one leaf is due"),
    }
}

/// The bytes of a database's files, and those of its write-ahead log among them.
fn bytes_under(folder: &Path) -> anyhow::Result<(u64, u64)> {
    let (mut all, mut log) = (0, 0);
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let bytes = entry.metadata()?.len();
        all += bytes;
        if entry.path().extension().is_some_and(|kind| kind == "log") {
            log += bytes;
        }
    }
    Ok((all, log))
}
