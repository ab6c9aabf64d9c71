//! Simulation by seed: a log that shows each side of a partition another history, witnesses that pull from a few peers over a
//! network that loses messages, and peers that lie. Found within [`FOUND_WITHIN`] rounds of the partition's end, everywhere within
//! [`EVERYWHERE_WITHIN`], in every seed; and never a word against an honest log.

use std::collections::BTreeSet;
use std::sync::Arc;

use countersign_verifier::checkpoint::origin_hash;
use countersign_verifier::fork::{Fork, Node};
use countersign_verifier::hash::{Hash, sha256};
use countersign_witness::gossip::page;
use countersign_witness::gossip::weigh::{Glance, Weighed, glance, weigh};
use countersign_witness::{Answer, Witness};

use crate::gossip::{Manner, Sources};
use crate::support::{TestLog, gossiper};

const SEEDS: u64 = 220;
/// Rounds after the partition until some witness has evidence. One pull in four is lost, and at least one pair of peers of two
/// sides pulls each other: all of 10 rounds lost is 1 in 16^10.
const FOUND_WITHIN: usize = 10;
/// Until all have: evidence crosses one edge a round, of at most five, and one pull in four is lost.
const EVERYWHERE_WITHIN: usize = 40;
const WITNESSES_MAX: u64 = 6;

struct Random(u64);

