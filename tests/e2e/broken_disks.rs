//! Disks that fail call by call: the real executable, with errors put between it and the system's calls.
//!
//! Whatever fails, and whenever: a write is answered and kept, or refused with 503; reads go on; and once the disk is well the service
//! writes again by itself. A sync that failed may have lost what was written before it.

use std::{fs, thread, time::Duration};

use rustix::io::Errno;

use super::recovery::until;
use crate::{
    faults::until_it_writes,
    rig::{
        Answer, Disk, Http, JSON, Rig, clean, countersign, fill,
        injector::{ALL, Fault, Faults, NAMES, SYNC, WRITE, places},
        receipt, receipts,
    },
};

/// Small, so that memory is written to tables within a test.
const SMALL: &str =
    "[store]\ncache_bytes = 4194304\nwrite_buffer_bytes = 2097152\n[blobs]\nfree_bytes_min = 0\n";

/// What was answered: body and index.
type Kept = (Vec<u8>, u64);

/// A receipt as large as they may be. What became of it.
fn write(rig: &Rig, http: &mut Http, n: &str, kept: &mut Vec<Kept>) -> Answer {
    let large = format!("{n} {}", "x".repeat(30_000));
    let body = receipt(&large, &rig.owner()).to_json();
    let answer = http.post(&receipts("?deadline_ms=500"), JSON, &body);
    match answer.status {
        // Answered is kept, whatever of it is published by then.
        200 | 202 => kept.push((body, answer.json()["index"].as_u64().expect("an index"))),
        503 => {
            answer.problem(503, "BUSY");
            assert!(answer.header("retry-after").is_some());
        }
        status => panic!("{n}: {status} {}", answer.text()),
    }
    answer
}

/// Everything that was answered is there.
fn all_there(rig: &Rig, kept: &[Kept]) {
    let mut http = rig.http();
    for (body, index) in kept {
        let answer = http.post(&receipts("?deadline_ms=30000"), JSON, body);
        assert_eq!(answer.index(), *index, "what was acknowledged is there");
        assert_eq!(answer.json()["duplicate"], true);
    }
}

/// Space, or a disk that was mended: writing goes on by itself.
fn goes_on(rig: &mut Rig, what: &str) {
    let body = receipt(what, &rig.owner()).to_json();
    until_it_writes(&mut rig.http(), &body);
    rig.check();
    until(what, || rig.get("/health").json()["status"] == "ok");
}

#[test]
fn one_sync_that_fails_loses_nothing_that_was_answered_wherever_it_is() {
    let mut rig = Rig::with(SMALL);
    let faults = Faults::on(&mut rig);
    let mut kept = Vec::new();
    for lose in [false, true] {
        for good in 0..8 {
            let what = format!("sync {good} {lose}");
            let fault = Fault::every(SYNC, Errno::IO).once(good);
            faults.begin(Fault { lose, ..fault });
            let mut http = rig.http();
            for n in 0..10 {
                write(&rig, &mut http, &format!("{what} {n}"), &mut kept);
            }
            assert_eq!(faults.failed(), 1, "{what}");
            faults.heal();
            goes_on(&mut rig, &what);
        }
        all_there(&rig, &kept);
        rig.crash();
        all_there(&rig, &kept);
    }
}

