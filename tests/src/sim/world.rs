//! A log with everything around it that can go wrong, and what must hold after each step.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use countersign_api::{
    error::Problem,
    ledger::{Ledger, Request},
    state::{Opened, State, opened},
};
use countersign_log::{
    Clocks, Head, Log, Options, Outcome, Pace, Stop, Until, Witnesses, clock::Reading,
};
use countersign_verifier::{
    key::{Algorithm, PrivateKey},
    policy::{Eras, Policy},
    vkey::NoteSigner,
};

use crate::{
    disk::{Disk, Flaw},
    model::Model,
    net::{Net, Wire},
};

use holds::Checked;

mod holds;

pub const ORIGIN: &str = "localhost/sim";
const START_MS: i128 = 1_700_000_000_000;
/// Whatever is waited for is there long before; a wait that ends is a failure.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The key of somebody: 100 owns, 101 is the service's, 102 the log's.
pub fn key(n: u8) -> PrivateKey {
    PrivateKey::from_secret(Algorithm::Ed25519, &[n; 32]).expect("a key")
}

/// Both clocks, in milliseconds since the start: the one that nobody can set, and by how much the other was set ahead.
#[derive(Default)]
pub struct Hand(Mutex<(i128, i128)>);

impl Hand {
    pub fn pass(&self, ms: u64) {
        self.0.lock().expect("the clock").0 += i128::from(ms);
    }

    pub fn set(&self, ms: i64) {
        self.0.lock().expect("the clock").1 += i128::from(ms);
    }

    pub fn wall_ms(&self) -> u64 {
        u64::try_from(self.read().wall_ns / 1_000_000).expect("after 1970")
    }
}

impl Clocks for Hand {
    fn read(&self) -> Reading {
        let (passed, set) = *self.0.lock().expect("the clock");
        Reading {
            boot_ns: passed * 1_000_000,
            wall_ns: (START_MS + passed + set) * 1_000_000,
        }
    }
}

fn signer() -> NoteSigner {
    match key(102) {
        PrivateKey::Ed25519(secret) => NoteSigner::new(ORIGIN, secret).expect("a signer"),
        _ => panic!("an Ed25519 key"),
    }
}

fn ledger() -> Ledger {
    let opened = Opened {
        origin: ORIGIN.into(),
        log_vkey: signer().vkey().to_string(),
        owner: key(100).public(),
        service: key(101).public(),
        rules: opened::RULES,
        epoch: 0,
        predecessor: None,
    };
    Ledger::new(opened, key(101))
}

/// What became of a request, as far as its client knows.
#[derive(Clone, Debug)]
pub enum Told {
    /// A leaf, new or there before.
    Leaf(u64, Vec<u8>),
    /// No, and no leaf.
    Refused(Problem),
    /// Nothing: it may have been written.
    Nothing(Stop),
}

pub struct World {
    pub clocks: Arc<Hand>,
    pub net: Option<Arc<Net>>,
    pub disk: Arc<Disk>,
    pub model: Model,
    policy: String,
    runtime: tokio::runtime::Runtime,
    log: Option<Log<Ledger>>,
    /// Leaves that somebody was told of.
    told: BTreeMap<u64, Vec<u8>>,
    /// The largest head that a reader saw.
    shown: Head,
    checked: Checked,
    /// Sent by nobody: what is there already, so that asking for it changes nothing.
    knock: Option<Request>,
}

impl World {
    /// A new log, by itself or among witnesses; it has begun.
    pub fn new(witnessed: bool, flaw: Flaw) -> World {
        let clocks = Arc::new(Hand::default());
        let made = witnessed.then(|| Net::new(&signer().vkey().to_string(), &clocks));
        let (net, policy) = made.map_or((None, String::new()), |(net, policy)| {
            (Some(Arc::new(net)), policy)
        });
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_time()
            .build();
        let mut world = World {
            clocks,
            net,
            disk: Arc::new(Disk::new(flaw)),
            model: Model::default(),
            policy,
            runtime: runtime.expect("a runtime"),
            log: None,
            told: BTreeMap::new(),
            shown: Head::EMPTY,
            checked: Checked::default(),
            knock: None,
        };
        world.start(false);
        world.wait("the first leaf", |world| {
            world.log().status().committed.size > 0
        });
        world
    }

    fn log(&self) -> &Log<Ledger> {
        self.log.as_ref().expect("a log that runs")
    }

