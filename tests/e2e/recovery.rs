//! Ways out after a disaster, with real witnesses: what a restored directory may not do, and how what it lost comes back.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use countersign_verifier::{
    checkpoint::Checkpoint,
    dsse::Envelope,
    key::PrivateKey,
    note::Note,
    tile::{bundles, tiles},
};
use serde_json::Value;
use tempfile::TempDir;

use super::check::flip;
use crate::rig::{
    Answer, Cosigners, JSON, Service, Start, clean, countersign, files, receipt, verify,
};

/// Reaching it is a failure, whatever the machine is busy with.
pub const PATIENCE: Duration = Duration::from_secs(90);

pub struct Said {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// A development account and what lies beside it.
pub struct Site {
    pub home: TempDir,
    pub start: Start,
    pub vkey: String,
}

impl Site {
    /// Made, and stopped again.
    pub fn new() -> Site {
        let home = tempfile::tempdir().expect("a temporary folder");
        let start = Start::up(&home.path().join("data"));
        let mut service = start.run();
        let vkey = service.vkey.clone();
        service.stop();
        Site { home, start, vkey }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub fn account(&self, name: &str) -> PathBuf {
        self.start.dir.join("accounts/dev").join(name)
    }

    pub fn owner(&self) -> PrivateKey {
        let pem = fs::read_to_string(self.start.dir.join("owner.key")).expect("owner.key");
        PrivateKey::parse(&pem).expect("the owner's key")
    }

    /// A command on the directory.
    pub fn run(&self, args: &[&str]) -> Said {
        let output = clean(countersign())
            .args(args)
            .arg("--dir")
            .arg(&self.start.dir)
            .output()
            .expect("countersign runs");
        Said {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The same, which must succeed.
    pub fn done(&self, args: &[&str]) -> String {
        let said = self.run(args);
        assert_eq!(
            said.code,
            Some(0),
            "{args:?}: {}{}",
            said.stdout,
            said.stderr
        );
        said.stdout
    }

    /// Three witnesses, of which two must cosign from now on.
    pub fn witnessed(&self) -> Cosigners {
        let witnesses = Cosigners::of(self.home.path(), 3, &self.vkey);
        let file = self.path("policy");
        fs::write(&file, witnesses.policy(&self.vkey, 2)).expect("a policy");
        self.done(&["quorum", "set", &file.display().to_string()]);
        witnesses
    }

    /// A copy of the data directory.
    pub fn keep(&self, name: &str) -> PathBuf {
        let to = self.path(name);
        copy(&self.start.dir, &to);
        to
    }

    /// Puts a copy back.
    pub fn restore(&self, from: &Path) {
        fs::remove_dir_all(&self.start.dir).expect("the data directory");
        copy(from, &self.start.dir);
    }
}

pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in from.read_dir().expect("a folder").flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().expect("a type").is_dir() {
            copy(&from, &to);
        } else if entry.file_type().expect("a type").is_file() {
            fs::copy(&from, &to).expect("a copy");
        }
    }
}

/// Waits for something that must come.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what} in {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub fn writes(service: &Service) {
    until("it writes", || {
        service.http().get("/health/ready").status == 200
    });
}

pub fn send(service: &Service, envelope: &Envelope) -> Answer {
    let target = "/log/dev/receipts?deadline_ms=30000";
    service.http().post(target, JSON, &envelope.to_json())
}

/// Receipts of these numbers, each answered in this state.
pub fn submit(site: &Site, service: &Service, numbers: std::ops::Range<u32>, state: &str) {
    let owner = site.owner();
    for n in numbers {
        let answer = send(service, &receipt(&format!("{n}"), &owner));
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json()["state"], state, "{}", answer.text());
    }
}

/// Everything that a mirror would have kept.
pub fn mirror(service: &Service, to: &Path) -> Checkpoint {
    let mut http = service.http();
    let mut get = |path: &str| {
        let answer = http.get(&format!("/log/dev/{path}"));
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        let file = to.join(path);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(&file, &answer.body).expect("a file");
        answer.body
    };
    let note = get("checkpoint");
    let note = Note::parse(&note).expect("a note");
    let head = Checkpoint::parse(note.text).expect("a checkpoint");
    for tile in tiles(head.size) {
        get(&tile.path());
    }
    for bundle in bundles(head.size) {
        get(&bundle.path());
    }
    head
}

