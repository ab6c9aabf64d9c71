//! `countersign check`: beside a running service and without one, and of disks that changed what they were given.

use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions},
    os::unix::fs::FileExt,
    path::Path,
    thread,
};

use serde_json::{Value, json};

use super::{
    accounts::create,
    board::{result, token_call},
    recovery::Site,
};
use crate::rig::{Rig, Start, clean, countersign, files, key, receipt, seed};

/// What the command said: its exit code, a report a line, and its remarks.
struct Checked {
    code: Option<i32>,
    reports: Vec<Value>,
    stderr: String,
}

fn check(dir: &Path, more: &[&str]) -> Checked {
    let output = clean(countersign())
        .args(["check", "--json", "--dir"])
        .arg(dir)
        .args(more)
        .output()
        .expect("countersign runs");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!stderr.contains("panicked"), "{stderr}");
    let rows = String::from_utf8_lossy(&output.stdout).into_owned();
    let rows = rows
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"));
    Checked {
        code: output.status.code(),
        reports: rows.collect(),
        stderr,
    }
}

impl Checked {
    fn holds(&self) -> &Self {
        assert_eq!(self.code, Some(0), "{:?} {}", self.reports, self.stderr);
        assert!(
            self.reports
                .iter()
                .all(|report| report["verdict"] == "holds")
        );
        self
    }

    /// The classes of what is wrong with the one account.
    fn classes(&self) -> BTreeSet<String> {
        let faults = self.reports[0]["faults"].as_array().expect("faults");
        let class = |fault: &Value| fault["class"].as_str().expect("a class").to_owned();
        faults.iter().map(class).collect()
    }

    /// How each class came out, in their order: p(ass), f(ail), u(nknown), s(kipped).
    fn statuses(&self) -> String {
        let checks = self.reports[0]["checks"].as_array().expect("checks");
        let name = |check: &Value| check["name"].as_str().expect("a name").to_owned();
        let names: Vec<String> = checks.iter().map(name).collect();
        assert_eq!(names, CLASSES);
        let status = |check: &Value| check["status"].as_str().expect("a status")[..1].to_owned();
        checks.iter().map(status).collect()
    }

    /// What there is to do, a line each.
    fn to_do(&self) -> Vec<&str> {
        let ways = self.reports[0]["to_do"].as_array().expect("ways");
        ways.iter()
            .map(|way| way.as_str().expect("a way"))
            .collect()
    }

    fn told(&self, class: &str) -> &str {
        let checks = self.reports[0]["checks"].as_array().expect("checks");
        let check = checks.iter().find(|check| check["name"] == class);
        check.expect(class)["detail"].as_str().expect("a detail")
    }
}

const CLASSES: [&str; 7] = ["entry", "tile", "head", "index", "state", "blob", "key"];

/// Leaves of every kind, so many that there are tiles and a level above.
fn grow(rig: &mut Rig, name: &str) {
    let owner = rig.owner();
    let lines: Vec<Vec<u8>> = (0..520)
        .map(|n| receipt(&format!("{name} {n}"), &owner).to_json())
        .collect();
    rig.submit_lines(&lines);
    for n in 0..3 {
        let item = json!({"item": {"id": format!("{name}-{n}"), "title": "t"}, "wait": "included"});
        result(&token_call(rig, "board_upsert", &item));
    }
    rig.check();
}

#[test]
fn a_directory_is_checked_while_it_is_served_and_when_it_is_not() {
    let mut rig = Rig::up();
    grow(&mut rig, "a");
    rig.enroll("member", &key("member"));
    let dir = rig.dir().to_owned();
    let beside = check(&dir, &[]);
    beside.holds();
    let said = beside.told("state");
    assert!(said.contains("what the service holds"), "{said}");
    assert!(!rig.account("still").exists(), "the copy is gone");
    // While others write.
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for n in 0..200 {
                let body = receipt(&format!("beside {n}"), &key("member")).to_json();
                let answer = rig.http().post(
                    "/log/dev/receipts?wait=sequenced",
                    "application/json",
                    &body,
                );
                assert!([200, 202].contains(&answer.status), "{}", answer.text());
            }
        });
        while !writer.is_finished() {
            check(&dir, &[]).holds();
        }
        writer.join().expect("a writer");
    });
    rig.check();
    rig.restart();
    check(&dir, &[]).holds();
    // Killed, it leaves a write-ahead log that nothing has read back.
    grow(&mut rig, "b");
    rig.service.kill();
    let stopped = check(&dir, &[]);
    stopped.holds();
    let size = stopped.reports[0]["size"].as_u64().expect("a size");
    assert_eq!(size, rig.auditor.leaves().len() as u64);
    assert_eq!(check(&dir, &["--account", "nobody"]).code, Some(2));
    assert_eq!(check(&rig.scratch(), &[]).code, Some(2));
    let lines = clean(countersign())
        .args(["check", "--dir"])
        .arg(&dir)
        .output()
        .expect("countersign runs");
    let lines = String::from_utf8_lossy(&lines.stdout).into_owned();
    assert!(lines.ends_with("holds\n"), "{lines}");
    rig.begin_again();
}