    /// The newest committed state.
    pub fn state(&self) -> Arc<State> {
        self.log().reader().version()
    }

    /// Log time when something was last stamped: what a client takes for the time, told by the answer before.
    pub fn now(&self) -> u64 {
        let status = self.log().status();
        let wall = i64::try_from(status.wall_ms).expect("a time");
        u64::try_from(wall - status.clock_offset_ms).expect("after 1970")
    }

    /// Asks for this again whenever it is to be seen whether the log writes.
    pub fn knock_with(&mut self, request: Request) {
        self.knock = Some(request);
    }

    pub fn wait(&self, what: &str, mut holds: impl FnMut(&World) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !holds(self) {
            assert!(
                Instant::now() < end,
                "waited in vain for {what}: {:?}",
                self.log().status()
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Starts on what the disk holds.
    pub fn start(&mut self, accept_clock: bool) {
        if let Some(net) = &self.net {
            net.serve(&self.disk);
        }
        let witnesses = self.net.as_ref().map(|net| Witnesses {
            eras: Eras::one(Policy::parse(&self.policy).expect("a policy")),
            transport: Arc::new(Wire(net.clone())),
            runtime: self.runtime.handle().clone(),
            pace: Pace {
                round_timeout: Duration::from_millis(20),
                head_interval: Duration::ZERO,
                refresh: Duration::from_secs(3_600),
            },
        });
        let log = Log::start(Options {
            origin: ORIGIN.into(),
            signer: signer(),
            store: self.disk.clone(),
            judge: ledger(),
            clocks: self.clocks.clone(),
            witnesses,
            accept_clock,
        });
        self.log = Some(log.unwrap_or_else(|error| panic!("it does not start: {error}")));
    }

    /// A clean end, and a start.
    pub fn restart(&mut self, accept_clock: bool) {
        self.log = None;
        // Everything that was told the kernel is written by the time that the process has ended.
        self.disk = Arc::new(self.disk.after(false));
        self.start(accept_clock);
    }

    /// The end of the process, or of the machine, and a start.
    pub fn crash(&mut self, machine: bool) {
        self.disk.off();
        self.log = None;
        self.disk = Arc::new(self.disk.after(machine));
        self.start(false);
    }

    /// Hands these over, each list as one piece, and waits for what becomes of them.
    pub fn send(&mut self, jobs: Vec<Vec<Request>>) -> Vec<Told> {
        let mut pending = Vec::new();
        for requests in jobs {
            let count = requests.len();
            let taken = self.log().submit(requests, Until::Sequenced);
            pending.push((count, taken.unwrap_or_else(|e| panic!("not taken: {e:?}"))));
        }
        let mut told = Vec::new();
        for (count, pending) in pending {
            let work = async { tokio::time::timeout(PATIENCE, pending.sequenced()).await };
            let outcomes = self.runtime.block_on(work).expect("an answer in time");
            let outcomes = outcomes.expect("a writer that lives");
            assert_eq!(outcomes.len(), count, "one outcome a request");
            told.extend(outcomes.into_iter().map(|outcome| match outcome {
                Outcome::Sequenced(leaf) => Told::Leaf(leaf.index, leaf.leaf),
                Outcome::Refused(problem) => Told::Refused(problem),
                Outcome::Stopped(stop) => Told::Nothing(stop),
            }));
        }
        for told in &told {
            if let Told::Leaf(index, leaf) = told {
                let before = self.told.entry(*index).or_insert_with(|| leaf.clone());
                assert!(
                    before == leaf,
                    "leaf {index} is answered, and was another one"
                );
            }
        }
        told
    }

    /// Until whatever failed has been read again and what is due is written; or why nothing is written.
    pub fn settle(&mut self) -> Option<Stop> {
        let knock = self.knock.clone()?;
        let end = Instant::now() + PATIENCE;
        loop {
            match self.send(vec![vec![knock.clone()]]).pop() {
                Some(Told::Leaf(..)) => return None,
                Some(Told::Nothing(stop @ (Stop::Clock(_) | Stop::Unguarded(_)))) => {
                    return Some(stop);
                }
                Some(Told::Nothing(Stop::Store(_))) if Instant::now() < end => {}
                other => panic!("what is there is answered with {other:?}"),
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Whether everything that is committed is published.
    pub fn is_published(&self) -> bool {
        let status = self.log().status();
        status.published.size == status.committed.size
    }
}
