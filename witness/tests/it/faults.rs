//! Each step of the store failed before or after it was done: whatever is answered was stored, and nothing is told twice.

use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex};
use std::task::Poll;

use countersign_verifier::checkpoint::origin_hash;
use countersign_verifier::hash::Hash;
use countersign_witness::decide::Refusal;
use countersign_witness::record::Record;
use countersign_witness::roster::Outcome;
use countersign_witness::store::{Change, Fault, Memory, Step, Store, StoreError};
use countersign_witness::tally::Tally;
use countersign_witness::writer::QUEUE;
use countersign_witness::{Answer, Witness};

use crate::support::{NOW, TestClock, TestLog, check_lines, keys, time, witness};

async fn ask(witness: &Witness, body: &str) -> Answer {
    witness.add_checkpoint(body.as_bytes()).await
}

fn size(store: &Memory, log: &TestLog) -> Option<u64> {
    // A planned failure may meet this reading.
    let read = || store.record(&origin_hash(&log.origin));
    let record = read().or_else(|_| read()).unwrap();
    record.map(|record| record.checkpoint.size)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_step_signs_nothing_and_the_next_request_finds_what_is_stored() {
    for step in [Step::Record, Step::Entry, Step::Commit] {
        for after in [false, true] {
            for skip in 0..3 {
                let store = Arc::new(Memory::default());
                let log = TestLog::new("faults.example/log", 9);
                let witness = witness(store.clone(), &[log.addition()]);
                store.fail(Fault { step, after, skip });
                let name = format!("{step:?} after={after} skip={skip}");
                // A client that asks until it is told, with what it is told.
                let (mut old, mut failures) = (0, 0);
                for new in [2, 5, 9] {
                    loop {
                        match ask(&witness, &log.request(old, new)).await {
                            Answer::Cosigned(lines) => {
                                check_lines(witness.keys(), &lines, &log.text(new));
                                assert_eq!(size(&store, &log), Some(new as u64), "{name}");
                                old = new;
                                break;
                            }
                            Answer::Conflict(found) => {
                                assert_eq!(size(&store, &log).unwrap_or(0), found, "{name}");
                                old = usize::try_from(found).unwrap();
                            }
                            Answer::Failed => failures += 1,
                            other => panic!("{name}: {other:?}"),
                        }
                    }
                }
                assert!(failures <= 1, "{name}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_an_uncertain_commit_another_branch_has_no_chance() {
    let store = Arc::new(Memory::default());
    let log = TestLog::new("faults.example/log", 9);
    let fork = log.fork(3, "fork");
    let witness = witness(store.clone(), &[log.addition()]);
    assert!(matches!(
        ask(&witness, &log.request(0, 3)).await,
        Answer::Cosigned(_)
    ));
    store.fail(Fault {
        step: Step::Commit,
        after: true,
        skip: 0,
    });
    store.fail(Fault {
        step: Step::Reload,
        after: false,
        skip: 0,
    });
    assert_eq!(ask(&witness, &log.request(3, 9)).await, Answer::Failed);
    // Another branch meets what is stored now; and as long as the store does not load again, nothing is signed.
    assert_eq!(
        ask(&witness, &fork.request(3, 9)).await,
        Answer::Conflict(9)
    );
    assert!(
        matches!(ask(&witness, &fork.request(9, 9)).await, Answer::Refused(why) if why.status() == 422)
    );
    assert_eq!(ask(&witness, &log.request(9, 9)).await, Answer::Failed);
    assert!(matches!(
        ask(&witness, &log.request(9, 9)).await,
        Answer::Cosigned(_)
    ));
}

/// 7.3: the time is taken where the order is made, and never goes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b024_the_same_head_again_has_a_later_time_and_no_time_goes_back() {
    let store = Arc::new(Memory::default());
    let log = TestLog::new("times.example/log", 9);
    let clock = TestClock::at(NOW);
    let witness = Witness::new(keys(false), store.clone(), clock.clock()).unwrap();
    witness.roster().add(&[log.addition()]).unwrap();
    let cosigned = async |old, new, now| {
        clock.set(now);
        match ask(&witness, &log.request(old, new)).await {
            Answer::Cosigned(lines) => {
                check_lines(witness.keys(), &lines, &log.text(new));
                lines
            }
            other => panic!("{other:?}"),
        }
    };
    let first = cosigned(0, 3, NOW).await;
    assert_eq!(time(&first), NOW);
    assert_eq!(cosigned(3, 3, NOW).await, first, "the same second");
    assert_eq!(store.commits(), 1, "and no write for it");
    assert_eq!(time(&cosigned(3, 3, NOW + 2).await), NOW + 2);
    assert_eq!(
        time(&cosigned(3, 9, NOW - 500).await),
        NOW + 2,
        "the clock went back"
    );
    assert_eq!(time(&cosigned(9, 9, 0).await), NOW + 2);
    assert_eq!(time(&cosigned(9, 9, NOW + 3).await), NOW + 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_before_1970_still_gives_a_time() {
    let log = TestLog::new("times.example/log", 3);
    let witness = Witness::new(
        keys(false),
        Arc::<Memory>::default(),
        TestClock::at(0).clock(),
    );
    let witness = witness.unwrap();
    witness.roster().add(&[log.addition()]).unwrap();
    match ask(&witness, &log.request(0, 3)).await {
        Answer::Cosigned(lines) => assert_eq!(time(&lines), 1),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_grows_far_faster_than_announced_waits_and_nobody_else() {
    let clock = TestClock::at(NOW);
    let witness = Witness::new(keys(false), Arc::<Memory>::default(), clock.clock()).unwrap();
    let (fast, other) = (
        TestLog::new("fast.example", 62),
        TestLog::new("other.example", 62),
    );
    let mut listed = fast.addition();
    listed.qpd = Some(24);
    witness.roster().add(&[listed, other.addition()]).unwrap();
    for log in [&fast, &other] {
        for size in 1..=60 {
            let answer = ask(&witness, &log.request(size - 1, size)).await;
            assert!(matches!(answer, Answer::Cosigned(_)), "{size}");
        }
    }
    assert_eq!(
        ask(&witness, &fast.request(60, 61)).await,
        Answer::Busy(900)
    );
    assert!(matches!(
        ask(&witness, &other.request(60, 61)).await,
        Answer::Cosigned(_)
    ));
    // Repeating what is public uses up nobody's share, and is not refused.
    clock.set(NOW + 1);
    assert!(matches!(
        ask(&witness, &fast.request(60, 60)).await,
        Answer::Cosigned(_)
    ));
    assert_eq!(
        ask(&witness, &fast.request(0, 60)).await,
        Answer::Conflict(60)
    );
    clock.set(NOW + 900);
    assert!(matches!(
        ask(&witness, &fast.request(60, 61)).await,
        Answer::Cosigned(_)
    ));
}

/// Additions and counts: an error is told, nothing is half done, and the same again is right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_addition_is_made_again_and_counts_are_written_later() {
    for after in [false, true] {
        let store = Arc::new(Memory::default());
        let log = TestLog::new("faults.example/log", 3);
        let witness = witness(store.clone(), &[]);
        let unknown = ask(&witness, &log.request(0, 3)).await;
        assert_eq!(unknown, Answer::Refused(Refusal::UnknownLog));
        let skip = 0;
        for step in [Step::PutEntries, Step::PutTallies] {
            store.fail(Fault { step, after, skip });
        }
        assert!(witness.roster().add(&[log.addition()]).is_err());
        let again = witness.roster().add(&[log.addition()]).unwrap();
        let known = if after {
            Outcome::Known
        } else {
            Outcome::Added
        };
        assert_eq!(again, [known]);
        assert!(matches!(
            ask(&witness, &log.request(0, 3)).await,
            Answer::Cosigned(_)
        ));
        witness.write_tallies();
        witness.write_tallies();
        let row = witness.rows(None, 10).unwrap().remove(0);
        let today = countersign_witness::tally::day(NOW);
        // Counts are nobody's decision: what was written and is not known to be is written once more.
        assert_eq!(row.tally.on(today), 1 + u64::from(after));
    }
}

/// A disk that hangs: who comes when too many wait is told to come later, and who waits is answered in the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_too_many_wait_the_next_is_told_to_come_later() {
    let store = Arc::new(Gated::default());
    let log = TestLog::new("queue.example/log", 3);
    let witness = witness(store.clone(), &[log.addition()]);
    let request = log.request(0, 3);
    store.close(true);
    let (mut busy, mut told) = (0, 0);
    let mut waiting = Vec::new();
    // One batch in the commit that hangs, a queue behind it, and more.
    for _ in 0..2 * QUEUE {
        let mut asked = Box::pin(witness.add_checkpoint(request.as_bytes()));
        match poll_once(&mut asked).await {
            Some(Answer::Busy(1)) => busy += 1,
            Some(other) => panic!("{other:?}"),
            None => waiting.push(asked),
        }
    }
    assert!(busy > 0 && waiting.len() >= QUEUE, "{busy}");
    store.close(false);
    for asked in waiting {
        match asked.await {
            Answer::Cosigned(lines) => check_lines(witness.keys(), &lines, &log.text(3)),
            Answer::Conflict(3) => told += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(told > 0, "of one log one request advanced");
}

/// The answer, if it is there without waiting.
async fn poll_once<T>(asked: &mut Pin<Box<impl Future<Output = T>>>) -> Option<T> {
    std::future::poll_fn(|context| match asked.as_mut().poll(context) {
        Poll::Ready(answer) => Poll::Ready(Some(answer)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// A store whose commits wait at a gate.
#[derive(Default)]
struct Gated {
    inner: Memory,
    closed: Mutex<bool>,
    changed: Condvar,
}

impl Gated {
    fn close(&self, closed: bool) {
        *self.closed.lock().unwrap() = closed;
        self.changed.notify_all();
    }
}

impl Store for Gated {
    fn record(&self, log: &Hash) -> Result<Option<Record>, StoreError> {
        self.inner.record(log)
    }

    fn commit(&self, changes: &[Change]) -> Result<(), StoreError> {
        let closed = self.closed.lock().unwrap();
        drop(self.changed.wait_while(closed, |closed| *closed).unwrap());
        self.inner.commit(changes)
    }

    fn entry(&self, log: &Hash) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.entry(log)
    }

    fn put_entries(&self, entries: &[(Hash, Vec<u8>)]) -> Result<(), StoreError> {
        self.inner.put_entries(entries)
    }

    fn entries(
        &self,
        after: Option<&Hash>,
        limit: usize,
    ) -> Result<Vec<(Hash, Vec<u8>)>, StoreError> {
        self.inner.entries(after, limit)
    }

    fn tally(&self, log: &Hash) -> Result<Tally, StoreError> {
        self.inner.tally(log)
    }

    fn put_tallies(&self, tallies: &[(Hash, Tally)]) -> Result<(), StoreError> {
        self.inner.put_tallies(tallies)
    }

    fn reload(&self) -> Result<(), StoreError> {
        self.inner.reload()
    }
}
