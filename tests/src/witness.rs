//! A witness as its own executable: made, asked, killed at any moment, asked again. Of each log it cosigns one branch only.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use countersign_verifier::{
    add_checkpoint,
    checkpoint::{Checkpoint, origin_hash},
    hash::{EMPTY_ROOT, Hash, leaf_hash},
    key::PrivateKey,
    note::{Note, join, open, parse_signatures},
    tile::hash_of,
    vkey::{NoteSigner, VerifierKey},
};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

mod gossip;

use crate::rig::{Http, clean, countersign_witness, forget, keep, key, seed};

const NAME: &str = "witness.example/black-box";
const KILLS: u64 = 20;
const LOGS: u64 = 3;

/// A log that a test signs for.
#[derive(Clone)]
struct Log {
    signer: NoteSigner,
    leaves: Vec<Hash>,
}

impl Log {
    fn new(origin: &str) -> Log {
        let PrivateKey::Ed25519(key) = key(origin) else {
            panic!("a key of Ed25519")
        };
        let signer = NoteSigner::new(origin, key).expect("a signer");
        let leaves = Vec::new();
        Log { signer, leaves }
    }

    fn origin(&self) -> &str {
        &self.signer.vkey().name
    }

    fn grow(&mut self, branch: &str, size: usize) {
        for n in self.leaves.len()..size {
            self.leaves
                .push(leaf_hash(format!("{branch} {n}").as_bytes()));
        }
    }

    fn head(&self, size: usize) -> Checkpoint {
        Checkpoint {
            origin: self.origin().to_owned(),
            size: size as u64,
            root: match size {
                0 => EMPTY_ROOT,
                size => hash_of(&self.leaves[..size]),
            },
            extensions: Vec::new(),
        }
    }

    /// The whole of this branch, with a proof from `old`.
    fn request(&self, old: usize) -> String {
        let new = self.leaves.len();
        let proof = match old {
            0 => Vec::new(),
            old if old >= new => Vec::new(),
            old => subproof(&self.leaves, old, true),
        };
        add_checkpoint::request(old as u64, &proof, &self.note(new))
    }

    fn note(&self, size: usize) -> String {
        let text = self.head(size).to_text();
        join(&text, [self.signer.sign(&text).as_str()])
    }
}

/// By the definition in RFC 6962 section 2.1.2.
fn subproof(leaves: &[Hash], old: usize, whole: bool) -> Vec<Hash> {
    if old == leaves.len() {
        return if whole { vec![] } else { vec![hash_of(leaves)] };
    }
    let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
    let (mut below, sibling) = if old <= left.len() {
        (subproof(left, old, whole), right)
    } else {
        (subproof(right, old - left.len(), false), left)
    };
    below.push(hash_of(sibling));
    below
}

/// A witness's directory and what runs on it.
pub struct Witness {
    pub dir: PathBuf,
    vkeys: Vec<VerifierKey>,
    running: Option<(Child, SocketAddr)>,
    _home: TempDir,
}

impl Witness {
    pub fn init(more: &[&str]) -> Witness {
        let home = tempfile::tempdir().expect("a temporary folder");
        let dir = home.path().join("w");
        let made = command(&dir, &[&["init", "--name", NAME], more].concat());
        assert_eq!(made.status.code(), Some(0), "{made:?}");
        let vkeys = text(&made.stdout);
        let vkeys = vkeys
            .lines()
            .map(|line| VerifierKey::parse(line).expect(line));
        Witness {
            vkeys: vkeys.collect(),
            dir,
            running: None,
            _home: home,
        }
    }

    pub fn command(&self, arguments: &[&str]) -> Output {
        command(&self.dir, arguments)
    }

    fn add(&self, log: &Log) {
        let done = self.command(&["add-log", &log.signer.vkey().to_string()]);
        assert_eq!(done.status.code(), Some(0), "{done:?}");
    }

    fn serve(&mut self) -> SocketAddr {
        self.serve_with(&[])
    }

    pub fn serve_with(&mut self, more: &[&str]) -> SocketAddr {
        let mut child = clean(countersign_witness())
            .args(["serve", "--listen", "127.0.0.1:0", "--dir"])
            .arg(&self.dir)
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("countersign-witness starts");
        keep(&child);
        let mut line = String::new();
        let stdout = child.stdout.take().expect("its standard output");
        BufReader::new(stdout)
            .read_line(&mut line)
            .expect("a ready line");
        let words: Vec<&str> = line.trim_end().split(' ').collect();
        let &["ready", url, name, vkey] = &words[..] else {
            panic!("not a ready line: {line:?}");
        };
        assert_eq!(name, format!("name={NAME}"));
        assert_eq!(vkey, format!("vkey={}", self.vkeys[0]));
        let address = url.strip_prefix("http://").expect("http");
        let address = address.parse().expect("an address");
        self.running = Some((child, address));
        address
    }

