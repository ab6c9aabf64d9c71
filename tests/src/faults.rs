//! Disks that lose, change, fill and refuse. A log may stop; it may never serve or sign another history.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use rustix::mount::{MountFlags, UnmountFlags, mount_remount, unmount};
use serde_json::Value;

use crate::rig::{
    Disk, Ended, Http, JSON, NDJSON, Random, Rig, files, fill, receipt, receipts, seed,
};

/// Grows the log by so many leaves, a synced commit a chunk.
fn grow(rig: &mut Rig, name: &str, count: u64) {
    let owner = rig.owner();
    let mut http = rig.http();
    for chunk in (0..count).collect::<Vec<u64>>().chunks(20) {
        let lines = chunk
            .iter()
            .map(|n| receipt(&format!("{name} {n}"), &owner).to_json());
        let body = lines.collect::<Vec<_>>().join(&b'\n');
        let rows = http.post(&receipts(""), NDJSON, &body).lines();
        assert!(rows.iter().all(|row| row["status"] == 200), "{rows:?}");
    }
    rig.check();
}

/// The newest write-ahead log that holds something.
fn wal(rig: &Rig) -> PathBuf {
    let mut logs = files(&rig.account("db"), "log");
    logs.retain(|path| path.metadata().is_ok_and(|m| m.len() > 0));
    logs.pop().expect("a write-ahead log")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Runs a stopped rig on a changed database and puts the database back afterwards.
fn with_damage(rig: &mut Rig, change: impl FnOnce(&Path), look: impl FnOnce(&mut Rig)) {
    let db = rig.account("db");
    let (kept, mark) = (rig.scratch().join("db"), rig.account("published"));
    let _ = fs::remove_dir_all(&kept);
    copy(&db, &kept);
    let marked = fs::read(&mark).unwrap();
    let memory = rig.auditor.remember();
    change(&db);
    look(rig);
    if rig.service.is_running() {
        rig.service.kill();
    }
    fs::remove_dir_all(&db).unwrap();
    copy(&kept, &db);
    fs::write(mark, marked).unwrap();
    // What grew on the damaged one is gone with it; that is this test's doing and no fault of the log.
    rig.auditor.forget_to(memory);
}

/// Either it refuses to start, by exit code 1 or 5 and in plain words, or it comes up and everything that it serves is what it
/// always was, and it goes on. The auditor notices a smaller or another tree.
fn refuses_or_recovers(rig: &mut Rig) -> Option<Ended> {
    match rig.start.try_run() {
        Ok(service) => {
            rig.service = service;
            rig.check();
            grow(rig, "after", 3);
            None
        }
        Err(ended) => {
            assert!(matches!(ended.code, Some(1 | 5)), "{ended:?}");
            assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
            Some(ended)
        }
    }
}

/// As above, and if it comes up, reads of what is damaged may fail; what they do serve is what it always was.
fn refuses_or_fails_reads(rig: &mut Rig) {
    let service = match rig.start.try_run() {
        Ok(service) => service,
        Err(ended) => {
            assert!(matches!(ended.code, Some(1 | 5)), "{ended:?}");
            assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
            return;
        }
    };
    let mut http = service.http();
    rig.auditor.check_what_is_served(&mut http);
    rig.service = service;
    let trace = fs::read_to_string(rig.start.log()).unwrap();
    let met = trace.contains("the request that met it method=GET path=\"/log/dev/");
    let failed = ["a fault of the service", "a read failed"].map(|what| trace.contains(what));
    assert_eq!(failed.contains(&true), met, "{trace}");
}

#[test]
fn a_write_ahead_log_that_was_emptied() {
    // B102
    let mut rig = Rig::up();
    grow(&mut rig, "a", 60);
    let size = rig.size();
    rig.service.kill();
    let log = wal(&rig);
    let empty = |_: &Path| fs::write(&log, b"").unwrap();
    with_damage(&mut rig, empty, |rig| {
        if let Some(ended) = refuses_or_recovers(rig) {
            assert_eq!(ended.code, Some(5), "{}", ended.stderr);
            assert!(ended.stderr.contains(&size.to_string()), "{}", ended.stderr);
        }
    });
    let gone = |_: &Path| fs::remove_file(&log).unwrap();
    with_damage(&mut rig, gone, |rig| drop(refuses_or_recovers(rig)));
    // With everything back it is as it was.
    rig.begin_again();
    assert_eq!(rig.size(), size);
}

#[test]
fn a_write_ahead_log_that_lost_its_end() {
    let mut random = seed("wal end");
    let mut rig = Rig::up();
    grow(&mut rig, "a", 60);
    rig.service.kill();
    let log = wal(&rig);
    let length = log.metadata().unwrap().len();
    for cut in [1, 7, 100, random.below(3_000), random.below(length)] {
        let cut_off = |_: &Path| {
            let file = OpenOptions::new().write(true).open(&log).unwrap();
            file.set_len(length.saturating_sub(cut)).unwrap();
        };
        with_damage(&mut rig, cut_off, |rig| {
            eprintln!(
                "cut {cut} of {length}: {:?}",
                refuses_or_recovers(rig).map(|e| e.code)
            );
        });
    }
    rig.begin_again();
}

#[test]
fn a_record_that_was_never_finished_is_dropped() {
    // What a crash of the machine leaves: the beginning of one more record.
    let mut rig = Rig::up();
    grow(&mut rig, "a", 40);
    let size = rig.size();
    rig.service.kill();
    let log = wal(&rig);
    let bytes = fs::read(&log).unwrap();
    let torn = |_: &Path| fs::write(&log, [&bytes[..], &bytes[..40]].concat()).unwrap();
    with_damage(&mut rig, torn, |rig| {
        if refuses_or_recovers(rig).is_none() {
            assert!(rig.size() >= size);
        }
    });
    rig.begin_again();
}

fn flip(path: &Path, at: u64) {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
}

/// A place in a file of this length.
fn somewhere(random: &mut Random, path: &Path) -> u64 {
    random.below(path.metadata().unwrap().len())
}

#[test]
fn a_flipped_bit_in_a_write_ahead_log() {
    let mut random = seed("wal bit");
    let mut rig = Rig::up();
    grow(&mut rig, "a", 80);
    rig.service.kill();
    let log = wal(&rig);
    for _ in 0..4 {
        let at = somewhere(&mut random, &log);
        with_damage(
            &mut rig,
            |_| flip(&log, at),
            |rig| {
                let damaged = fs::read(&log).unwrap();
                let ended = refuses_or_recovers(rig);
                eprintln!("bit at {at}: {:?}", ended.as_ref().map(|e| e.code));
                // Whoever can mend the disk finds what was there.
                if let (Some(_), Ok(now)) = (ended, fs::read(&log)) {
                    assert!(now == damaged, "a refused start changed it");
                }
            },
        );
    }
    rig.begin_again();
}

/// Where each record of the last block (32 KiB) of a write-ahead log begins.
fn last_records(bytes: &[u8]) -> Vec<usize> {
    let mut at = (bytes.len() - 1) / 32_768 * 32_768;
    let mut found = Vec::new();
    while at + 7 <= bytes.len() {
        found.push(at);
        let length = u16::from_le_bytes([bytes[at + 4], bytes[at + 5]]);
        at += 7 + usize::from(length);
    }
    found
}

#[test]
fn a_flipped_length_in_a_write_ahead_log_costs_nothing_that_is_behind_it() {
    // A record that claims to reach beyond the end looks like one that a crash cut short; those behind it are whole. Opening
    // drops them for good, so that must be noticed before the database is opened for writing.
    let mut rig = Rig::up();
    let owner = rig.owner();
    let body = receipt("first", &owner).to_json();
    rig.http().post(&receipts(""), JSON, &body).index();
    let log = wal(&rig);
    let mut n = 0;
    // Until its last block has records enough, beyond the first one: a record that began in the block before reaches into it.
    while fs::read(&log).map_or(0, |bytes| last_records(&bytes).len()) < 10 || n < 40 {
        let body = receipt(&format!("{n}"), &owner).to_json();
        rig.http().post(&receipts(""), JSON, &body).index();
        n += 1;
    }
    rig.check();
    let size = rig.size();
    rig.service.kill();
    let whole = fs::read(&log).unwrap();
    let records = last_records(&whole);
    let mut damaged = whole.clone();
    damaged[records[records.len() / 2] + 5] |= 0x70;
    fs::write(&log, &damaged).unwrap();
    let ended = rig
        .start
        .try_run()
        .map(|_| ())
        .expect_err("it came up without its end");
    assert_eq!(ended.code, Some(5), "{ended:?}");
    // Whoever mends the byte has everything back.
    assert!(
        fs::read(&log).is_ok_and(|now| now == damaged),
        "a refused start destroyed what it could not read"
    );
    fs::write(&log, whole).unwrap();
    rig.begin_again();
    assert_eq!(rig.size(), size);
}

/// A log whose leaves lie in sorted tables: a start replays the write-ahead log into them.
fn in_tables(leaves: u64) -> Rig {
    let mut rig = Rig::up();
    for part in 0..2 {
        grow(&mut rig, &format!("part {part}"), leaves / 2);
        rig.restart();
    }
    rig.service.stop();
    rig
}

#[test]
fn a_flipped_bit_in_a_sorted_table() {
    let mut random = seed("table bit");
    let mut rig = in_tables(600);
    let tables = files(&rig.account("db"), "sst");
    assert!(tables.len() > 2, "{tables:?}");
    for _ in 0..8 {
        let which = random.below(tables.len() as u64);
        let table = &tables[usize::try_from(which).unwrap()];
        let at = somewhere(&mut random, table);
        eprintln!("bit at {at} of {}", table.display());
        with_damage(&mut rig, |_| flip(table, at), refuses_or_fails_reads);
    }
    rig.begin_again();
}

#[test]
fn a_sorted_table_that_is_gone_or_another_one() {
    // B115
    let mut rig = in_tables(400);
    let mut other = in_tables(400);
    let tables = files(&rig.account("db"), "sst");
    for table in &tables {
        let gone = |_: &Path| fs::remove_file(table).unwrap();
        with_damage(&mut rig, gone, |rig| {
            let ended = refuses_or_recovers(rig).expect("it came up without a table");
            let name = table.file_name().unwrap().to_string_lossy();
            assert!(
                ended.stderr.contains(&*name),
                "names what is missing: {}",
                ended.stderr
            );
        });
    }
    for pair in tables.windows(2) {
        let swap = |db: &Path| {
            let aside = db.join("aside");
            fs::rename(&pair[0], &aside).unwrap();
            fs::rename(&pair[1], &pair[0]).unwrap();
            fs::rename(&aside, &pair[1]).unwrap();
        };
        with_damage(&mut rig, swap, refuses_or_fails_reads);
    }
    // The same place in another log, of the same shape.
    for (table, foreign) in tables.iter().zip(files(&other.account("db"), "sst")) {
        let replace = |_: &Path| assert!(fs::copy(&foreign, table).is_ok());
        with_damage(&mut rig, replace, refuses_or_fails_reads);
    }
    rig.begin_again();
    other.begin_again();
}

#[test]
fn a_database_put_back_from_an_older_copy_signs_nothing() {
    // B108, as far as a log without witnesses can know it.
    let mut rig = Rig::up();
    grow(&mut rig, "a", 40);
    rig.service.stop();
    let (db, old) = (rig.account("db"), rig.scratch().join("old"));
    copy(&db, &old);
    rig.begin_again();
    let before = rig.size();
    grow(&mut rig, "b", 30);
    let after = rig.size();
    rig.service.stop();
    let put_back = |db: &Path| {
        fs::remove_dir_all(db).unwrap();
        copy(&old, db);
    };
    with_damage(&mut rig, put_back, |rig| {
        for _ in 0..2 {
            let ended = rig
                .start
                .try_run()
                .map(|_| ())
                .expect_err("an older copy came up");
            assert_eq!(ended.code, Some(5), "{}", ended.stderr);
            for size in [before, after] {
                assert!(ended.stderr.contains(&size.to_string()), "{}", ended.stderr);
            }
        }
    });
    rig.begin_again();
    assert_eq!(rig.size(), after);
    rig.service.stop();
    // A database of another log, whole in itself.
    let mut other = Rig::up();
    grow(&mut other, "c", 100);
    other.service.stop();
    let foreign = other.account("db");
    let replace = |db: &Path| {
        fs::remove_dir_all(db).unwrap();
        copy(&foreign, db);
    };
    with_damage(&mut rig, replace, |rig| {
        let ended = rig
            .start
            .try_run()
            .map(|_| ())
            .expect_err("a foreign database came up");
        assert!(matches!(ended.code, Some(1 | 5)), "{ended:?}");
    });
    // None at all: a log is never begun anew because its database is missing.
    with_damage(
        &mut rig,
        |db| fs::remove_dir_all(db).unwrap(),
        |rig| {
            let ended = rig
                .start
                .try_run()
                .map(|_| ())
                .expect_err("an empty log came up");
            assert!(matches!(ended.code, Some(1 | 5)), "{ended:?}");
            assert!(!rig.account("db").join("CURRENT").exists());
            fs::create_dir_all(rig.account("db")).unwrap();
        },
    );
    rig.begin_again();
    other.begin_again();
}

#[test]
fn a_mark_of_what_was_published_that_is_gone_or_ruined() {
    let mut rig = Rig::up();
    grow(&mut rig, "a", 40);
    rig.service.stop();
    let mark = rig.account("published");
    let own = fs::read(&mark).unwrap();
    let refuses = |rig: &mut Rig, what: &str| {
        let ended = rig.start.try_run().map(|_| ()).expect_err(what);
        assert!(matches!(ended.code, Some(1 | 5)), "{what}: {ended:?}");
        assert!(
            ended.stderr.contains("published"),
            "{what}: {}",
            ended.stderr
        );
    };
    fs::remove_file(&mark).unwrap();
    refuses(&mut rig, "without its mark");
    assert!(!mark.exists(), "it was begun anew");
    for ruined in [&b""[..], b"short", &vec![0xff; own.len()]] {
        fs::write(&mark, ruined).unwrap();
        refuses(&mut rig, "with a ruined mark");
        assert_eq!(fs::read(&mark).unwrap(), ruined, "it was changed");
    }
    // A write cut short ruins one half, and the other one says less: that is no reason to stop.
    for half in [0, own.len() / 2] {
        let mut torn = own.clone();
        torn[half..half + 60].fill(0xee);
        fs::write(&mark, torn).unwrap();
        rig.begin_again();
        grow(&mut rig, &format!("half {half}"), 3);
        rig.service.stop();
    }
    // The mark of another log is none of this one's.
    let mut other = Rig::up();
    grow(&mut other, "b", 5);
    other.service.stop();
    let own = fs::read(&mark).unwrap();
    fs::copy(other.account("published"), &mark).unwrap();
    let ended = rig
        .start
        .try_run()
        .map(|_| ())
        .expect_err("with a foreign mark");
    assert_eq!(ended.code, Some(5), "{ended:?}");
    fs::write(&mark, own).unwrap();
    rig.begin_again();
    other.begin_again();
}

/// Receipts of 30 KB until one fails. What was answered, and the failure.
fn submit_until_refused(rig: &Rig, name: &str) -> (Vec<(Vec<u8>, u64)>, Value) {
    let owner = rig.owner();
    let mut http = rig.http();
    let mut done = Vec::new();
    for n in 0..4_000 {
        let body = receipt(&format!("{name} {n} {}", "x".repeat(30_000)), &owner).to_json();
        let answer = http.post(&receipts(""), JSON, &body);
        match answer.status {
            200 => done.push((body, answer.index())),
            202 => done.push((body, answer.json()["index"].as_u64().unwrap())),
            500.. => return (done, answer.json()),
            status => panic!("{status}: {}", answer.text()),
        }
    }
    panic!("a full disk took {} receipts", done.len());
}

/// Asks until the service takes writes again.
pub fn until_it_writes(http: &mut Http, body: &[u8]) {
    for _ in 0..600 {
        if http.post(&receipts(""), JSON, body).status == 200 {
            return;
        }
        thread::sleep(Duration::from_millis(100));
    }
    panic!("it does not write again though there is space");
}

#[test]
fn a_full_disk_refuses_and_forgets_nothing() {
    // B114
    let Some(disk) = Disk::of(40) else { return };
    let config = "[store]\ncache_bytes = 4194304\nwrite_buffer_bytes = 2097152\n";
    let mut rig = Rig::inside(disk.path(), config);
    let mut all = Vec::new();
    for round in 0..2 {
        let filler = disk.path().join("filler");
        fill(&filler);
        let (done, refused) = submit_until_refused(&rig, &format!("full {round}"));
        assert_eq!(refused["retryable"], true, "{refused}");
        // Reads go on; what is published stays.
        rig.check();
        all.extend(done);
        if round == 1 {
            rig.service.kill();
            fs::remove_file(&filler).unwrap();
            rig.begin_again();
        } else {
            fs::remove_file(&filler).unwrap();
        }
        let body = receipt(&format!("space {round}"), &rig.owner()).to_json();
        until_it_writes(&mut rig.http(), &body);
        rig.check();
        for (body, index) in &all {
            let answer = rig.http().post(&receipts(""), JSON, body);
            assert_eq!(answer.index(), *index, "what was acknowledged is there");
        }
        assert_eq!(rig.get("/health").json()["status"], "ok");
    }
    rig.crash();
    rig.service.stop();
}

#[test]
fn a_full_disk_takes_no_body_and_keeps_those_that_it_has() {
    let Some(disk) = Disk::of(40) else { return };
    let config = "[store]\nwrite_buffer_bytes = 2097152\n[blobs]\nfree_bytes_min = 0\n";
    let mut rig = Rig::inside(disk.path(), config);
    let bearer = format!("Bearer {}", rig.token());
    let put = |rig: &Rig, byte: u8| {
        let headers = [("authorization", bearer.as_str())];
        let body = vec![byte; 1 << 20];
        rig.http().send("POST", "/v1/blobs", &headers, &body)
    };
    let kept = put(&rig, 1);
    assert_eq!(kept.status, 201, "{}", kept.text());
    let kept = kept.json()["commitment"].as_str().unwrap().to_owned();
    let filler = disk.path().join("filler");
    fill(&filler);
    let refused = put(&rig, 2);
    refused.problem(503, "BUSY");
    assert!(refused.header("retry-after").is_some());
    let left = fs::read_dir(rig.account("blobs/tmp")).unwrap().count();
    assert_eq!(left, 0, "of what was refused nothing is left");
    let target = format!("/v1/blobs/{kept}");
    let read = |rig: &Rig| {
        let headers = [("authorization", bearer.as_str())];
        rig.http().send("GET", &target, &headers, b"").body
    };
    assert_eq!(read(&rig), vec![1; 1 << 20]);
    fs::remove_file(&filler).unwrap();
    assert_eq!(put(&rig, 2).status, 201);
    rig.restart();
    assert_eq!(read(&rig), vec![1; 1 << 20]);
    // What the log needs is left alone, if it is told so.
    rig.service.stop();
    let config = rig.dir().join("config.toml");
    fs::write(&config, "[blobs]\nfree_bytes_min = 41943040\n").unwrap();
    rig.begin_again();
    put(&rig, 3).problem(503, "BUSY");
    rig.service.stop();
}

#[test]
fn a_directory_that_cannot_be_written_is_refused() {
    let Some(disk) = Disk::of(40) else { return };
    let mut rig = Rig::inside(disk.path(), "");
    grow(&mut rig, "a", 10);
    rig.service.stop();
    // Standard error of the service goes beside its directory, so only that is made read-only.
    let dir = rig.dir().to_owned();
    rustix::mount::mount_bind(&dir, &dir).unwrap();
    mount_remount(&dir, MountFlags::BIND | MountFlags::RDONLY, c"").unwrap();
    let ended = rig.start.try_run().map(|_| ());
    unmount(&dir, UnmountFlags::DETACH).unwrap();
    let ended = ended.expect_err("a read-only directory came up");
    assert!(matches!(ended.code, Some(1 | 2)), "{ended:?}");
    assert!(
        ended.stderr.contains(&*dir.to_string_lossy()),
        "{}",
        ended.stderr
    );
    rig.begin_again();
    rig.service.stop();
}