#[test]
fn each_account_has_its_report_and_the_worst_is_the_exit_code() {
    let site = Site::new();
    let mut service = site.start.run();
    create(&site, "team", &[]);
    let dir = &site.start.dir;
    let both = check(dir, &[]);
    both.holds();
    assert_eq!(both.reports.len(), 2);
    service.stop();
    fs::write(dir.join("accounts/team/seat.secret"), "AAAA").expect("a secret");
    let one = check(dir, &[]);
    assert_eq!((one.code, one.reports.len()), (Some(1), 2));
    assert_eq!(one.reports[1]["faults"][0]["class"], "key");
    let team = check(dir, &["--account", "team"]);
    assert_eq!(team.statuses(), "pppppsf");
    check(dir, &["--account", "dev"]).holds();
    // A copy of an account, laid beside it: each holds, and no service starts on both.
    fs::remove_dir_all(dir.join("accounts/team")).expect("the folder");
    super::recovery::copy(&dir.join("accounts/dev"), &dir.join("accounts/twin"));
    let twins = check(dir, &[]);
    assert_eq!((twins.code, twins.reports.len()), (Some(1), 2));
    let said = "`dev` and `twin` have the origin localhost/dev";
    assert!(twins.stderr.contains(said), "{}", twins.stderr);
    assert_eq!(site.start.try_run().err().and_then(|e| e.code), Some(2));
}

pub fn flip(path: &Path, at: u64) {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .expect("a table");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("a byte");
    file.write_all_at(&[byte[0] ^ 0x10], at).expect("a byte");
}

#[test]
fn a_disk_that_changes_bits_is_found_and_a_store_that_does_not_open_is_a_fault() {
    let mut random = seed("bits under a check");
    let mut rig = Rig::up();
    for name in ["a", "b"] {
        grow(&mut rig, name);
        rig.restart();
    }
    rig.service.stop();
    let dir = rig.dir().to_owned();
    check(&dir, &[]).holds();
    let mut found = BTreeSet::new();
    for table in files(&rig.account("db"), "sst") {
        let whole = fs::read(&table).expect("a table");
        // A table begins with its rows; what stands at its end (filters, properties) may be one that nobody reads.
        for _ in 0..3 {
            let at = random.below(whole.len() as u64 / 3);
            flip(&table, at);
            let checked = check(&dir, &[]);
            eprintln!(
                "{} at {at}: {:?} {:?}",
                table.display(),
                checked.code,
                checked.reports
            );
            assert!(matches!(checked.code, Some(0 | 1)), "{}", checked.stderr);
            // What no row stands in is read by nobody: in a table of more than some rows that is next to nothing.
            assert!(
                checked.code == Some(1) || whole.len() < 8_192,
                "{}",
                table.display()
            );
            found.extend(checked.classes());
            // Where a leaf cannot be read nothing passes that follows from it.
            let told = checked.told("tile");
            if told.contains("leaves are missing") {
                let statuses = checked.statuses();
                for at in [0, 1, 2, 3, 4, 6] {
                    assert_ne!(&statuses[at..=at], "p", "{statuses}");
                }
                assert!(
                    checked
                        .to_do()
                        .iter()
                        .any(|way| way.contains("move db/ away"))
                );
            }
            fs::write(&table, &whole).expect("a table");
        }
    }
    for class in ["entry", "index"] {
        assert!(found.contains(class), "{found:?}");
    }
    let current = rig.account("db/CURRENT");
    let kept = fs::read(&current).expect("CURRENT");
    fs::remove_file(&current).expect("CURRENT");
    let gone = check(&dir, &[]);
    assert_eq!(
        (gone.code, gone.classes()),
        (Some(1), BTreeSet::from(["head".to_owned()]))
    );
    assert_eq!(gone.statuses(), "ssfssss");
    assert!(gone.to_do()[0].contains("countersign recover"));
    fs::write(&current, kept).expect("CURRENT");
    // The keys of another log.
    let key = rig.account("service.key");
    let kept = fs::read(&key).expect("a key");
    fs::copy(rig.account("log.key"), &key).expect("a key");
    let other = check(&dir, &[]);
    assert_eq!(
        (other.code, other.classes()),
        (Some(1), BTreeSet::from(["key".to_owned()]))
    );
    assert_eq!(other.statuses(), "pppppsf");
    fs::write(&key, kept).expect("a key");
    check(&dir, &[]).holds();
    rig.begin_again();
}

