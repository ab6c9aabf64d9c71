//! `up` with its three witnesses: what a witnessed answer is worth, and what happens when witnesses, directories or processes are
//! lost, copied or put back. Real processes; nothing is timed, states are waited for.

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use countersign_verifier::{checkpoint::origin_hash, fork::Fork, vkey::VerifierKey};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::rig::{
    Answer, Http, JSON, Rig, Service, Start, clean, countersign, files, receipt, receipts, verify,
};

/// Reaching it is a failure, whatever the machine is busy with.
const PATIENCE: Duration = Duration::from_secs(90);

/// Waits until `is` gives something.
#[track_caller]
pub fn until<T>(what: &str, mut is: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = is() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}: not in {PATIENCE:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// The processes that serve a witness of this directory.
fn processes(dir: &Path, number: u32) -> Vec<Pid> {
    let named = format!("--dir\0{}\0", place(dir, number).display());
    let serves = |pid: i32| {
        fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| {
            String::from_utf8_lossy(&line).contains(&named)
                && !fs::read_to_string(format!("/proc/{pid}/stat"))
                    .is_ok_and(|s| s.contains(") Z "))
        })
    };
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| serves(*pid))
        .filter_map(Pid::from_raw)
        .collect()
}

fn place(dir: &Path, number: u32) -> PathBuf {
    dir.join("witnesses").join(number.to_string())
}

/// `kill -9`, and its key is elsewhere, so that it stays down.
pub(super) fn take_down(dir: &Path, number: u32) {
    let place = place(dir, number);
    fs::rename(place.join("witness.key"), place.join("elsewhere")).expect("the key");
    for pid in processes(dir, number) {
        kill_process(pid, Signal::KILL).expect("a signal to a witness");
    }
}

/// `kill -9`; whoever started it starts it again.
pub fn kill_witness(dir: &Path, number: u32) {
    for pid in processes(dir, number) {
        // It may just have ended.
        let _ = kill_process(pid, Signal::KILL);
    }
}

fn bring_back(dir: &Path, number: u32) {
    let place = place(dir, number);
    fs::rename(place.join("elsewhere"), place.join("witness.key")).expect("the key");
}

/// The account's row of `/health`.
pub fn row(service: &Service) -> Value {
    let health = service.http().get("/health").json();
    health["accounts"][0].clone()
}

fn post(service: &Service, rig: &Rig, n: &str, query: &str) -> Answer {
    let body = receipt(n, &rig.owner()).to_json();
    service.http().post(&receipts(query), JSON, &body)
}

/// Submits; the answer must be witnessed. Its index.
#[track_caller]
pub fn witnessed(rig: &mut Rig, n: &str) -> u64 {
    // A machine that is busy may take longer than the usual deadline.
    let answer = post(&rig.service, rig, n, "?deadline_ms=50000");
    assert_eq!(answer.status, 200, "{}", answer.text());
    let body = answer.json();
    assert_eq!(body["state"], "witnessed", "{body}");
    rig.check();
    body["index"].as_u64().expect("an index")
}

/// Copies a folder without what only a running process has.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let target = to.join(entry.file_name());
        let kind = entry.file_type().expect("a kind");
        if kind.is_dir() {
            copy(&entry.path(), &target);
        } else if kind.is_file() {
            fs::copy(entry.path(), target).expect("a file");
        }
    }
}

fn stderr(start: &Start) -> String {
    fs::read_to_string(start.log()).unwrap_or_default()
}

