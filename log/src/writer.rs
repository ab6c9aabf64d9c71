//! One thread an account: drain, judge, grow, commit, answer.
//!
//! Everything that was waiting when the last commit ended goes into the next one, so a busy log makes few large commits and an
//! idle one answers at once; no interval is waited for. If a commit's outcome is unknown, everything in memory is thrown away and
//! read again from what is durable, by the same code as at start.

use std::{
    sync::{Arc, atomic::Ordering, mpsc},
    time::Duration,
};

use countersign_verifier::{
    hash::{Hash, leaf_hash},
    limits::ENTRY_BYTES_MAX,
    tile::Tile,
};
use tokio::sync::oneshot;

use crate::{
    clock::{ClockFault, Clocks, LogClock},
    grow::{Edge, levels_of, width_at},
    guard,
    judge::{Below, Context, Entry, Judge, Key, PendingBatch, Ruling},
    log::{Committed, Shared, StartError},
    prove::{Prover, Tiles},
    publish::{Notice, Waiter},
    reader::{hashes_from, tile_hashes},
    store::{Growth, Head, Store, StoreError},
};

/// One commit takes at most this many requests: 4,096 leaves of 2 KiB are 8 MiB, written and synced in some tens of milliseconds.
const BATCH_REQUESTS: usize = 4_096;
/// One commit takes in no further submission once its leaves have this many bytes.
const BATCH_BYTES: usize = 8 << 20;
/// A snapshot of the state is kept every so many leaves, so that a start replays fewer than twice as many.
const SNAPSHOT_EVERY: u64 = 16_384;
/// How many leaves are read at once when a state is replayed.
const REPLAY_CHUNK: usize = 1_024;
/// How long a store that does not open again is left alone.
const RELOAD_PAUSE: Duration = Duration::from_millis(500);
/// The longest sleep between looks at what is due.
const IDLE: Duration = Duration::from_secs(3_600);

/// Why nothing is written just now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// The clock moved in a way that only an operator can accept.
    #[error("{0}")]
    Clock(ClockFault),
    /// The store failed; it is opened again until it answers. Whether the last writes were committed is unknown to who waited for them.
    #[error("the store failed: {0}")]
    Store(StoreError),
    /// What is durable contradicts what was published: nothing will ever be written here again without an operator.
    #[error("{0}")]
    Guard(String),
    /// The log is closing.
    #[error("the log is closing")]
    Closed,
}

/// A leaf that is committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequenced {
    /// Its index.
    pub index: u64,
    /// Its RFC 6962 leaf hash.
    pub leaf_hash: Hash,
    /// Its bytes.
    pub leaf: Vec<u8>,
    /// It was there before this request.
    pub existing: bool,
}

/// What became of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<R> {
    /// It is, or was already, a committed leaf.
    Sequenced(Sequenced),
    /// The judge answered it without a leaf.
    Refused(R),
    /// Writing has stopped; whether an earlier attempt took place is not known where the store failed.
    Stopped(Stop),
}

/// A submission in the queue.
pub(crate) struct Job<J: Judge> {
    pub requests: Vec<J::Request>,
    pub sequenced: oneshot::Sender<Vec<Outcome<J::Refusal>>>,
    pub included: oneshot::Sender<()>,
}

/// What a start or a reload finds.
pub(crate) struct Loaded {
    pub edge: Edge,
    pub last_at: u64,
}

/// Reads what is durable: the edge, checked against the stored root, and the judge's state.
pub(crate) fn load<J: Judge>(store: &dyn Store, judge: &mut J) -> Result<Loaded, StartError> {
    let (head, last_at) = store.head()?;
    let edge = load_edge(store, &head)?;
    let snapshot = store.snapshot()?.filter(|s| s.size <= head.size);
    let mut next = match &snapshot {
        Some(snapshot) if judge.restore(Some(&snapshot.bytes)) => snapshot.size,
        _ => {
            judge.restore(None);
            0
        }
    };
    while next < head.size {
        for leaf in store.entries(next, REPLAY_CHUNK)? {
            judge
                .replay(next, &leaf)
                .map_err(|why| StartError::Leaf { index: next, why })?;
            next += 1;
        }
    }
    Ok(Loaded { edge, last_at })
}

