//! A log among witnesses that are good, slow, dead, old, lying and ahead: what is published is always what a quorum cosigned,
//! and nothing is written that a quorum might contradict.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use countersign_verifier::{
    add_checkpoint::{self, AddCheckpoint},
    checkpoint::{Checkpoint, origin_hash},
    key::{Algorithm, PrivateKey},
    note::{Note, open},
    policy::Eras,
    tree::verify_consistency,
    vkey::CosignSigner,
};

mod clocks;
mod past;

use super::*;
use crate::{
    clock::{Clocks, Reading},
    judge::Judge,
    log::{Log, Options},
    store::{Store, memory::MemoryStore},
    writer::{
        Outcome, Stop, Until,
        tests::{Bytes, Rig, START, Set},
    },
};

/// How a witness behaves.
#[derive(Clone, Debug, PartialEq)]
enum Mood {
    Good,
    /// No connection.
    Dead,
    /// Takes requests and does not answer while this lasts.
    Silent,
    /// Answers this, whatever it is asked.
    Says(u16, &'static str, &'static str),
    /// Cosigns another text than it was shown.
    Forges,
    /// Knows no monitoring address, and no size for a root that differs.
    FirstVersion,
}

struct Fake {
    signer: CosignSigner,
    mood: Mood,
    /// Of the one log.
    held: Option<(Checkpoint, String)>,
    /// Everything that it ever cosigned.
    cosigned: Vec<Checkpoint>,
    /// Seconds by which its clock differs.
    clock: i64,
    asked: usize,
}

/// Witnesses by address.
struct Net(Mutex<HashMap<String, Fake>>);

