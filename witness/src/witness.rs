//! A witness behind one call: bytes of a request in, an answer out.

use std::sync::Arc;

use countersign_verifier::add_checkpoint::{AddCheckpoint, AddCheckpointError};
use countersign_verifier::checkpoint::origin_hash;
use countersign_verifier::hash::Hash;
use countersign_verifier::sign_subtree::{SignSubtree, SubtreeRefused};
use tokio::sync::oneshot;

use crate::clock::{self, Clock};
use crate::decide::{self, Admitted, Refusal, SubtreeRefusal, Verdict, judge};
use crate::dir::{Dir, Held};
use crate::keys::{Keys, KeysError};
use crate::metrics::Metrics;
use crate::record::Record;
use crate::roster::{LogEntry, Roster};
use crate::store::{RocksStore, Store, StoreError};
use crate::tally::{self, Tallies, Tally};
use crate::writer::{Job, Outcome, Parts, Unqueued, Writer};

/// A witness with its keys, its logs and what it cosigned.
pub struct Witness {
    keys: Arc<Keys>,
    roster: Roster,
    store: Arc<dyn Store>,
    writer: Writer,
    clock: Arc<Clock>,
    tallies: Tallies,
    metrics: Arc<Metrics>,
    /// The last to be dropped: nobody else may have the directory while something here still writes.
    _held: Option<Held>,
}

/// What a witness says to an add-checkpoint request (c2sp.org/tlog-witness).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// 200: the witness's own signature lines, stored before they are said.
    Cosigned(String),
    /// 409: the size that is stored.
    Conflict(u64),
    /// 400, 403, 404, 413 or 422.
    Refused(Refusal),
    /// 429: not now; seconds to wait.
    Busy(u64),
    /// 500: nothing was signed that anybody will see; ask again.
    Failed,
}

/// Why a witness does not come up.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Its keys.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// Its store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The thread that writes.
    #[error("the writer does not start: {0}")]
    Thread(std::io::Error),
}

/// A log as `list` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// SHA-256 of the origin.
    pub log: Hash,
    /// What is configured.
    pub entry: LogEntry,
    /// The newest cosigned head, if there is one.
    pub record: Option<Record>,
    /// What was counted.
    pub tally: Tally,
}