fn load_edge(store: &dyn Store, head: &Head) -> Result<Edge, StoreError> {
    let mut levels = Vec::new();
    for level in 0..levels_of(head.size) {
        let width = width_at(head.size, level);
        let first = (head.size >> (8 * level)) - width as u64;
        let hashes: Result<Vec<Hash>, StoreError> = match level {
            0 => Ok(store
                .entries(first, width)?
                .iter()
                .map(|leaf| leaf_hash(leaf))
                .collect()),
            _ => (first..first + width as u64)
                .map(|index| {
                    // OK because a tree has at most eight tile levels.
                    let below = u8::try_from(level - 1).expect("load_edge: level");
                    Ok(countersign_verifier::tile::hash_of(&tile_hashes(
                        store, below, index,
                    )?))
                })
                .collect(),
        };
        levels.push(hashes?);
    }
    let edge = Edge::from_parts(head.size, levels);
    if edge.root() != head.root {
        return Err(StoreError::Damaged {
            what: format!(
                "the leaves and tiles at the end of the log do not give the root stored for size {}",
                head.size
            ),
        });
    }
    Ok(edge)
}

/// The writer's own state; speculative between judging and commit.
pub(crate) struct Writer<J: Judge> {
    shared: Arc<Shared<J::Version>>,
    judge: J,
    edge: Edge,
    clock: LogClock,
    clocks: Arc<dyn Clocks>,
    notices: mpsc::Sender<Notice>,
    snapshot_at: u64,
    /// An accepted change of the clock (from, to) that no leaf records yet.
    adjusted: Option<(u64, u64)>,
    /// Whether the state in memory is that of the committed leaves; not so between a failure and the reload after it.
    clean: bool,
}

/// A batch between judging and commit.
#[derive(Default)]
struct Batch {
    pending: PendingBatch,
    growth: Growing,
}

#[derive(Default)]
struct Growing {
    tiles: Vec<(Tile, Vec<u8>)>,
    unique: Vec<(Key, u64)>,
    postings: Vec<(Key, u64)>,
    hashes: Vec<Hash>,
    bytes: usize,
}

/// What became of a request, before the commit that makes it true.
enum Judged<R> {
    At(u64, bool),
    Refused(R),
}

impl<J: Judge> Writer<J> {
    pub(crate) fn new(
        shared: Arc<Shared<J::Version>>,
        judge: J,
        edge: Edge,
        clock: LogClock,
        clocks: Arc<dyn Clocks>,
        notices: mpsc::Sender<Notice>,
    ) -> Writer<J> {
        let snapshot_at = edge.size();
        Writer {
            shared,
            judge,
            edge,
            clock,
            clocks,
            notices,
            snapshot_at,
            adjusted: None,
            clean: true,
        }
    }