fn reply(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Result<Reply, String> {
    Ok(Reply {
        status,
        content_type: content_type.into(),
        body: body.into(),
    })
}

impl Fake {
    fn add(&mut self, body: &str) -> Result<Reply, String> {
        self.asked += 1;
        let request = AddCheckpoint::parse(body.as_bytes()).unwrap();
        open(&request.note, [Rig::signer().vkey()]).unwrap();
        let new = Checkpoint::parse(request.note.text).unwrap();
        let (size, root) = self
            .held
            .as_ref()
            .map_or((0, None), |(c, _)| (c.size, Some(c.root)));
        if request.old != size {
            return reply(
                409,
                add_checkpoint::CONFLICT_TYPE,
                add_checkpoint::conflict(size),
            );
        }
        if let Some(root) = root.filter(|_| size > 0)
            && verify_consistency(size, &root, new.size, &new.root, &request.proof).is_err()
        {
            return match self.mood {
                Mood::FirstVersion => reply(409, "text/plain", "no"),
                _ => reply(422, "text/plain", "no"),
            };
        }
        let time = u64::try_from(i64::try_from(START / 1000).unwrap() + self.clock).unwrap();
        let text = match self.mood {
            Mood::Forges => "another text\n",
            _ => request.note.text,
        };
        let line = self.signer.sign(text, time);
        if self.mood != Mood::Forges {
            self.held = Some((new.clone(), request.note.to_string()));
            self.cosigned.push(new);
        }
        // Lines that nobody asked for are part of the weather.
        let other = CosignSigner::new("grease.example", key(99))
            .unwrap()
            .sign(text, time);
        reply(200, "text/plain", other + &line)
    }
}

fn key(seed: u8) -> ed25519_dalek::SigningKey {
    match PrivateKey::from_secret(Algorithm::Ed25519, &[seed; 32]) {
        Ok(PrivateKey::Ed25519(key)) => key,
        _ => panic!("an Ed25519 key"),
    }
}

impl Transport for Arc<Net> {
    fn post(&self, url: String, body: String) -> Answering {
        let net = self.clone();
        Box::pin(async move {
            let at = url.strip_suffix("/add-checkpoint").unwrap().to_owned();
            loop {
                match net.mood(&at) {
                    Mood::Dead => return Err("connection refused".into()),
                    Mood::Silent => tokio::time::sleep(Duration::from_millis(5)).await,
                    Mood::Says(status, kind, body) => return reply(status, kind, body),
                    _ => break,
                }
            }
            net.0.lock().unwrap().get_mut(&at).unwrap().add(&body)
        })
    }

    fn get(&self, url: String) -> Answering {
        let net = self.clone();
        Box::pin(async move {
            let (at, path) = url.split_once(".example/").unwrap();
            let at = format!("{at}.example");
            assert_eq!(
                path,
                format!("{}/checkpoint", origin_hash("log.example/a").to_hex())
            );
            match net.mood(&at) {
                Mood::Dead => Err("connection refused".into()),
                Mood::FirstVersion => reply(404, "text/plain", "404"),
                Mood::Says(status, kind, body) => reply(status, kind, body),
                _ => match &net.0.lock().unwrap()[&at].held {
                    Some((_, note)) => reply(200, "text/plain", note.clone()),
                    None => reply(404, "text/plain", "404"),
                },
            }
        })
    }
}

impl Net {
    fn mood(&self, at: &str) -> Mood {
        self.0.lock().unwrap()[at].mood.clone()
    }

    fn with<T>(&self, n: u8, work: impl FnOnce(&mut Fake) -> T) -> T {
        work(self.0.lock().unwrap().get_mut(&url(n)).unwrap())
    }

    fn set(&self, n: u8, mood: Mood) {
        self.with(n, |fake| fake.mood = mood);
    }
}

fn url(n: u8) -> String {
    format!("http://w{n}.example")
}

/// Clocks, and how often they are read.
struct Counted(Arc<Set>, Arc<AtomicU64>);

impl Clocks for Counted {
    fn read(&self) -> Reading {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.read()
    }
}

/// A log with `count` witnesses, of which those in the quorum come first.
struct World {
    net: Arc<Net>,
    store: Arc<MemoryStore>,
    clocks: Arc<Set>,
    /// How often they were read.
    reads: Arc<AtomicU64>,
    runtime: tokio::runtime::Runtime,
    policy: String,
    refresh: Duration,
    accept_clock: bool,
    log: Option<Log<Bytes>>,
}

impl World {
    /// `threshold` of `members`, and `extras` beside them. Nothing is started.
    fn new(threshold: u8, members: u8, extras: u8) -> World {
        let mut policy = format!("log {}\n", Rig::signer().vkey());
        let mut fakes = HashMap::new();
        for n in 1..=members + extras {
            let signer = CosignSigner::new(&format!("w{n}.example"), key(100 + n)).unwrap();
            policy += &format!("witness w{n} {} {}\n", signer.vkey(), url(n));
            let fake = Fake {
                signer,
                mood: Mood::Good,
                held: None,
                cosigned: Vec::new(),
                clock: 0,
                asked: 0,
            };
            fakes.insert(url(n), fake);
        }
        let names: Vec<String> = (1..=members).map(|n| format!("w{n}")).collect();
        policy += &format!("group q {threshold} {}\nquorum q\n", names.join(" "));
        World {
            net: Arc::new(Net(Mutex::new(fakes))),
            store: Arc::new(MemoryStore::new()),
            clocks: Arc::new(Set(Mutex::new((0, 0)))),
            reads: Arc::default(),
            runtime: tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_time()
                .build()
                .unwrap(),
            policy,
            refresh: Duration::from_secs(3_600),
            accept_clock: false,
            log: None,
        }
    }

    fn start(&mut self) {
        self.log = None;
        self.log = Some(self.open(self.store.clone()));
    }

    fn open(&self, store: Arc<MemoryStore>) -> Log<Bytes> {
        self.open_with(store, Eras::one(self.policy()))
    }

    fn open_with(&self, store: Arc<MemoryStore>, eras: Eras) -> Log<Bytes> {
        let witnesses = Witnesses {
            eras,
            transport: Arc::new(self.net.clone()),
            runtime: self.runtime.handle().clone(),
            pace: Pace {
                round_timeout: Duration::from_millis(50),
                head_interval: Duration::ZERO,
                refresh: self.refresh,
            },
        };
        Log::start(Options {
            origin: "log.example/a".into(),
            signer: Rig::signer(),
            store,
            judge: Bytes::default(),
            clocks: Arc::new(Counted(self.clocks.clone(), self.reads.clone())),
            witnesses: Some(witnesses),
            accept_clock: self.accept_clock,
        })
        .unwrap()
    }

    fn policy(&self) -> Policy {
        Policy::parse(&self.policy).unwrap()
    }

    fn log(&self) -> &Log<Bytes> {
        self.log.as_ref().unwrap()
    }

    /// The index, and whether it came as far as `until`.
    fn write(&self, leaf: &str, until: Until) -> Result<(u64, bool), Stop> {
        self.write_to(self.log(), leaf, until, Duration::from_secs(30))
    }

    fn write_to<J: Judge<Request = Vec<u8>, Refusal = &'static str>>(
        &self,
        log: &Log<J>,
        leaf: &str,
        until: Until,
        deadline: Duration,
    ) -> Result<(u64, bool), Stop> {
        let pending = log.submit(vec![leaf.into()], until).ok().unwrap();
        let (mut outcomes, reached) = self.runtime.block_on(pending.reached(deadline))?;
        match outcomes.pop() {
            Some(Outcome::Sequenced(leaf)) => Ok((leaf.index, reached)),
            Some(Outcome::Stopped(stop)) => Err(stop),
            other => panic!("{leaf}: {other:?}"),
        }
    }

    /// Waits until the log takes writes.
    fn ready(&mut self) {
        self.start();
        wait(|| self.log().status().stop.is_none() && self.published().0 > 0);
    }

    fn witnessed(&self, leaf: &str) -> u64 {
        let (index, reached) = self.write(leaf, Until::Witnessed).unwrap();
        assert!(reached, "{leaf}: {:?}", self.log().status());
        index
    }

    /// The published size, and who cosigned it. Whatever is published must meet the policy.
    fn published(&self) -> (u64, Vec<String>) {
        let published = self.log().reader().published();
        if published.note.is_empty() {
            return (0, Vec::new());
        }
        let note = Note::parse(published.note.as_bytes()).unwrap();
        let policy = self.policy();
        let accepted = policy.check(&note).unwrap();
        assert_eq!(accepted.checkpoint.size, published.head.size);
        let names = accepted.cosignatures.iter().map(|c| c.name.to_string());
        (published.head.size, names.collect())
    }

    /// No witness ever cosigned two branches, and what is committed holds every head that any of them cosigned.
    fn check(&self) {
        let reader = self.log().reader();
        let size = self.store.head().unwrap().0.size;
        for (at, fake) in &*self.net.0.lock().unwrap() {
            for head in &fake.cosigned {
                assert!(head.size <= size, "{at}");
                let root = crate::prove::Prover::new(&reader, head.size)
                    .root()
                    .unwrap();
                assert_eq!(root, head.root, "{at} at {}", head.size);
            }
        }
    }

    fn error(&self, n: u8) -> String {
        let status = self.log().status().witnesses;
        let status = &status.witnesses[usize::from(n) - 1];
        status
            .error
            .as_ref()
            .map_or(String::new(), |(why, _)| why.clone())
    }
}