    fn kill(&mut self) {
        if let Some((mut child, _)) = self.running.take() {
            let _ = child.kill();
            child.wait().expect("its end");
            forget(&child);
        }
    }

    /// SIGTERM; its exit code.
    fn stop(&mut self) -> Option<i32> {
        let (mut child, _) = self.running.take().expect("a running witness");
        kill_process(Pid::from_child(&child), Signal::TERM).expect("a signal");
        let status = child.wait().expect("its end");
        forget(&child);
        status.code()
    }

    /// The head that it shows, opened under its keys.
    fn newest(&self, http: &mut Http, log: &Log) -> Option<Checkpoint> {
        let hash = origin_hash(log.origin()).to_hex();
        let answer = http.get(&format!("/{hash}/checkpoint"));
        if answer.status == 404 {
            return None;
        }
        assert_eq!(answer.status, 200);
        let note = Note::parse(&answer.body).expect("a note");
        let lines = open(&note, &self.vkeys).expect("its own lines");
        assert_eq!(lines.len(), self.vkeys.len());
        Some(Checkpoint::parse(note.text).expect("a checkpoint"))
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.kill();
    }
}

fn command(dir: &Path, arguments: &[&str]) -> Output {
    let mut command: Command = clean(countersign_witness());
    command.args(arguments).arg("--dir").arg(dir);
    command.output().expect("countersign-witness runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn size(text: &str) -> usize {
    text.trim_end().parse().expect("a size")
}

/// Lets a log grow until the witness is gone, following what it is told. The largest size that was cosigned.
fn hammer(
    mut http: Http,
    log: &mut Log,
    mut old: usize,
    vkeys: &[VerifierKey],
    over: &AtomicBool,
    answered: &AtomicU64,
) -> usize {
    let mut cosigned = old;
    while !over.load(Ordering::Relaxed) {
        log.grow("trunk", old + 1 + old % 3);
        let sent = http.try_send("POST", "/add-checkpoint", &[], log.request(old).as_bytes());
        let Ok(answer) = sent else { break };
        match answer.status {
            200 => {
                let lines = parse_signatures(&answer.body).expect("lines");
                assert_eq!(lines.len(), vkeys.len());
                let signed = log.head(log.leaves.len()).to_text();
                for (line, vkey) in lines.iter().zip(vkeys) {
                    vkey.verify(&signed, &line.signature).expect("our line");
                }
                cosigned = log.leaves.len();
                old = cosigned;
                answered.fetch_add(1, Ordering::Relaxed);
            }
            409 => old = size(&answer.text()),
            status => panic!("{status}: {}", answer.text()),
        }
    }
    cosigned
}

#[test]
fn what_was_cosigned_survives_every_kill_and_no_other_branch_has_a_chance() {
    // 7.3, P003, B086
    let mut random = seed("witness kill");
    let mut witness = Witness::init(&["--ml-dsa"]);
    let mut logs: Vec<Log> = (0..LOGS)
        .map(|n| Log::new(&format!("log.example/{n}")))
        .collect();
    logs.iter().for_each(|log| witness.add(log));
    let mut sizes = vec![0; logs.len()];
    let mut total = 0;
    for round in 0..KILLS {
        let address = witness.serve();
        let (over, answered) = (AtomicBool::new(false), AtomicU64::new(0));
        let first = random.below(12);
        let pause = Duration::from_micros(random.below(20_000));
        thread::scope(|scope| {
            let clients: Vec<_> = logs
                .iter_mut()
                .zip(&sizes)
                .map(|(log, &old)| {
                    let (over, answered, vkeys) = (&over, &answered, &witness.vkeys);
                    let http = Http::new(address, None);
                    scope.spawn(move || hammer(http, log, old, vkeys, over, answered))
                })
                .collect();
            while answered.load(Ordering::Relaxed) < first {
                thread::yield_now();
            }
            thread::sleep(pause);
            // Through its number: the clients hold the rest of it.
            let (child, _) = witness.running.as_ref().expect("it runs");
            kill_process(Pid::from_child(child), Signal::KILL).expect("a signal");
            over.store(true, Ordering::Relaxed);
            for (client, size) in clients.into_iter().zip(&mut sizes) {
                *size = client.join().expect("a client");
            }
        });
        witness.kill();
        total += answered.into_inner();
        let mut http = Http::new(witness.serve(), None);
        for (log, cosigned) in logs.iter_mut().zip(&mut sizes) {
            let stored = witness.newest(&mut http, log);
            let found = stored.as_ref().map_or(0, |head| head.size);
            let found = usize::try_from(found).expect("a small tree");
            assert!(
                found >= *cosigned,
                "round {round}: {cosigned} was answered, {found} is stored"
            );
            assert!(found <= log.leaves.len(), "round {round}");
            if let Some(head) = stored {
                assert_eq!(head, log.head(found), "round {round}");
            }
            // Another branch from what was answered, if more is stored or not.
            let mut fork = log.clone();
            fork.leaves.truncate(found.saturating_sub(1));
            fork.grow(&format!("fork {round}"), found + 2);
            if found > 0 {
                for old in [found, *cosigned, 0] {
                    let answer = http.post(
                        "/add-checkpoint",
                        "text/plain",
                        fork.request(old).as_bytes(),
                    );
                    assert!([409, 422].contains(&answer.status), "{}", answer.text());
                }
            }
            // The same request as was perhaps not answered: it is told how far it came, and then cosigned.
            let answer = http.post(
                "/add-checkpoint",
                "text/plain",
                log.request(*cosigned).as_bytes(),
            );
            if answer.status == 409 {
                assert_eq!(size(&answer.text()), found);
                let again = http.post(
                    "/add-checkpoint",
                    "text/plain",
                    log.request(found).as_bytes(),
                );
                assert_eq!(again.status, 200, "{}", again.text());
            } else {
                assert_eq!(answer.status, 200, "{}", answer.text());
            }
            *cosigned = log.leaves.len();
        }
        witness.kill();
    }
    assert!(total > 50, "{total} cosignatures were no load");
}

#[test]
fn an_operator_makes_serves_and_lists() {
    let mut witness = Witness::init(&[]);
    let again = witness.command(&["init", "--name", NAME]);
    assert_eq!(again.status.code(), Some(2), "never over another one");
    assert!(text(&witness.command(&["list"]).stdout).contains("ORIGIN"));
    let (mut a, b) = (Log::new("a.example"), Log::new("b.example"));
    witness.add(&a);
    let refused = witness.command(&["add-log", &witness.vkeys[0].to_string()]);
    assert_eq!(refused.status.code(), Some(1), "T47, T16");
    let mut http = Http::new(witness.serve(), None);
    // Whoever takes the lock of the database for a leftover does not let a second one in.
    std::fs::remove_file(witness.dir.join("db/LOCK")).expect("the database's lock");
    let second = witness.command(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(second.status.code(), Some(4), "{}", text(&second.stderr));
    a.grow("trunk", 5);
    let answer = http.post("/add-checkpoint", "text/plain", a.request(0).as_bytes());
    assert_eq!(answer.status, 200);
    // While it runs: one more log, and a list that wants to change the first.
    witness.add(&b);
    let list = witness.dir.with_extension("list");
    let other = Log::new("c.example").signer.vkey().to_string();
    let lines = format!(
        "logs/v0\nvkey {other}\norigin a.example\nqpd 10\ncontact x\nvkey {other}\nqpd 10\ncontact x\n"
    );
    std::fs::write(&list, lines).expect("a list");
    let listed = witness.command(&["add-log", "--list", &list.display().to_string()]);
    assert_eq!(listed.status.code(), Some(0), "{listed:?}");
    assert_eq!(
        text(&listed.stdout),
        "kept as it is: a.example\nadded c.example\n"
    );
    assert!(http.get("/").text().contains("w.list"));
    let shown = witness.command(&["list", "--json"]);
    let rows: Vec<serde_json::Value> = text(&shown.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect(line))
        .collect();
    assert_eq!(rows.len(), 3);
    let row = rows.iter().find(|row| row["origin"] == "a.example");
    let row = row.expect("the log");
    assert_eq!(
        (&row["size"], &row["requests_today"]),
        (&5.into(), &1.into())
    );
    assert_eq!(witness.stop(), Some(0));
    // What was counted and what was cosigned is there after the end.
    let shown = text(&witness.command(&["list", "--json"]).stdout);
    assert!(
        shown.contains("\"size\":5") && shown.contains("\"requests_today\":1"),
        "{shown}"
    );
    std::fs::remove_file(witness.dir.join("witness.key")).expect("the key");
    let keyless = witness.command(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(keyless.status.code(), Some(5));
    let nowhere = command(&witness.dir.join("none"), &["serve"]);
    assert_eq!(nowhere.status.code(), Some(5));
    let bad = witness.command(&["serve", "--listen", "nonsense"]);
    assert_eq!(bad.status.code(), Some(2));
}