#[test]
fn an_answer_is_witnessed_and_its_verdict_says_by_whom() {
    let mut rig = Rig::witnessed();
    assert_eq!(rig.service.witnesses, 3);
    let index = witnessed(&mut rig, "a");
    // As a client does it, waiting for no more than is told, and for all of it.
    let work = rig.scratch();
    fs::write(work.join("envelope"), receipt("b", &rig.owner()).to_json()).unwrap();
    let submit = |wait: &[&str]| {
        let mut command = clean(countersign());
        command
            .current_dir(&work)
            .args(["submit", "envelope", "--out", "evidence", "--dir"]);
        command
            .arg(rig.dir())
            .args(["--deadline-ms", "50000"])
            .args(wait)
            .output()
            .unwrap()
    };
    for wait in [&[][..], &["--wait", "witnessed"]] {
        let done = submit(wait);
        assert_eq!(done.status.code(), Some(0), "{done:?}");
        assert!(
            String::from_utf8_lossy(&done.stdout).contains("\twitnessed\t"),
            "{done:?}"
        );
    }
    let saved = files(&work.join("evidence"), "json");
    assert_eq!(saved.len(), 1);
    let verified = verify(&saved, &rig.service.policy, &[]);
    assert_eq!(verified.code, 0, "{verified:#?}");
    let verdict = &verified.verdicts[0];
    assert!(
        verdict["cosigners"].as_array().unwrap().len() >= 2,
        "{verdict}"
    );
    let checks = verdict["checks"].as_array().unwrap();
    let witnesses = checks
        .iter()
        .find(|check| check["name"] == "witnesses")
        .unwrap();
    assert_eq!(witnesses["status"], "pass");
    let detail = witnesses["detail"].as_str().unwrap();
    for word in ["quorum local met by witness-", " at 20"] {
        assert!(detail.contains(word), "{detail}");
    }
    assert_eq!(rig.size(), index + 2);
    how_it_fares(&rig);
}

/// `/health`, the operator's door and the metrics show each witness.
fn how_it_fares(rig: &Rig) {
    let size = rig.size();
    let shown = until("all witnesses hold all", || {
        let row = row(&rig.service);
        let all = row["witnesses"]
            .as_array()?
            .iter()
            .all(|w| w["size"] == size);
        all.then_some(row)
    });
    assert_eq!(
        (&shown["size"], &shown["witnessed_size"]),
        (&size.into(), &size.into())
    );
    assert_eq!(shown["quorum_lost_since"], Value::Null);
    for (n, witness) in (1..).zip(shown["witnesses"].as_array().unwrap()) {
        assert_eq!(witness["name"], format!("witness-{n}"));
        assert!(
            witness["url"]
                .as_str()
                .unwrap()
                .starts_with("http://127.0.0.1:")
        );
        assert!(witness["cosigned_at"].as_str().unwrap().ends_with('Z'));
        assert!(witness["latency_ms"].is_u64() && witness["error"].is_null());
    }
    let stream = UnixStream::connect(rig.dir().join("admin.sock")).unwrap();
    let status = Http::over(Box::new(stream)).get("/status").json();
    assert_eq!(
        status["accounts"][0]["witnesses"].as_array().unwrap().len(),
        3
    );
    let bearer = format!("Bearer {}", rig.token());
    let metrics = rig
        .http()
        .send("GET", "/metrics", &[("authorization", &bearer)], b"")
        .text();
    for line in [
        "countersign_quorum_lost_seconds{account=\"dev\"} 0".to_owned(),
        format!("countersign_witness_size{{account=\"dev\",witness=\"witness-3\"}} {size}"),
        "countersign_witness_failing{account=\"dev\",witness=\"witness-1\"} 0".to_owned(),
    ] {
        assert!(metrics.lines().any(|l| l == line), "{line}: {metrics}");
    }
}

