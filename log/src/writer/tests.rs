//! The writer and the publisher over a store that fails on demand: after every action the whole tree is verified again.

use std::sync::{Arc, Mutex};

use countersign_verifier::{
    checkpoint::Checkpoint,
    hash::{EMPTY_ROOT, leaf_hash},
    note::{Note, open},
    range::Range,
    tree::{verify_consistency, verify_inclusion},
    vkey::NoteSigner,
};

use super::*;
use crate::{
    clock::Reading,
    judge::{Context, Entry, Key},
    log::{Log, Options, Pending},
    prove::Prover,
    shared::StartError,
    store::memory::{MemoryStore, Step, When},
    store::{Head, Store},
};

/// A judge of byte strings: each is a leaf once; `no…` is refused; `due <ms>` makes a leaf fall due at that time.
#[derive(Default)]
pub(crate) struct Bytes {
    leaves: u64,
    due: Vec<u64>,
}

fn name(bytes: &[u8]) -> Key {
    Key::new(1, &countersign_verifier::hash::sha256(bytes))
}

impl Judge for Bytes {
    type Request = Vec<u8>;
    type Refusal = &'static str;
    type Version = u64;

    fn restore(&mut self, snapshot: Option<&[u8]>) -> bool {
        *self = Bytes::default();
        match snapshot {
            None => true,
            Some(bytes) => {
                self.leaves = u64::from_be_bytes(bytes[..8].try_into().unwrap());
                self.due = bytes[8..]
                    .chunks(8)
                    .map(|c| u64::from_be_bytes(c.try_into().unwrap()))
                    .collect();
                true
            }
        }
    }

    fn replay(&mut self, index: u64, leaf: &[u8]) -> Result<(), String> {
        assert_eq!(
            index, self.leaves,
            "replay is in order, from the snapshot on"
        );
        self.leaves += 1;
        let text = String::from_utf8_lossy(leaf);
        if let Some(at) = text.strip_prefix("due ") {
            self.due.push(at.parse().unwrap());
        } else if let Some(at) = text.strip_prefix("fell due ") {
            let at: u64 = at.parse().unwrap();
            self.due.retain(|d| *d != at);
        }
        Ok(())
    }

    fn open(&mut self, _at: u64) -> Entry {
        self.leaves += 1;
        Entry {
            leaf: b"opened".to_vec(),
            ..Entry::default()
        }
    }

    fn next_due(&self) -> Option<u64> {
        self.due.iter().min().copied()
    }

    fn due(&mut self, context: &Context<'_>) -> Result<Option<Entry>, StoreError> {
        let Some(at) = self.next_due().filter(|at| *at <= context.at) else {
            return Ok(None);
        };
        self.due.retain(|d| *d != at);
        self.leaves += 1;
        Ok(Some(Entry {
            leaf: format!("fell due {at}").into_bytes(),
            ..Entry::default()
        }))
    }

    fn judge(
        &mut self,
        request: &Vec<u8>,
        context: &Context<'_>,
    ) -> Result<Ruling<&'static str>, StoreError> {
        assert_eq!(context.index, self.leaves);
        assert!(
            self.next_due().is_none_or(|due| due > context.at),
            "nothing due is left when a request is judged"
        );
        assert!(request != b"panic", "told to panic");
        if request.starts_with(b"no") {
            return Ok(Ruling::Refuse("no"));
        }
        if let Some(index) = context.find(&name(request))?
            && context.leaf(index)?.as_ref() == Some(request)
        {
            return Ok(Ruling::Existing(index));
        }
        // Any root below is there to be read, whichever tile it lies in.
        context.root_at(context.index)?.unwrap();
        if let Some(at) = String::from_utf8_lossy(request).strip_prefix("due ") {
            self.due.push(at.parse().unwrap());
        }
        self.leaves += 1;
        Ok(Ruling::Append(Entry {
            leaf: request.clone(),
            unique: vec![name(request)],
            postings: Vec::new(),
        }))
    }

    fn clock_adjusted(&mut self, _context: &Context<'_>, from: u64, to: u64) -> Entry {
        self.leaves += 1;
        Entry {
            leaf: format!("clock {from} {to}").into_bytes(),
            ..Entry::default()
        }
    }

    fn version(&self) -> u64 {
        self.leaves
    }

    fn snapshot(&self) -> Box<dyn FnOnce() -> Vec<u8> + Send> {
        let (leaves, due) = (self.leaves, self.due.clone());
        Box::new(move || {
            leaves
                .to_be_bytes()
                .into_iter()
                .chain(due.iter().flat_map(|d| d.to_be_bytes()))
                .collect()
        })
    }
}

