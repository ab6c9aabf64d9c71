//! What happens, chosen by a seed: each step depends on the seed and on the leaves so far, and on nothing else.

use std::time::{Duration, Instant};

use countersign_api::ledger::Request;
use countersign_log::{
    Head, Stop,
    store::memory::{Step, When},
};
use countersign_verifier::{
    base64,
    leaf::{Class, Leaf},
    operation::{Operation, possession_message},
};
use serde_json::{Value, json};

use crate::{
    Random,
    disk::Flaw,
    net::{Mood, WITNESSES},
    world::{ORIGIN, PATIENCE, Told, World, key},
};

mod ask;
mod weather;

/// So many agents, with keys 1 and up.
const AGENTS: u8 = 4;
const ITEMS: [&str; 4] = ["a", "b", "c", "d"];
const HOUR_MS: u64 = 3_600_000;
const YEAR_MS: u64 = 365 * 24 * HOUR_MS;

/// Something that was sent, as its client remembers it: the very same may be sent again.
#[derive(Clone)]
struct Sent {
    request: Request,
    by: u8,
    /// Of an operation.
    nonce: Option<String>,
    /// Of a receipt.
    text: Option<String>,
    answer: Option<u64>,
}

/// A run.
pub struct Story<'a> {
    pub world: World,
    random: Random,
    sent: Vec<Sent>,
    nonce: u64,
    say: &'a dyn Fn(String),
}

/// What a run came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    pub head: Head,
    pub granted: u64,
    pub refused: u64,
    pub expired: u64,
}

/// Runs so many steps; panics where anything does not hold. `say` is told each step before it is taken.
pub fn run(seed: u64, witnessed: bool, steps: usize, flaw: Flaw, say: &dyn Fn(String)) -> End {
    let mut story = Story::new(seed, witnessed, flaw, say);
    for _ in 0..steps {
        story.step();
        story.world.check();
    }
    story.end()
}

impl<'a> Story<'a> {
    /// A log with agents and items; nothing has happened yet.
    pub fn new(seed: u64, witnessed: bool, flaw: Flaw, say: &'a dyn Fn(String)) -> Story<'a> {
        let mut story = Story {
            world: World::new(witnessed, flaw),
            random: Random::new(seed),
            sent: Vec::new(),
            nonce: 0,
            say,
        };
        story.begin();
        story
    }

    fn say(&self, what: String) {
        (self.say)(what);
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.random.below(n) == 0
    }

    fn agent(&mut self) -> u8 {
        // OK because it is below the number of agents.
        1 + u8::try_from(self.random.below(AGENTS.into())).expect("few agents")
    }

    /// Agents are enrolled, and items are there.
    fn begin(&mut self) {
        for n in 1..=AGENTS {
            let (secret, public) = (key(n), key(n).public());
            let message = possession_message(ORIGIN, public.identity(), Class::AgentKey);
            let asked = json!({
                "name": format!("n{n}"),
                "public_key": base64::encode(&public.spki_der()),
                "possession": base64::encode(&secret.sign(&message)),
            });
            let told = self.call(100, None, "identity_enroll", asked);
            assert!(matches!(told, Told::Leaf(..)), "{told:?}");
        }
        let receipt = self.receipt(1, "knock");
        let told = self.one(receipt.clone());
        assert!(matches!(told, Told::Leaf(..)), "{told:?}");
        self.world.knock_with(receipt.request);
        for item in ITEMS {
            let asked = json!({"item": {"id": item, "title": item}});
            self.call(1, None, "board_upsert", asked);
        }
        self.world.check();
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..48 => self.work(),
            48..58 => self.again(),
            58..64 => self.crowd(),
            64..80 => self.time(),
            80..86 => self.fail(),
            86..91 => self.cut(),
            91..95 => self.stop(),
            _ => self.people(),
        }
        self.calm();
    }

    /// Heals everything, asks once more whatever had no answer, and looks at all of it.
    fn end(mut self) -> End {
        self.say("the end".into());
        self.world.disk.heal();
        if let Some(net) = &self.world.net {
            (0..WITNESSES).for_each(|n| net.set(n, Mood::Well));
        }
        self.calm();
        let open: Vec<Sent> = self
            .sent
            .iter()
            .filter(|s| s.answer.is_none())
            .cloned()
            .collect();
        for sent in open {
            let told = self.one(sent);
            assert!(!matches!(told, Told::Nothing(_)), "{told:?}");
        }
        self.world.check();
        self.world.wait("publication", World::is_published);
        self.world.crash(true);
        self.calm();
        self.world.check();
        End {
            head: self.world.head(),
            granted: self.world.model.granted,
            refused: self.world.model.refused,
            expired: self.world.model.expired,
        }
    }