#[test]
fn one_witness_may_be_lost_and_of_two_the_return_is_noticed() {
    let mut rig = Rig::witnessed();
    let dir = rig.dir().to_owned();
    witnessed(&mut rig, "with all");
    take_down(&dir, 1);
    witnessed(&mut rig, "without one");
    until("the lost one is shown", || {
        row(&rig.service)["witnesses"][0]["error"]
            .as_str()
            .map(drop)
    });

    let published = rig.get("/log/dev/checkpoint").body;
    take_down(&dir, 3);
    let answer = post(&rig.service, &rig, "without two", "");
    assert_eq!(answer.status, 202, "{}", answer.text());
    let index = answer.json()["index"].as_u64().unwrap();
    assert_eq!(answer.json()["state"], "included");
    let lost = until("the loss is shown", || {
        row(&rig.service)["quorum_lost_since"]
            .as_str()
            .map(str::to_owned)
    });
    assert!(lost.ends_with('Z'));
    assert_eq!(rig.get("/health").json()["status"], "degraded");
    assert_eq!(rig.get("/health/ready").status, 200, "writes go on");
    let answer = post(&rig.service, &rig, "still", "");
    assert_eq!(
        (answer.status, &answer.json()["index"]),
        (202, &(index + 1).into())
    );
    // What was witnessed last stays what is shown, and nothing beyond it can be proved.
    assert_eq!(rig.get("/log/dev/checkpoint").body, published);
    let early = rig.get(&format!("/log/dev/evidence/{index}"));
    assert_eq!(early.status, 404, "{}", early.text());
    assert!(early.header("retry-after").is_some());
    let body = receipt("not confirmed", &rig.owner()).to_json();
    fs::write(rig.scratch().join("envelope"), body).unwrap();
    let submit = clean(countersign())
        .current_dir(rig.scratch())
        .args(["submit", "envelope", "--retry-s", "0", "--dir"])
        .arg(&dir)
        .output()
        .unwrap();
    assert_eq!(submit.status.code(), Some(3), "{submit:?}");
    assert!(
        String::from_utf8_lossy(&submit.stdout).ends_with("\tnew\n"),
        "{submit:?}"
    );
    rig.check();

    bring_back(&dir, 3);
    until("the quorum is back", || {
        let row = row(&rig.service);
        (row["quorum_lost_since"].is_null() && row["size"] == index + 3).then_some(())
    });
    witnessed(&mut rig, "with two again");
    bring_back(&dir, 1);
    let size = rig.size();
    until("the third catches up", || {
        (row(&rig.service)["witnesses"][0]["size"] == size).then_some(())
    });
}

#[test]
fn b108_an_older_directory_put_back_is_not_written_to() {
    let mut rig = Rig::witnessed();
    witnessed(&mut rig, "kept");
    rig.service.stop();
    let seen = rig.auditor.remember();
    let older = rig.scratch().join("older");
    copy(&rig.account(""), &older);
    rig.begin_again();
    for n in ["lost 1", "lost 2"] {
        witnessed(&mut rig, n);
    }
    rig.service.stop();
    fs::remove_dir_all(rig.account("")).unwrap();
    copy(&older, &rig.account(""));
    rig.auditor.forget_to(seen);
    rig.begin_again();
    let answer = post(&rig.service, &rig, "a second history", "");
    answer.problem(503, "READ_ONLY");
    let ready = rig.get("/health/ready");
    assert_eq!(ready.status, 503);
    let why = ready.json()["why"].to_string();
    assert!(why.contains("will not write again"), "{why}");
    assert_eq!(rig.get("/health").json()["status"], "read_only");
    assert_eq!(rig.size(), 2, "what is there is served");
    let said = until("both sizes are said", || {
        let said = stderr(&rig.start);
        said.contains("does not have: size 4").then_some(said)
    });
    for word in [
        "while size 2",
        "Nothing is written",
        "countersign recover",
        "countersign succeed",
    ] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let stream = UnixStream::connect(rig.dir().join("admin.sock")).unwrap();
    let status = Http::over(Box::new(stream)).get("/status").json();
    let why = status["accounts"][0]["read_only"].as_str().unwrap();
    let words = ["size 4", "size 2", "will not write again"];
    assert!(words.iter().all(|word| why.contains(word)), "{why}");
    // Nor after another start.
    rig.restart();
    post(&rig.service, &rig, "a second history", "").problem(503, "READ_ONLY");
}