/// Clocks that stand where they are put, in milliseconds since the start; both run alike until the wall clock is set.
pub(crate) struct Set(pub Mutex<(i128, i128)>);

pub(crate) const START: i128 = 1_700_000_000_000;

impl Clocks for Set {
    fn read(&self) -> Reading {
        let (boot, shift) = *self.0.lock().unwrap();
        Reading {
            boot_ns: boot * 1_000_000,
            wall_ns: (START + boot + shift) * 1_000_000,
        }
    }
}

pub(crate) struct Rig {
    store: Arc<MemoryStore>,
    clocks: Arc<Set>,
    log: Option<Log<Bytes>>,
    seen: Vec<Checkpoint>,
}

impl Rig {
    fn new() -> Rig {
        Rig::over(MemoryStore::new())
    }

    fn over(store: MemoryStore) -> Rig {
        let mut rig = Rig {
            store: Arc::new(store),
            clocks: Arc::new(Set(Mutex::new((0, 0)))),
            log: None,
            seen: Vec::new(),
        };
        rig.start(false).unwrap();
        rig
    }

    pub(crate) fn signer() -> NoteSigner {
        let key = countersign_verifier::key::PrivateKey::from_secret(
            countersign_verifier::key::Algorithm::Ed25519,
            &[1; 32],
        );
        let Ok(countersign_verifier::key::PrivateKey::Ed25519(key)) = key else {
            panic!("an Ed25519 key")
        };
        NoteSigner::new("log.example/a", key).unwrap()
    }

    fn start(&mut self, accept_clock: bool) -> Result<(), StartError> {
        self.log = None;
        self.log = Some(Log::start(Options {
            origin: "log.example/a".into(),
            signer: Rig::signer(),
            store: self.store.clone(),
            judge: Bytes::default(),
            clocks: self.clocks.clone(),
            witnesses: None,
            accept_clock,
        })?);
        Ok(())
    }

    fn log(&self) -> &Log<Bytes> {
        self.log.as_ref().unwrap()
    }

