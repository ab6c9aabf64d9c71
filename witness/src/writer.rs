//! The one thread that compares, signs and commits. What waits when a commit ends goes into the next one together, so that
//! requests of different logs share synced writes and none waits for another's log.
//!
//! Comparing happens here, with what is *stored*; a request of the same log behind another in one batch is compared with what that
//! one will have stored. Nothing is answered before the batch is durable. If its outcome is unknown, every request of it gets
//! that answer, nothing that was signed leaves, and the store is read again before anything else is compared.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use countersign_verifier::checkpoint::Checkpoint;
use countersign_verifier::cosign::subtree::SubtreeCosignError;
use countersign_verifier::hash::Hash;
use tokio::sync::{mpsc, oneshot};

use crate::clock::Clock;
use crate::decide::{Admitted, Head, Refusal, Verdict, judge};
use crate::keys::Keys;
use crate::metrics::Metrics;
use crate::record::Record;
use crate::store::{Change, Store, StoreError};

mod rate;

use self::rate::Rates;

/// Requests that may wait; each is at most about 128 KiB.
pub const QUEUE: usize = 1_024;
/// Most requests of one commit.
const BATCH_MAX: usize = 512;

/// A request that waits.
pub struct Job {
    /// SHA-256 of the origin.
    pub log: Hash,
    /// What was admitted.
    pub asked: Admitted,
    /// Requests a day that a list announced for the log.
    pub qpd: Option<u32>,
    /// A head that was stored a moment ago, and what to say if it still is.
    pub foreseen: Option<(Option<Head>, Verdict)>,
    /// Who waits.
    pub reply: oneshot::Sender<Outcome>,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Stored and cosigned: our lines.
    Cosigned(String),
    /// `old` is not the stored size, which is this.
    Conflict(u64),
    /// No.
    Refused(Refusal),
    /// The log grows much faster than it announced; seconds until it may again.
    Limited(u64),
    /// Nothing is signed: the store did not work, and what it holds is not known.
    Failed,
}

/// The writer, seen by those who hand it requests.
pub struct Writer {
    queue: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

/// Why a request cannot wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unqueued {
    /// Too many wait already.
    Full,
    /// The writer has ended.
    Ended,
}

/// What the writer works with.
pub struct Parts {
    /// Where heads are remembered.
    pub store: Arc<dyn Store>,
    /// What signs.
    pub keys: Arc<Keys>,
    /// POSIX seconds.
    pub clock: Arc<Clock>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

impl Writer {
    /// Starts the thread.
    ///
    /// # Errors
    /// What the system says.
    pub fn start(parts: Parts) -> std::io::Result<Writer> {
        let (queue, mut jobs) = mpsc::channel(QUEUE);
        let thread = std::thread::Builder::new()
            .name("witness-writer".into())
            .spawn(move || {
                let mut work = Work::new(parts);
                let mut batch = Vec::new();
                while jobs.blocking_recv_many(&mut batch, BATCH_MAX) > 0 {
                    work.round(std::mem::take(&mut batch));
                }
            })?;
        Ok(Writer {
            queue: Some(queue),
            thread: Some(thread),
        })
    }

    /// Lets a request wait for its turn.
    ///
    /// # Errors
    /// [`Unqueued`].
    pub fn submit(&self, job: Job) -> Result<(), Unqueued> {
        let queue = self.queue.as_ref().ok_or(Unqueued::Ended)?;
        queue.try_send(job).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Unqueued::Full,
            mpsc::error::TrySendError::Closed(_) => Unqueued::Ended,
        })
    }

    /// Whether requests are worked on.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.queue.as_ref().is_some_and(|queue| !queue.is_closed())
    }
}

impl Drop for Writer {
    /// Works off what waits, and ends.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A panic in it was told where it happened.
            let _ = thread.join();
        }
    }
}

struct Work {
    parts: Parts,
    rates: Rates,
    /// After a commit of unknown outcome, until a reload went well.
    unknown: bool,
}

