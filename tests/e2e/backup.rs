//! `countersign backup` and `restore`: beside a service that writes, killed on the way, of other people's making; and what a log that
//! was put back may do.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use serde_json::{Value, json};

use super::{
    accounts::{create, done, token},
    blobs::{get, named, put},
    recovery::{Site, evidence, mirror, read_only, send, submit, until, writes},
};
use crate::rig::{Disk, Service, Start, clean, countersign, files, receipt, verify};

/// What a command said, its one line of JSON read.
struct Ran {
    code: Option<i32>,
    said: Value,
    stderr: String,
}

fn start(args: &[&str], paths: [&Path; 2]) -> Child {
    let [place, dir] = paths;
    clean(countersign())
        .args(args)
        .arg("--json")
        .arg("--dir")
        .arg(dir)
        .arg("--")
        .arg(place)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("countersign runs")
}

fn end(child: Child) -> Ran {
    let output = child.wait_with_output().expect("its end");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let stderr = text(&output.stderr);
    assert!(!stderr.contains("panicked"), "{stderr}");
    Ran {
        code: output.status.code(),
        said: serde_json::from_str(text(&output.stdout).trim()).unwrap_or_default(),
        stderr,
    }
}

fn backup(dir: &Path, to: &Path, more: &[&str]) -> Ran {
    end(start(&[&["backup"], more].concat(), [to, dir]))
}

fn restore(from: &Path, to: &Path, more: &[&str]) -> Ran {
    end(start(&[&["restore"], more].concat(), [from, to]))
}

impl Ran {
    #[track_caller]
    fn is(self, code: i32) -> Ran {
        assert_eq!(self.code, Some(code), "{} {}", self.said, self.stderr);
        self
    }

    /// The accounts, by name.
    fn names(&self) -> Vec<&str> {
        let rows = self.said["accounts"].as_array().expect("accounts");
        let named = rows.iter().map(|row| match row["name"].as_str() {
            Some(name) => name,
            None => row["account"].as_str().expect("a name"),
        });
        named.collect()
    }
}

/// The service of a directory that was restored.
fn serve(site: &Site, dir: &Path, account: &'static str) -> Start {
    Start {
        dir: dir.to_owned(),
        verb: &["serve"],
        account,
        ..site.start.clone()
    }
}

/// A write that was answered.
#[derive(Clone)]
struct Acknowledged {
    name: String,
    index: u64,
    leaf_hash: String,
}

fn write(site: &Site, service: &Service, name: &str) -> Acknowledged {
    let answer = send(service, &receipt(name, &site.owner()));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let said = answer.json();
    Acknowledged {
        name: name.into(),
        index: said["index"].as_u64().expect("an index"),
        leaf_hash: said["leaf_hash"].as_str().expect("a leaf hash").into(),
    }
}