#[test]
fn a_disk_that_fails_for_a_while_refuses_writes_reads_on_and_recovers() {
    let mut rig = Rig::with(SMALL);
    let faults = Faults::on(&mut rig);
    let mut kept = Vec::new();
    let syncs = Fault::every(SYNC, Errno::IO);
    let cases = [
        ("syncs", syncs),
        (
            "syncs that lose",
            Fault {
                lose: true,
                ..syncs
            },
        ),
        (
            "the write-ahead log is full",
            Fault::every(WRITE, Errno::NOSPC).of(".log"),
        ),
        (
            "no table can be written",
            Fault::every(WRITE | SYNC, Errno::NOSPC).of(".sst"),
        ),
        (
            "the list of files",
            Fault::every(WRITE | SYNC, Errno::IO).of("MANIFEST"),
        ),
        (
            "the mark",
            Fault::every(WRITE | SYNC, Errno::IO).of("published"),
        ),
        ("no file can be made", Fault::every(NAMES, Errno::NOSPC)),
        ("read-only", Fault::every(ALL, Errno::ROFS)),
        ("everything", Fault::every(ALL, Errno::IO)),
    ];
    for (what, fault) in cases {
        faults.begin(fault);
        let mut http = rig.http();
        // Until it is met: a table is written only now and then, and only the next commit shows that it was not.
        for n in 0..120 {
            let answer = write(&rig, &mut http, &format!("{what} {n}"), &mut kept);
            if answer.status != 200 && faults.failed() > 0 {
                break;
            }
        }
        assert!(faults.failed() > 0, "{what}: never met");
        // It is asked again while it fails, and read.
        for n in 0..2 {
            write(&rig, &mut http, &format!("{what} again {n}"), &mut kept);
        }
        rig.check();
        faults.heal();
        goes_on(&mut rig, what);
    }
    all_there(&rig, &kept);
    rig.crash();
    all_there(&rig, &kept);
}

/// A start under faults: it comes up, or says why not and leaves everything as it was.
fn starts_or_says_why(rig: &mut Rig, what: &str) {
    match rig.start.try_run() {
        Ok(service) => {
            rig.service = service;
            rig.check();
            rig.service.kill();
        }
        Err(ended) => {
            assert!(matches!(ended.code, Some(1 | 2 | 5)), "{what}: {ended:?}");
            assert!(
                !ended.stderr.contains("panicked"),
                "{what}: {}",
                ended.stderr
            );
        }
    }
}

#[test]
fn a_start_that_meets_a_failing_disk_changes_nothing() {
    let mut rig = Rig::with(SMALL);
    let faults = Faults::on(&mut rig);
    let mut kept = Vec::new();
    let mut http = rig.http();
    for n in 0..5 {
        write(&rig, &mut http, &format!("{n}"), &mut kept);
    }
    rig.check();
    let kinds = [
        (SYNC, Errno::IO),
        (WRITE, Errno::NOSPC),
        (NAMES, Errno::ROFS),
    ];
    for (calls, error) in kinds {
        rig.service.kill();
        // How many there are in a start after a kill.
        faults.count_only(calls, "/db/");
        rig.begin_again();
        let all = faults.seen();
        assert!(all > 0, "a start that makes none of the calls {calls}");
        rig.service.kill();
        for good in places(all, 14) {
            let what = format!("call {good} of {all}, kind {calls}");
            faults.begin(Fault::every(calls, error).of("/db/").once(good));
            starts_or_says_why(&mut rig, &what);
        }
        faults.begin(Fault::every(calls, error));
        starts_or_says_why(&mut rig, &format!("every call of kind {calls}"));
        faults.heal();
        rig.begin_again();
        all_there(&rig, &kept);
    }
}

#[test]
fn an_end_on_a_full_disk_keeps_no_snapshot_and_loses_nothing() {
    let mut rig = Rig::with(SMALL);
    let faults = Faults::on(&mut rig);
    let mut kept = Vec::new();
    for (n, error) in [Errno::NOSPC, Errno::IO, Errno::ROFS]
        .into_iter()
        .enumerate()
    {
        let mut http = rig.http();
        write(&rig, &mut http, &format!("{n}"), &mut kept);
        faults.begin(Fault::every(ALL, error));
        rig.service.signal(rustix::process::Signal::TERM);
        let ended = rig.service.wait();
        assert!(matches!(ended.code, Some(0 | 1)), "{ended:?}");
        assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
        faults.heal();
        rig.begin_again();
        all_there(&rig, &kept);
    }
}

