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
use crate::forks::Forks;
use crate::gossip::board::Board;
use crate::keys::{Keys, KeysError};
use crate::metrics::Metrics;
use crate::record::Record;
use crate::roster::Roster;
use crate::store::{RocksStore, Store, StoreError};
use crate::tally::{self, Tallies};
use crate::writer::{Job, Outcome, Parts, Unqueued, Writer};

mod evidence;
mod rows;

pub use self::evidence::Unkept;
pub use self::rows::Row;

/// A witness with its keys, its logs and what it cosigned.
pub struct Witness {
    keys: Arc<Keys>,
    roster: Roster,
    store: Arc<dyn Store>,
    writer: Writer,
    clock: Arc<Clock>,
    tallies: Tallies,
    metrics: Arc<Metrics>,
    forks: Forks,
    board: Board,
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
    /// What it has of evidence.
    #[error("evidence of forks: {0}")]
    Forks(std::io::Error),
    /// The thread that writes.
    #[error("the writer does not start: {0}")]
    Thread(std::io::Error),
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
        let mut witness = Witness::with_forks(keys, Arc::new(store), clock::wall(), |roster| {
            Forks::open(&dir.forks(), |log, file| evidence::holds(roster, log, file))
        })?;
        witness.board = Board::open(dir.unresolved());
        witness._held = Some(held);
        Ok(witness)
    }

    /// A witness of these parts that keeps no evidence, and so quarantines nothing: the witness protocol alone.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn new(keys: Keys, store: Arc<dyn Store>, clock: Clock) -> Result<Witness, OpenError> {
        Witness::with_forks(keys, store, clock, |_| Ok(Forks::off()))
    }

    /// A witness of these parts; `forks` opens what it has of evidence against the logs of its roster.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn with_forks(
        keys: Keys,
        store: Arc<dyn Store>,
        clock: Clock,
        forks: impl FnOnce(&Roster) -> std::io::Result<Forks>,
    ) -> Result<Witness, OpenError> {
        let (keys, clock) = (Arc::new(keys), Arc::new(clock));
        let metrics = Arc::new(Metrics::default());
        let own = keys.vkeys().into_iter().cloned().collect();
        let roster = Roster::open(store.clone(), own)?;
        let forks = forks(&roster).map_err(OpenError::Forks)?;
        evidence::mark(&roster, &forks, clock())?;
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
            forks,
            board: Board::default(),
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
        let entry = known.ok_or(SubtreeRefusal::UnknownLog)?;
        let log = origin_hash(origin);
        if self.is_forked(&log, &entry) {
            return Err(SubtreeRefusal::Forked { log });
        }
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
        let Some(entry) = entry else {
            return Answer::Refused(Refusal::UnknownLog);
        };
        let log = origin_hash(&entry.origin);
        let answer = if self.is_forked(&log, &entry) {
            Answer::Refused(Refusal::Forked { log })
        } else {
            match decide::admit(request, Some(&entry), self.keys.cover_extensions()) {
                Ok(asked) => self.cosign(log, asked, entry.qpd).await,
                Err(why) => Answer::Refused(why),
            }
        };
        self.look_for_fork(body, &log, &entry, &answer);
        self.count(log, matches!(answer, Answer::Refused(_)));
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

    /// What it has of evidence.
    #[must_use]
    pub fn forks(&self) -> &Forks {
        &self.forks
    }

    /// What its gossip shows.
    #[must_use]
    pub fn board(&self) -> &Board {
        &self.board
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