    fn submit(&self, leaves: &[&str]) -> Pending<&'static str> {
        self.log()
            .submit(
                leaves.iter().map(|l| l.as_bytes().to_vec()).collect(),
                Until::Included,
            )
            .ok()
            .unwrap()
    }

    fn included(&self, leaves: &[&str]) -> Vec<Outcome<&'static str>> {
        let wait = self.submit(leaves).reached(Duration::from_secs(10));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let (outcomes, included) = runtime.block_on(wait).unwrap();
        let sequenced = outcomes.iter().any(|o| matches!(o, Outcome::Sequenced(_)));
        assert_eq!(
            included, sequenced,
            "whatever has an index is included in the end"
        );
        outcomes
    }

    fn index(&self, leaf: &str) -> u64 {
        match &self.included(&[leaf])[..] {
            [Outcome::Sequenced(s)] => s.index,
            other => panic!("{leaf}: {other:?}"),
        }
    }

    /// Verifies everything that is stored and published, and that each checkpoint extends those seen before.
    fn check(&mut self) {
        let (head, _) = self.store.head().unwrap();
        let leaves = self.store.entries(0, usize::MAX).unwrap();
        assert_eq!(leaves.len() as u64, head.size);
        let mut range = Range::new();
        let mut roots = vec![EMPTY_ROOT];
        for leaf in &leaves {
            range.push(leaf_hash(leaf));
            roots.push(range.root());
        }
        assert_eq!(
            range.root(),
            head.root,
            "the stored root is the root of the stored leaves"
        );
        let reader = self.log().reader();
        let published = reader.published();
        if published.note.is_empty() {
            return;
        }
        let signer = Rig::signer();
        let note = Note::parse(published.note.as_bytes()).unwrap();
        open(&note, &[signer.vkey().clone()]).unwrap();
        let checkpoint = Checkpoint::parse(note.text).unwrap();
        assert!(
            checkpoint.size <= head.size,
            "published never runs ahead of committed"
        );
        let at = |size: u64| roots[usize::try_from(size).unwrap()];
        assert_eq!(checkpoint.root, at(checkpoint.size));
        let prover = Prover::new(&reader, checkpoint.size);
        for (index, leaf) in (0..checkpoint.size).zip(&leaves) {
            let path = prover.inclusion(index).unwrap();
            verify_inclusion(
                &leaf_hash(leaf),
                index,
                checkpoint.size,
                &path,
                &checkpoint.root,
            )
            .unwrap();
        }
        for old in &self.seen {
            let path = prover.consistency(old.size).unwrap();
            verify_consistency(
                old.size,
                &old.root,
                checkpoint.size,
                &checkpoint.root,
                &path,
            )
            .unwrap();
        }
        self.seen.push(checkpoint);
    }
}

#[test]
fn a_new_log_opens_itself_and_answers_in_order() {
    let mut rig = Rig::new();
    let outcomes = rig.included(&["a", "no", "b", "a"]);
    let seen: Vec<_> = outcomes
        .iter()
        .map(|o| match o {
            Outcome::Sequenced(s) => (s.index, s.existing),
            Outcome::Refused(_) => (u64::MAX, false),
            Outcome::Stopped(stop) => panic!("{stop}"),
        })
        .collect();
    assert_eq!(
        seen,
        [(1, false), (u64::MAX, false), (2, false), (1, true)],
        "a repeat inside one batch is a repeat"
    );
    assert_eq!(rig.store.entry(0).unwrap().unwrap(), b"opened");
    rig.check();
}

#[test]
fn whoever_waits_for_a_commit_or_a_publication_is_woken_once_it_can_be_read() {
    let rig = Rig::new();
    let reader = rig.log().reader();
    let mut progress = reader.progress();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    for size in 2..10 {
        rig.submit(&[&format!("{size}")]);
        let wait = async {
            progress.wait_for(|p| p.committed >= size).await.unwrap();
            assert!(reader.committed().0.size >= size);
            let came = *progress.wait_for(|p| p.published >= size).await.unwrap();
            assert!(reader.leaf(came.published - 1).unwrap().is_some());
        };
        runtime
            .block_on(async { tokio::time::timeout(Duration::from_secs(30), wait).await })
            .unwrap();
    }
}

#[test]
fn b086_the_same_again_gets_the_same_index_at_once_later_and_after_a_restart() {
    let mut rig = Rig::new();
    let first = rig.index("x");
    assert_eq!(rig.index("x"), first);
    rig.index("y");
    rig.start(false).unwrap();
    assert_eq!(rig.index("x"), first);
    rig.check();
}