#[test]
fn a_running_clone_publishes_nothing_and_what_it_signed_is_evidence() {
    // B193
    let mut rig = Rig::witnessed();
    witnessed(&mut rig, "shared");
    rig.service.stop();
    let clone = Start::up(&rig.scratch().join("clone"));
    copy(rig.dir(), &clone.dir);
    fs::remove_dir_all(clone.dir.join("witnesses")).unwrap();
    rig.begin_again();
    let clone = clone.run();
    until("the clone takes writes", || {
        (clone.http().get("/health/ready").status == 200).then_some(())
    });
    witnessed(&mut rig, "of the one");
    let answer = post(&clone, &rig, "of the other", "?deadline_ms=0");
    assert!([202, 503].contains(&answer.status), "{}", answer.text());
    until("the clone stops", || {
        (clone.http().get("/health/ready").status == 503).then_some(())
    });
    post(&clone, &rig, "again", "").problem(503, "READ_ONLY");
    assert_eq!(
        row(&clone)["witnessed_size"],
        2,
        "nothing of it was witnessed"
    );
    // One key has signed two heads of one size: whoever did it, no witness trusts this log any more, and each can show why.
    let answer = post(&rig.service, &rig, "of the one again", "?deadline_ms=0");
    assert_eq!(answer.status, 202, "{}", answer.text());
    until("every witness says so", || {
        let row = row(&rig.service);
        let witnesses = row["witnesses"].as_array().expect("witnesses");
        let quarantined = |w: &Value| {
            w["error"]
                .as_str()
                .is_some_and(|e| e.contains("quarantined"))
        };
        witnesses.iter().all(quarantined).then_some(())
    });
    assert_eq!(row(&rig.service)["witnessed_size"], 3);
    let url = row(&rig.service)["witnesses"][0]["url"].clone();
    let hash = origin_hash("localhost/dev").to_hex();
    let address = url.as_str().and_then(|url| url.strip_prefix("http://"));
    let address = address.and_then(|a| a.parse().ok()).expect("an address");
    let mut witness = Http::new(address, None);
    let evidence = witness.get(&format!("/gossip/forks/{hash}"));
    let fork = Fork::parse(&evidence.body).expect("evidence");
    let key = VerifierKey::parse(&rig.service.vkey).expect("the log's key");
    fork.verify("localhost/dev", [&key]).expect("a fork");
}

#[test]
fn a_witness_put_back_from_an_older_copy_learns_what_it_forgot() {
    let mut rig = Rig::witnessed();
    rig.service.stop();
    let (one, older) = (place(rig.dir(), 1), rig.scratch().join("older"));
    copy(&one, &older);
    rig.begin_again();
    witnessed(&mut rig, "while it was there");
    rig.service.stop();
    fs::remove_dir_all(&one).unwrap();
    copy(&older, &one);
    // The guard does not count it, and takes the other two.
    rig.begin_again();
    witnessed(&mut rig, "and after");
    let size = rig.size();
    until("it has caught up", || {
        let of_one = row(&rig.service)["witnesses"][0].clone();
        (of_one["size"] == size && of_one["error"].is_null()).then_some(())
    });
}

#[test]
fn witnesses_end_with_whoever_started_them() {
    let mut rig = Rig::witnessed();
    let dir = rig.dir().to_owned();
    let running = || {
        (1..=3)
            .map(|n| processes(&dir, n).len())
            .collect::<Vec<_>>()
    };
    assert_eq!(running(), [1, 1, 1]);
    let policy = fs::read(&rig.service.policy).unwrap();
    rig.service.kill();
    until("they end after SIGKILL", || {
        (running() == [0, 0, 0]).then_some(())
    });
    rig.begin_again();
    assert_eq!(running(), [1, 1, 1]);
    witnessed(&mut rig, "at the same addresses");
    assert_eq!(fs::read(&rig.service.policy).unwrap(), policy);
    // One that dies is started again.
    let before = processes(&dir, 2);
    kill_process(before[0], Signal::KILL).unwrap();
    until("it is back", || {
        let now = processes(&dir, 2);
        (now.len() == 1 && now != before).then_some(())
    });
    rig.service.stop();
    assert_eq!(running(), [0, 0, 0], "they are waited for");
}