fn wait(mut until: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !until() {
        assert!(Instant::now() < end, "it never came so far");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn what_is_published_is_what_a_quorum_cosigned() {
    let mut world = World::new(2, 3, 0);
    world.ready();
    for n in 1..=20 {
        assert_eq!(world.witnessed(&format!("leaf {n}")), n);
        assert!(world.published().1.len() >= 2);
    }
    world.check();
    // A line that comes late is published with the others (B032).
    wait(|| world.published() == (21, vec!["w1".into(), "w2".into(), "w3".into()]));
    let status = world.log().status();
    assert!(
        status
            .witnesses
            .witnesses
            .iter()
            .all(|w| w.error.is_none() && w.size == 21)
    );
    // And again after a restart, without a new leaf.
    world.ready();
    assert_eq!(world.published().0, 21);
    assert_eq!(world.witnessed("more"), 21);
    world.check();
}

#[test]
fn one_bad_witness_delays_and_breaks_nothing() {
    // B020, and whatever else a witness can say.
    let moods = [
        Mood::Dead,
        Mood::Silent,
        Mood::Forges,
        Mood::Says(409, "text/x.tlog.size", "99999999999999999999\n"),
        Mood::Says(409, "text/x.tlog.size", "500\n"),
        Mood::Says(409, "text/x.tlog.size", "0\n"),
        Mood::Says(409, "text/x.tlog.size", "1\n"),
        Mood::Says(409, "text/plain", "7\n"),
        Mood::Says(200, "text/plain", ""),
        Mood::Says(200, "text/plain", "hello\n"),
        Mood::Says(200, "text/plain", "\u{2014} w3.example AAAAAAAA\n"),
        Mood::Says(302, "", ""),
        Mood::Says(403, "", ""),
        Mood::Says(404, "", ""),
        Mood::Says(422, "", ""),
        Mood::Says(429, "", ""),
        Mood::Says(500, "text/html", "<html>"),
    ];
    for mood in moods {
        let mut world = World::new(2, 3, 0);
        world.ready();
        wait(|| world.published().1.len() == 3);
        world.net.set(3, mood.clone());
        for n in 1..=3 {
            assert_eq!(world.witnessed(&format!("leaf {n}")), n, "{mood:?}");
        }
        assert_eq!(world.published().1, ["w1", "w2"], "{mood:?}");
        if mood != Mood::Silent {
            wait(|| !world.error(3).is_empty());
        }
        world.check();
        world.net.set(3, Mood::Good);
        assert_eq!(world.witnessed("after"), 4, "{mood:?}");
        wait(|| world.published().1.len() == 3);
        assert_eq!(world.error(3), "", "{mood:?}");
        world.check();
    }
}

#[test]
fn b019_a_hint_is_followed_down_and_up() {
    let mut world = World::new(3, 3, 0);
    world.ready();
    for n in 1..=5 {
        world.witnessed(&format!("leaf {n}"));
    }
    // A witness that lost everything, and one that was put back from an older copy.
    let old = world.net.with(2, |fake| fake.held.clone());
    for n in 6..=9 {
        world.witnessed(&format!("leaf {n}"));
    }
    world.net.with(1, |fake| fake.held = None);
    world.net.with(2, |fake| fake.held = old);
    assert_eq!(world.witnessed("leaf 10"), 10);
    // One that is further than the log thinks: it answered, and the answer was lost.
    world.net.set(3, Mood::Dead);
    let (index, reached) = world
        .write_to(
            world.log(),
            "leaf 11",
            Until::Witnessed,
            Duration::from_millis(1),
        )
        .unwrap();
    assert_eq!((index, reached), (11, false));
    let held = world.net.with(1, |fake| fake.held.clone());
    world.net.with(3, |fake| {
        fake.held = held;
        fake.mood = Mood::Good;
    });
    assert_eq!(world.witnessed("leaf 12"), 12);
    world.check();
}

#[test]
fn b031_an_extra_witness_is_used_and_never_waited_for() {
    let mut world = World::new(1, 1, 1);
    world.ready();
    world.witnessed("a");
    wait(|| world.published().1.len() == 2);
    world.net.set(2, Mood::Silent);
    for n in 0..5 {
        world.witnessed(&format!("leaf {n}"));
        assert_eq!(world.published().1, ["w1"]);
    }
    world.net.set(2, Mood::Good);
    wait(|| world.published().1.len() == 2);
    world.check();
}

#[test]
fn a_lost_quorum_leaves_the_last_head_and_takes_writes() {
    let mut world = World::new(2, 3, 0);
    world.ready();
    world.witnessed("a");
    world.net.set(1, Mood::Dead);
    world.net.set(2, Mood::Silent);
    let published = world.published().0;
    for n in 0..30 {
        let leaf = format!("leaf {n}");
        assert_eq!(world.write(&leaf, Until::Sequenced), Ok((n + 2, true)));
        // The log's own signature is to be had.
        assert_eq!(world.write(&leaf, Until::Included), Ok((n + 2, true)));
        assert_eq!(world.log().reader().signed().head.size, n + 3);
    }
    wait(|| world.log().status().witnesses.quorum_lost_since.is_some());
    assert_eq!(world.published().0, published);
    // However long it lasts, few heads are remembered: one that is out, and the newest that clients saw.
    assert!(world.store.signed().unwrap().len() <= 3);
    world.start();
    wait(|| world.log().status().stop.is_some());
    assert!(matches!(
        world.write("not yet", Until::Sequenced),
        Err(Stop::Unguarded(_))
    ));
    world.net.set(1, Mood::Good);
    world.net.set(2, Mood::Good);
    wait(|| world.published().0 == 32);
    assert_eq!(world.witnessed("b"), 32);
    wait(|| world.log().status().witnesses.quorum_lost_since.is_none());
    world.check();
}

#[test]
fn a_head_that_one_witness_holds_is_remembered_over_restarts() {
    let mut world = World::new(2, 2, 0);
    world.ready();
    world.witnessed("a");
    world.net.set(2, Mood::Dead);
    // The first witness holds this one, and its quorum is never met; more is signed for clients, and again after a restart.
    assert_eq!(world.write("b", Until::Included), Ok((2, true)));
    wait(|| world.net.with(1, |fake| fake.held.as_ref().unwrap().0.size) == 3);
    for leaf in ["c", "d"] {
        assert!(world.write(leaf, Until::Included).unwrap().1);
    }
    for _ in 0..2 {
        world.start();
        wait(|| world.error(1).is_empty() && !world.error(2).is_empty());
    }
    world.net.set(2, Mood::Good);
    wait(|| world.published().0 == 5);
    assert_eq!(world.witnessed("e"), 5);
    world.check();
}

#[test]
fn a_head_that_a_client_took_to_a_witness_holds_nothing_up() {
    let mut world = World::new(2, 2, 0);
    world.ready();
    world.witnessed("a");
    world.net.set(1, Mood::Dead);
    world.net.set(2, Mood::Dead);
    assert_eq!(world.write("b", Until::Included), Ok((2, true)));
    wait(|| !world.error(1).is_empty() && !world.error(2).is_empty());
    // Two more heads that clients alone have seen; somebody takes the first of them to both witnesses, and a third replaces it.
    assert_eq!(world.write("c", Until::Included), Ok((3, true)));
    let reader = world.log().reader();
    let taken = reader.signed();
    let held = Checkpoint::parse(Note::parse(taken.note.as_bytes()).unwrap().text).unwrap();
    assert_eq!(world.write("d", Until::Included), Ok((4, true)));
    for n in 1..=2 {
        world.net.with(n, |fake| {
            fake.held = Some((held.clone(), taken.note.clone()));
            fake.cosigned.push(held.clone());
        });
    }
    let (store, policy) = (world.store.copy(), world.policy.clone());
    // While it runs, and after a restart.
    world.net.set(1, Mood::Good);
    world.net.set(2, Mood::Good);
    wait(|| world.published().0 == 5);
    world.check();
    let mut again = World::new(2, 2, 0);
    assert_eq!(again.policy, policy);
    again.store = Arc::new(store);
    for n in 1..=2 {
        again.net.with(n, |fake| {
            fake.held = Some((held.clone(), taken.note.clone()))
        });
    }
    again.start();
    wait(|| again.published().0 == 5);
    assert_eq!(again.witnessed("e"), 5);
}

#[test]
fn a_cosignature_that_verifiers_do_not_count_publishes_nothing() {
    let mut world = World::new(2, 3, 0);
    world.ready();
    world.net.set(3, Mood::Dead);
    world.net.with(1, |fake| fake.clock = 3_600);
    let (_, reached) = world
        .write_to(
            world.log(),
            "a",
            Until::Witnessed,
            Duration::from_millis(300),
        )
        .unwrap();
    assert!(!reached);
    wait(|| world.error(1).contains("ahead"));
    assert_eq!(world.published().0, 1);
    // Nor does a time beyond all reckoning hide the others'.
    world.net.with(1, |fake| fake.clock = i64::MAX / 2);
    world.net.set(3, Mood::Good);
    wait(|| world.published() == (2, vec!["w2".into(), "w3".into()]));
}

#[test]
fn a_writer_that_panics_keeps_nobody_from_closing() {
    let mut world = World::new(2, 3, 0);
    world.ready();
    assert_eq!(world.write("panic", Until::Witnessed), Err(Stop::Died));
    wait(|| matches!(world.log().status().stop, Some(Stop::Died)));
    world.log().close();
}

#[test]
fn nothing_is_written_before_the_witnesses_have_answered() {
    let mut world = World::new(2, 3, 0);
    for n in 1..=3 {
        world.net.set(n, Mood::Dead);
    }
    // A first start too: somebody else may have begun this log with a copy of its key.
    world.start();
    for mood in [
        Mood::Dead,
        Mood::Says(404, "", ""),
        Mood::Says(200, "", "yes\n"),
    ] {
        world.net.set(1, mood);
        assert!(matches!(
            world.write("a", Until::Sequenced),
            Err(Stop::Unguarded(_))
        ));
    }
    assert_eq!(world.store.head().unwrap().0.size, 0);
    // One of three is in no way in every quorum of two; two are.
    world.net.set(1, Mood::Good);
    wait(|| world.error(1).is_empty());
    assert!(matches!(
        world.write("a", Until::Sequenced),
        Err(Stop::Unguarded(_))
    ));
    world.net.set(3, Mood::FirstVersion);
    wait(|| world.published().0 == 1);
    assert_eq!(world.witnessed("a"), 1);
    world.check();
}

#[test]
fn b108_an_older_copy_never_writes_again() {
    for (mood, shows) in [(Mood::Good, true), (Mood::FirstVersion, false)] {
        let mut world = World::new(2, 3, 0);
        world.ready();
        world.witnessed("a");
        let older = Arc::new(world.store.copy());
        world.witnessed("b");
        wait(|| world.published().1.len() == 3);
        let newer = std::mem::replace(&mut world.store, older);
        for n in 1..=3 {
            world.net.set(n, mood.clone());
        }
        world.start();
        if shows {
            wait(|| matches!(world.log().status().stop, Some(Stop::Guard(_))));
            let Some(Stop::Guard(why)) = world.log().status().stop else {
                panic!("refused for good")
            };
            assert!(why.contains("size 3") && why.contains("size 2"), "{why}");
            assert!(why.contains("countersign recover"), "{why}");
        } else {
            wait(|| (1..=3).all(|n| world.error(n).contains("holds size 3")));
            assert!(matches!(
                world.write("c", Until::Sequenced),
                Err(Stop::Unguarded(_))
            ));
        }
        assert_eq!(world.store.head().unwrap().0.size, 2);
        if shows {
            // No later start forgets it, whoever answers then.
            for n in 1..=3 {
                world.net.set(n, Mood::Dead);
            }
            world.start();
            let stop = world.log().status().stop;
            assert!(matches!(stop, Some(Stop::Guard(_))), "{stop:?}");
            assert!(world.write("c", Until::Sequenced).is_err());
            for n in 1..=3 {
                world.net.set(n, mood.clone());
            }
        }
        // What is missing is back, and so is writing.
        world.log = None;
        world.store = newer;
        world.ready();
        assert_eq!(world.witnessed("c"), 3);
        world.check();
    }
}

#[test]
fn a_running_clone_is_found_out_by_whoever_comes_second() {
    // B193
    let mut world = World::new(2, 3, 0);
    world.ready();
    world.witnessed("a");
    wait(|| world.published().1.len() == 3);
    // Both pass the guard: nothing has happened since. Then both write.
    let clone = world.open(Arc::new(world.store.copy()));
    wait(|| clone.status().stop.is_none());
    let one = world.write("of the log", Until::Sequenced).unwrap().0;
    let other = world.write_to(
        &clone,
        "of the clone",
        Until::Sequenced,
        Duration::from_secs(30),
    );
    assert_eq!((one, other.map(|o| o.0)), (2, Ok(2)));
    wait(|| {
        [world.log(), &clone]
            .iter()
            .any(|log| matches!(log.status().stop, Some(Stop::Guard(_))))
    });
    // Each witness has one branch, and of the two histories no quorum can have had both.
    let mut cosigners = std::collections::BTreeMap::new();
    for fake in world.net.0.lock().unwrap().values() {
        let mut own = std::collections::BTreeMap::new();
        for head in &fake.cosigned {
            assert_eq!(*own.entry(head.size).or_insert(head.root), head.root);
        }
        for (size, root) in own {
            *cosigners.entry((size, root.0)).or_insert(0) += 1;
        }
    }
    for size in 1..10 {
        let quorums = cosigners
            .iter()
            .filter(|((s, _), n)| *s == size && **n >= 2);
        assert!(quorums.count() <= 1, "at size {size}");
    }
}

#[test]
fn a_witness_put_back_does_not_let_an_older_log_pass() {
    let mut world = World::new(2, 3, 0);
    world.ready();
    world.witnessed("a");
    wait(|| world.published().1.len() == 3);
    let held = world.net.with(1, |fake| fake.held.clone());
    let older = Arc::new(world.store.copy());
    world.witnessed("b");
    wait(|| world.published().1.len() == 3);
    // Log and one witness from the same night's copies: the other two know better, and while they are away nobody is asked to sign.
    world.net.with(1, |fake| fake.held = held);
    world.net.set(2, Mood::Dead);
    world.net.set(3, Mood::Dead);
    world.store = older;
    world.start();
    wait(|| !world.error(2).is_empty() && !world.error(3).is_empty());
    assert!(matches!(
        world.write("c", Until::Sequenced),
        Err(Stop::Unguarded(_))
    ));
    world.net.set(2, Mood::Good);
    wait(|| matches!(world.log().status().stop, Some(Stop::Guard(_))));
    assert_eq!(
        world.net.with(1, |fake| fake.held.as_ref().unwrap().0.size),
        2
    );
}

#[test]
fn an_idle_log_refreshes_its_cosignatures() {
    let mut world = World::new(2, 2, 0);
    world.refresh = Duration::from_millis(20);
    world.ready();
    world.witnessed("a");
    let note = world.log().reader().published().note.clone();
    for n in 1..=2 {
        world.net.with(n, |fake| fake.clock = 20);
    }
    wait(|| world.log().reader().published().note != note && world.published().1.len() == 2);
    assert_eq!(world.published().0, 2, "and adds no leaf");
    world.check();
}

#[test]
fn a_clock_that_a_quorum_disputes_stops_writing_and_one_witness_alone_does_not() {
    let mut world = World::new(2, 3, 0);
    world.ready();
    world.net.with(1, |fake| fake.clock = 100_000);
    for n in 0..5 {
        world.witnessed(&format!("leaf {n}"));
    }
    world.net.with(2, |fake| fake.clock = 90_000);
    world.net.set(3, Mood::Dead);
    assert!(world.write("last", Until::Sequenced).is_ok());
    wait(|| {
        let _ = world.write("x", Until::Sequenced);
        matches!(world.log().status().stop, Some(Stop::Clock(_)))
    });
}
