//! `countersign watch`: what is heard of a log, by whom, and what becomes of it when something fails on the way.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

use countersign_verifier::{
    dsse::Envelope,
    fork::Fork,
    hash::{Hash, leaf_hash},
    key::{Algorithm, PrivateKey},
    range::Range,
    vkey::{NoteSigner, VerifierKey},
};
use serde_json::{Value, json};

use super::audit::Copy;
use crate::rig::{
    Rig, TYPE, clean, countersign, forget, hex, keep, key, possession_of, receipt, spki,
};

/// Reaching it is a failure, whatever the machine is busy with.
const PATIENCE: Duration = Duration::from_secs(90);

/// What a watch that has ended said.
#[derive(Debug)]
struct Said {
    code: Option<i32>,
    rows: Vec<Value>,
    stderr: String,
}

impl Said {
    fn alerts(&self) -> Vec<&Value> {
        let rows = self.rows.iter();
        rows.filter(|row| row["format"] == "countersign.alert/1")
            .collect()
    }

    fn indexes(&self) -> Vec<u64> {
        let index = |row: &&Value| row["index"].as_u64();
        self.alerts().iter().filter_map(index).collect()
    }

    /// The sizes that it said it was complete up to.
    fn complete(&self) -> Vec<u64> {
        let rows = self.rows.iter().filter(|row| row["event"] == "complete");
        rows.filter_map(|row| row["complete"].as_u64()).collect()
    }
}

/// Somebody who watches a log.
struct Watcher {
    log: String,
    policy: PathBuf,
    state: PathBuf,
}

impl Watcher {
    fn command(&self, more: &[&str]) -> std::process::Command {
        let mut command = clean(countersign());
        command
            .args(["watch", &self.log, "--json", "--policy"])
            .arg(&self.policy)
            .arg("--state")
            .arg(&self.state)
            .args(more)
            .stdin(Stdio::null());
        command
    }

    fn once(&self, more: &[&str]) -> Said {
        let output = self.command(more).arg("--once").output();
        let output = output.expect("countersign runs");
        let stdout = String::from_utf8(output.stdout).expect("UTF-8");
        let rows = stdout.lines().map(serde_json::from_str);
        Said {
            code: output.status.code(),
            rows: rows.map(|row| row.expect("a line of JSON")).collect(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Leaves that the state file says were read and told.
    fn done(&self) -> u64 {
        let text = std::fs::read(&self.state).expect("the state file");
        let state: Value = serde_json::from_slice(&text).expect("JSON");
        state["size"].as_u64().expect("a size")
    }
}

/// A watch that goes on.
struct Running {
    child: Child,
    rows: mpsc::Receiver<Value>,
}

impl Running {
    fn start(watcher: &Watcher, more: &[&str]) -> Running {
        let mut command = watcher.command(more);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = child.expect("countersign starts");
        keep(&child);
        let stdout = BufReader::new(child.stdout.take().expect("its standard output"));
        let (tell, rows) = mpsc::channel();
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let row = serde_json::from_str(&line).expect("a line of JSON");
                if tell.send(row).is_err() {
                    return;
                }
            }
        });
        Running { child, rows }
    }

    /// The rows up to the first that is meant.
    fn until(&self, meant: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut rows = Vec::new();
        loop {
            let row = self.rows.recv_timeout(PATIENCE).expect("a row");
            rows.push(row.clone());
            if meant(&row) {
                return rows;
            }
        }
    }

    /// `kill -9`.
    fn kill(mut self) {
        self.child.kill().expect("a signal");
        self.child.wait().expect("its end");
        forget(&self.child);
    }
}

/// A post that a webhook got.
#[derive(Clone, Debug)]
struct Post {
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Post {
    fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(n, _)| n == name);
        found.map_or("", |(_, value)| value)
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }
}

/// A receiver of webhooks. Its answer to the post of each number is a status line and headers, or none: it then never answers.
struct Hook {
    url: String,
    posts: Arc<Mutex<Vec<Post>>>,
}

