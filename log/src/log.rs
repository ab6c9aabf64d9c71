//! A running log: its threads, its queue, and what readers of it share.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, TrySendError},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use arc_swap::{ArcSwap, ArcSwapOption};
use countersign_verifier::vkey::NoteSigner;
use tokio::sync::{oneshot, watch};

use crate::{
    clock::{ClockFault, Clocks, LogClock, Reading},
    guard,
    judge::Judge,
    publish::{HeadSigner, Notice, Published, Publisher},
    reader::Reader,
    shared::{Committed, Progress, Shared, StartError},
    store::{Head, Store, StoreError},
    witnesses::{Rounds, Witnesses, WitnessesStatus},
    writer::{Job, Outcome, Stated, Stop, Until, Writer, load},
};

/// How many submissions may wait for the writer. What they hold was admitted by a door that bounds the bytes of all bodies being
/// answered together, so this bounds their number and not their memory.
const QUEUE_MAX: usize = 4_096;

/// What a log is opened with.
pub struct Options<J: Judge> {
    /// The origin, chosen once: the first line of every checkpoint.
    pub origin: String,
    /// The log's key.
    pub signer: NoteSigner,
    /// Where its bytes lie.
    pub store: Arc<dyn Store>,
    /// What its leaves mean.
    pub judge: J,
    /// The machine's clocks.
    pub clocks: Arc<dyn Clocks>,
    /// Who must cosign before a head is published; `None` for a policy that asks for nobody.
    pub witnesses: Option<Witnesses>,
    /// Take the wall clock as it is, and write a leaf that says so, if it is what keeps the log from writing: at the start, or later
    /// where the clocks of its witnesses dispute it.
    pub accept_clock: bool,
}

/// How a log fares.
#[derive(Clone, Debug)]
pub struct Status {
    /// The committed head.
    pub committed: Head,
    /// The published head.
    pub published: Head,
    /// Why writes are refused, if they are.
    pub stop: Option<Stop>,
    /// Why the published head does not follow, if it does not.
    pub publication: Option<StoreError>,
    /// Wall clock minus log time, in milliseconds, when a leaf was last stamped.
    pub clock_offset_ms: i64,
    /// The wall clock, POSIX milliseconds: what the times beside it are compared with.
    pub wall_ms: u64,
    /// How the witnesses fare; empty without any.
    pub witnesses: Arc<WitnessesStatus>,
}

/// A running log. Dropped, it finishes what it accepted.
pub struct Log<J: Judge> {
    shared: Arc<Shared<J::Version>>,
    jobs: Mutex<Option<mpsc::SyncSender<Job<J>>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// A submission that did not get in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turned {
    /// The queue is full.
    Busy,
    /// The log is closing.
    Closed,
    /// The writer ended in a panic.
    Died,
}

/// How far a log had come before it stopped.
fn progress(committed: u64, published: u64) -> watch::Sender<Progress> {
    watch::Sender::new(Progress {
        committed,
        published,
    })
}

impl<J: Judge> Log<J> {
    /// Loads what is durable, checks it against what was published, and starts to write.
    ///
    /// A fault of the clock does not keep a log from starting: it serves reads and refuses writes, saying why.
    ///
    /// # Errors
    /// See [`StartError`]; nothing was written then.
    pub fn start(options: Options<J>) -> Result<Log<J>, StartError> {
        Log::begin(options, false)
    }

    /// The same, and writes without waiting for the witnesses to show that nothing is missing: a leaf says so first. What they
    /// prove to be missing ends writing all the same.
    ///
    /// # Errors
    /// As [`Log::start`].
    pub fn start_unguarded(options: Options<J>) -> Result<Log<J>, StartError> {
        Log::begin(options, true)
    }