    /// Until it writes: whoever runs the log does what helps.
    pub fn calm(&mut self) {
        let end = Instant::now() + PATIENCE;
        let mut tries = 0;
        while let Some(stop) = self.world.settle() {
            assert!(Instant::now() < end, "nothing helps: {stop}");
            tries += 1;
            let few = self.world.net.as_ref().is_some_and(|net| net.well() < 2);
            match stop {
                Stop::Clock(_) => {
                    self.say("the clock is accepted".into());
                    self.world.restart(true);
                }
                // A log asks its witnesses again in its time, and at once after a start. All of them are back: of two that are there one
                // may lag behind the newest published head, and then does not show that nothing is missing.
                _ if few || tries % 32 == 0 => {
                    let net = self.world.net.clone().into_iter();
                    net.for_each(|net| (0..WITNESSES).for_each(|n| net.set(n, Mood::Well)));
                    self.world.restart(false);
                }
                _ => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }

    pub fn call(&mut self, by: u8, session: Option<String>, tool: &str, asked: Value) -> Told {
        let sent = self
            .operation(by, session, tool, asked)
            .expect("a signed operation");
        self.one(sent)
    }

    fn one(&mut self, sent: Sent) -> Told {
        self.all(vec![vec![sent]]).pop().expect("one outcome")
    }

    /// Sends, and remembers what was told: whoever was told of a leaf once is told of the same for ever.
    fn all(&mut self, jobs: Vec<Vec<Sent>>) -> Vec<Told> {
        let requests = |job: &Vec<Sent>| job.iter().map(|sent| sent.request.clone()).collect();
        let told = self.world.send(jobs.iter().map(requests).collect());
        for (sent, told) in jobs.into_iter().flatten().zip(&told) {
            self.remember(sent, told);
        }
        told
    }

    fn remember(&mut self, sent: Sent, told: &Told) {
        let same = |known: &Sent| {
            known.by == sent.by && known.nonce == sent.nonce && known.text == sent.text
        };
        let at = self.sent.iter().position(same).unwrap_or(self.sent.len());
        if at == self.sent.len() {
            self.sent.push(sent);
        }
        let known = &mut self.sent[at];
        match (known.answer, told) {
            (Some(first), Told::Leaf(index, _)) => {
                assert_eq!(
                    first, *index,
                    "n{} was told of another leaf for the same",
                    known.by
                );
            }
            (Some(first), Told::Refused(problem)) => {
                panic!(
                    "n{} was told of leaf {first}, and now {problem:?}",
                    known.by
                )
            }
            // A refusal that was folded into an earlier one is that one's leaf: of this request nothing is kept.
            (None, Told::Leaf(index, leaf)) if is_own(leaf, known) => known.answer = Some(*index),
            _ => {}
        }
    }

    fn work(&mut self) {
        if let Some(sent) = self.anything() {
            self.one(sent);
        }
    }

    /// The very same once more: after a lost answer, or for no reason.
    fn again(&mut self) {
        let open: Vec<Sent> = self
            .sent
            .iter()
            .filter(|s| s.answer.is_none())
            .cloned()
            .collect();
        let any = open.is_empty() || self.one_in(3);
        let pool = if any { self.sent.clone() } else { open };
        let at = self.random.below(pool.len() as u64);
        let sent = pool[usize::try_from(at).unwrap_or(0)].clone();
        self.say(format!("n{} once more {:?}", sent.by, sent.nonce));
        self.one(sent);
    }

    /// Many at once: in one piece, or each for itself.
    fn crowd(&mut self) {
        let count = 2 + self.random.below(6);
        let mut sent: Vec<Sent> = (0..count).filter_map(|_| self.anything()).collect();
        // Somebody is impatient, and sends the same again before there is an answer.
        sent.extend(sent.first().cloned());
        // Where a commit fails it matters which were in it: that is not to depend on how fast threads are.
        let apart = self.world.disk.is_well() && self.one_in(2);
        self.say(format!("{count} at once, apart: {apart}"));
        let jobs = match apart {
            true => sent.into_iter().map(|sent| vec![sent]).collect(),
            false => vec![sent],
        };
        self.all(jobs);
    }
}

/// Whether this leaf is of this very request.
fn is_own(leaf: &[u8], sent: &Sent) -> bool {
    match (Leaf::parse(leaf), &sent.nonce) {
        (Ok(Leaf::Operation(leaf)), Some(nonce)) => {
            let operation = Operation::parse(&leaf.envelope.payload).expect("an operation");
            operation.nonce == *nonce && leaf.by.identity == key(sent.by).public().identity()
        }
        (Ok(Leaf::Receipt(_)), None) => true,
        _ => false,
    }
}