#[test]
fn every_step_failing_before_and_after_loses_nothing_that_was_answered() {
    for step in [Step::Commit, Step::Mark, Step::Read, Step::Reload] {
        for when in [When::Before, When::After] {
            for failures in 1..=3 {
                let mut rig = Rig::new();
                let before = rig.index("before");
                for _ in 0..failures {
                    rig.store.fail_next(step, when);
                }
                if step == Step::Reload {
                    rig.store.fail_next(Step::Commit, when);
                }
                let answered = rig.included_or_stopped("during");
                // A client that got no answer sends the very same again, and ends with one index.
                let mut tries = 0;
                let index = loop {
                    match rig.included_or_stopped("during") {
                        Some(index) => break index,
                        None if tries < 40 => std::thread::sleep(Duration::from_millis(100)),
                        None => panic!("{step:?} {when:?} {failures}: writing never resumed"),
                    }
                    tries += 1;
                };
                assert!(
                    answered.is_none_or(|a| a == index),
                    "{step:?} {when:?} {failures}"
                );
                assert_eq!(rig.index("before"), before);
                rig.check();
                let leaves = rig.store.entries(0, 100).unwrap();
                assert_eq!(
                    leaves.iter().filter(|l| *l == b"during").count(),
                    1,
                    "{step:?} {when:?} {failures}"
                );
                assert!(
                    failures > 1 || rig.store.faults_used(),
                    "{step:?} {when:?}: it never failed"
                );
                rig.start(false).unwrap();
                assert_eq!(rig.index("during"), index);
                rig.check();
            }
        }
    }
}

#[test]
fn a_checkpoint_that_a_start_cannot_store_is_tried_again() {
    for when in [When::Before, When::After] {
        let store = MemoryStore::new();
        let growth = crate::store::suite::growth(&Head::EMPTY, &[b"opened"]);
        store.commit(&Head::EMPTY, &growth).unwrap();
        store.fail_next(Step::KeepPublished, when);
        let mut rig = Rig::over(store);
        // Nobody writes.
        let shown = (0..10_000).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            rig.log().reader().published().head == growth.head
        });
        assert!(shown);
        assert!(rig.store.faults_used());
        rig.check();
        assert_eq!(rig.index("a"), 1);
        rig.start(false).unwrap();
        assert_eq!(rig.index("a"), 1);
        rig.check();
    }
}

#[test]
fn a_checkpoint_is_kept_with_its_leaves_and_marked_before_it_is_shown() {
    let mut rig = Rig::new();
    for leaf in ["a", "b", "c"] {
        rig.index(leaf);
        let kept = rig.store.published().unwrap().unwrap();
        assert_eq!(kept.note, rig.log().reader().published().note);
        assert_eq!(rig.store.tidemark().unwrap(), Some(kept.head));
    }
    rig.check();
    // A process that ended between the commit and the mark: the next start shows what is stored, and marks it.
    rig.log = None;
    let store = MemoryStore::new();
    let mut growth = crate::store::suite::growth(&Head::EMPTY, &[b"opened"]);
    growth.published = Some(
        HeadSigner {
            origin: "log.example/a".into(),
            signer: Rig::signer(),
        }
        .sign(&growth.head),
    );
    store.commit(&Head::EMPTY, &growth).unwrap();
    let mut rig = Rig::over(store);
    assert_eq!(rig.index("a"), 1);
    rig.check();
}