    fn begin(mut options: Options<J>, unguarded: bool) -> Result<Log<J>, StartError> {
        let loaded = load(&*options.store, &mut options.judge)?;
        let missing = guard::check(&*options.store, &loaded.edge)?.map(Stop::Guard);
        let reading = options.clocks.read();
        let ((clock, fault), accepted) = clock(loaded.last_at, reading, options.accept_clock);
        if let Some(fault) = &fault {
            tracing::error!(%fault, "writing does not start until the clock is accepted");
        }
        let published = marked(&*options.store, missing.as_ref())?;
        let shared = Arc::new(Shared {
            gate: ArcSwapOption::from_pointee(missing),
            witnesses: ArcSwap::default(),
            disputed_ms: 0.into(),
            clocks: options.clocks.clone(),
            signed: ArcSwap::from_pointee(options.store.signed()?.pop().into()),
            progress: progress(loaded.edge.size(), published.head.size),
            published: ArcSwap::from_pointee(published),
            store: options.store,
            committed: ArcSwap::from_pointee(Committed::new(
                loaded.edge.clone(),
                options.judge.version(),
            )),
            stop: ArcSwapOption::from_pointee(fault.map(Stop::Clock)),
            published_trouble: ArcSwapOption::empty(),
            clock_offset_ms: clock.offset_ms().into(),
        });
        let (job_sender, jobs) = mpsc::sync_channel(QUEUE_MAX);
        let (notice_sender, notices) = mpsc::channel();
        let signer = Arc::new(HeadSigner {
            origin: options.origin,
            signer: options.signer,
        });
        let policy = options.witnesses.as_ref().and_then(|w| w.policy().cloned());
        let witnesses = options.witnesses.zip(policy);
        let say = notice_sender.clone();
        let begin = |pair| Rounds::new(shared.clone(), signer.clone(), pair, say);
        let mut rounds = witnesses.map(begin).transpose()?;
        let publisher = Publisher::new(signer.clone());
        if rounds.is_none() {
            show_committed(&publisher, &shared);
        }
        let stated = Stated {
            clock: accepted,
            disputes: options.accept_clock,
            unguarded: unguarded && rounds.as_mut().is_some_and(Rounds::skip_guard),
        };
        let writer = Writer::new(
            shared.clone(),
            options.judge,
            (loaded.edge, loaded.snapshot_at),
            clock,
            options.clocks,
            (signer, rounds.is_none()),
            notice_sender,
        );
        let seen = shared.clone();
        let threads = vec![
            spawn("log-writer", move || writer.run(&jobs, stated)),
            spawn("log-publisher", move || {
                publish(rounds, publisher, &seen, &notices)
            }),
        ];
        Ok(Log {
            shared,
            jobs: Mutex::new(Some(job_sender)),
            threads: Mutex::new(threads),
        })
    }

    /// Hands requests to the writer, which takes them in this order with nothing in between.
    ///
    /// # Errors
    /// [`Turned`]; nothing was or will be done with them.
    pub fn submit(
        &self,
        requests: Vec<J::Request>,
        until: Until,
    ) -> Result<Pending<J::Refusal>, Turned> {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(jobs) = jobs.as_ref() else {
            return Err(Turned::Closed);
        };
        let (sequenced, was_sequenced) = oneshot::channel();
        let (further, came_further) = match until {
            Until::Sequenced => (None, None),
            until => {
                let (wake, woken) = oneshot::channel();
                (Some((until, wake)), Some(woken))
            }
        };
        let job = Job {
            requests,
            sequenced,
            further,
        };
        match jobs.try_send(job) {
            Ok(()) => Ok(Pending {
                sequenced: was_sequenced,
                further: came_further,
            }),
            Err(TrySendError::Full(_)) => Err(Turned::Busy),
            // Nobody closed the log, and the writer is gone: it panicked.
            Err(TrySendError::Disconnected(_)) => Err(Turned::Died),
        }
    }

    /// What was published.
    #[must_use]
    pub fn reader(&self) -> Reader<J::Version> {
        Reader::new(self.shared.clone())
    }

    /// How it fares.
    #[must_use]
    pub fn status(&self) -> Status {
        let shared = &self.shared;
        Status {
            committed: shared.committed.load().head,
            published: shared.published.load().head,
            stop: match shared.gate.load_full().or_else(|| shared.stop.load_full()) {
                Some(stop) => Some((*stop).clone()),
                None if self.is_closed() => Some(Stop::Closed),
                None if self.has_died() => Some(Stop::Died),
                None => None,
            },
            publication: shared.published_trouble.load_full().map(|e| (*e).clone()),
            clock_offset_ms: shared
                .clock_offset_ms
                .load(std::sync::atomic::Ordering::Relaxed),
            wall_ms: shared.wall_ms(),
            witnesses: shared.witnesses.load_full(),
        }
    }

    fn is_closed(&self) -> bool {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.is_none()
    }

    /// Whether a thread ended though nobody closed the log: a bug, and it has said so.
    fn has_died(&self) -> bool {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.iter().any(JoinHandle::is_finished)
    }

    /// Takes no more, finishes what was taken, and ends both threads.
    pub fn close(&self) {
        drop(
            self.jobs
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a thread of the log ended in a panic");
            }
        }
    }
}

impl<J: Judge> Drop for Log<J> {
    fn drop(&mut self) {
        self.close();
    }
}