#[test]
fn what_was_made_one_way_stays_so_and_an_address_that_is_taken_is_named() {
    let home = tempfile::tempdir().unwrap();
    let mut with = Start::witnessed(&home.path().join("with"));
    let mut service = with.run();
    service.stop();
    with.witnesses = false;
    let mut service = with.run();
    assert_eq!(service.witnesses, 3);
    service.stop();
    assert!(
        stderr(&with).contains("in spite of --no-witnesses"),
        "{}",
        stderr(&with)
    );

    let mut without = Start::up(&home.path().join("without"));
    without.run().stop();
    without.witnesses = true;
    let mut service = without.run();
    assert_eq!(service.witnesses, 0);
    service.stop();
    assert!(
        stderr(&without).contains("no witnesses/ lies in this directory"),
        "{}",
        stderr(&without)
    );

    let listen = fs::read_to_string(with.dir.join("witnesses/listen.json")).unwrap();
    let addresses: Vec<SocketAddr> = serde_json::from_str(&listen).unwrap();
    let _taken = TcpListener::bind(addresses[1]).unwrap();
    let ended = with.try_run().err().expect("no ready line");
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    for word in [&addresses[1].to_string(), "witness 2", "listen.json"] {
        assert!(ended.stderr.contains(word), "{word}: {}", ended.stderr);
    }
}

#[test]
fn a_new_log_begins_once_its_witnesses_are_there() {
    let home = tempfile::tempdir().unwrap();
    let mut start = Start::witnessed(&home.path().join("data"));
    // Made, and ended before its first leaf: an address of its own is taken.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let variable = (
        "COUNTERSIGN_METRICS__LISTEN",
        taken.local_addr().unwrap().to_string(),
    );
    start.variables.push((variable.0.to_owned(), variable.1));
    assert_eq!(start.try_run().err().expect("no ready line").code, Some(2));
    start.variables.clear();
    for number in [1, 2] {
        take_down(&start.dir, number);
    }
    let mut service = start.run();
    let pem = fs::read_to_string(start.dir.join("owner.key")).unwrap();
    let owner = countersign_verifier::key::PrivateKey::parse(&pem).unwrap();
    let body = receipt("early", &owner).to_json();
    let submit = |service: &Service| {
        service
            .http()
            .post(&receipts("?deadline_ms=50000"), JSON, &body)
    };
    submit(&service).problem(503, "READ_ONLY");
    for target in [
        "/",
        "/health",
        "/log/dev/checkpoint",
        "/log/dev/keys",
        "/log/dev/policy",
        "/log/dev/evidence/0",
        "/log/dev/tile/0/000.p/1",
        "/log/dev/tile/entries/000.p/1",
        "/log/dev/evidence-set?indexes=0",
        "/log/dev/consistency?from=0&to=1",
        "/log/dev/lookup?payload_sha256=00",
        "/log/dev/heads",
    ] {
        let answer = service.http().get(target);
        assert!(
            answer.status < 500 || answer.status == 503,
            "{target}: {} {}",
            answer.status,
            answer.text()
        );
    }
    for number in [1, 2] {
        bring_back(&start.dir, number);
    }
    until("it begins", || {
        (row(&service)["witnessed_size"] == 1).then_some(())
    });
    let answer = submit(&service);
    assert_eq!(
        (answer.status, &answer.json()["state"]),
        (200, &"witnessed".into()),
        "{}",
        answer.text()
    );
    service.stop();
}