#[test]
fn what_a_repair_leaves_is_told_with_what_mends_it() {
    let mut rig = Rig::up();
    grow(&mut rig, "a");
    rig.restart();
    rig.service.stop();
    let dir = rig.dir().to_owned();
    let sound = check(&dir, &[]);
    assert_eq!(sound.holds().statuses(), "pppppsp");
    assert!(sound.to_do().is_empty());
    let (key, mark) = ("A key is missing", "The guard refuses");
    for (name, instead, statuses, way) in [
        ("seat.secret", None, "pppppsf", key),
        // Without its keys the account's policy is not read either.
        ("log.key", None, "ppuppsf", key),
        ("published", None, "ssfssss", mark),
        ("published", Some(Vec::new()), "ssfssss", mark),
        ("published", Some(vec![0_u8; 1_024]), "ppfppsp", mark),
    ] {
        let path = rig.account(name);
        let kept = fs::read(&path).expect("a file");
        fs::remove_file(&path).expect("a file");
        if let Some(bytes) = instead {
            fs::write(&path, bytes).expect("a file");
        }
        let found = check(&dir, &[]);
        assert_eq!(found.code, Some(1), "{name}: {}", found.stderr);
        assert!(found.statuses() == statuses, "{name}: {:?}", found.reports);
        let ways = found.to_do();
        assert_eq!(ways.len(), 1, "{name}: {ways:?}");
        assert!(
            ways[0].contains(way) && !ways[0].contains("recover"),
            "{ways:?}"
        );
        fs::write(&path, kept).expect("a file");
    }
    check(&dir, &[]).holds();
    rig.begin_again();
}

#[test]
fn what_follows_from_the_leaves_is_made_again_while_no_service_runs() {
    let mut rig = Rig::up();
    for name in ["a", "b"] {
        grow(&mut rig, name);
        rig.restart();
    }
    let dir = rig.dir().to_owned();
    let beside = check(&dir, &["--repair"]);
    assert_eq!(beside.code, Some(4), "{}", beside.stderr);
    assert!(beside.stderr.contains("stop it first"), "{}", beside.stderr);
    rig.service.stop();
    check(&dir, &["--repair"]).holds();
    let kept = rig.account("before-repair-1");
    assert!(!kept.exists(), "nothing was wrong");
    // A bit in a table of each kind: what nobody can make again is left alone.
    let (mut mended, mut left) = (BTreeSet::new(), 0);
    let tables = files(&rig.account("db"), "sst");
    for table in tables {
        let Ok(whole) = fs::read(&table) else {
            continue; // of a family that was begun again
        };
        flip(&table, 40);
        let found = check(&dir, &[]);
        let repairable = found.code == Some(1) && found.reports[0]["repairable"] != 0;
        if !repairable {
            let again = check(&dir, &["--repair"]);
            assert_eq!(again.code, found.code, "{:?}", again.reports);
            assert_eq!(again.reports[0]["repaired"], Value::Null);
            left += 1;
            fs::write(&table, &whole).expect("a table");
            continue;
        }
        let again = check(&dir, &["--repair"]);
        again.holds();
        let did = &again.reports[0]["repaired"];
        assert_eq!(
            did["begun_again"].as_array().expect("families").len(),
            1,
            "{did}"
        );
        assert!(
            Path::new(did["copy"].as_str().expect("a path"))
                .join("db/CURRENT")
                .is_file()
        );
        mended.extend(found.classes());
    }
    assert!(mended.contains("index") && left > 0, "{mended:?} {left}");
    assert!(kept.is_dir());
    // The service finds what it needs: what was taken is not taken again.
    rig.begin_again();
    let size = rig.size();
    let line = receipt("a 7", &rig.owner()).to_json();
    let again = rig.submit_lines(&[line]);
    assert_eq!(again[0]["duplicate"], true, "{again:?}");
    assert_eq!(rig.size(), size);
    grow(&mut rig, "c");
}

