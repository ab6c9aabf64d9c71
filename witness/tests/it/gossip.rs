//! Two heads of one log: what follows from them, for every pair of sizes and branches, and whoever lies about it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use countersign_verifier::fork::Fork;
use countersign_verifier::hash::{Hash, sha256};
use countersign_witness::Answer;
use countersign_witness::gossip::compare::{Compared, Seen, compare};
use countersign_witness::gossip::page;
use countersign_witness::gossip::settle::{Settled, View, settle};
use countersign_witness::roster::LogEntry;
use proptest::prelude::*;

use crate::support::{TestLog, gossiper};

const SIZE: usize = 40;

pub fn entry(log: &TestLog) -> LogEntry {
    let witness = gossiper(&[log.addition()]);
    let found = witness.roster().find(&log.origin).unwrap().unwrap();
    LogEntry::clone(&found)
}

pub fn seen(log: &TestLog, entry: &LogEntry, size: usize) -> Seen {
    Seen::open(log.note(size).as_bytes(), entry).unwrap()
}

/// How a source behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    Honest,
    Silent,
    /// Hashes that it makes up, as many as there must be.
    Invents,
    /// Another node's answer.
    Confuses,
}

/// A log as somebody sees it.
pub struct Source<'l> {
    pub log: &'l TestLog,
    pub manner: Manner,
}

/// The sources that a test has; the first also gives proofs.
pub struct Sources<'l>(pub Vec<Source<'l>>, pub AtomicUsize);