impl Random {
    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> usize {
        usize::try_from(self.next() % n).unwrap()
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// A witness in its place.
struct Place {
    witness: Arc<Witness>,
    side: usize,
    peers: Vec<usize>,
    /// What it says to others is made up.
    lies: bool,
    /// Up to where the log has shown itself to it.
    size: usize,
}

struct World {
    random: Random,
    places: Vec<Place>,
    /// What the log shows each side; of an honest one it is the same everywhere.
    branches: Vec<TestLog>,
    healed: bool,
}

impl World {
    fn new(seed: u64, honest: bool, liars: bool) -> World {
        let mut random = Random(seed);
        let count = 2 + random.below(WITNESSES_MAX - 1);
        let sides = 2 + random.below(count as u64 - 1).min(1);
        let trunk = TestLog::new("partition.example", 60);
        let at = random.below(12);
        let branches: Vec<TestLog> = (0..sides)
            .map(|side| match side {
                _ if honest => trunk.clone(),
                side => trunk.fork(at, &format!("side {side}")),
            })
            .collect();
        let mut peers = vec![BTreeSet::new(); count];
        for one in 0..count {
            // A tree, so that all hear of each other in the end, and a few more.
            let mut others = Vec::new();
            if one > 0 {
                others.push(random.below(one as u64));
            }
            if random.one_in(3) {
                others.push(random.below(count as u64));
            }
            for other in others.into_iter().filter(|&other| other != one) {
                peers[one].insert(other);
                peers[other].insert(one);
            }
        }
        let places = (0..count).map(|n| Place {
            witness: Arc::new(gossiper(&[trunk.addition()])),
            // The first are of different sides: no side is empty.
            side: if n < sides {
                n
            } else {
                random.below(sides as u64)
            },
            peers: peers[n].iter().copied().collect(),
            lies: liars && random.one_in(3),
            size: 0,
        });
        World {
            places: places.collect(),
            random,
            branches,
            healed: false,
        }
    }

    /// The log grows, and asks some of those that it can reach to cosign.
    async fn grow(&mut self, least: usize, all: bool) {
        for n in 0..self.places.len() {
            if !all && self.random.one_in(2) {
                continue;
            }
            let new = (least + self.random.below(10)).max(self.places[n].size);
            let place = &mut self.places[n];
            let body = self.branches[place.side].request(place.size, new);
            match place.witness.add_checkpoint(body.as_bytes()).await {
                Answer::Cosigned(_) => place.size = new,
                Answer::Refused(why) => assert_eq!(why.status(), 403, "{why}"),
                other => panic!("{other:?}"),
            }
        }
    }

    /// Each pulls each of its peers that it can reach.
    async fn round(&mut self) {
        for one in 0..self.places.len() {
            for peer in self.places[one].peers.clone() {
                let reachable = self.healed || self.places[one].side == self.places[peer].side;
                if reachable && !self.random.one_in(4) {
                    self.pull(one, peer).await;
                }
            }
        }
    }

    async fn pull(&mut self, one: usize, other: usize) {
        let (asking, peer) = (&self.places[one], &self.places[other]);
        let (ours, theirs) = (&self.branches[asking.side], &self.branches[peer.side]);
        let mut notes = page::heads(&peer.witness, None).unwrap().heads;
        let mut manner = Manner::Honest;
        let mut evidence = Vec::new();
        for hex in page::forks(&peer.witness, None).forks {
            let log = Hash::from_hex(&hex).unwrap();
            let file = peer.witness.forks().evidence(&log).unwrap().unwrap();
            evidence.push(Fork::parse(&file).unwrap());
        }
        if peer.lies {
            notes = lies(&mut self.random, theirs);
            manner = [Manner::Silent, Manner::Invents, Manner::Confuses][self.random.below(3)];
            evidence.push(false_evidence(&mut self.random, theirs));
        }
        let log = origin_hash(&ours.origin);
        let entry = asking.witness.roster().get(&log).unwrap().unwrap();
        for fork in &evidence {
            let taken = asking.witness.accuse(&log, &entry, fork);
            assert_eq!(taken.is_err(), peer.lies);
        }
        let view = Sources::new([(ours, Manner::Honest), (theirs, manner)]);
        let name = format!("peer {other}");
        for note in &notes {
            if let Glance::Other(pair) = glance(&asking.witness, note.as_bytes()).unwrap() {
                weigh(&asking.witness, &pair, Some(&name), &view).await;
            }
        }
    }

    fn accusers(&self) -> usize {
        let log = origin_hash(&self.branches[0].origin);
        let has = |place: &&Place| place.witness.forks().holds(&log);
        self.places.iter().filter(has).count()
    }

    /// A partition of a few rounds, and its end.
    async fn partition(&mut self) {
        for round in 0..3 {
            self.grow(12 + 10 * round, false).await;
            self.round().await;
        }
        // Nobody is left behind where the histories are still one.
        self.grow(42, true).await;
        assert_eq!(self.accusers(), 0, "on one side there is one history");
        self.healed = true;
    }
}

/// What a liar shows: heads under another key, old ones, other logs' and nonsense.
fn lies(random: &mut Random, log: &TestLog) -> Vec<String> {
    let other = TestLog::new("other.example", 60).fork(3, "lie");
    let size = random.below(60);
    let forged = log.fork(2, "lie").text(size);
    vec![
        other.sign(&forged),
        log.note(size),
        other.note(size),
        log.note(size).replace('A', "B"),
        "nonsense".into(),
    ]
}

/// What a liar shows as evidence: no fork.
fn false_evidence(random: &mut Random, log: &TestLog) -> Fork {
    let other = TestLog::new("other.example", 60);
    let size = 8 + random.below(50);
    let invented = |place| {
        let hashes = log.node(size, 1, place);
        let path: Vec<Hash> = hashes[1..].iter().map(|h| sha256(&h.0)).collect();
        (sha256(&hashes[0].0), path)
    };
    let (a, b) = (invented(0), invented(1));
    let (notes, node) = match random.below(4) {
        0 => ([log.note(size), log.note(size)], None),
        1 => ([log.note(size), log.note(size - 1)], None),
        2 => {
            let forged = other.sign(&log.fork(2, "lie").text(size));
            ([log.note(size), forged], None)
        }
        _ => {
            let node = Node {
                level: 1,
                index: 0,
                hashes: [a.0, b.0],
                paths: [a.1, b.1],
            };
            ([log.note(size), log.note(size + 1)], Some(node))
        }
    };
    Fork {
        checkpoints: notes,
        node,
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(work)
}

#[test]
fn a_log_with_two_histories_is_found_in_every_seed() {
    let (mut slowest, mut last) = (0, 0);
    for seed in 0..SEEDS {
        let mut world = World::new(seed, false, false);
        block_on(async {
            world.partition().await;
            let (mut found, mut everywhere) = (None, None);
            for round in 1..=EVERYWHERE_WITHIN {
                world.grow(45, false).await;
                world.round().await;
                if world.accusers() > 0 {
                    found = found.or(Some(round));
                }
                if world.accusers() == world.places.len() {
                    everywhere = Some(round);
                    break;
                }
                assert!(found.is_some() || round < FOUND_WITHIN, "seed {seed}");
            }
            slowest = slowest.max(found.expect("found"));
            last = last.max(everywhere.unwrap_or_else(|| panic!("seed {seed}: not everywhere")));
        });
    }
    assert!(slowest <= FOUND_WITHIN && last <= EVERYWHERE_WITHIN);
}

#[test]
fn an_honest_log_is_accused_by_nobody_whoever_lies() {
    for seed in 0..SEEDS {
        let mut world = World::new(seed, true, true);
        block_on(async {
            world.partition().await;
            for round in 0..6 {
                world.grow(45, false).await;
                world.round().await;
                assert_eq!(world.accusers(), 0, "seed {seed}, round {round}");
            }
            for place in &world.places {
                let asked = place.size;
                let body = world.branches[0].request(asked, 60);
                let answer = place.witness.add_checkpoint(body.as_bytes()).await;
                assert!(matches!(answer, Answer::Cosigned(_)), "{answer:?}");
            }
        });
    }
}

/// A log that keeps every answer back is not accused: what is open is shown, and closed again once heads agree.
#[tokio::test]
async fn what_nobody_shows_stays_unresolved() {
    let log = TestLog::new("silent.example", 60);
    let fork = log.fork(20, "fork");
    let witness = Arc::new(gossiper(&[log.addition()]));
    let hash = origin_hash(&log.origin);
    witness.add_checkpoint(log.request(0, 40).as_bytes()).await;
    let silent = Sources::new([(&log, Manner::Silent), (&fork, Manner::Silent)]);
    for size in [30, 50] {
        let Glance::Other(pair) = glance(&witness, fork.note(size).as_bytes()).unwrap() else {
            panic!("another head");
        };
        let weighed = weigh(&witness, &pair, Some("p"), &silent).await;
        assert_eq!(weighed, Weighed::Unresolved);
        weigh(&witness, &pair, None, &silent).await;
    }
    let rows = witness.rows(None, 9).unwrap();
    assert_eq!(
        (rows[0].unresolved.len(), rows[0].unresolved[0].size),
        (1, 50)
    );
    assert!(!rows[0].forked && !witness.forks().holds(&hash));
    let honest = Sources::new([(&log, Manner::Honest)]);
    let Glance::Other(pair) = glance(&witness, log.note(50).as_bytes()).unwrap() else {
        panic!("another head");
    };
    let weighed = weigh(&witness, &pair, Some("p"), &honest).await;
    assert_eq!(weighed, Weighed::Consistent);
    assert_eq!(witness.board().open_rows(), (0, None));
}