#[test]
fn what_was_answered_before_a_backup_is_in_it_and_provable_while_others_go_on_writing() {
    let site = Site::new();
    let mut service = site.start.run();
    let token = token(&site);
    create(&site, "team", &[]);
    let item = json!({"item": {"id": "a", "title": "A"}});
    done(&service, &token, ("team", "board_upsert"), &item);
    let bearer = format!("Bearer {token}");
    let salt = "05".repeat(32);
    let headers = [
        ("authorization", bearer.as_str()),
        ("countersign-salt", salt.as_str()),
    ];
    let kept = service
        .http()
        .send("POST", "/v1/blobs?account=dev", &headers, b"a body");
    assert_eq!(kept.status, 201, "{}", kept.text());

    let (all, over) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    let to = site.path("backup");
    let before = thread::scope(|scope| {
        for writer in 0..2 {
            let (site, service, all, over) = (&site, &service, &all, &over);
            scope.spawn(move || {
                for n in 0..20_000 {
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                    let done = write(site, service, &format!("{writer}-{n}"));
                    all.lock().expect("the list").push(done);
                }
            });
        }
        until("some were answered", || {
            all.lock().expect("the list").len() > 50
        });
        let before = all.lock().expect("the list").clone();
        let made = backup(&site.start.dir, &to, &["--with-keys"]);
        let one = backup(
            &site.start.dir,
            &site.path("one"),
            &["--account", "team", "--with-keys"],
        );
        over.store(true, Ordering::Relaxed);
        assert_eq!(made.is(0).names(), ["dev", "team"]);
        assert_eq!(one.is(0).names(), ["team"]);
        before
    });
    assert!(!site.account("still").exists(), "the copy is gone");

    // Elsewhere, while the first is still served.
    let again = site.path("again");
    let restored = restore(&to, &again, &[]).is(0);
    assert_eq!(restored.names(), ["dev", "team"]);
    assert_eq!(restored.said["missing"], json!([]));
    service.stop();
    let mut service = serve(&site, &again, "dev").run();
    for was in &before {
        let same = write(&site, &service, &was.name);
        assert_eq!((same.index, &same.leaf_hash), (was.index, &was.leaf_hash));
    }
    let last = before.iter().map(|was| was.index).max().expect("some");
    let file = site.path("last.evidence.json");
    evidence(&service, last, &file);
    let policy = again.join("accounts/dev/policy");
    assert_eq!(verify(&[file], &policy, &[]).code, 0);
    let get =
        |target: &str, headers: &[(&str, &str)]| service.http().send("GET", target, headers, b"");
    assert_eq!(
        get("/log/team/checkpoint", &[]).status,
        401,
        "private as before"
    );
    assert_eq!(get("/log/team/checkpoint", &headers[..1]).status, 200);
    let body = format!("/v1/blobs/{}?account=dev", named(b"a body"));
    assert_eq!(get(&body, &headers[..1]).body, b"a body");
    let found = done(&service, &token, ("team", "board_get"), &json!({"id": "a"}));
    assert_eq!(found["result"]["item"]["title"], "A");
    service.stop();
    let checked = clean(countersign())
        .args(["check", "--dir"])
        .arg(&again)
        .output();
    assert!(checked.expect("countersign runs").status.success());

    let alone = site.path("alone");
    assert_eq!(
        restore(&site.path("one"), &alone, &[]).is(0).names(),
        ["team"]
    );
    assert!(!alone.join("accounts/dev").exists());
    let mut service = serve(&site, &alone, "team").run();
    let found = done(&service, &token, ("team", "board_get"), &json!({"id": "a"}));
    assert_eq!(found["result"]["item"]["title"], "A");
    service.stop();
}

#[test]
fn a_backup_without_keys_says_what_has_to_be_put_beside_it_and_nothing_is_written_over() {
    let site = Site::new();
    let mut service = site.start.run();
    submit(&site, &service, 0..5, "included");
    service.stop();
    let dir = &site.start.dir;
    let to = site.path("backup");
    let made = backup(dir, &to, &[]).is(0);
    let secrets =
        ["log.key", "service.key", "seat.secret"].map(|name| format!("accounts/dev/{name}"));
    for path in secrets
        .iter()
        .map(String::as_str)
        .chain(["owner.key", "owner.token", "witnesses"])
    {
        assert!(!to.join(path).exists(), "{path}");
    }
    // Where it may not be, and what it is not.
    backup(dir, &to, &[]).is(2);
    backup(dir, &dir.join("backup"), &[]).is(2);
    backup(dir, &site.path("none/backup"), &[]).is(2);
    backup(dir, &site.path("other"), &["--account", "nobody"]).is(2);
    backup(&site.path("none"), &site.path("other"), &[]).is(2);
    let served = serve(&site, &to, "dev")
        .try_run()
        .err()
        .expect("no service");
    assert_eq!(served.code, Some(2), "{}", served.stderr);
    assert!(served.stderr.contains("is a backup"), "{}", served.stderr);
    fs::remove_file(to.join("lock")).expect_err("nothing was made in it");

    let again = site.path("again");
    let digest = made.said["sha256"].as_str().expect("a digest");
    let other = "0".repeat(64);
    restore(&to, &again, &["--sha256", &other]).is(1);
    restore(&to, &again, &["--sha256", "x"]).is(2);
    restore(&site.path("none"), &again, &[]).is(2);
    restore(dir, &again, &[]).is(2);
    assert!(!again.exists());
    let restored = restore(&to, &again, &["--sha256", digest]).is(0);
    let missing = restored.said["missing"].as_array().expect("a list");
    let missing: Vec<&str> = missing
        .iter()
        .filter_map(|of| of["file"].as_str())
        .collect();
    assert_eq!(missing.len(), 5, "{missing:?}");
    assert!(missing.contains(&"owner.key"), "{missing:?}");
    restore(&to, &again, &[]).is(2);
    let refused = serve(&site, &again, "dev").try_run().err().expect("no key");
    assert_eq!(refused.code, Some(5), "{}", refused.stderr);
    for file in &missing {
        fs::copy(dir.join(file), again.join(file)).expect("a key");
    }
    let mut service = serve(&site, &again, "dev").run();
    assert_eq!(write(&site, &service, "3").index, 4);
    service.stop();

    // One bit of a table, of a key, of what it says of itself.
    let keys = site.path("keys");
    backup(dir, &keys, &["--with-keys"]).is(0);
    let table = files(&keys.join("accounts/dev/db"), "sst").pop();
    for path in [table.expect("a table"), keys.join("accounts/dev/log.key")] {
        let whole = fs::read(&path).expect("a file");
        let mut bytes = whole.clone();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x10;
        fs::write(&path, bytes).expect("a file");
        let refused = restore(&keys, &site.path("refused"), &[]).is(1);
        let fault = refused.said["faults"][0].as_str().expect("a fault");
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        assert!(fault.contains(&name), "{fault}");
        fs::write(&path, whole).expect("a file");
    }
    assert!(!site.path("refused").exists());
    restore(&keys, &site.path("refused"), &[]).is(0);
}