impl<'l> Sources<'l> {
    pub fn new(sources: impl IntoIterator<Item = (&'l TestLog, Manner)>) -> Sources<'l> {
        let sources = sources.into_iter();
        let sources = sources.map(|(log, manner)| Source { log, manner });
        Sources(sources.collect(), AtomicUsize::new(0))
    }
}

impl View for Sources<'_> {
    fn sources(&self) -> usize {
        self.0.len()
    }

    async fn consistency(&self, from: u64, to: u64) -> Option<Vec<Hash>> {
        self.1.fetch_add(1, Ordering::SeqCst);
        let Source { log, manner } = self.0.first()?;
        let (from, to) = (usize::try_from(from).ok()?, usize::try_from(to).ok()?);
        match manner {
            Manner::Silent => None,
            _ if to > log.leaves.len() => None,
            Manner::Honest => Some(log.proof(from, to)),
            Manner::Invents | Manner::Confuses => {
                Some(log.proof(from, to).iter().map(|h| sha256(&h.0)).collect())
            }
        }
    }

    async fn node(&self, source: usize, size: u64, level: u8, index: u64) -> Option<Vec<Hash>> {
        self.1.fetch_add(1, Ordering::SeqCst);
        let Source { log, manner } = &self.0[source];
        let size = usize::try_from(size).ok()?;
        match manner {
            Manner::Silent => None,
            _ if size > log.leaves.len() => None,
            Manner::Honest => Some(log.node(size, level, index)),
            Manner::Invents => {
                let hashes = log.node(size, level, index);
                Some(hashes.iter().map(|h| sha256(&h.0)).collect())
            }
            Manner::Confuses => Some(log.node(size, 0, 0)),
        }
    }
}

fn manner() -> impl Strategy<Value = Manner> {
    prop_oneof![
        Just(Manner::Honest),
        Just(Manner::Silent),
        Just(Manner::Invents),
        Just(Manner::Confuses),
    ]
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(work)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Against the definition: one history if the smaller tree is the beginning of the larger. With honest sources it is always
    /// settled, whoever else is asked before them; without it is evidence or consistent only where it is true.
    #[test]
    fn settled_is_true_and_honest_sources_settle(
        at in 0..=SIZE,
        (a, b) in (0..=SIZE, 0..=SIZE),
        manners in [manner(), manner()],
    ) {
        let trunk = TestLog::new("settle.example", SIZE);
        let fork = trunk.fork(at, "other");
        let entry = entry(&trunk);
        let (ours, theirs) = (seen(&trunk, &entry, a), seen(&fork, &entry, b));
        let one_history = a.min(b) <= at;
        let same = a == b && trunk.root(a) == fork.root(b);
        match compare(&ours, &theirs) {
            Compared::Same => prop_assert!(same),
            Compared::Consistent => prop_assert!(a.min(b) == 0 && a != b),
            Compared::Fork(_) => prop_assert!(a == b && !one_history),
            Compared::NeedProof([old, new]) => {
                prop_assert!(0 < old.head.size && old.head.size < new.head.size);
            }
        }
        let view = Sources::new([(&trunk, manners[0]), (&fork, manners[1])]);
        let settled = block_on(settle(&ours, &theirs, &view));
        // Each answers for its own branch, as a log that shows two histories does.
        match &settled {
            Settled::Same => prop_assert!(same),
            Settled::Consistent => prop_assert!(one_history),
            Settled::Fork(fork) => {
                prop_assert!(!one_history);
                prop_assert!(fork.verify(&entry.origin, &entry.keys).is_ok());
                let read = Fork::parse(&fork.to_json()).unwrap();
                prop_assert_eq!(&read, &**fork);
            }
            Settled::Unresolved => prop_assert!(manners != [Manner::Honest; 2]),
        }
        prop_assert!(view.1.into_inner() <= 1 + 2 * 2 * 6, "bounded");
    }
}

#[test]
fn a_head_without_the_logs_signature_is_none() {
    let (log, other) = (TestLog::new("a.example", 9), TestLog::new("b.example", 9));
    let entry = entry(&log);
    let text = log.text(9);
    for note in [
        other.note(9),
        other.sign(&text),
        log.sign("a.example\nnine\nAAAA\n"),
        log.sign("a.example\n9223372036854775808\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n"),
        text,
        String::new(),
    ] {
        assert!(Seen::open(note.as_bytes(), &entry).is_err(), "{note}");
    }
    assert!(Seen::open(log.note(9).as_bytes(), &entry).is_ok());
}

#[tokio::test]
async fn a_second_root_for_the_stored_size_is_evidence_whatever_it_came_with() {
    let log = TestLog::new("a.example", 9);
    let fork = log.fork(4, "fork");
    let hash = countersign_verifier::checkpoint::origin_hash(&log.origin);
    // The sizes that a fork comes from, and the answer to it: 409 or 422, as without evidence.
    for (old, status) in [(4, 409), (9, 422), (0, 409)] {
        let witness = gossiper(&[log.addition()]);
        let first = witness.add_checkpoint(log.request(0, 9).as_bytes()).await;
        assert!(matches!(first, Answer::Cosigned(_)));
        let other = TestLog::new("b.example", 9);
        let stranger = other.request(old, 9).replace("b.example", "a.example");
        witness.add_checkpoint(stranger.as_bytes()).await;
        assert!(!witness.forks().holds(&hash), "nobody else can accuse");
        let smaller = witness.add_checkpoint(fork.request(4, 8).as_bytes()).await;
        assert_eq!(smaller, Answer::Conflict(9));
        assert!(!witness.forks().holds(&hash), "another size shows nothing");
        let answer = witness
            .add_checkpoint(fork.request(old, 9).as_bytes())
            .await;
        match answer {
            Answer::Conflict(9) => assert_eq!(status, 409),
            Answer::Refused(why) => assert_eq!(why.status(), status),
            other => panic!("{other:?}"),
        }
        let evidence = witness.forks().evidence(&hash).unwrap().expect("evidence");
        let keys = &entry(&log).keys;
        Fork::parse(&evidence)
            .unwrap()
            .verify(&log.origin, keys)
            .unwrap();
        for body in [log.request(9, 9), fork.request(9, 9)] {
            match witness.add_checkpoint(body.as_bytes()).await {
                Answer::Refused(why) => {
                    assert_eq!(why.status(), 403);
                    assert!(why.to_string().contains(&hash.to_hex()), "{why}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn pages_of_heads_are_whole_bounded_and_hold_nothing_private() {
    let logs: Vec<TestLog> = (0..300)
        .map(|n| TestLog::new(&format!("page.example/{n}"), 1))
        .collect();
    let mut additions: Vec<_> = logs.iter().map(TestLog::addition).collect();
    (0..300)
        .step_by(7)
        .for_each(|n| additions[n].private = true);
    let witness = Arc::new(gossiper(&additions));
    // One in three was never cosigned, and a few have notes that fill pages.
    let mut expected = Vec::new();
    for (n, log) in logs.iter().enumerate().filter(|(n, _)| n % 3 != 0) {
        let mut head = log.head(1);
        if n % 12 == 1 {
            head.extensions = vec!["x".repeat(50_000)];
        }
        let note = log.sign(&head.to_text());
        let body = countersign_verifier::add_checkpoint::request(0, &[], &note);
        let answer = witness.add_checkpoint(body.as_bytes()).await;
        assert!(matches!(answer, Answer::Cosigned(_)), "{answer:?}");
        if n % 7 != 0 {
            expected.push(log.origin.clone());
        }
    }
    let (mut found, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = page::heads(&witness, after.as_ref()).unwrap();
        assert!(page.heads.len() <= page::HEADS_MAX);
        let json = serde_json::to_vec(&page).unwrap();
        assert!(json.len() <= page::PAGE_BYTES_MAX);
        let origin = |note: &String| note.split('\n').next().unwrap().to_owned();
        found.extend(page.heads.iter().map(origin));
        pages += 1;
        let Some(next) = page.next else { break };
        for n in (0..300).step_by(7) {
            let hash = countersign_verifier::checkpoint::origin_hash(&logs[n].origin);
            assert_ne!(
                next,
                hash.to_hex(),
                "a private log's hash is shown to nobody"
            );
        }
        after = Some(Hash::from_hex(&next).unwrap());
    }
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    assert!(pages > 1);
}
