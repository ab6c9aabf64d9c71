//! A log, its clocks, its disk, its witnesses and its clients in one process, without a socket, driven by a seed.
//!
//! - [`story`]: what happens, chosen by the seed
//! - [`world`]: the log with everything around it, and what must hold after each step
//! - [`model`]: what a plain reader makes of the leaves
//! - [`disk`], [`net`]: what loses power, fails, delays and lies
//! - `cases`: what was chosen by hand, under a clock that can be set
//!
//! `SIM_SEED=n` runs one seed. Each run prints the seed that nobody has seen; a failure prints its seed and its steps. `SOAK=n`
//! runs so many times as many new ones (`make soak`).
//!
//! The log's threads are real. Each step waits until they have nothing to do, so that a run without witnesses is the same each time;
//! among witnesses it depends on the machine how far publication has come when a step is taken, and so when a head is published,
//! and nothing that is decided does.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

mod cases;
mod disk;
mod model;
mod net;
mod story;
mod world;

use disk::Flaw;
use story::End;

/// Run at every change.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=15;
/// Steps of a run.
const STEPS: usize = 120;

/// SplitMix64: enough to choose what happens.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One of `0..n`.
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// A run that did not hold.
struct Failed {
    why: String,
    steps: Vec<String>,
}

fn is_witnessed(seed: u64) -> bool {
    seed.is_multiple_of(3)
}

fn run(seed: u64, flaw: Flaw) -> Result<End, Failed> {
    let steps = Mutex::new(Vec::new());
    let say = |what| steps.lock().expect("the steps").push(what);
    let work = || story::run(seed, is_witnessed(seed), STEPS, flaw, &say);
    let ended = catch_unwind(AssertUnwindSafe(work));
    ended.map_err(|panic| {
        let why = panic.downcast_ref::<String>().cloned();
        let why = why.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).into()));
        Failed {
            why: why.unwrap_or_default(),
            steps: steps.lock().map(|steps| steps.clone()).unwrap_or_default(),
        }
    })
}

fn must(seed: u64) -> End {
    run(seed, Flaw::None).unwrap_or_else(|failed| {
        let steps = failed.steps.join("\n  ");
        panic!(
            "SIM_SEED={seed}: {}\nafter these steps:\n  {steps}",
            failed.why
        )
    })
}

/// Runs these on all cores, and gives what they came to in order.
fn all(seeds: &[u64]) -> Vec<End> {
    let next = AtomicUsize::new(0);
    let ends = Mutex::new(Vec::new());
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores.min(4) {
            scope.spawn(|| {
                while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let end = must(*seed);
                    ends.lock().expect("the ends").push((*seed, end));
                }
            });
        }
    });
    let mut ends = ends.into_inner().expect("the ends");
    ends.sort_by_key(|(seed, _)| *seed);
    ends.into_iter().map(|(_, end)| end).collect()
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn what_was_promised_holds_in_every_seed() {
    if let Some(seed) = number("SIM_SEED") {
        eprintln!("{:?}", must(seed));
        return;
    }
    let ends = all(&SEEDS.collect::<Vec<u64>>());
    // They came to something: else they would hold whatever the log did.
    let sum = |of: fn(&End) -> u64| ends.iter().map(of).sum::<u64>();
    let came_to = (sum(|e| e.granted), sum(|e| e.refused), sum(|e| e.expired));
    eprintln!("granted, refused, expired: {came_to:?}");
    assert!(
        came_to.0 > 100 && came_to.1 > 100 && came_to.2 > 100,
        "{came_to:?}"
    );
}

#[test]
fn and_in_seeds_that_nobody_has_seen() {
    if number("SIM_SEED").is_some() {
        return;
    }
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let first = since.map_or(1, |t| t.as_secs() * 1_000_003 + u64::from(t.subsec_nanos()));
    let count = number("SOAK").map_or(3, |times| 60 * times);
    eprintln!("from SIM_SEED={first}, {count} of them");
    all(&(first..first + count).collect::<Vec<u64>>());
}

#[test]
fn a_seed_is_one_history() {
    for seed in [1, 2] {
        assert!(!is_witnessed(seed));
        assert_eq!(must(seed), must(seed), "SIM_SEED={seed}");
    }
}

/// The first of some seeds in which a disk that breaks its promise is found out, and by what. They hold with a disk that keeps it.
fn found(flaw: Flaw, seeds: impl IntoIterator<Item = u64>) -> String {
    let mut failed = seeds.into_iter().filter_map(|seed| run(seed, flaw).err());
    let failed = failed.next();
    let why = failed
        .unwrap_or_else(|| panic!("{flaw:?} went unnoticed"))
        .why;
    eprintln!("{flaw:?}: {why}");
    why
}

#[test]
fn a_disk_that_loses_what_it_acknowledged_is_found() {
    found(Flaw::LosesLastCommit, SEEDS);
}

#[test]
fn a_disk_that_loses_lookup_keys_is_found() {
    found(Flaw::LosesKeys, SEEDS);
}

#[test]
fn a_disk_that_forgets_what_left_the_process_is_found() {
    let why = found(Flaw::LosesSigned, SEEDS.filter(|seed| is_witnessed(*seed)));
    assert!(why.contains("before it was kept"), "{why}");
}