    /// Runs until the queue's other end is dropped and all that was in it is answered.
    pub(crate) fn run(mut self, jobs: &mpsc::Receiver<Job<J>>, accept_clock: bool) {
        if accept_clock {
            self.adjusted = Some(self.clock.accept(self.clocks.read()));
        }
        // The first leaf of a new log, what fell due meanwhile, and the publication of what was committed before the last stop.
        self.round(jobs, None);
        loop {
            match jobs.recv_timeout(self.until_due()) {
                Ok(first) => self.round(jobs, Some(first)),
                Err(mpsc::RecvTimeoutError::Timeout) => self.round(jobs, None),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
        }
        self.keep_snapshot();
        // The publisher is gone only if it panicked, and has then said so.
        let _ = self.notices.send(Notice::Close);
    }

    /// How long until something falls due by itself.
    fn until_due(&mut self) -> Duration {
        let (Some(due), Ok(now)) = (self.judge.next_due(), self.clock.now(self.clocks.read()))
        else {
            return IDLE;
        };
        Duration::from_millis(due.saturating_sub(now)).min(IDLE)
    }

    /// One batch: whatever waits, judged in order, committed at once, answered.
    fn round(&mut self, queue: &mpsc::Receiver<Job<J>>, first: Option<Job<J>>) {
        let at = match self.clock.now(self.clocks.read()) {
            Ok(at) => at,
            Err(fault) => {
                tracing::error!(%fault, "writing stops until the clock is accepted");
                self.shared.stop.store(Some(Arc::new(Stop::Clock(fault))));
                refuse(first, &Stop::Clock(fault));
                return;
            }
        };
        self.shared
            .clock_offset_ms
            .store(self.clock.offset_ms(), Ordering::Relaxed);
        self.shared.stop.store(None);
        let mut batch = self.begin(at);
        let mut jobs = Vec::new();
        let mut judged = Vec::new();
        let mut next = first;
        let mut requests = 0;
        let result = loop {
            if let Err(error) = self.write_due(&mut batch, at) {
                break Err(error);
            }
            let Some(job) = next.take() else { break Ok(()) };
            requests += job.requests.len();
            let answers = job
                .requests
                .iter()
                .map(|r| self.judge_one(&mut batch, at, r))
                .collect::<Result<Vec<_>, _>>();
            jobs.push(job);
            match answers {
                Ok(answers) => judged.push(answers),
                Err(error) => break Err(error),
            }
            if requests < BATCH_REQUESTS && batch.growth.bytes < BATCH_BYTES {
                next = queue.try_recv().ok();
            }
        };
        match result.and_then(|()| self.commit(&mut batch, at)) {
            Ok(()) => self.answer(batch, jobs, judged),
            Err(error) => {
                let stop = Stop::Store(error.clone());
                for job in jobs {
                    refuse(Some(job), &stop);
                }
                self.recover(queue, error);
            }
        }
    }

    /// An empty batch, or one that begins with what the log itself has to say.
    fn begin(&mut self, at: u64) -> Batch {
        let mut batch = Batch::default();
        batch.pending.first = self.edge.size();
        if self.edge.size() == 0 {
            let entry = self.judge.open(at);
            append(&mut self.edge, &mut batch, entry);
        }
        if let Some((from, to)) = self.adjusted {
            let below = Beneath(&self.edge, &batch.growth.tiles, &*self.shared.store);
            let entry = self.judge.clock_adjusted(
                &context(at, &self.edge, &below, &batch.pending),
                from,
                to,
            );
            append(&mut self.edge, &mut batch, entry);
        }
        batch
    }

    /// Everything that is due comes before whatever is judged next.
    fn write_due(&mut self, batch: &mut Batch, at: u64) -> Result<(), StoreError> {
        while self.judge.next_due().is_some_and(|due| due <= at) {
            let below = Beneath(&self.edge, &batch.growth.tiles, &*self.shared.store);
            let context = context(at, &self.edge, &below, &batch.pending);
            let Some(entry) = self.judge.due(&context)? else {
                break;
            };
            append(&mut self.edge, batch, entry);
        }
        Ok(())
    }

    fn judge_one(
        &mut self,
        batch: &mut Batch,
        at: u64,
        request: &J::Request,
    ) -> Result<Judged<J::Refusal>, StoreError> {
        let below = Beneath(&self.edge, &batch.growth.tiles, &*self.shared.store);
        let context = context(at, &self.edge, &below, &batch.pending);
        Ok(match self.judge.judge(request, &context)? {
            Ruling::Append(entry) => Judged::At(append(&mut self.edge, batch, entry), false),
            Ruling::Existing(index) => Judged::At(index, true),
            Ruling::Refuse(refusal) => Judged::Refused(refusal),
        })
    }

    fn commit(&mut self, batch: &mut Batch, at: u64) -> Result<(), StoreError> {
        if batch.pending.entries.is_empty() {
            return Ok(());
        }
        let previous = self.shared.committed.load().head;
        let committed = Committed::from(self.edge.clone());
        let head = committed.head;
        let snapshot =
            (head.size - self.snapshot_at >= SNAPSHOT_EVERY).then(|| self.judge.snapshot());
        let taken = snapshot.is_some();
        let growth = Growth {
            entries: std::mem::take(&mut batch.pending.entries),
            tiles: std::mem::take(&mut batch.growth.tiles),
            unique: std::mem::take(&mut batch.growth.unique),
            postings: std::mem::take(&mut batch.growth.postings),
            head,
            at,
            snapshot,
        };
        self.shared.store.commit(&previous, &growth)?;
        batch.pending.entries = growth.entries;
        if taken {
            self.snapshot_at = head.size;
        }
        self.adjusted = None;
        self.shared.committed.store(Arc::new(committed));
        self.shared.version.store(Arc::new(self.judge.version()));
        Ok(())
    }

    /// Answers what the commit made true, and hands on who waits for more.
    fn answer(&self, batch: Batch, jobs: Vec<Job<J>>, judged: Vec<Vec<Judged<J::Refusal>>>) {
        let mut waiters = Vec::with_capacity(jobs.len());
        for (job, answers) in jobs.into_iter().zip(judged) {
            let mut last = None;
            let outcomes = answers
                .into_iter()
                .map(|answer| match answer {
                    Judged::Refused(refusal) => Outcome::Refused(refusal),
                    Judged::At(index, existing) => {
                        last = last.max(Some(index));
                        self.outcome(&batch, index, existing)
                    }
                })
                .collect();
            // Who no longer listens loses nothing but the answer.
            let _ = job.sequenced.send(outcomes);
            if let Some(index) = last {
                waiters.push(Waiter {
                    index,
                    wake: job.included,
                });
            }
        }
        self.tell(waiters);
    }

    fn outcome(&self, batch: &Batch, index: u64, existing: bool) -> Outcome<J::Refusal> {
        let first = batch.pending.first;
        let (leaf, hash) = match index
            .checked_sub(first)
            .and_then(|i| usize::try_from(i).ok())
        {
            Some(i) => (
                Ok(Some(batch.pending.entries[i].clone())),
                Some(batch.growth.hashes[i]),
            ),
            None => (self.shared.store.entry(index), None),
        };
        match leaf {
            Ok(Some(leaf)) => Outcome::Sequenced(Sequenced {
                index,
                leaf_hash: hash.unwrap_or_else(|| leaf_hash(&leaf)),
                leaf,
                existing,
            }),
            Ok(None) => Outcome::Stopped(Stop::Store(StoreError::Damaged {
                what: format!("entry {index} is missing"),
            })),
            Err(error) => Outcome::Stopped(Stop::Store(error)),
        }
    }

    fn tell(&self, waiters: Vec<Waiter>) {
        let head = self.shared.committed.load().head;
        // The publisher is gone only if it panicked, and has then said so.
        let _ = self.notices.send(Notice::Grown(head, waiters));
    }

    /// After an unknown outcome: everything in memory is dropped, and what is durable is read again.
    fn recover(&mut self, queue: &mpsc::Receiver<Job<J>>, error: StoreError) {
        let mut stop = Stop::Store(error);
        self.clean = false;
        tracing::error!(%stop, "writing stops; reading again what is durable");
        loop {
            self.shared.stop.store(Some(Arc::new(stop.clone())));
            match self.reload() {
                Ok(()) => break,
                Err(again) => {
                    // Said once a kind: a disk can stay full for days.
                    if again != stop {
                        tracing::error!(stop = %again, "writing cannot go on yet");
                    }
                    stop = again;
                }
            }
            // Whoever comes meanwhile is answered, not kept; a queue that is closed for good ends the wait.
            match queue.recv_timeout(RELOAD_PAUSE) {
                Ok(job) => refuse(Some(job), &stop),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
            for job in queue.try_iter() {
                refuse(Some(job), &stop);
            }
        }
        self.clean = true;
        self.shared.stop.store(None);
        self.tell(Vec::new());
        tracing::info!(size = self.edge.size(), "writing goes on");
    }

    fn reload(&mut self) -> Result<(), Stop> {
        self.shared.store.reload().map_err(Stop::Store)?;
        let loaded = load(&*self.shared.store, &mut self.judge).map_err(|error| match error {
            StartError::Store(error) => Stop::Store(error),
            other => Stop::Guard(other.to_string()),
        })?;
        guard::check(&*self.shared.store, &loaded.edge).map_err(|e| Stop::Guard(e.to_string()))?;
        self.snapshot_at = loaded.edge.size();
        self.edge = loaded.edge;
        self.shared
            .committed
            .store(Arc::new(self.edge.clone().into()));
        self.shared.version.store(Arc::new(self.judge.version()));
        Ok(())
    }

    /// At a clean end, so that the next start replays nothing.
    fn keep_snapshot(&mut self) {
        if !self.clean {
            return;
        }
        let (head, at) = match self.shared.store.head() {
            Ok((head, at)) if head.size > self.snapshot_at => (head, at),
            _ => return,
        };
        let growth = Growth {
            entries: Vec::new(),
            tiles: Vec::new(),
            unique: Vec::new(),
            postings: Vec::new(),
            head,
            at,
            snapshot: Some(self.judge.snapshot()),
        };
        if let Err(error) = self.shared.store.commit(&head, &growth) {
            tracing::warn!(%error, "no snapshot was kept; the next start replays");
        }
    }
}

fn refuse<J: Judge>(job: Option<Job<J>>, stop: &Stop) {
    if let Some(job) = job {
        let outcomes = job
            .requests
            .iter()
            .map(|_| Outcome::Stopped(stop.clone()))
            .collect();
        // Who no longer listens loses nothing but the answer.
        let _ = job.sequenced.send(outcomes);
    }
}

fn context<'a>(
    at: u64,
    edge: &Edge,
    below: &'a dyn Below,
    pending: &'a PendingBatch,
) -> Context<'a> {
    Context {
        at,
        index: edge.size(),
        below,
        pending,
    }
}

