//! What a log of many leaves costs beside one of a few: its start, its bytes on the disk, its memory.

use std::{fs, path::Path};

use anyhow::Context as _;
use countersign_log::store::rocks::{RocksStore, Rows, Shared};
use countersign_verifier::evidence::File;
use serde_json::json;

use super::{
    fetch,
    report::{Report, Side, Want, say},
    rig::{Common, Rig},
    verify, watch,
};
use crate::data_dir::DataDir;

/// What is promised of the start of a log of a million leaves, seconds.
const START_S: f64 = 2.0;
/// What is promised of a log of a million leaves: bytes a leaf on the disk beyond the leaf itself, without the lookup index.
const BEYOND_BYTES: f64 = 120.0;
/// Receipts that are made at once, so that memory is bounded.
const PART: usize = 50_000;
/// Leaves of the small log.
const FEW: usize = 100;
/// Receipts that are written while memory is looked at.
const WORK: usize = 10_000;
/// Evidence files that are read meanwhile, from all over the log.
const READS: usize = 2_000;

/// What these take.
#[derive(Clone, Debug)]
pub struct Options {
    /// As every bench; the peer is not asked.
    pub common: Common,
    /// Leaves.
    pub leaves: usize,
}

/// A service whose log has taken so many receipts, all of them published.
struct Filled {
    rig: Rig,
    common: Common,
    /// The index of the first of them.
    first: u64,
    leaves: usize,
}

impl Filled {
    fn new(common: &Common, leaves: usize) -> anyhow::Result<Filled> {
        let common = Common {
            peer: None,
            ..common.clone()
        };
        let mut rig = Rig::start(&common)?;
        let first = fetch::published(&rig.ours.door)?;
        let mut done = 0;
        while done < leaves {
            let (receipts, _) = rig.receipts(PART.min(leaves - done))?;
            verify::submit(&rig.ours.door, &receipts)?;
            done += receipts.len();
            say(&format!("{done} of {leaves} leaves"));
        }
        fetch::await_published(&rig.ours, first + leaves as u64)?;
        Ok(Filled {
            rig,
            common,
            first,
            leaves,
        })
    }

    /// Starts it again, on what it has written; seconds to serving.
    fn start(&mut self) -> anyhow::Result<f64> {
        let begun = watch::now();
        self.rig.start_again(&self.common)?;
        Ok(begun.elapsed().as_secs_f64())
    }

    fn report(&self, bench: &'static str, what: &str, figures: Vec<&'static str>) -> Report {
        Report {
            bench,
            what: format!(
                "{what} of {} receipts, {}",
                self.leaves,
                self.common.words()
            ),
            settings: self.common.settings(json!({"leaves": self.leaves})),
            figures,
            ..Report::default()
        }
    }
}

fn side(name: impl Into<String>, rounds: Vec<Vec<f64>>) -> Side {
    let name = name.into();
    Side { name, rounds }
}

/// Fills a log, and a small one; kills both as soon as they are filled, and starts them again and again.
///
/// # Errors
/// A service that fails.
pub fn start(options: &Options) -> anyhow::Result<Report> {
    let mut many = Filled::new(&options.common, options.leaves)?;
    let mut few = Filled::new(&options.common, FEW)?;
    // At its worst: in the middle of work, with all that such an end leaves to be read again.
    many.rig.ours.kill();
    few.rig.ours.kill();
    let after_kill = (many.start()?, few.start()?);
    many.rig.ours.end();
    few.rig.ours.end();
    let (mut of_many, mut of_few) = (Vec::new(), Vec::new());
    for round in 1..=options.common.rounds {
        say(&format!("round {round} of {}", options.common.rounds));
        for (filled, rows) in [(&mut many, &mut of_many), (&mut few, &mut of_few)] {
            rows.push(vec![filled.start()?]);
            filled.rig.ours.end();
        }
    }
    let mut report = many.report("start", "the start of a log", vec!["seconds"]);
    report.sides = vec![
        side(format!("{} leaves", options.leaves), of_many),
        side(format!("{FEW} leaves"), of_few),
    ];
    report.compare(0, 0, 1, Want::Nothing);
    report.promise(0, 0, START_S);
    report.notes.push(format!(
        "after it was killed as soon as it was filled: {:.2} s to serving, beside {:.2} s with {FEW} leaves",
        after_kill.0, after_kill.1
    ));
    many.rig.note_scratch(&mut report);
    Ok(report)
}

