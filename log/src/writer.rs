//! One thread an account: drain, judge, grow, commit, answer.
//!
//! Everything that was waiting when the last commit ended goes into the next one, so a busy log makes few large commits and an
//! idle one answers at once; no interval is waited for. If a commit's outcome is unknown, everything in memory is thrown away and
//! read again from what is durable, by the same code as at start.

mod answer;
mod batch;
mod load;
mod outcome;
mod recover;
mod snapshots;
mod time;

use std::{
    sync::{Arc, atomic::Ordering, mpsc},
    time::Duration,
};

pub(crate) use batch::{Batch, append};
use batch::{Beneath, context};
pub(crate) use load::load;
pub(crate) use outcome::Job;
pub use outcome::{Outcome, Sequenced, Stop, Until};
use snapshots::Snapshots;
use time::Dispute;

use crate::{
    clock::{Clocks, LogClock},
    grow::Edge,
    judge::{Judge, Ruling},
    publish::{HeadSigner, Notice},
    shared::{Committed, Shared},
    store::{Growth, Kept, StoreError},
};

/// One commit takes at most this many requests: 4,096 leaves of 2 KiB are 8 MiB, written and synced in some tens of milliseconds.
const BATCH_REQUESTS: usize = 4_096;
/// One commit takes in no further submission once its leaves have this many bytes.
const BATCH_BYTES: usize = 8 << 20;
/// The longest sleep between looks at the clock: a step of it shows in the status of an idle log too, and so does its end.
const IDLE: Duration = Duration::from_secs(5);
/// How soon the first leaf follows once the witnesses let a new log begin.
const GATED: Duration = Duration::from_millis(20);

/// The writer's own state; speculative between judging and commit.
pub(crate) struct Writer<J: Judge> {
    shared: Arc<Shared<J::Version>>,
    judge: J,
    edge: Edge,
    clock: LogClock,
    clocks: Arc<dyn Clocks>,
    signer: Arc<HeadSigner>,
    /// Whether the log's own signature is all that publishing takes.
    alone: bool,
    notices: mpsc::Sender<Notice>,
    snapshots: Snapshots,
    /// An accepted change of the clock (from, to) that no leaf records yet.
    adjusted: Option<(u64, u64)>,
    dispute: Dispute,
    /// Writing began without the witnesses' word, and no leaf records it yet.
    unguarded: bool,
    /// Whether the state in memory is that of the committed leaves; not so between a failure and the reload after it.
    clean: bool,
}

/// What an operator told the log to do at its start, which leaves record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stated {
    /// Take the wall clock as it is.
    pub clock: bool,
    /// Take it as it is where the witnesses' clocks dispute it later.
    pub disputes: bool,
    /// Write without the witnesses' word.
    pub unguarded: bool,
}

/// What became of a request, before the commit that makes it true.
enum Judged<R> {
    At(u64, bool),
    Refused(R),
    Unread(StoreError),
}

impl<J: Judge> Writer<J> {
    pub(crate) fn new(
        shared: Arc<Shared<J::Version>>,
        judge: J,
        (edge, snapshot_at): (Edge, u64),
        clock: LogClock,
        clocks: Arc<dyn Clocks>,
        (signer, alone): (Arc<HeadSigner>, bool),
        notices: mpsc::Sender<Notice>,
    ) -> Writer<J> {
        Writer {
            snapshots: Snapshots::new(shared.store.clone(), snapshot_at),
            shared,
            judge,
            edge,
            clock,
            clocks,
            signer,
            alone,
            notices,
            adjusted: None,
            dispute: Dispute::Stops,
            unguarded: false,
            clean: true,
        }
    }

    /// Runs until the queue's other end is dropped and all that was in it is answered.
    pub(crate) fn run(mut self, jobs: &mpsc::Receiver<Job<J>>, stated: Stated) {
        let _closing = Closing(self.notices.clone());
        if stated.clock {
            self.accept(self.clocks.read());
        }
        if stated.disputes {
            self.dispute = Dispute::Accepts;
        }
        self.unguarded = stated.unguarded;
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
    }