impl Hook {
    fn new(answer: impl Fn(usize) -> Option<&'static str> + Send + 'static) -> Hook {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
        let posts = Arc::new(Mutex::new(Vec::new()));
        let kept = posts.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                // A connection that was given up before it said anything.
                let Some(post) = read(&stream) else { continue };
                let number = {
                    let mut posts = kept.lock().unwrap_or_else(PoisonError::into_inner);
                    posts.push(post);
                    posts.len() - 1
                };
                reply(stream, answer(number));
            }
        });
        Hook { url, posts }
    }

    fn posts(&self) -> Vec<Post> {
        self.posts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn indexes(&self) -> BTreeSet<u64> {
        let index = |post: &Post| post.json()["index"].as_u64();
        self.posts().iter().filter_map(index).collect()
    }

    fn wait(&self, posts: usize) {
        let start = Instant::now();
        while self.posts().len() < posts {
            assert!(start.elapsed() < PATIENCE, "{:?}", self.posts().len());
            thread::sleep(Duration::from_millis(10));
        }
    }
}

fn read(stream: &TcpStream) -> Option<Post> {
    let mut from = BufReader::new(stream);
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        if from.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(": ") {
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
    }
    let mut post = Post {
        headers,
        body: Vec::new(),
    };
    post.body = vec![0; post.header("content-length").parse().ok()?];
    from.read_exact(&mut post.body).ok()?;
    Some(post)
}