#[test]
fn a_slow_disk_is_waited_for_and_keeps_no_reader_waiting() {
    let mut rig = Rig::up();
    let faults = Faults::on(&mut rig);
    faults.slow(150_000);
    let kept: Vec<Kept> = thread::scope(|scope| {
        let rig = &rig;
        let writers: Vec<_> = (0..6)
            .map(|client| {
                scope.spawn(move || {
                    let (mut http, mut kept) = (rig.http(), Vec::new());
                    for n in 0..4 {
                        write(rig, &mut http, &format!("{client} {n}"), &mut kept);
                    }
                    kept
                })
            })
            .collect();
        // Reads touch no disk that has to be written first.
        let mut http = rig.http();
        for _ in 0..50 {
            for target in ["/log/dev/checkpoint", "/log/dev/evidence/0", "/health"] {
                assert_eq!(http.get(target).status, 200);
            }
        }
        let kept = writers.into_iter().map(|w| w.join().expect("a writer"));
        kept.flatten().collect()
    });
    // Many share a sync: none had to be refused.
    assert_eq!(kept.len(), 24);
    faults.heal();
    goes_on(&mut rig, "fast again");
    all_there(&rig, &kept);
    rig.crash();
    all_there(&rig, &kept);
}

fn run(rig: &Rig, args: &[&str]) -> Option<i32> {
    let mut command = clean(countersign());
    command.args(args).arg("--dir").arg(rig.dir());
    let output = command.output().expect("countersign runs");
    eprintln!("{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.status.code()
}

/// So many places of an account's making at which a disk fails.
const STEPS: i64 = 30;

#[test]
fn an_account_is_made_whole_or_not_at_all_wherever_the_disk_fails() {
    let mut rig = Rig::with(SMALL);
    let faults = Faults::on(&mut rig);
    let bearer = format!("Bearer {}", rig.token());
    let is_there = |rig: &Rig, name: &str| {
        let headers = [("authorization", bearer.as_str())];
        let target = format!("/log/{name}/checkpoint");
        let answer = rig.http().send("GET", &target, &headers, b"");
        match answer.status {
            // 503: it is there, and is left alone for some seconds after it did not open.
            200 | 503 => true,
            404 => false,
            _ => panic!("{}", answer.text()),
        }
    };
    faults.count_only(ALL, "account");
    assert_eq!(run(&rig, &["account", "create", "first"]), Some(0));
    let all = faults.seen();
    assert!(all > 10, "{all}");
    let tried = places(all, STEPS);
    for at in &tried {
        let name = format!("t{at}");
        let fault = Fault::every(ALL, Errno::NOSPC).of("account");
        faults.begin(fault.once(*at));
        let made = run(&rig, &["account", "create", &name]) == Some(0);
        faults.heal();
        if made {
            assert!(is_there(&rig, &name), "{name} was said to be there");
        } else if !is_there(&rig, &name) {
            assert_eq!(run(&rig, &["account", "create", &name]), Some(0), "{name}");
            assert!(is_there(&rig, &name));
        }
    }
    goes_on(&mut rig, "the others");
    rig.crash();
    for at in tried {
        let target = format!("/log/t{at}/checkpoint");
        let headers = [("authorization", bearer.as_str())];
        let open = || rig.http().send("GET", &target, &headers, b"");
        until("it opens", || open().status == 200);
    }
    rig.service.stop();
    assert_eq!(run(&rig, &["check"]), Some(0));
}

#[test]
fn a_copy_that_does_not_fit_on_the_disk_harms_nobody() {
    let Some(disk) = Disk::of(40) else { return };
    let mut rig = Rig::inside(disk.path(), SMALL);
    let mut kept = Vec::new();
    let mut http = rig.http();
    for n in 0..40 {
        write(&rig, &mut http, &format!("{n}"), &mut kept);
    }
    let filler = disk.path().join("filler");
    fill(&filler);
    // What it says of a log that it could not look at is not that it is ruined.
    let checked = run(&rig, &["check"]);
    assert!(matches!(checked, Some(2..=4)), "{checked:?}");
    assert_ne!(run(&rig, &["account", "create", "team"]), Some(0));
    rig.check();
    fs::remove_file(&filler).expect("space");
    goes_on(&mut rig, "space");
    assert_eq!(run(&rig, &["check"]), Some(0));
    assert_eq!(run(&rig, &["account", "create", "team"]), Some(0));
    all_there(&rig, &kept);
    // A start without room, as often as it is tried.
    rig.service.kill();
    fill(&filler);
    for _ in 0..2 {
        starts_or_says_why(&mut rig, "a full disk");
        thread::sleep(Duration::from_millis(50));
    }
    fs::remove_file(&filler).expect("space");
    rig.begin_again();
    all_there(&rig, &kept);
    rig.service.stop();
}
