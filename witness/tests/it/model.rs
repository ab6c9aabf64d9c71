//! A witness never cosigns two branches, whatever is thrown at it: random requests of branches that agree up to somewhere,
//! failing stores, clocks that jump; against a model that knows one rule.

use std::collections::HashMap;
use std::sync::Arc;

use countersign_verifier::add_checkpoint;
use countersign_verifier::checkpoint::{Checkpoint, origin_hash};
use countersign_witness::decide::{Head, Refusal, Verdict, decide};
use countersign_witness::store::{Fault, Memory, Step};
use countersign_witness::{Answer, Witness};
use proptest::prelude::*;

use crate::support::{NOW, TestClock, TestLog, check_lines, keys, time};

const SIZE: usize = 24;

/// One thing that happens.
#[derive(Clone, Debug)]
enum Event {
    /// A request of this log and branch; `lie` sends the proof of another pair.
    Ask {
        log: usize,
        branch: usize,
        old: usize,
        new: usize,
        lie: bool,
    },
    /// Both at once.
    Race {
        log: usize,
        branches: [usize; 2],
        old: usize,
        new: [usize; 2],
    },
    /// As a client that follows what it is told.
    Follow {
        log: usize,
        branch: usize,
        new: usize,
    },
    Fail {
        after: bool,
    },
    Clock {
        at: u64,
    },
}

fn event() -> impl Strategy<Value = Event> {
    let size = 0..=SIZE;
    prop_oneof![
        4 => (0..2usize, 0..4usize, size.clone(), size.clone(), prop::bool::weighted(0.2))
            .prop_map(|(log, branch, old, new, lie)| Event::Ask { log, branch, old, new, lie }),
        2 => (0..2usize, [0..4usize, 0..4usize], size.clone(), [size.clone(), size.clone()])
            .prop_map(|(log, branches, old, new)| Event::Race { log, branches, old, new }),
        4 => (0..2usize, 0..4usize, size)
            .prop_map(|(log, branch, new)| Event::Follow { log, branch, new }),
        1 => any::<bool>().prop_map(|after| Event::Fail { after }),
        1 => (NOW - 100..NOW + 100).prop_map(|at| Event::Clock { at }),
    ]
}

/// Branches of a log: the trunk, and forks at 0, 7 and 16.
fn branches(origin: &str) -> Vec<TestLog> {
    let trunk = TestLog::new(origin, SIZE);
    let forks = [0, 7, 16].map(|at| trunk.fork(at, &format!("at {at}")));
    [trunk].into_iter().chain(forks).collect()
}

/// What was ever cosigned: all of one log must be prefixes of one tree.
#[derive(Default)]
struct Seen(HashMap<String, (Vec<Checkpoint>, u64)>);

impl Seen {
    fn cosigned(&mut self, branches: &[TestLog], head: Checkpoint, at: u64) {
        let (heads, last) = self.0.entry(head.origin.clone()).or_default();
        assert!(at >= *last, "time went back");
        *last = at;
        heads.push(head);
        let fits = |branch: &TestLog| {
            let on = |h: &Checkpoint| branch.head(usize::try_from(h.size).unwrap()) == *h;
            heads.iter().all(on)
        };
        assert!(branches.iter().any(fits), "two branches were cosigned");
        assert!(heads.is_sorted_by_key(|head| head.size), "a size went back");
    }
}

fn body(branch: &TestLog, old: usize, new: usize, lie: bool) -> String {
    let proof = if lie {
        branch.proof(old / 2, new.max(2) - 1)
    } else {
        branch.proof(old, new)
    };
    add_checkpoint::request(old as u64, &proof, &branch.note(new))
}

