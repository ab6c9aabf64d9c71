//! `kill -9` at random moments under load: nothing that was acknowledged is ever lost, and no history is told twice.
//!
//! Four lanes of rounds, each on a directory of its own, so that what a round costs does not grow with all that were before it. In
//! each round clients write, read and verify, an account is made and a copy of the store is checked, and the service is killed in
//! the middle of it: as it works, as it ends, or as it starts.

mod accounts;
mod clients;

use std::{
    sync::atomic::Ordering,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::process::Signal;

use self::{
    accounts::Names,
    clients::{Acknowledged, Operated, Round, lines, operations, reads, single},
};
use crate::rig::{JSON, NDJSON, Random, Rig, Start, key, receipts, rounds, seed};

const SUBMITTERS: u64 = 2;
/// Reaching it is a failure, whatever the machine is busy with.
const PATIENCE: Duration = Duration::from_secs(90);
/// Every so many rounds all of the log is looked at again, from the first leaf on.
const WHOLE: usize = 15;

/// What is killed, beside what is always there: writers, operators, readers.
struct Lane {
    name: &'static str,
    rounds: usize,
    /// With the three witnesses of the directory, of which one is killed too.
    witnesses: bool,
    /// Accounts are made meanwhile, by the service and without it, and copies of the store are checked.
    beside: bool,
    /// Starts are killed: in the replay, in the guard, before and after the ready line.
    starts: bool,
    /// Ends are killed: in what is finished then, and as the snapshot is written.
    ends: bool,
}

const LANE: Lane = Lane {
    name: "kill",
    rounds: 0,
    witnesses: false,
    beside: false,
    starts: false,
    ends: false,
};

#[test]
fn what_was_acknowledged_survives_every_kill() {
    // B116, B086, B090
    run(&Lane {
        name: "kill: work",
        rounds: 60,
        ..LANE
    });
}

#[test]
fn accounts_and_copies_survive_every_kill() {
    run(&Lane {
        name: "kill: accounts",
        rounds: 55,
        beside: true,
        ..LANE
    });
}

#[test]
fn a_start_or_an_end_that_is_killed_changes_nothing() {
    run(&Lane {
        name: "kill: starts",
        rounds: 60,
        starts: true,
        ends: true,
        ..LANE
    });
}

#[test]
fn witnessed_writes_survive_every_kill() {
    run(&Lane {
        name: "kill: witnessed",
        rounds: 25,
        witnesses: true,
        starts: true,
        ..LANE
    });
}

fn run(lane: &Lane) {
    let mut random = seed(lane.name);
    let mut rig = match lane.witnesses {
        true => Rig::witnessed(),
        // Few are open at a time, so that accounts are opened and closed as they are asked for.
        false => Rig::with("[accounts]\nopen_max = 3\n"),
    };
    rig.enroll("agent", &key("agent"));
    let mut names = Names::default();
    let mut all: Vec<Acknowledged> = Vec::new();
    let mut verified = 0;
    for n in 0..rounds(lane.rounds) {
        let told = one(lane, &mut rig, &mut random, n, &mut names);
        verified += told.verified;
        await_start(&mut rig, &told.written);
        rig.auditor.follow(&mut rig.service.http());
        if n % WHOLE == WHOLE - 1 {
            rig.check();
        }
        are_there(&rig, &told.written, n);
        are_answered(&rig, &told.operated);
        names.settle(&rig, n);
        all.extend(told.written);
    }
    assert!(all.len() > 100, "{} writes were no load", all.len());
    assert!(verified > 0, "nothing was read while it was written");
    are_known_again(&rig, &all);
    rig.check();
    rig.service.stop();
    // And all of it once more by who reads the files, each account with it.
    names.check(&rig);
}

/// What the clients of a round were told.
struct Told {
    written: Vec<Acknowledged>,
    operated: Vec<Operated>,
    verified: usize,
}

/// Load, and a kill in the middle of it.
fn one(lane: &Lane, rig: &mut Rig, random: &mut Random, n: usize, names: &mut Names) -> Told {
    let round = Round::default();
    let mut writers: Vec<_> = (0..SUBMITTERS)
        .map(|client| {
            let (http, round) = (rig.http(), round.clone());
            thread::spawn(move || single(http, format!("{n} {client}"), round))
        })
        .collect();
    let (http, shared) = (rig.http(), round.clone());
    writers.push(thread::spawn(move || {
        lines(http, format!("{n} lines"), shared)
    }));
    let (http, owner, shared) = (rig.http(), rig.owner(), round.clone());
    let operator = thread::spawn(move || operations(http, owner, format!("r{n}"), shared));
    let policy = std::fs::read_to_string(rig.auditor.policy_file()).expect("the policy");
    let (http, shared, own) = (rig.http(), round.clone(), random.fork());
    let reader = thread::spawn(move || reads(http, &policy, own, &shared));
    let beside = lane.beside.then(|| names.begin(rig, random, n));
    // Under load, and then at any moment: in the first commit as in the hundredth.
    let first = usize::try_from(random.below(10)).expect("a small number");
    let begun = Instant::now();
    while round.answered.load(Ordering::Relaxed) < first {
        assert!(begun.elapsed() < PATIENCE, "nothing is answered");
        thread::sleep(Duration::from_micros(200));
    }
    if lane.witnesses && random.below(2) == 0 {
        let number = 1 + u32::try_from(random.below(3)).expect("a small number");
        crate::e2e::kill_witness(rig.dir(), number);
    }
    thread::sleep(Duration::from_micros(random.below(30_000)));
    if lane.ends && random.below(2) == 0 {
        round.ending.store(true, Ordering::SeqCst);
        rig.service.signal(Signal::TERM);
        thread::sleep(Duration::from_micros(random.below(60_000)));
    }
    rig.service.kill();
    round.over.store(true, Ordering::SeqCst);
    if let Some(beside) = beside {
        names.end(beside, random);
    }
    let told = Told {
        written: join(writers),
        operated: join(vec![operator]),
        verified: round.verified.load(Ordering::Relaxed),
    };
    for checkpoint in join(vec![reader]) {
        rig.auditor.saw(&checkpoint);
    }
    if lane.beside && random.below(3) == 0 {
        names.without_a_service(rig, random, n);
    }
    if lane.starts {
        for _ in 0..random.below(3) {
            abort(&rig.start, random);
        }
    }
    told
}

/// A start that is killed, wherever it is.
fn abort(start: &Start, random: &mut Random) {
    start.abort(Duration::from_micros(random.below(300_000)));
}

fn join<T>(threads: Vec<JoinHandle<Vec<T>>>) -> Vec<T> {
    let joined = threads.into_iter().map(|t| t.join().expect("a client"));
    joined.flatten().collect()
}

/// Starts it. What was committed before the kill and not yet published is published after it, without another write.
fn await_start(rig: &mut Rig, written: &[Acknowledged]) {
    rig.service = rig.start.run();
    let end = written.iter().map(|w| w.index + 1).max().unwrap_or(0);
    let begun = Instant::now();
    let mut http = rig.http();
    loop {
        let size = rig.auditor.head(&mut http).size;
        // With witnesses it writes once they have shown that nothing is missing.
        if size >= end && http.get("/health/ready").status == 200 {
            return;
        }
        assert!(
            begun.elapsed() < PATIENCE,
            "{end} leaves were promised, {size} are published"
        );
        thread::sleep(Duration::from_millis(5));
    }
}

fn are_there(rig: &Rig, written: &[Acknowledged], n: usize) {
    for written in written {
        let hash = rig.auditor.leaf_hash(written.index);
        let hash = hash.unwrap_or_else(|| panic!("round {n}: leaf {} is gone", written.index));
        assert_eq!(hash, written.leaf_hash, "round {n}, leaf {}", written.index);
    }
}

/// The last operations that were answered, asked again: the first answer.
fn are_answered(rig: &Rig, operated: &[Operated]) {
    let mut http = rig.http();
    for (body, first) in operated.iter().rev().take(2) {
        let again = http.post("/v1/identity_enroll", JSON, body.as_bytes());
        assert_eq!(again.status, 200, "{}", again.text());
        assert_eq!(again.json()["result"], first["result"]);
        assert_eq!(again.json()["entry"]["index"], first["entry"]["index"]);
    }
}

/// Every receipt of every round, handed in once more.
fn are_known_again(rig: &Rig, all: &[Acknowledged]) {
    let mut http = rig.http();
    for some in all.chunks(500) {
        let bodies: Vec<&[u8]> = some.iter().map(|w| &w.body[..]).collect();
        let rows = http
            .post(&receipts(""), NDJSON, &bodies.join(&b'\n'))
            .lines();
        assert_eq!(rows.len(), some.len());
        for (written, row) in some.iter().zip(rows) {
            assert_eq!(row["index"], written.index, "{row}");
            assert_eq!(row["leaf_hash"], written.leaf_hash.as_str(), "{row}");
            assert_eq!(row["duplicate"], true, "{row}");
        }
    }
}