    /// How long until something falls due by itself.
    fn until_due(&mut self) -> Duration {
        match self.shared.gate.load().as_deref() {
            Some(Stop::Unguarded(_)) => return GATED,
            Some(_) => return IDLE,
            None => {}
        }
        let (Some(due), Ok(now)) = (self.judge.next_due(), self.clock.now(self.clocks.read()))
        else {
            return IDLE;
        };
        Duration::from_millis(due.saturating_sub(now)).min(IDLE)
    }

    /// One batch: whatever waits, judged in order, committed at once, answered.
    fn round(&mut self, queue: &mpsc::Receiver<Job<J>>, first: Option<Job<J>>) {
        if let Some(stop) = self.shared.gate.load_full() {
            self.shared.stop.store(Some(stop.clone()));
            refuse(first, &stop);
            return;
        }
        let at = match self.now() {
            Ok(at) => at,
            Err(fault) => {
                let stop = Stop::Clock(fault);
                let known = self.shared.stop.load();
                // Said once: the clock is looked at every few seconds, and may stay so for days.
                if !matches!(known.as_deref(), Some(Stop::Clock(_))) {
                    tracing::error!(%fault, "writing stops until the clock is accepted");
                }
                self.shared.stop.store(Some(Arc::new(stop)));
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
                .map(|r| self.judge_one(&mut batch, at, r));
            judged.push(answers.collect());
            jobs.push(job);
            if requests < BATCH_REQUESTS && batch.growth.bytes < BATCH_BYTES {
                next = queue.try_recv().ok();
            }
        };
        match result.and_then(|()| self.commit(&mut batch, at)) {
            Ok(signed) => self.answer(batch, jobs, judged, signed),
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
        if self.judge.is_closed() {
            return batch;
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
        if self.unguarded {
            let below = Beneath(&self.edge, &batch.growth.tiles, &*self.shared.store);
            let context = context(at, &self.edge, &below, &batch.pending);
            if let Some(entry) = self.judge.unguarded(&context) {
                append(&mut self.edge, &mut batch, entry);
            }
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

    /// A judge that could not read what it needs has changed nothing: that request is refused, and those around it are not.
    fn judge_one(
        &mut self,
        batch: &mut Batch,
        at: u64,
        request: &J::Request,
    ) -> Judged<J::Refusal> {
        let below = Beneath(&self.edge, &batch.growth.tiles, &*self.shared.store);
        let context = context(at, &self.edge, &below, &batch.pending);
        match self.judge.judge(request, &context) {
            Ok(Ruling::Append(entry)) => Judged::At(append(&mut self.edge, batch, entry), false),
            Ok(Ruling::Existing(index)) => Judged::At(index, true),
            Ok(Ruling::Refuse(refusal)) => Judged::Refused(refusal),
            Err(error) => {
                tracing::error!(%error, "a request could not be judged");
                Judged::Unread(error)
            }
        }
    }

    /// Commits the batch, and with it the checkpoint of its head where nobody else must sign that: one synced write does for both.
    fn commit(&mut self, batch: &mut Batch, at: u64) -> Result<Option<Kept>, StoreError> {
        if batch.pending.entries.is_empty() {
            return Ok(None);
        }
        let previous = self.shared.committed.load().head;
        let committed = Committed::new(self.edge.clone(), self.judge.version());
        let head = committed.head;
        let growth = Growth {
            entries: std::mem::take(&mut batch.pending.entries),
            tiles: std::mem::take(&mut batch.growth.tiles),
            unique: std::mem::take(&mut batch.growth.unique),
            postings: std::mem::take(&mut batch.growth.postings),
            head,
            at,
            published: self.alone.then(|| self.signer.sign(&head)),
        };
        self.shared.store.commit(&previous, &growth)?;
        batch.pending.entries = growth.entries;
        self.adjusted = None;
        self.unguarded = false;
        self.shared.show_committed(committed);
        if self.snapshots.is_time(head.size) {
            self.snapshots.make(head.size, self.judge.snapshot());
        }
        Ok(growth.published)
    }
}

/// Tells the publisher to close when the writer ends, by a panic too: it must not wait for ever for somebody who is gone.
struct Closing(mpsc::Sender<Notice>);

impl Drop for Closing {
    fn drop(&mut self) {
        // The publisher is gone only if it panicked, and has then said so.
        let _ = self.0.send(Notice::Close);
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

#[cfg(test)]
pub(crate) mod tests;
