//! Asking one witness for one head, whatever it answers.
//!
//! A hint of its size may be too low, too high or absurd: it is followed a few times and never trusted. What does count is a
//! signature: a cosignature that verifies, or this log's own on a head that it does not have.

use std::sync::Arc;

use countersign_verifier::{
    add_checkpoint,
    checkpoint::{Checkpoint, origin_hash},
    cosign,
    hash::Hash,
    note::{self, Note},
    vkey::VerifierKey,
};

use super::{Place, Reply, Transport};
use crate::{
    prove::Prover,
    publish::HeadSigner,
    reader::Reader,
    shared::Shared,
    store::{Head, Kept, StoreError},
};

/// Hints followed for one head: one for a witness that we thought further or less far than it is, one for a change meanwhile.
const TRIES: usize = 3;

/// Cosignatures dated so far ahead of the reader's clock are accepted by verifiers, in seconds.
const AHEAD_S_MAX: u64 = 30;
/// So much of what a refusing witness says is shown.
const SAID_CHARS: usize = 200;

/// A cosignature that verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Its witness's place in the policy.
    pub witness: usize,
    /// POSIX seconds, by the witness's clock.
    pub time: u64,
    /// The signature line, with its LF.
    pub line: String,
    /// Dated further ahead of our clock than verifiers put up with: it counts for nothing, there as here.
    pub ahead: bool,
    /// Our wall clock minus that time when it came, milliseconds.
    pub apart_ms: i64,
}

/// A head that this log has signed and does not have: a running clone, or a store put back from an older copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ahead {
    pub head: Head,
    /// The signed note.
    pub note: String,
    /// Who showed it.
    pub witness: String,
}

/// What became of asking one witness for one head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// At least one cosignature that verifies.
    Cosigned(Vec<Line>),
    /// Proof that this log must not write.
    Ahead(Box<Ahead>),
    /// Nothing of use. What it holds, where it said so, and why.
    Failed(Option<u64>, String),
}

/// What asking takes.
pub(crate) struct Asker<V> {
    pub shared: Arc<Shared<V>>,
    pub transport: Arc<dyn Transport>,
    pub log_key: VerifierKey,
    pub signer: Arc<HeadSigner>,
    pub place: Place,
}