/// A log in a batch.
struct Tip {
    log: Hash,
    /// What is stored before the batch.
    stored: Option<Record>,
    /// What will be, with all requests up to now.
    head: Option<Head>,
    time: u64,
    /// The last of its cosignatures in this batch.
    last: Option<usize>,
}

/// A head to cosign.
struct Accepted {
    checkpoint: Checkpoint,
    log_lines: String,
    time: u64,
}

/// What is to be answered once the batch is durable.
enum Answer {
    /// The lines of this cosignature.
    Lines(usize),
    Other(Outcome),
}

impl Work {
    fn new(parts: Parts) -> Work {
        Work {
            parts,
            rates: Rates::default(),
            unknown: false,
        }
    }

    /// One batch.
    fn round(&mut self, jobs: Vec<Job>) {
        let begun = Instant::now();
        let mut tips = HashMap::new();
        let mut accepted = Vec::new();
        let mut waiting = Vec::with_capacity(jobs.len());
        let ready = self.read_again();
        for job in jobs {
            let tip = match &ready {
                Ok(()) => self.tip(&mut tips, job.log).inspect_err(|error| {
                    tracing::error!(%error, "a stored head cannot be read");
                }),
                Err(error) => Err(error.clone()),
            };
            let (reply, asked) = (job.reply, job.asked);
            let answer = match tip {
                Ok(tip) => {
                    let verdict = match job.foreseen {
                        Some((head, verdict)) if head == tip.head => verdict,
                        _ => judge(tip.head.as_ref(), &asked),
                    };
                    self.place(verdict, asked, job.qpd, tip, &mut accepted)
                }
                Err(_) => Answer::Other(Outcome::Failed),
            };
            waiting.push((reply, answer));
        }
        let (signed, stored) = match sign(&self.parts.keys, &accepted) {
            Ok(signed) => {
                let stored = self.commit(tips, accepted, &signed);
                (signed, stored.map_err(drop))
            }
            Err(error) => {
                tracing::error!(%error, "a head that was admitted cannot be signed; nothing is stored");
                (Vec::new(), Err(()))
            }
        };
        if stored.is_ok() && !signed.is_empty() {
            let seconds = begun.elapsed().as_secs_f64();
            self.parts.metrics.committed(signed.len(), seconds);
        }
        for (reply, answer) in waiting {
            let outcome = match (&stored, answer) {
                (Err(_), _) => Outcome::Failed,
                (Ok(()), Answer::Lines(at)) => Outcome::Cosigned(signed[at].clone()),
                (Ok(()), Answer::Other(outcome)) => outcome,
            };
            // Who asked may have gone; what was stored for it is no less true.
            let _ = reply.send(outcome);
        }
    }

    /// After a commit of unknown outcome: finds out what is durable.
    fn read_again(&mut self) -> Result<(), StoreError> {
        if self.unknown {
            let reloaded = self.parts.store.reload();
            reloaded.inspect_err(|error| {
                tracing::error!(%error, "the store does not load; nothing is cosigned");
            })?;
            self.unknown = false;
            tracing::info!("the store works again");
        }
        Ok(())
    }