fn reply(mut stream: TcpStream, answer: Option<&'static str>) {
    match answer {
        Some(head) => {
            let text = format!("HTTP/1.1 {head}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            let _ = stream.write_all(text.as_bytes());
        }
        // Until whoever waits is gone.
        None => {
            thread::spawn(move || {
                let _ = stream.read(&mut [0]);
            });
        }
    }
}

/// HMAC-SHA-256 (RFC 2104), written out.
fn hmac(secret: &[u8], body: &[u8]) -> String {
    let pad = |with: u8| {
        let mut block = [with; 64];
        block.iter_mut().zip(secret).for_each(|(b, s)| *b ^= s);
        block
    };
    let inner = countersign_verifier::hash::sha256(&[&pad(0x36)[..], body].concat());
    hex(&[&pad(0x5c)[..], &inner.0].concat())
}

fn watcher(rig: &Rig, log: &str) -> Watcher {
    Watcher {
        log: log.to_owned(),
        policy: rig.service.policy.clone(),
        state: rig.scratch().join("watch.state"),
    }
}

fn url(rig: &Rig) -> String {
    format!("{}/log/dev", rig.service.url)
}

/// A log in a folder of `size` leaves, of which those at `marked` are receipts of [`TYPE`], and the others of another type.
fn static_log(rig: &mut Rig, size: usize, marked: &[usize]) -> Copy {
    let owner = rig.owner();
    let plain = Envelope::sign("text/plain", b"x", std::slice::from_ref(&owner));
    let plain = usize::try_from(rig.submit(&plain).index()).expect("an index");
    let meant = usize::try_from(rig.submit(&receipt("meant", &owner)).index()).expect("an index");
    let mut copy = Copy::of(rig, "static");
    let (plain, meant) = (copy.leaves[plain].clone(), copy.leaves[meant].clone());
    copy.leaves.truncate(1);
    for index in 1..size {
        let marked = marked.contains(&index);
        copy.leaves
            .push(if marked { &meant } else { &plain }.clone());
    }
    copy.publish();
    copy
}

#[test]
fn a_watch_that_is_killed_in_the_middle_skips_nothing() {
    // B188, B190: two rounds of 2,048 leaves and some; the fourth alert is never taken, and there it is killed.
    let marked = [100, 2047, 2048, 2500, 4095, 4096, 4999];
    let due: BTreeSet<u64> = marked.iter().map(|index| *index as u64).collect();
    let mut rig = Rig::up();
    let copy = static_log(&mut rig, 5_000, &marked);
    let watcher = watcher(&rig, copy.log());
    let hook = Hook::new(|number| (number != 3).then_some("200 OK"));
    let args = ["--type", TYPE, "--webhook", &hook.url];
    let running = Running::start(&watcher, &[&args[..], &["--from", "0"]].concat());
    hook.wait(4);
    running.kill();
    assert_eq!(watcher.done(), 2_048, "what was told, and no more");
    let said = watcher.once(&args);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert_eq!(said.complete(), [4_096, 5_000], "not from the beginning");
    assert_eq!(said.indexes(), [2_048, 2_500, 4_095, 4_096, 4_999]);
    assert_eq!(hook.indexes(), due);
    for post in hook.posts() {
        let id = format!("localhost/dev#{}", post.json()["index"]);
        assert_eq!(post.json()["id"], id);
        assert_eq!(post.header("idempotency-key"), id);
    }
    let nothing = watcher.once(&args);
    assert_eq!((nothing.code, nothing.alerts().len()), (Some(0), 0));
    assert_eq!(nothing.complete(), [5_000]);
}

#[test]
fn a_webhook_that_fails_is_tried_again_and_nothing_is_passed_over() {
    let mut rig = Rig::up();
    let member = key("member");
    let enrolled = rig.enroll("member", &member);
    let index = rig.submit(&receipt("one", &member)).index();
    let watcher = watcher(&rig, &url(&rig));
    let secret = rig.scratch().join("hook.secret");
    std::fs::write(&secret, "a secret\n").expect("a file");
    let secret = secret.to_str().expect("UTF-8");
    // It is gone, and then sends us to another host, and then has it.
    let hook = Hook::new(|number| {
        Some(match number {
            0 => "500 Down",
            1 => "307 Elsewhere\r\nlocation: http://hooks.example.com/",
            _ => "204 Taken",
        })
    });
    let who = ["--identity", "member", "--from", "0"];
    let to = ["--webhook", &hook.url, "--webhook-secret", secret];
    let said = watcher.once(&[&who[..], &to].concat());
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert!(said.stderr.contains("500"), "{}", said.stderr);
    let posts = hook.posts();
    assert_eq!(posts.len(), 4, "three for the first, one for the second");
    for post in &posts[..3] {
        assert_eq!((post.json()["index"].as_u64()), Some(enrolled));
    }
    let post = &posts[3];
    let body = post.json();
    assert_eq!(post.header("content-type"), "application/json");
    assert_eq!(
        post.header("x-countersign-signature"),
        format!("sha256={}", hmac(b"a secret", &post.body))
    );
    let id = member.public().identity().to_string();
    let leaf = &rig.auditor.leaves()[usize::try_from(index).expect("an index")];
    for (member, due) in [
        ("format", json!("countersign.alert/1")),
        ("id", json!(format!("localhost/dev#{index}"))),
        ("kind", json!("receipt")),
        ("origin", json!("localhost/dev")),
        ("index", json!(index)),
        ("leaf_hash", json!(leaf_hash(leaf).to_hex())),
        ("matched", json!([{"signed_by": id}])),
        ("type", json!(TYPE)),
        (
            "evidence_url",
            json!(format!("{}/evidence/{index}", url(&rig))),
        ),
    ] {
        assert_eq!(body[member], due, "{member}: {body}");
    }
    assert_eq!(body["by"]["identity"], id);
    assert_eq!(body["by"]["class"], "agent_key");
    assert_eq!(said.alerts(), [&posts[0].json(), &body]);
    let evidence = rig.get(&format!("/log/dev/evidence/{index}"));
    assert_eq!(evidence.status, 200);

    // One that never takes it: the position stays before the alert.
    let before = watcher.done();
    rig.submit(&receipt("two", &member));
    let deaf = Hook::new(|_| Some("503 Busy"));
    let to = ["--webhook", &deaf.url];
    let said = watcher.once(&[&who[..], &to].concat());
    assert_eq!(said.code, Some(3), "{}", said.stderr);
    assert_eq!(watcher.done(), before);
    let said = watcher.once(&who);
    assert_eq!((said.code, said.indexes()), (Some(0), vec![before]));
    // In the clear to another machine: not unless that is asked for.
    let far = watcher.once(&[&who[..], &["--webhook", "http://hooks.example.com/x"]].concat());
    assert_eq!(far.code, Some(2), "{}", far.stderr);
}

#[test]
fn a_leaf_that_cannot_be_read_is_told_and_stops_nothing() {
    let mut rig = Rig::up();
    let mut copy = static_log(&mut rig, 300, &[299]);
    let newer = String::from_utf8(copy.leaves[5].clone()).expect("UTF-8");
    let newer = newer.replace("{\"v\":1", "{\"v\":2").into_bytes();
    copy.leaves[10] = newer;
    copy.leaves[11] = b"junk".to_vec();
    copy.leaves[12] = Vec::new();
    copy.leaves[256] = vec![0xff; 65_535];
    copy.publish();
    let watcher = watcher(&rig, copy.log());
    let said = watcher.once(&["--type", TYPE, "--from", "0"]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert_eq!(said.indexes(), [10, 11, 12, 256, 299]);
    let kinds: Vec<&Value> = said.alerts().iter().map(|row| &row["kind"]).collect();
    assert_eq!(
        kinds,
        [
            "unreadable",
            "unreadable",
            "unreadable",
            "unreadable",
            "receipt"
        ]
    );
    let why = said.alerts()[0]["what"].as_str().unwrap_or_default();
    assert!(why.contains("newer"), "{why}");
    assert_eq!(said.complete(), [300]);
    // Of another application nothing is read, and sizes are told.
    copy.leaves[0] = b"of another application".to_vec();
    copy.publish();
    let _ = std::fs::remove_file(&watcher.state);
    let refused = watcher.once(&["--type", TYPE, "--from", "0"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    let opaque = watcher.once(&["--from", "0"]);
    assert_eq!((opaque.code, opaque.complete()), (Some(0), vec![300]));
    assert!(opaque.alerts().is_empty());
}

/// The root of the first leaves of a log.
fn root_of(leaves: &[Vec<u8>]) -> Hash {
    let hashes = leaves.iter().map(|leaf| leaf_hash(leaf));
    hashes.collect::<Range>().root()
}

#[test]
fn a_log_that_is_not_what_it_was_ends_the_watch_and_both_heads_are_kept() {
    let mut rig = Rig::up();
    let key = VerifierKey::parse(&rig.service.vkey).expect("a key");
    let mut copy = static_log(&mut rig, 600, &[300]);
    let good = copy.leaves.clone();
    let watcher = watcher(&rig, copy.log());
    let args = ["--type", TYPE, "--from", "0"];
    assert_eq!(watcher.once(&args).code, Some(0));
    let kept = std::fs::read(&watcher.state).expect("the state");
    let forks = PathBuf::from(format!("{}.forks", watcher.state.display()));

    // An older head of the same history: stale, and no fault.
    copy.sign("localhost/dev", 500, root_of(&good[..500]));
    let stale = watcher.once(&args);
    assert_eq!(stale.code, Some(3), "{}", stale.stderr);
    assert!(stale.stderr.contains("stale"), "{}", stale.stderr);

    // Rewritten, and grown.
    copy.leaves.swap(20, 300);
    copy.leaves.extend(good[1..100].to_vec());
    copy.publish();
    let hook = Hook::new(|_| Some("200 OK"));
    let said = watcher.once(&[&args[..], &["--webhook", &hook.url]].concat());
    assert_eq!(said.code, Some(1), "{}", said.stderr);
    let alert = said.alerts()[0];
    assert_eq!(
        (alert["kind"].as_str(), said.alerts().len()),
        (Some("rewritten"), 1)
    );
    let sizes = [&alert["against"]["size"], &alert["checkpoint"]["size"]];
    assert_eq!(sizes, [&json!(600), &json!(699)]);
    assert_eq!(hook.posts()[0].json(), *alert);
    let fork = Fork::parse(alert["fork"].as_str().expect("evidence").as_bytes());
    let fork = fork.expect("evidence");
    fork.verify("localhost/dev", [&key])
        .expect("evidence that convinces a stranger");
    let files = below(&forks);
    for (ending, count) in [(".checkpoint", 1), (".now", 1), (".fork.json", 1)] {
        let found = files.iter().filter(|name| name.ends_with(ending)).count();
        assert_eq!(found, count, "{ending}: {files:?}");
    }
    // It is told again, under the same id.
    let again = watcher.once(&args);
    assert_eq!(again.alerts()[0]["id"], alert["id"]);

    // Shrunk: nothing beyond the smaller head is served.
    copy.leaves = good[..400].to_vec();
    copy.publish();
    let said = watcher.once(&args);
    assert_eq!(said.code, Some(1), "{}", said.stderr);
    assert_eq!(said.alerts()[0]["kind"], "shrunk");
    assert_eq!(std::fs::read(&watcher.state).expect("the state"), kept);

    // Back again, and on.
    copy.leaves = [&good[..], &good[1..11]].concat();
    copy.publish();
    let said = watcher.once(&args);
    assert_eq!((said.code, said.complete()), (Some(0), vec![610]));

    // Entries that are not those that were signed: nothing is told of them.
    copy.leaves.push(good[300].clone());
    copy.publish();
    let bundle = copy.folder.join("tile/entries/002.p/99");
    let mut bytes = std::fs::read(&bundle).expect("a bundle");
    let last = bytes.len() - 10;
    bytes[last] ^= 1;
    std::fs::write(&bundle, &bytes).expect("a bundle");
    let said = watcher.once(&args);
    assert_eq!(
        (said.code, said.alerts().len()),
        (Some(1), 0),
        "{}",
        said.stderr
    );
    assert_eq!(watcher.done(), 610);
    bytes[last] ^= 1;
    std::fs::write(&bundle, &bytes).expect("a bundle");
    assert_eq!(watcher.once(&args).indexes(), [610]);

    // Not there, and not signed.
    copy.put("checkpoint", b"localhost/dev\n611\n");
    assert_eq!(watcher.once(&args).code, Some(1));
    std::fs::remove_file(copy.folder.join("checkpoint")).expect("a file");
    assert_eq!(watcher.once(&args).code, Some(3));
    let gone = Watcher {
        log: "http://127.0.0.1:1/log/dev".into(),
        ..watcher
    };
    assert_eq!(gone.once(&args).code, Some(3));
}

fn below(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        if entry.path().is_dir() {
            found.extend(below(&entry.path()));
        } else {
            found.push(entry.path().display().to_string());
        }
    }
    found
}

#[test]
fn a_position_that_is_lost_or_another_log_s_is_never_nothing_new() {
    // B187
    let mut rig = Rig::up();
    let mut copy = static_log(&mut rig, 300, &[7]);
    let watcher = watcher(&rig, copy.log());
    let args = ["--type", TYPE];
    let lost = watcher.once(&args);
    assert_eq!(lost.code, Some(2), "{}", lost.stderr);
    assert!(lost.stderr.contains("cursor is lost"), "{}", lost.stderr);
    let begin = [&args[..], &["--from", "0"]].concat();
    assert_eq!(watcher.once(&begin).indexes(), [7]);
    assert_eq!(watcher.once(&args).code, Some(0));
    let good = std::fs::read_to_string(&watcher.state).expect("the state");
    for (text, word) in [
        (String::new(), "cursor is lost"),
        (good[..good.len() / 2].to_owned(), "cursor is lost"),
        (
            good.replacen("\"size\":300", "\"size\":200", 1),
            "cursor is lost",
        ),
        (good.replacen("watch/1", "watch/2", 1), "format"),
    ] {
        std::fs::write(&watcher.state, text).expect("a file");
        // Not even where it is said where to begin: that is for a file that is not there.
        for args in [&args[..], &begin] {
            let refused = watcher.once(args);
            assert_eq!(refused.code, Some(2), "{word}: {}", refused.stderr);
            assert!(refused.stderr.contains(word), "{word}: {}", refused.stderr);
            assert!(refused.rows.is_empty());
        }
    }
    std::fs::write(&watcher.state, &good).expect("a file");
    // A name or a key would need the leaves before.
    let named = watcher.once(&["--identity", "member"]);
    assert_eq!(named.code, Some(2), "{}", named.stderr);
    assert!(named.stderr.contains("identity list"), "{}", named.stderr);
    // Another log, of a policy that names both.
    let PrivateKey::Ed25519(secret) =
        PrivateKey::from_secret(Algorithm::Ed25519, &[7; 32]).expect("a key")
    else {
        panic!("an Ed25519 key");
    };
    copy.signer = NoteSigner::new("example.com/other", secret).expect("a name");
    copy.sign("example.com/other", 300, root_of(&copy.leaves));
    let policy = rig.scratch().join("policy.both");
    let text = format!(
        "log {}\nlog {}\nquorum none\n",
        rig.service.vkey,
        copy.signer.vkey()
    );
    std::fs::write(&policy, text).expect("a policy");
    let both = Watcher { policy, ..watcher };
    let refused = both.once(&args);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("example.com/other"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_log_is_followed_while_it_grows_and_over_a_restart() {
    // B186: each leaf once and in order, however many come meanwhile.
    let mut rig = Rig::up();
    let member = key("member");
    rig.enroll("member", &member);
    let lines = |round: usize| -> Vec<Vec<u8>> {
        let line = |n| receipt(&format!("{round}-{n}"), &member).to_json();
        (0..40).map(line).collect()
    };
    rig.submit_lines(&lines(0));
    let dir = rig.dir().display().to_string();
    let watcher = watcher(&rig, &dir);
    let args = ["--type", TYPE, "--interval", "20ms", "--from", "0"];
    let running = Running::start(&watcher, &args);
    running.until(|row| row["event"] == "complete");
    for round in 1..6 {
        rig.submit_lines(&lines(round));
    }
    // It goes on under another URL.
    rig.restart();
    rig.submit_lines(&lines(6));
    let size = rig.size();
    let rows = running.until(|row| row["event"] == "complete" && row["complete"] == size);
    running.kill();
    let indexes: Vec<u64> = rows
        .iter()
        .filter_map(|row| row["index"].as_u64())
        .collect();
    let due: Vec<u64> = (size - 6 * 40..size).collect();
    assert_eq!(indexes, due);
    assert_eq!(watcher.done(), size);
}

#[test]
fn the_same_payload_twice_is_heard_of_twice_and_looked_up_earliest_first() {
    // B192: the same payload under two keys of one identity, and in two logs.
    let mut rig = Rig::up();
    let member = key("member");
    rig.enroll("member", &member);
    let first = rig.submit(&receipt("same", &member)).index();
    let id = member.public().identity();
    let newer = key("member's new key");
    let rotated = rig.call(
        "identity_rotate",
        json!({
            "identity": id.to_string(),
            "public_key": spki(&newer),
            "possession": possession_of(&newer, id),
        }),
    );
    assert_eq!(rotated.status, 200, "{}", rotated.text());
    let second = rig.submit(&receipt("same", &newer)).index();
    let payload = hex(&receipt("same", &newer).payload);
    let found = rig.get(&format!("/log/dev/lookup?payload_sha256={payload}"));
    let rows: Vec<u64> = found.json()["entries"]
        .as_array()
        .expect("entries")
        .iter()
        .filter_map(|row| row["index"].as_u64())
        .collect();
    assert_eq!(rows, [first, second]);
    let watcher = watcher(&rig, &url(&rig));
    let said = watcher.once(&["--subject", &payload, "--from", "0"]);
    assert_eq!(said.indexes(), [first, second], "{}", said.stderr);
    // By the newer key what it signed, and who it is.
    let vkey = rig.scratch().join("newer.pub");
    std::fs::write(&vkey, newer.public().spki_pem()).expect("a file");
    let other = Watcher {
        state: rig.scratch().join("other.state"),
        ..watcher
    };
    let by_key = ["--identity", vkey.to_str().expect("UTF-8"), "--from", "0"];
    let said = other.once(&by_key);
    assert_eq!(said.indexes(), [second - 1, second], "{}", said.stderr);
    // A copy of the log under another origin is another log, whose alerts have other ids.
    let mut copy = Copy::of(&rig, "second");
    let PrivateKey::Ed25519(secret) =
        PrivateKey::from_secret(Algorithm::Ed25519, &[9; 32]).expect("a key")
    else {
        panic!("an Ed25519 key");
    };
    copy.signer = NoteSigner::new("example.com/second", secret).expect("a name");
    copy.sign("example.com/second", rig.size(), root_of(&copy.leaves));
    let policy = rig.scratch().join("policy.second");
    let text = format!("log {}\nquorum none\n", copy.signer.vkey());
    std::fs::write(&policy, text).expect("a policy");
    let shard = Watcher {
        log: copy.log().to_owned(),
        policy,
        state: rig.scratch().join("second.state"),
    };
    let said = shard.once(&["--subject", &payload, "--from", "0"]);
    let ids: Vec<&Value> = said.alerts().iter().map(|row| &row["id"]).collect();
    let due = [first, second].map(|index| json!(format!("example.com/second#{index}")));
    assert_eq!(ids, due.iter().collect::<Vec<_>>());
}