/// Runs a command until a path is there, and kills it then; whether it was still running.
fn killed_at(mut child: Child, seen: &Path) -> bool {
    let mut ended = None;
    until("it begins or ends", || {
        ended = child.try_wait().expect("its status");
        ended.is_some() || seen.exists()
    });
    let _ = child.kill();
    child.wait().expect("its end");
    ended.is_none()
}

/// So many bodies that a copy of them takes its time.
fn fill(site: &Site, service: &Service) {
    let token = token(site);
    for n in 0..6_u8 {
        let body = vec![n; 4 << 20];
        let kept = put(&mut service.http(), &token, &body);
        assert_eq!(kept.status, 201, "{}", kept.text());
    }
}

#[test]
fn a_kill_leaves_nothing_that_is_taken_for_a_backup_or_for_a_directory() {
    let site = Site::new();
    let mut service = site.start.run();
    submit(&site, &service, 0..20, "included");
    fill(&site, &service);
    let dir = &site.start.dir;
    let to = site.path("backup");
    let stage = site.path(".countersign-backup-backup");
    let mut cut = 0;
    for seen in ["", "accounts/dev/db", "accounts/dev/blobs"] {
        let child = start(&["backup", "--with-keys"], [&to, dir]);
        let was_running = killed_at(child, &stage.join(seen));
        cut += u32::from(was_running && !to.exists());
        if was_running && !to.exists() {
            restore(&to, &site.path("none"), &[]).is(2);
            if !stage.join("backup.json").exists() {
                restore(&stage, &site.path("none"), &[]).is(2);
            }
            assert!(!site.path("none").exists());
        }
        let _ = fs::remove_dir_all(&to);
    }
    assert!(cut > 0, "no kill came in the middle");
    // The service goes away meanwhile. What is waited for is not what the last kill left.
    let _ = fs::remove_dir_all(&stage);
    let child = start(&["backup", "--with-keys"], [&to, dir]);
    until("it has begun", || {
        stage.join("accounts/dev/blobs").exists() || to.exists()
    });
    service.kill();
    end(child).is(0);
    assert!(!stage.exists(), "what was left is gone");
    let again = site.path("again");
    let stage = site.path(".countersign-restore-again");
    for seen in ["", "accounts/dev/db", "accounts/dev/blobs"] {
        let child = start(&["restore"], [&to, &again]);
        cut += u32::from(killed_at(child, &stage.join(seen)) && !again.exists());
        let _ = fs::remove_dir_all(&again);
    }
    assert!(cut > 1, "no kill came in the middle");
    restore(&to, &again, &[]).is(0);
    assert!(!stage.exists(), "what was left is gone");
    // And what is at rest after a kill: its write-ahead log goes with it.
    let rest = backup(dir, &site.path("rest"), &[]).is(0);
    let size = rest.said["accounts"][0]["size"].as_u64();
    let mut service = site.start.run();
    assert_eq!(Some(mirror(&service, &site.path("mirror")).size), size);
    service.stop();
}