#[test]
fn a_check_and_a_backup_find_the_copy_wherever_the_service_was_started() {
    let home = tempfile::tempdir().expect("a folder");
    let (here, there) = (home.path().join("here"), home.path().join("there"));
    for folder in [&here, &there] {
        fs::create_dir(folder).expect("a folder");
    }
    Start::up(&here.join("data")).run().stop();
    // By a path that means another folder, or none, to whoever checks.
    let mut start = Start::up(Path::new("data"));
    start.cwd = Some(here.clone());
    let mut service = start.run();
    let mine = there.join("data/accounts/dev/still");
    fs::create_dir_all(&mine).expect("a folder of somebody else's");
    let ran = |args: &[&str]| {
        let mut command = clean(countersign());
        command.current_dir(&there).args(args);
        let output = command.args(["--dir", "../here/data"]).output();
        let output = output.expect("countersign runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{said}");
    };
    ran(&["check"]);
    ran(&["backup", "copy"]);
    assert!(mine.is_dir(), "it was removed");
    assert!(!here.join("data/accounts/dev/still").exists());
    service.stop();
}

#[test]
fn no_lock_is_written_through_a_link() {
    let mut rig = Rig::up();
    let other = rig.dir().with_extension("other");
    fs::write(&other, "of somebody else").expect("a file");
    let link = |name: &str| {
        let path = rig.dir().join(name);
        let _ = fs::remove_file(&path);
        std::os::unix::fs::symlink(&other, path).expect("a link");
    };
    link("check.lock");
    let beside = check(rig.dir(), &[]);
    assert_eq!(beside.code, Some(2), "{}", beside.stderr);
    fs::remove_file(rig.dir().join("check.lock")).expect("a link");
    rig.service.stop();
    let path = rig.dir().join("lock");
    let _ = fs::remove_file(&path);
    std::os::unix::fs::symlink(&other, &path).expect("a link");
    let alone = check(rig.dir(), &[]);
    assert_eq!(alone.code, Some(2), "{}", alone.stderr);
    let kept = fs::read_to_string(&other).expect("a file");
    assert_eq!(kept, "of somebody else");
}

#[test]
fn one_account_that_does_not_open_keeps_no_other_from_a_check_or_a_backup() {
    let site = Site::new();
    let mut service = site.start.run();
    for name in ["aa", "zz"] {
        create(&site, name, &[]);
    }
    service.stop();
    fs::remove_file(site.start.dir.join("accounts/aa/log.key")).expect("a key");
    let mut service = site.start.run();
    let said = check(&site.start.dir, &[]);
    assert_eq!(said.code, Some(3), "{}", said.stderr);
    assert!(said.stderr.contains("`aa`"), "{}", said.stderr);
    let names: Vec<&str> = said
        .reports
        .iter()
        .filter_map(|report| report["account"].as_str())
        .collect();
    assert_eq!(names, ["dev", "zz"]);
    let to = site.path("backup");
    let made = site.run(&["backup", &to.display().to_string()]);
    assert_eq!(made.code, Some(1), "{}", made.stderr);
    assert!(made.stderr.contains("`aa` is not in"), "{}", made.stderr);
    let again = site.path("again");
    let restored = clean(countersign())
        .arg("restore")
        .arg(&to)
        .arg("--dir")
        .arg(&again)
        .output()
        .expect("countersign runs");
    assert_eq!(restored.status.code(), Some(0), "{restored:?}");
    assert!(again.join("accounts/zz/db").is_dir() && !again.join("accounts/aa").exists());
    let asked = site.run(&["backup", "x", "--account", "aa"]);
    assert_eq!(asked.code, Some(3), "{}", asked.stderr);
    service.stop();
}

#[test]
fn a_directory_that_is_mounted_for_reading_elsewhere_is_still_in_use() {
    use rustix::mount::{MountFlags, UnmountFlags, mount_bind, mount_remount, unmount};
    let mut rig = Rig::up();
    let view = rig.dir().with_extension("view");
    fs::create_dir(&view).expect("a folder");
    if let Err(why) = mount_bind(rig.dir(), &view) {
        return eprintln!("SKIPPED: nothing can be mounted here ({why})");
    }
    let flags = MountFlags::BIND | MountFlags::RDONLY;
    mount_remount(&view, flags, "").expect("a mount for reading");
    let said = check(&view, &[]);
    assert_eq!(said.code, Some(4), "{} {:?}", said.stderr, said.reports);
    rig.service.stop();
    check(&view, &[]).holds();
    unmount(&view, UnmountFlags::DETACH).expect("the mount's end");
}