/// Fills a log, ends its service, and counts the bytes on the disk. There is one round: what is counted does not vary with the machine.
///
/// # Errors
/// A service that fails, or a database that cannot be read.
pub fn disk(options: &Options) -> anyhow::Result<Report> {
    let mut filled = Filled::new(&options.common, options.leaves)?;
    let leaf = leaf_bytes(&filled.rig, filled.first)? as f64;
    filled.rig.ours.end();
    let files = DataDir::new(filled.rig.dir()).account("dev");
    let store = RocksStore::open_behind(
        &files.db(),
        &files.tidemark(),
        &Shared::new(8 << 20, 8 << 20),
        false,
    )?;
    let bytes = |of: &[Rows]| -> anyhow::Result<f64> {
        let mut all = 0;
        for rows in of {
            all += store.table_bytes(*rows)?;
        }
        Ok(all as f64 / options.leaves as f64)
    };
    let leaves = bytes(&[Rows::Entries])?;
    let index = bytes(&[Rows::Unique, Rows::Postings])?;
    let tree = bytes(&[Rows::Tiles])?;
    let others = bytes(&[Rows::Meta])? + log_bytes(&files.db())? / options.leaves as f64;
    // Leaves are compressed, and no credit is taken for that.
    let beyond = tree + others;
    let mut report = filled.report("disk", "the database of a log", vec!["bytes a leaf"]);
    report.sides = [
        ("the leaf itself", leaf),
        ("leaves", leaves),
        ("tiles", tree),
        ("snapshot, log", others),
        ("index", index),
        ("beyond the leaf, without index", beyond),
    ]
    .map(|(name, bytes)| side(name, vec![vec![bytes]]))
    .into();
    report.promise(0, 5, BEYOND_BYTES);
    report.notes.push(format!(
        "with what compression takes from the leaves themselves it is {:.0}",
        leaves + beyond - leaf
    ));
    Ok(report)
}

/// Fills a log, and a small one, and looks at the memory of both after a start, and after the same reads and writes.
///
/// # Errors
/// A service that fails.
pub fn memory(options: &Options) -> anyhow::Result<Report> {
    let mut many = Filled::new(&options.common, options.leaves)?;
    let mut few = Filled::new(&options.common, FEW)?;
    many.rig.ours.end();
    few.rig.ours.end();
    let (mut of_many, mut of_few) = (Vec::new(), Vec::new());
    for round in 1..=options.common.rounds {
        say(&format!("round {round} of {}", options.common.rounds));
        for (filled, rows) in [(&mut many, &mut of_many), (&mut few, &mut of_few)] {
            rows.push(filled.memory()?);
        }
    }
    let figures = vec![
        "MiB after a start",
        "MiB after reads",
        "MiB after writes",
        "peak MiB",
    ];
    let mut report = many.report("memory", "the memory of a service with a log", figures);
    report.sides = vec![
        side(format!("{} leaves", options.leaves), of_many),
        side(format!("{FEW} leaves"), of_few),
    ];
    for figure in [0, 1, 2] {
        report.compare(figure, 0, 1, Want::Nothing);
    }
    report.notes.push(format!(
        "{READS} evidence files are read, and {WORK} receipts written, in each round"
    ));
    Ok(report)
}

impl Filled {
    /// A start, reads, writes and an end: a value for each figure of [`memory`].
    fn memory(&mut self) -> anyhow::Result<Vec<f64>> {
        self.start()?;
        let started = mib(self.rig.ours.memory())?;
        let (first, leaves) = (self.first, self.leaves);
        let paths = (0..READS.min(leaves)).map(|n| {
            let index = first + (n * leaves / READS.min(leaves)) as u64;
            format!("evidence/{index}")
        });
        drop(fetch::get_all(&self.rig.ours.door, paths)?);
        let read = mib(self.rig.ours.memory())?;
        let (receipts, _) = self.rig.receipts(WORK)?;
        verify::submit(&self.rig.ours.door, &receipts)?;
        let written = mib(self.rig.ours.memory())?;
        let peak = mib(self.rig.ours.memory_peak())?;
        self.rig.ours.end();
        Ok(vec![started, read, written, peak])
    }
}

/// Mebibytes of what a service says of its memory.
///
/// # Errors
/// Where that cannot be read.
pub fn mib(bytes: Option<u64>) -> anyhow::Result<f64> {
    let bytes = bytes.context("the service's memory cannot be read")?;
    Ok(bytes as f64 / f64::from(1 << 20))
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

/// The bytes of a database's write-ahead log.
fn log_bytes(folder: &Path) -> anyhow::Result<f64> {
    let mut all = 0;
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        if entry.path().extension().is_some_and(|kind| kind == "log") {
            all += entry.metadata()?.len();
        }
    }
    Ok(all as f64)
}