impl Witness {
    /// Opens the witness that `init` made at `dir`.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(dir: &Dir) -> Result<Witness, OpenError> {
        let keys = Keys::load(dir)?;
        let held = dir.lock().map_err(|error| {
            let what = format!("{}: {error}", dir.root().display());
            match error.kind() {
                std::io::ErrorKind::WouldBlock => {
                    StoreError::InUse(what + " (in use by another process)")
                }
                _ => StoreError::Unavailable(what),
            }
        })?;
        let store = RocksStore::open(&dir.db(), &dir.commits())?;
        let mut witness = Witness::new(keys, Arc::new(store), Box::new(clock::wall))?;
        witness._held = Some(held);
        Ok(witness)
    }

    /// A witness of these parts.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn new(keys: Keys, store: Arc<dyn Store>, clock: Clock) -> Result<Witness, OpenError> {
        let (keys, clock) = (Arc::new(keys), Arc::new(clock));
        let metrics = Arc::new(Metrics::default());
        let own = keys.vkeys().into_iter().cloned().collect();
        let roster = Roster::open(store.clone(), own)?;
        let writer = Writer::start(Parts {
            store: store.clone(),
            keys: keys.clone(),
            clock: clock.clone(),
            metrics: metrics.clone(),
        });
        Ok(Witness {
            keys,
            roster,
            store,
            writer: writer.map_err(OpenError::Thread)?,
            clock,
            tallies: Tallies::default(),
            metrics,
            _held: None,
        })
    }

    /// Answers a sign-subtree request with a line of ML-DSA-44, time 0, or a refusal. It claims nothing that the cosignature on
    /// the reference checkpoint did not, so that nothing is compared and nothing stored.
    ///
    /// # Errors
    /// [`SubtreeRefusal`].
    pub fn sign_subtree(&self, body: &[u8]) -> Result<String, SubtreeRefusal> {
        let request = SignSubtree::parse(body)?;
        let origin = decide::first_line(request.note.text);
        let known = self.roster.find(origin)?;
        known.ok_or(SubtreeRefusal::UnknownLog)?;
        let checkpoint = request.check(self.keys.vkeys())?;
        let bounds = (request.start, request.end);
        let line = self
            .keys
            .sign_subtree(&checkpoint.origin, bounds, request.hash)?;
        line.ok_or(SubtreeRefusal::Refused(SubtreeRefused::Unsigned))
    }

    /// Answers an add-checkpoint request. What is answered was durable before.
    pub async fn add_checkpoint(&self, body: &[u8]) -> Answer {
        let request = match AddCheckpoint::parse(body) {
            Ok(request) => request,
            Err(why) => return self.unreadable(body, why),
        };
        let entry = match self.roster.find(decide::origin(&request)) {
            Ok(entry) => entry,
            Err(error) => return failed(&error),
        };
        let admitted = decide::admit(request, entry.as_deref(), self.keys.cover_extensions());
        let log = entry.as_ref().map(|entry| origin_hash(&entry.origin));
        let answer = match (admitted, log) {
            (Ok(asked), Some(log)) => {
                let qpd = entry.and_then(|entry| entry.qpd);
                self.cosign(log, asked, qpd).await
            }
            (Err(why), _) => Answer::Refused(why),
            (Ok(_), None) => Answer::Refused(Refusal::UnknownLog),
        };
        if let Some(log) = log {
            self.count(log, matches!(answer, Answer::Refused(_)));
        }
        answer
    }

    fn unreadable(&self, body: &[u8], why: AddCheckpointError) -> Answer {
        let Some(origin) = decide::misspelled(body, &why) else {
            return Answer::Refused(why.into());
        };
        match self.roster.find(origin) {
            Ok(Some(_)) => Answer::Refused(Refusal::Misspelled(why)),
            Ok(None) => Answer::Refused(Refusal::UnknownLog),
            Err(error) => failed(&error),
        }
    }

    async fn cosign(&self, log: Hash, asked: Admitted, qpd: Option<u32>) -> Answer {
        // Judged here, on all cores. What is stored now may well be the answer of no; what is to be signed is the writer's to place,
        // which takes the verdict where it finds the head that it was judged by.
        let head = match self.store.record(&log) {
            Ok(record) => record.as_ref().map(Record::head),
            Err(error) => return failed(&error),
        };
        let verdict = match judge(head.as_ref(), &asked) {
            Verdict::Conflict(size) => return Answer::Conflict(size),
            Verdict::Refuse(why) => return Answer::Refused(why),
            verdict @ (Verdict::Advance | Verdict::Same) => verdict,
        };
        let (reply, answer) = oneshot::channel();
        let queued = self.writer.submit(Job {
            log,
            asked,
            qpd,
            foreseen: Some((head, verdict)),
            reply,
        });
        match queued {
            Ok(()) => {}
            Err(Unqueued::Full) => return Answer::Busy(1),
            Err(Unqueued::Ended) => return Answer::Failed,
        }
        match answer.await {
            Ok(Outcome::Cosigned(lines)) => Answer::Cosigned(lines),
            Ok(Outcome::Conflict(size)) => Answer::Conflict(size),
            Ok(Outcome::Refused(why)) => Answer::Refused(why),
            Ok(Outcome::Limited(after_s)) => Answer::Busy(after_s),
            Ok(Outcome::Failed) | Err(_) => Answer::Failed,
        }
    }

    /// The newest cosigned head of the log whose origin has this SHA-256.
    ///
    /// # Errors
    /// What the store says.
    pub fn newest(&self, log: &Hash) -> Result<Option<Record>, StoreError> {
        self.store.record(log)
    }

    /// Up to `limit` logs behind `after`, by the hash of their origins.
    ///
    /// # Errors
    /// What the store says.
    pub fn rows(&self, after: Option<&Hash>, limit: usize) -> Result<Vec<Row>, StoreError> {
        let page = self.roster.page(after, limit)?;
        page.into_iter()
            .map(|(log, entry)| {
                Ok(Row {
                    record: self.store.record(&log)?,
                    tally: self.tallies.of(&*self.store, &log)?,
                    log,
                    entry,
                })
            })
            .collect()
    }

    /// Its keys.
    #[must_use]
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Its logs.
    #[must_use]
    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    /// What it counts.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// POSIX seconds.
    #[must_use]
    pub fn now(&self) -> u64 {
        (self.clock)()
    }

    /// Whether requests are worked on.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.writer.is_running()
    }

    /// Writes what was counted; to be called from time to time, and at the end.
    pub fn write_tallies(&self) {
        if let Err(error) = self.tallies.flush(&*self.store) {
            tracing::warn!(%error, "what was counted is written later");
        }
    }

    fn count(&self, log: Hash, refused: bool) {
        let day = tally::day(self.now());
        if self.tallies.count(log, day, refused) {
            self.write_tallies();
        }
    }
}

fn failed(error: &StoreError) -> Answer {
    tracing::error!(%error, "the store cannot be read");
    Answer::Failed
}