impl Rig {
    fn included_or_stopped(&self, leaf: &str) -> Option<u64> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let outcomes = runtime
            .block_on(self.submit(&[leaf]).reached(Duration::from_secs(5)))
            .ok()?
            .0;
        match &outcomes[..] {
            [Outcome::Sequenced(s)] => Some(s.index),
            [Outcome::Stopped(_)] => None,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_fell_due_comes_before_what_is_judged() {
    let mut rig = Rig::new();
    let due = START + 1_000;
    rig.index(&format!("due {due}"));
    rig.clocks.0.lock().unwrap().0 = 2_000;
    let index = rig.index("after");
    let before = rig.store.entry(index - 1).unwrap().unwrap();
    assert_eq!(before, format!("fell due {due}").into_bytes());
    rig.check();
}

#[test]
fn b119_what_is_due_is_due_after_a_restart_too() {
    let mut rig = Rig::new();
    let due = START + 1_000;
    rig.index(&format!("due {due}"));
    rig.clocks.0.lock().unwrap().0 = 5_000;
    rig.start(false).unwrap();
    let index = rig.index("after");
    assert_eq!(
        rig.store.entry(index - 1).unwrap().unwrap(),
        format!("fell due {due}").into_bytes()
    );
}

#[test]
fn a_stepped_clock_stops_writing_and_not_reading_until_accepted() {
    let mut rig = Rig::new();
    rig.index("a");
    rig.clocks.0.lock().unwrap().1 = 3_600_000;
    assert_eq!(rig.included_or_stopped("b"), None);
    assert!(matches!(rig.log().status().stop, Some(Stop::Clock(_))));
    rig.check();
    rig.clocks.0.lock().unwrap().1 = 0;
    assert_eq!(
        rig.included_or_stopped("b"),
        Some(2),
        "the step undone, writing goes on by itself"
    );
    // An hour back, seen at a start: refused until it is accepted, and a leaf says so.
    rig.log = None;
    rig.clocks.0.lock().unwrap().1 = -3_600_000;
    rig.start(false).unwrap();
    assert_eq!(rig.included_or_stopped("c"), None);
    rig.start(true).unwrap();
    assert_eq!(rig.index("c"), 4);
    assert!(rig.store.entry(3).unwrap().unwrap().starts_with(b"clock "));
    rig.check();
    // An hour ahead of the last leaf: accepted, a leaf says from when to when; not accepted, time has passed.
    rig.log = None;
    let before = rig.store.head().unwrap().1;
    rig.clocks.0.lock().unwrap().1 = 3_600_000;
    rig.start(true).unwrap();
    assert_eq!(rig.index("d"), 6);
    let said = String::from_utf8(rig.store.entry(5).unwrap().unwrap()).unwrap();
    assert!(said.starts_with(&format!("clock {before}")), "{said}");
    rig.start(true).unwrap();
    assert_eq!(rig.index("e"), 7, "of the same clock nothing is to be said");
    rig.check();
}

#[test]
fn b102_a_store_that_ends_before_what_was_published_is_not_written() {
    let mut rig = Rig::new();
    rig.index("a");
    rig.log = None;
    let published = rig.store.published().unwrap();
    let short = MemoryStore::new();
    let growth = crate::store::suite::growth(&Head::EMPTY, &[b"opened"]);
    short.commit(&Head::EMPTY, &growth).unwrap();
    short
        .keep(crate::store::Stage::Published, &published.unwrap())
        .unwrap();
    rig.store = Arc::new(short);
    assert!(matches!(rig.start(false), Err(StartError::Guard(_))));
}

#[test]
fn b062_an_idle_log_writes_nothing() {
    let rig = Rig::new();
    rig.index("a");
    let note = rig.log().reader().published().note.clone();
    rig.included(&["a"]);
    rig.included(&["no"]);
    assert_eq!(rig.log().reader().published().note, note);
}

#[test]
fn closing_finishes_what_was_accepted() {
    let mut rig = Rig::new();
    let pending: Vec<_> = (0..50)
        .map(|n| rig.submit(&[&format!("leaf {n}")]))
        .collect();
    rig.log().close();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    for pending in pending {
        let outcomes = runtime.block_on(pending.sequenced()).unwrap();
        assert!(matches!(outcomes[0], Outcome::Sequenced(_)));
    }
    assert!(
        rig.log()
            .submit(vec![b"late".to_vec()], Until::Sequenced)
            .is_err()
    );
    rig.check();
    assert_eq!(rig.seen.last().unwrap().size, 51, "and publishes it");
}

#[test]
fn a_start_after_many_leaves_replays_from_the_snapshot() {
    let mut rig = Rig::new();
    for chunk in 0..5 {
        let leaves: Vec<String> = (0..4_000).map(|n| format!("{chunk} {n}")).collect();
        let leaves: Vec<&str> = leaves.iter().map(String::as_str).collect();
        rig.included(&leaves);
    }
    // Kept beside the writer, so a moment later.
    let snapshot = loop {
        match rig.store.snapshot().unwrap() {
            Some(snapshot) => break snapshot,
            None => std::thread::yield_now(),
        }
    };
    assert!(snapshot.size > 16_000);
    rig.start(false).unwrap();
    assert_eq!(*rig.log().reader().version(), 20_001);
    assert_eq!(rig.index("3 17"), 1 + 3 * 4_000 + 17);
}