/// What was published, and marked again where nothing is missing: a crash came between the two, or the mark was not synced yet. A disk
/// that refuses now keeps nobody from reading: the mark is raised with the next head.
fn marked(store: &dyn Store, missing: Option<&Stop>) -> Result<Published, StoreError> {
    let published = Published::from(store.published()?);
    if missing.is_none()
        && published.head != Head::EMPTY
        && let Err(error) = store.mark(&published.head).and_then(|()| store.settle())
    {
        tracing::warn!(%error, "the mark of the largest published head could not be raised");
    }
    Ok(published)
}

/// Before anybody reads: what was published last may have been lost with a record cut short, and readers who saw it must not be
/// shown less. A store that refuses now is asked again by the publisher's thread.
fn show_committed<V>(publisher: &Publisher, shared: &Shared<V>) {
    let head = shared.committed.load().head;
    if head.size > shared.published.load().head.size
        && let Err(error) = publisher.publish(shared, &head, None)
    {
        tracing::error!(%error, "the newest head could not be published at the start");
    }
}

/// Log time at a start, what keeps it from going on, and whether the operator's word for the wall clock is to be a leaf.
fn clock(last_at: u64, reading: Reading, accept: bool) -> ((LogClock, Option<ClockFault>), bool) {
    if let Some(clock) = LogClock::set_ahead(last_at, reading).filter(|_| accept) {
        return ((clock, None), true);
    }
    let started = LogClock::start(last_at, reading);
    let accepted = accept && started.1.is_some();
    (started, accepted)
}

/// The publisher's thread: by witnesses, or by the log's own signature.
fn publish<V: Send + Sync + 'static>(
    rounds: Option<Rounds<V>>,
    publisher: Publisher,
    shared: &Shared<V>,
    notices: &mpsc::Receiver<Notice>,
) {
    match rounds {
        Some(rounds) => rounds.run(notices),
        None => publisher.run(shared, notices),
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let builder = std::thread::Builder::new().name(name.into());
    builder
        .spawn(work)
        .expect("Log::start: the system gives no thread")
}

/// A submission on its way.
pub struct Pending<R> {
    sequenced: oneshot::Receiver<Vec<Outcome<R>>>,
    further: Option<oneshot::Receiver<()>>,
}

impl<R> Pending<R> {
    /// Waits until all its leaves are committed, or until it is known what came instead. One outcome a request, in order.
    ///
    /// # Errors
    /// [`Stop::Died`] if the writer ended without an answer: whether the leaves were committed is then unknown.
    pub async fn sequenced(self) -> Result<Vec<Outcome<R>>, Stop> {
        self.sequenced.await.map_err(|_| Stop::Died)
    }

    /// Waits until all its leaves are as far as was asked for, at most until `deadline` passed; then, if need be, until they are
    /// committed. The flag says whether they are that far.
    ///
    /// # Errors
    /// As [`Pending::sequenced`].
    pub async fn reached(self, deadline: Duration) -> Result<(Vec<Outcome<R>>, bool), Stop> {
        self.reached_after(deadline, || {}).await
    }

    /// The same; `committed` is called in between, as soon as its leaves are committed or it is known what came instead.
    ///
    /// # Errors
    /// As [`Pending::sequenced`].
    pub async fn reached_after(
        self,
        deadline: Duration,
        committed: impl FnOnce(),
    ) -> Result<(Vec<Outcome<R>>, bool), Stop> {
        let begun = Instant::now();
        let outcomes = self.sequenced.await.map_err(|_| Stop::Died)?;
        committed();
        let reached = match self.further {
            None => true,
            Some(further) => {
                let left = deadline.saturating_sub(begun.elapsed());
                matches!(tokio::time::timeout(left, further).await, Ok(Ok(())))
            }
        };
        Ok((outcomes, reached))
    }
}

impl From<ClockFault> for Stop {
    fn from(fault: ClockFault) -> Stop {
        Stop::Clock(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_committed_is_told_before_any_further_wait() {
        let (commit, sequenced) = oneshot::channel::<Vec<Outcome<()>>>();
        let (go_on, further) = oneshot::channel();
        commit.send(Vec::new()).expect("it is received below");
        let pending = Pending {
            sequenced,
            further: Some(further),
        };
        // It comes further only when the commit was told.
        let told = || go_on.send(()).expect("it is received below");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        let work = pending.reached_after(Duration::from_secs(60), told);
        let (outcomes, reached) = runtime.block_on(work).expect("it was committed");
        assert!(outcomes.is_empty() && reached);
    }
}