pub fn read_only(service: &Service) -> Option<String> {
    let health = service.http().get("/health").json();
    let why = health["accounts"][0]["read_only"].as_str();
    why.map(str::to_owned)
}

pub fn evidence(service: &Service, index: u64, to: &Path) {
    let answer = service.http().get(&format!("/log/dev/evidence/{index}"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    fs::write(to, &answer.body).expect("evidence");
}

#[test]
fn a_restored_older_directory_is_refused_until_what_it_lost_is_back() {
    let site = Site::new();
    let witnesses = site.witnessed();
    let mut service = site.start.run();
    writes(&service);
    submit(&site, &service, 0..3, "witnessed");
    service.stop();
    let older = site.keep("older");
    let mut service = site.start.run();
    writes(&service);
    submit(&site, &service, 3..300, "witnessed");
    let kept = site.path("mirror");
    let head = mirror(&service, &kept);
    service.stop();
    let newest_mark = fs::read(site.account("published")).expect("the mark");

    // The whole directory put back: it agrees with itself, and the witnesses know better.
    site.restore(&older);
    let mut service = site.start.run();
    until("it is refused", || {
        read_only(&service).is_some_and(|why| why.contains("older copy"))
    });
    let refused = send(&service, &receipt("new", &site.owner()));
    refused.problem(503, "READ_ONLY");
    service.stop();

    // As after a recovery that stopped before its first leaf: it does not even start.
    fs::write(site.account("published"), newest_mark).expect("the mark");
    let refused = site.start.try_run().err().expect("it does not start");
    assert_eq!(refused.code, Some(5), "{}", refused.stderr);

    // The head by two witnesses' word, the leaves by the mirror's.
    let from = kept.display().to_string();
    let mut args = vec!["recover".to_owned(), "--from".to_owned(), from.clone()];
    for (n, witness) in witnesses.0.iter().enumerate() {
        let note = witness.checkpoint("localhost/dev");
        if !note.contains(&head.root.to_base64()) {
            continue;
        }
        let file = site.path(&format!("head-{n}"));
        fs::write(&file, note).expect("a head");
        args.extend(["--head".to_owned(), file.display().to_string()]);
    }
    assert!(args.len() >= 7, "a quorum holds it: {args:?}");
    let one = site.run(&["recover", "--from", &from, "--head", &args[4]]);
    assert_eq!(
        one.code,
        Some(1),
        "one witness is no quorum: {}",
        one.stderr
    );
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let said = site.done(&args);
    assert!(said.contains("brought back 297 leaves"), "{said}");
    let again = site.done(&["recover", "--from", &from]);
    assert!(again.contains("nothing is missing"), "{again}");

    let mut service = site.start.run();
    writes(&service);
    let there = mirror(&service, &site.path("again"));
    assert_eq!(there.size, head.size);
    for tile in bundles(head.size) {
        let [was, is] = [&kept, &site.path("again")].map(|f| fs::read(f.join(tile.path())));
        assert_eq!(was.expect("a bundle"), is.expect("a bundle"));
    }
    // What was written before is known again, and nothing is written twice.
    let answer = send(&service, &receipt("250", &site.owner()));
    assert_eq!(answer.json()["duplicate"], true, "{}", answer.text());
    submit(&site, &service, 1_000..1_003, "witnessed");
    let policies = site.account("policy.d").display().to_string();
    let log = format!("{}/log/dev", service.url);
    site.done_elsewhere(&["audit", &log, "--policy", &policies, "--replay"]);
    service.stop();
}

impl Site {
    /// A command that knows no directory.
    pub fn done_elsewhere(&self, args: &[&str]) {
        let output = clean(countersign())
            .args(args)
            .output()
            .expect("countersign runs");
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn another_history_is_never_recovered_over() {
    let site = Site::new();
    let mut service = site.start.run();
    submit(&site, &service, 0..2, "included");
    service.stop();
    let older = site.keep("older");
    let mut service = site.start.run();
    submit(&site, &service, 2..9, "included");
    let kept = site.path("mirror");
    let head = mirror(&service, &kept);
    service.stop();
    site.restore(&older);
    let mut service = site.start.run();
    submit(&site, &service, 100..102, "included");
    let mine = mirror(&service, &site.path("mine"));
    service.stop();
    let from = kept.display().to_string();
    let refused = site.run(&["recover", "--from", &from]);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    for head in [&head.root, &mine.root] {
        assert!(
            refused.stderr.contains(&head.to_hex()),
            "{}",
            refused.stderr
        );
    }
    // A mirror that lies about a leaf, and one that has not all of them.
    site.restore(&older);
    let bundle = bundles(head.size).next().expect("a bundle").path();
    let mut bytes = fs::read(kept.join(&bundle)).expect("a bundle");
    let at = bytes.len() - 3;
    bytes[at] ^= 1;
    fs::write(kept.join(&bundle), &bytes).expect("a bundle");
    let refused = site.run(&["recover", "--from", &from]);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    fs::remove_file(kept.join(&bundle)).expect("a bundle");
    let missing = site.run(&["recover", "--from", &from]);
    assert_eq!(missing.code, Some(3), "{}", missing.stderr);
    assert!(!site.account("recover.part").exists());
    // None of it changed anything.
    let mut service = site.start.run();
    submit(&site, &service, 2..3, "included");
    service.stop();
}

#[test]
fn what_is_here_is_read_before_it_is_said_that_nothing_is_missing() {
    let site = Site::new();
    let mut service = site.start.run();
    submit(&site, &service, 0..40, "included");
    let kept = site.path("mirror");
    mirror(&service, &kept);
    service.stop();
    // So that the leaves lie in tables.
    site.start.run().stop();
    let from = kept.display().to_string();
    let said = site.done(&["recover", "--from", &from]);
    assert!(said.contains("nothing is missing"), "{said}");
    let sound = site.keep("sound");
    let mut met = 0;
    for table in files(&site.account("db"), "sst") {
        flip(&table, 40);
        let found = site.run(&["check", "--json"]).stdout;
        let report: Value = serde_json::from_str(&found).expect("a report");
        let faults = report["faults"].as_array().expect("faults");
        let of_leaf = faults.iter().find(|fault| fault["class"] == "entry");
        if let Some(fault) = of_leaf {
            met += 1;
            assert!(found.contains("move db/ away"), "{found}");
            let refused = site.run(&["recover", "--from", &from]);
            assert_eq!(refused.code, Some(1), "{}", refused.stderr);
            let leaf = format!("leaf {} cannot be read", fault["index"]);
            for word in [leaf.as_str(), "Move db/ away"] {
                assert!(refused.stderr.contains(word), "{word}: {}", refused.stderr);
            }
            // As it says.
            fs::rename(site.account("db"), site.path("db.damaged")).expect("the database");
            let said = site.done(&["recover", "--from", &from]);
            assert!(said.contains("brought back"), "{said}");
            site.done(&["check"]);
            fs::remove_dir_all(site.path("db.damaged")).expect("the database");
        }
        site.restore(&sound);
    }
    assert!(met > 0, "no table of leaves");
    // A mark that is gone is no leaf, and does not come back.
    fs::remove_file(site.account("published")).expect("the mark");
    let refused = site.run(&["recover", "--from", &from]);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(refused.stderr.contains("newest copy"), "{}", refused.stderr);
}

#[test]
fn a_quorum_begins_an_era_and_older_evidence_keeps_its_own() {
    let site = Site::new();
    let mut service = site.start.run();
    submit(&site, &service, 0..2, "included");
    let [before, after] = ["before", "after"].map(|n| site.path(&format!("{n}.evidence.json")));
    evidence(&service, 1, &before);
    let witnesses = Cosigners::of(site.home.path(), 3, &site.vkey);
    let file = site.path("new.policy");
    let policy = witnesses.policy(&site.vkey, 2);
    fs::write(&file, &policy).expect("a policy");
    let file = file.display().to_string();
    let checked = site.done(&["quorum", "check", &file]);
    assert!(checked.contains("2 of 3: w0, w1, w2"), "{checked}");
    assert!(
        checked.contains("1 may fail") && !checked.contains("warning"),
        "{checked}"
    );
    service.stop();

    let bad = |name: &str, text: &str, word: &str| {
        let path = site.path(name).display().to_string();
        fs::write(&path, text).expect("a policy");
        let checked = site.run(&["quorum", "check", &path, "--json"]);
        assert!(checked.stdout.contains(word), "{word}: {}", checked.stdout);
        (checked.code, site.run(&["quorum", "set", &path]).code)
    };
    let foreign = policy.lines().skip(1).fold(
        "log sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8\n".to_owned(),
        |text, line| text + line + "\n",
    );
    assert_eq!(bad("a", &foreign, "own key"), (Some(1), Some(1)));
    let silent = policy.replace(" http://", " \n# http://");
    assert_eq!(bad("b", &silent, "no address"), (Some(1), Some(1)));
    assert_eq!(bad("c", "quorum", ""), (Some(2), Some(2)));
    let split = policy.replace("group g 2", "group g 1");
    let path = site.path("d");
    fs::write(&path, split).expect("a policy");
    let warned = site.done(&["quorum", "check", &path.display().to_string()]);
    assert!(warned.contains("nobody in common"), "{warned}");

    site.done(&["quorum", "set", &file]);
    let mut service = site.start.run();
    writes(&service);
    submit(&site, &service, 2..4, "witnessed");
    assert_eq!(service.http().get("/log/dev/policy").text(), policy);
    evidence(&service, 3, &after);
    service.stop();
    let shown: Value =
        serde_json::from_str(&site.done(&["quorum", "show", "--json"])).expect("JSON");
    assert_eq!(shown["eras"][0]["from_size"], 0);
    assert_eq!(shown["eras"][1]["from_size"], 4);

    let judge = |policy: &Path| {
        let verified = verify(&[before.clone(), after.clone()], policy, &[]);
        let verdict = |n: usize| verified.verdicts[n]["verdict"].as_str().map(str::to_owned);
        [verdict(0), verdict(1)].map(|v| v.expect("a verdict"))
    };
    assert_eq!(judge(&site.account("policy.d")), ["holds", "holds"]);
    assert_eq!(judge(&site.account("policy")), ["does_not_hold", "holds"]);
    // Written over by hand, it is refused: earlier heads would be judged by it.
    fs::write(site.account("policy"), format!("# mine\n{policy}")).expect("a policy");
    let refused = site.start.try_run().err().expect("it does not start");
    assert!(refused.stderr.contains("quorum set"), "{}", refused.stderr);
}

#[test]
fn without_its_witnesses_word_a_log_writes_only_if_told_and_says_so() {
    let mut site = Site::new();
    let mut witnesses = site.witnessed();
    let mut service = site.start.run();
    writes(&service);
    submit(&site, &service, 0..2, "witnessed");
    service.stop();
    let older = site.keep("older");
    for witness in &mut witnesses.0[..2] {
        witness.kill();
    }
    site.start.verb = &["serve"];
    let mut service = site.start.run();
    assert_eq!(service.http().get("/health/ready").status, 503);
    send(&service, &receipt("x", &site.owner())).problem(503, "READ_ONLY");
    service.stop();

    site.start.verb = &["serve", "--unguarded"];
    let mut service = site.start.run();
    writes(&service);
    let health = service.http().get("/health").json();
    assert_eq!(health["accounts"][0]["unguarded"], true, "{health}");
    let answer = service.http().post(
        "/log/dev/receipts?wait=included",
        JSON,
        &receipt("2", &site.owner()).to_json(),
    );
    assert_eq!(answer.status, 200, "{}", answer.text());
    // Leaf 0, two receipts, the leaf that says how it was started, this one.
    assert_eq!(answer.index(), 4);
    let ended = {
        service.signal(rustix::process::Signal::TERM);
        service.wait()
    };
    assert!(
        ended.stderr.contains("WARNING: --unguarded"),
        "{}",
        ended.stderr
    );
    for witness in &mut witnesses.0[..2] {
        let at = witness.url.trim_start_matches("http://").to_owned();
        witness.serve(&at);
    }
    // In its place in the leaves, and no longer so once the witnesses are asked again.
    site.start.verb = &["serve"];
    let mut service = site.start.run();
    writes(&service);
    submit(&site, &service, 3..4, "witnessed");
    mirror(&service, &site.path("after"));
    let bundle = bundles(6).next().expect("a bundle").path();
    let bytes = fs::read(site.path("after").join(bundle)).expect("a bundle");
    let leaf = br#""event":{"type":"unguarded"}}"#;
    assert!(bytes.windows(leaf.len()).any(|part| part == leaf));
    let health = service.http().get("/health").json();
    assert!(health["accounts"][0].get("unguarded").is_none(), "{health}");
    service.stop();

    // What they prove to be missing ends writing all the same.
    site.restore(&older);
    site.start.verb = &["serve", "--unguarded"];
    let mut service = site.start.run();
    until("it is refused", || {
        read_only(&service).is_some_and(|why| why.contains("older copy"))
    });
    service.stop();
}