impl<V: Send + Sync + 'static> Asker<V> {
    /// Asks for a cosignature of `kept`, from the size that the witness is thought to hold.
    pub(crate) async fn cosign(&self, kept: &Kept, holds: u64) -> Answer {
        let mut old = holds.min(kept.head.size);
        for _ in 0..TRIES {
            let proof = match self.proof(old, kept.head.size).await {
                Ok(proof) => proof,
                Err(error) => return Answer::Failed(None, format!("no proof for it: {error}")),
            };
            let reply = match self.send(old, &proof, kept).await {
                Ok(reply) => reply,
                Err(why) => return Answer::Failed(None, why),
            };
            match hint(&reply) {
                _ if reply.status == 200 => return self.lines(&reply, kept),
                Some(size) if size != old && size <= kept.head.size => old = size,
                _ => return self.unwilling(&reply, kept).await,
            }
        }
        Answer::Failed(
            None,
            "the size that it holds changes with each answer".into(),
        )
    }

    /// Asks for a cosignature of just what the witness is thought to hold, and follows no hint: nothing larger is signed by it.
    pub(crate) async fn again(&self, kept: &Kept) -> Answer {
        match self.send(kept.head.size, &[], kept).await {
            Ok(reply) if reply.status == 200 => self.lines(&reply, kept),
            Ok(reply) => self.unwilling(&reply, kept).await,
            Err(why) => Answer::Failed(None, why),
        }
    }

    async fn send(&self, old: u64, proof: &[Hash], kept: &Kept) -> Result<Reply, String> {
        let body = add_checkpoint::request(old, proof, &kept.note);
        let url = format!("{}/add-checkpoint", self.place.url);
        self.transport.post(url, body).await
    }

    async fn proof(&self, old: u64, size: u64) -> Result<Vec<Hash>, StoreError> {
        if old == 0 || old == size {
            return Ok(Vec::new());
        }
        let reader = Reader::new(self.shared.clone());
        let work = move || Prover::new(&reader, size).consistency(old);
        tokio::task::spawn_blocking(work)
            .await
            .unwrap_or_else(|e| Err(StoreError::Unavailable(e.to_string())))
    }

    /// The lines of its keys that verify; what else it sent is ignored.
    fn lines(&self, reply: &Reply, kept: &Kept) -> Answer {
        let failed = |why: String| Answer::Failed(None, why);
        let sent = match note::parse_signatures(&reply.body) {
            Ok(sent) => sent,
            Err(error) => return failed(format!("its answer is not signature lines: {error}")),
        };
        let Ok(note) = Note::parse(kept.note.as_bytes()) else {
            return failed("the checkpoint is not a note".into());
        };
        let mut lines = Vec::new();
        for (witness, key) in &self.place.keys {
            let line = sent
                .iter()
                .filter(|line| line.name == key.name && line.id == key.id)
                .find(|line| key.verify(note.text, &line.signature).is_ok());
            // A time of 0 says only that the tree is consistent with others.
            if let Some(line) = line
                && let Some(time) = cosign::time(&line.signature).filter(|time| *time > 0)
            {
                lines.push(Line {
                    witness: *witness,
                    time,
                    line: line.to_string(),
                    ahead: time > self.shared.wall_ms() / 1_000 + AHEAD_S_MAX,
                    apart_ms: i64::try_from(self.shared.wall_ms())
                        .unwrap_or(i64::MAX)
                        .saturating_sub_unsigned(time.saturating_mul(1_000)),
                });
            }
        }
        if lines.is_empty() {
            return failed(
                "it answered 200 without a cosignature that verifies under its key".into(),
            );
        }
        Answer::Cosigned(lines)
    }

    /// Why it did not cosign; and whether it can show that this log has signed what it does not have.
    async fn unwilling(&self, reply: &Reply, kept: &Kept) -> Answer {
        // A witness of the specification's first version answers 409 without a size where roots differ, a later one 422, and one that
        // has seen two heads of this log for one size 403 to whatever follows.
        if matches!(reply.status, 403 | 409 | 422)
            && let Some(ahead) = self.look().await
        {
            return Answer::Ahead(Box::new(ahead));
        }
        let hint = hint(reply);
        let size = kept.head.size;
        let why = match (reply.status, hint) {
            (409, Some(held)) => {
                format!("409: it holds size {held}, it says, and was asked for size {size}")
            }
            (409, None) => {
                "409 without a size (text/x.tlog.size): it holds another root of this size, or errs"
                    .into()
            }
            (status, _) => format!(
                "HTTP status {status}{}{}",
                meaning(status),
                said(&reply.body)
            ),
        };
        Answer::Failed(hint, why)
    }

    /// The newest head that the witness shows of this log, if it is one that this log has signed and does not have.
    pub(crate) async fn look(&self) -> Option<Ahead> {
        let hash = origin_hash(&self.log_key.name).to_hex();
        let url = format!("{}/{hash}/checkpoint", self.place.url);
        let reply = self.transport.get(url).await.ok()?;
        if reply.status != 200 {
            return None;
        }
        let note = Note::parse(&reply.body).ok()?;
        note::open(&note, [&self.log_key]).ok()?;
        let checkpoint = Checkpoint::parse(note.text).ok()?;
        checkpoint.check_size().ok()?;
        if checkpoint.origin != self.log_key.name {
            return None;
        }
        let head = Head {
            size: checkpoint.size,
            root: checkpoint.root,
        };
        let note = note.to_string();
        let reader = Reader::new(self.shared.clone());
        let have = move || {
            let (committed, _) = reader.committed();
            Ok::<_, StoreError>(
                head.size <= committed.size && Prover::new(&reader, head.size).root()? == head.root,
            )
        };
        // A store that cannot be read shows nothing about the head; the writer meets it soon enough.
        match tokio::task::spawn_blocking(have).await {
            Ok(Ok(false)) => Some(Ahead {
                head,
                note,
                witness: self.place.name.clone(),
            }),
            _ => None,
        }
    }
}

/// The size that a 409 names. It is a hint, whatever it says.
fn hint(reply: &Reply) -> Option<u64> {
    (reply.status == 409)
        .then(|| add_checkpoint::parse_conflict(&reply.content_type, &reply.body))
        .flatten()
}

/// What a status means to the operator of this log.
fn meaning(status: u16) -> &'static str {
    match status {
        403 => ", it refuses this log or its key",
        404 => {
            ", it does not know this log (its operator adds it by its vkey), or nothing is at this address"
        }
        422 => ", it finds the head inconsistent with what it holds",
        429 => ", it is asked too often",
        _ => "",
    }
}

/// The first line of an answer, as far as it can be shown: somebody else's words.
fn said(body: &[u8]) -> String {
    let line = body.split(|b| *b == b'\n').next().unwrap_or_default();
    let line: String = String::from_utf8_lossy(line)
        .chars()
        .take(SAID_CHARS)
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    if line.is_empty() {
        line
    } else {
        format!("; it says: {line}")
    }
}