    fn tip<'t>(
        &self,
        tips: &'t mut HashMap<Hash, Tip>,
        log: Hash,
    ) -> Result<&'t mut Tip, StoreError> {
        match tips.entry(log) {
            std::collections::hash_map::Entry::Occupied(tip) => Ok(tip.into_mut()),
            std::collections::hash_map::Entry::Vacant(place) => {
                let stored = self.parts.store.record(&log)?;
                Ok(place.insert(Tip {
                    log,
                    head: stored.as_ref().map(Record::head),
                    time: stored.as_ref().map_or(0, |record| record.time),
                    stored,
                    last: None,
                }))
            }
        }
    }

    /// Follows the verdict on a request at its place in the order.
    fn place(
        &mut self,
        verdict: Verdict,
        asked: Admitted,
        qpd: Option<u32>,
        tip: &mut Tip,
        accepted: &mut Vec<Accepted>,
    ) -> Answer {
        // Here, where the order is made: a later record of a log never has an earlier time. 0 would claim nothing.
        let now = (self.parts.clock)();
        let time = now.max(tip.time).max(1);
        match verdict {
            Verdict::Conflict(size) => return Answer::Other(Outcome::Conflict(size)),
            Verdict::Refuse(why) => return Answer::Other(Outcome::Refused(why)),
            Verdict::Same if time == tip.time => {
                if let Some(answer) = self.repeat(tip) {
                    return answer;
                }
            }
            Verdict::Same => {}
            Verdict::Advance => {
                if let Some(after_s) = self.rates.grow(tip.log, qpd, now) {
                    return Answer::Other(Outcome::Limited(after_s));
                }
            }
        }
        let Admitted {
            checkpoint,
            log_lines,
            ..
        } = asked;
        let (size, root) = (checkpoint.size, checkpoint.root);
        tip.head = Some(Head { size, root });
        tip.time = time;
        tip.last = Some(accepted.len());
        accepted.push(Accepted {
            checkpoint,
            log_lines,
            time,
        });
        Answer::Lines(accepted.len() - 1)
    }

    /// The same head within the same second needs no new signature and no write: that is what keeps those who repeat a public
    /// checkpoint from costing more.
    fn repeat(&self, tip: &Tip) -> Option<Answer> {
        if let Some(at) = tip.last {
            return Some(Answer::Lines(at));
        }
        let keys = &self.parts.keys;
        let lines = tip.stored.as_ref()?.lines_of(keys.name());
        let whole = lines.matches('\n').count() == keys.vkeys().len();
        whole.then_some(Answer::Other(Outcome::Cosigned(lines)))
    }

    fn commit(
        &mut self,
        tips: HashMap<Hash, Tip>,
        mut accepted: Vec<Accepted>,
        signed: &[String],
    ) -> Result<(), StoreError> {
        let mut changes = Vec::new();
        for (log, tip) in tips {
            let Some(at) = tip.last else { continue };
            let head = &mut accepted[at];
            let empty = Checkpoint {
                origin: String::new(),
                size: 0,
                root: head.checkpoint.root,
                extensions: Vec::new(),
            };
            changes.push(Change {
                log,
                expected: tip.stored,
                next: Record {
                    time: head.time,
                    checkpoint: std::mem::replace(&mut head.checkpoint, empty),
                    lines: std::mem::take(&mut head.log_lines) + &signed[at],
                },
            });
        }
        if changes.is_empty() {
            return Ok(());
        }
        self.parts.store.commit(&changes).inspect_err(|error| {
            tracing::error!(%error, "a commit failed; nothing of it is answered");
            self.unknown = true;
            self.parts.metrics.failed();
        })
    }
}

/// Fewer are signed faster than a thread is started: about 20 µs each.
const SIGNED_ALONE_MAX: usize = 8;

/// Our lines for each head, over all cores where there are many.
fn sign(keys: &Keys, heads: &[Accepted]) -> Result<Vec<String>, SubtreeCosignError> {
    let one = |head: &Accepted| keys.cosign(&head.checkpoint, head.time);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if heads.len() <= SIGNED_ALONE_MAX || cores == 1 {
        return heads.iter().map(one).collect();
    }
    let share = heads.len().div_ceil(cores);
    std::thread::scope(|scope| {
        let parts: Vec<_> = heads
            .chunks(share)
            .map(|part| scope.spawn(move || part.iter().map(one).collect::<Vec<_>>()))
            .collect();
        let parts = parts.into_iter().map(|part| part.join());
        // OK because signing does not panic, and if it did, nothing of this batch may be answered.
        parts.flat_map(|part| part.expect("writer::sign")).collect()
    })
}