fn append(edge: &mut Edge, batch: &mut Batch, entry: Entry) -> u64 {
    assert!(
        entry.leaf.len() <= ENTRY_BYTES_MAX,
        "writer::append: a leaf of {} bytes",
        entry.leaf.len()
    );
    let index = edge.size();
    let hash = leaf_hash(&entry.leaf);
    edge.push(hash, &mut batch.growth.tiles);
    let own = Key::new(Key::LEAF_HASH, &hash);
    for key in entry.unique.into_iter().chain([own]) {
        batch.pending.unique.insert(key, index);
        batch.growth.unique.push((key, index));
    }
    batch
        .growth
        .postings
        .extend(entry.postings.into_iter().map(|key| (key, index)));
    batch.growth.bytes += entry.leaf.len();
    batch.growth.hashes.push(hash);
    batch.pending.entries.push(entry.leaf);
    index
}

/// The tree below a leaf that is being judged: stored tiles, tiles that this batch completed, the growing edge.
struct Beneath<'a>(&'a Edge, &'a [(Tile, Vec<u8>)], &'a dyn Store);

impl Tiles for Beneath<'_> {
    fn hashes(&self, level: u8, index: u64, width: usize) -> Result<Vec<Hash>, StoreError> {
        if let Some((_, bytes)) = self
            .1
            .iter()
            .find(|(t, _)| t.level == level && t.index == index)
        {
            return Ok(bytes
                .chunks_exact(32)
                .take(width)
                .filter_map(|c| c.try_into().ok())
                .map(Hash)
                .collect());
        }
        hashes_from(self.2, self.0, level, index, width)
    }
}

impl Below for Beneath<'_> {
    fn find(&self, key: &Key) -> Result<Option<u64>, StoreError> {
        self.2.find(key)
    }

    fn entry(&self, index: u64) -> Result<Option<Vec<u8>>, StoreError> {
        self.2.entry(index)
    }

    fn root_at(&self, size: u64) -> Result<Hash, StoreError> {
        Prover::new(self, size).root()
    }
}

#[cfg(test)]
mod tests;