async fn run(events: Vec<Event>) {
    let logs = [branches("model.example/a"), branches("model.example/b")];
    let (store, clock) = (Arc::new(Memory::default()), TestClock::at(NOW));
    let witness = Witness::new(keys(false), store.clone(), clock.clock()).unwrap();
    let additions: Vec<_> = logs.iter().map(|log| log[0].addition()).collect();
    witness.roster().add(&additions).unwrap();
    let mut seen = Seen::default();
    let mut note = |log: &[TestLog], branch: usize, new: usize, answer: &Answer| {
        if let Answer::Cosigned(lines) = answer {
            check_lines(witness.keys(), lines, &log[branch].text(new));
            seen.cosigned(log, log[branch].head(new), time(lines));
        }
    };
    for event in events {
        match event {
            Event::Ask {
                log,
                branch,
                old,
                new,
                lie,
            } => {
                let body = body(&logs[log][branch], old, new, lie);
                let answer = witness.add_checkpoint(body.as_bytes()).await;
                note(&logs[log], branch, new, &answer);
            }
            Event::Race {
                log,
                branches,
                old,
                new,
            } => {
                let bodies = [0, 1].map(|n| body(&logs[log][branches[n]], old, new[n], false));
                let (a, b) = tokio::join!(
                    witness.add_checkpoint(bodies[0].as_bytes()),
                    witness.add_checkpoint(bodies[1].as_bytes())
                );
                // The smaller first: which came first cannot be told from outside.
                let mut both = [(branches[0], new[0], a), (branches[1], new[1], b)];
                both.sort_by_key(|(_, new, _)| *new);
                for (branch, new, answer) in &both {
                    note(&logs[log], *branch, *new, answer);
                }
            }
            Event::Follow { log, branch, new } => {
                let mut old = 0;
                for _ in 0..3 {
                    let body = body(&logs[log][branch], old, new, false);
                    let answer = witness.add_checkpoint(body.as_bytes()).await;
                    note(&logs[log], branch, new, &answer);
                    let Answer::Conflict(size) = answer else {
                        break;
                    };
                    old = usize::try_from(size).unwrap();
                }
            }
            Event::Fail { after } => store.fail(Fault {
                step: Step::Commit,
                after,
                skip: 0,
            }),
            Event::Clock { at } => clock.set(at),
        }
        for log in &logs {
            let shown = witness.newest(&origin_hash(&log[0].origin)).unwrap();
            if let Some(record) = shown {
                let size = usize::try_from(record.checkpoint.size).unwrap();
                assert!(
                    log.iter()
                        .any(|branch| branch.head(size) == record.checkpoint)
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn one_branch_whatever_comes(events in prop::collection::vec(event(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.unwrap().block_on(run(events));
    }

    /// The pure decision against the definition: what is advanced to is a tree that has the known one as its beginning.
    #[test]
    fn an_advance_is_an_extension(
        known in prop::option::of((0..4usize, 0..=SIZE)),
        (branch, old, new) in (0..4usize, 0..=SIZE, 0..=SIZE),
        lie in prop::bool::weighted(0.3),
    ) {
        let all = branches("model.example/pure");
        let roster = Witness::new(keys(false), Arc::<Memory>::default(), TestClock::at(NOW).clock()).unwrap();
        roster.roster().add(&[all[0].addition()]).unwrap();
        let entry = roster.roster().find("model.example/pure").unwrap().unwrap();
        let head = known.map(|(branch, size)| Head { size: size as u64, root: all[branch].root(size) });
        let (stored, asked) = (known.map_or(0, |(_, size)| size), &all[branch]);
        let text = body(asked, old, new, lie);
        let request = countersign_verifier::add_checkpoint::AddCheckpoint::parse(text.as_bytes()).unwrap();
        let right = request.proof == asked.proof(old, new);
        let extends = known.is_none_or(|(known, size)| size <= new && all[known].root(size) == asked.root(size));
        let verdict = decide(head.as_ref(), request, Some(&entry), true);
        match verdict {
            Verdict::Refuse(Refusal::OldBeyond { .. }) => prop_assert!(old > new),
            Verdict::Conflict(size) => prop_assert!(old <= new && old != stored && size == stored as u64),
            Verdict::Advance => prop_assert!(old == stored && extends && right && (new > old || known.is_none())),
            Verdict::Same => prop_assert!(old == stored && new == old && extends && right && known.is_some()),
            Verdict::Refuse(why) => {
                prop_assert_eq!(why.status(), 422);
                prop_assert!(old == stored && !(extends && right), "{:?}", why);
            }
        }
    }
}