#[test]
fn b108_b117_an_older_backup_writes_nothing_and_shows_no_body_until_what_it_lost_is_back() {
    let site = Site::new();
    let witnesses = site.witnessed();
    let mut service = site.start.run();
    writes(&service);
    let token = token(&site);
    let (body, name) = (b"what must be forgotten", named(b"what must be forgotten"));
    assert_eq!(put(&mut service.http(), &token, body).status, 201);
    submit(&site, &service, 0..3, "witnessed");
    let to = site.path("backup");
    let made = backup(&site.start.dir, &to, &["--with-keys"]).is(0);
    let note = made.said["accounts"][0]["checkpoint"]
        .as_str()
        .expect("a checkpoint");
    assert!(note.matches("\u{2014} ").count() >= 3, "cosigned: {note}");
    site.done(&["blob", "erase", &name]);
    submit(&site, &service, 3..30, "witnessed");
    let kept = site.path("mirror");
    let head = mirror(&service, &kept);
    service.stop();

    fs::remove_dir_all(&site.start.dir).expect("the disk is lost");
    restore(&to, &site.start.dir, &[]).is(0);
    let file: PathBuf = site.account("blobs").join(&name[..2]).join(&name);
    assert!(file.exists(), "what was erased since is back");
    let mut service = site.start.run();
    until("it is refused", || {
        read_only(&service).is_some_and(|why| why.contains("older copy"))
    });
    send(&service, &receipt("new", &site.owner())).problem(503, "READ_ONLY");
    get(&mut service.http(), &token, &name).problem(503, "READ_ONLY");
    service.stop();

    let said = site.done(&["recover", "--from", &kept.display().to_string()]);
    assert!(said.contains(&format!("size {}", head.size)), "{said}");
    let mut service = site.start.run();
    writes(&service);
    get(&mut service.http(), &token, &name).problem(410, "BLOB_ERASED");
    assert!(!file.exists(), "and gone again");
    submit(&site, &service, 30..32, "witnessed");
    service.stop();
    drop(witnesses);
}

#[test]
fn a_full_disk_is_said_and_leaves_no_half_of_a_backup() {
    let Some(disk) = Disk::of(8) else {
        return;
    };
    let site = Site::new();
    let mut service = site.start.run();
    fill(&site, &service);
    let to = disk.path().join("backup");
    let refused = backup(&site.start.dir, &to, &[]).is(2);
    assert!(
        refused.stderr.contains("No space left"),
        "{}",
        refused.stderr
    );
    let left = || disk.path().read_dir().expect("the disk").count();
    assert_eq!(left(), 0);
    // Nor is one made of the accounts that do fit.
    for name in ["aa", "zz"] {
        create(&site, name, &[]);
    }
    let refused = backup(&site.start.dir, &to, &[]).is(2);
    let why = "No space left";
    assert!(refused.stderr.contains(why), "{}", refused.stderr);
    assert_eq!(left(), 0);
    service.stop();
    // Of the way back, too.
    let whole = site.path("backup");
    backup(&site.start.dir, &whole, &[]).is(0);
    let refused = restore(&whole, &to, &[]).is(2);
    assert!(
        refused.stderr.contains("No space left"),
        "{}",
        refused.stderr
    );
    assert_eq!(disk.path().read_dir().expect("the disk").count(), 0);
    // A disk of its own is no place for a folder that is moved there whole.
    let mount = backup(&site.start.dir, disk.path(), &[]).is(2);
    assert!(
        mount.stderr.contains("a disk of its own"),
        "{}",
        mount.stderr
    );
}

#[test]
fn the_witnesses_of_up_are_taken_along_as_they_are_or_given_up_in_so_many_words() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let start = Start::witnessed(&home.path().join("data"));
    let mut service = start.run();
    let vkey = service.vkey.clone();
    let site = Site { home, start, vkey };
    submit(&site, &service, 0..3, "witnessed");
    let to = site.path("backup");
    backup(&site.start.dir, &to, &["--with-keys"]).is(0);
    assert!(!to.join("witnesses").exists());
    service.stop();
    let (moved, lost) = (site.path("moved"), site.path("lost"));
    for place in [&moved, &lost] {
        restore(&to, place, &[]).is(0);
    }
    fs::rename(site.start.dir.join("witnesses"), moved.join("witnesses")).expect("the witnesses");
    let start = Start {
        dir: moved,
        ..site.start.clone()
    };
    let mut service = start.run();
    assert_eq!(service.witnesses, 3);
    submit(&site, &service, 2..5, "witnessed");
    service.stop();

    // Lost with the disk: another policy first, and the one start without their word.
    let policy = site.path("none.policy");
    fs::write(&policy, format!("log {}\nquorum none\n", site.vkey)).expect("a policy");
    let set = clean(countersign())
        .args(["quorum", "set"])
        .arg(&policy)
        .arg("--dir")
        .arg(&lost)
        .output()
        .expect("countersign runs");
    assert!(set.status.success(), "{set:?}");
    let plain = serve(&site, &lost, "dev");
    let mut service = plain.run();
    send(&service, &receipt("new", &site.owner())).problem(503, "READ_ONLY");
    service.stop();
    let unguarded = Start {
        verb: &["serve", "--unguarded"],
        ..plain.clone()
    };
    let mut service = unguarded.run();
    writes(&service);
    submit(&site, &service, 5..7, "included");
    service.stop();
    let mut service = plain.run();
    submit(&site, &service, 7..8, "included");
    service.stop();
}
