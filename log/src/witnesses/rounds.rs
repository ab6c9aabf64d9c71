//! Publication where a quorum of witnesses must have cosigned: one round at a time, with a fixed head.
//!
//! The thread that runs this owns everything here; requests run elsewhere and come back as notices, so that one witness, however
//! slow or hostile, holds up nothing but itself. A head stays the one that is asked for until its quorum is met: so there is
//! never more than one head out that no quorum has, and the guard has little to ask about after a crash.

mod guarding;
mod publishing;
mod round;
mod timing;

use std::{
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use countersign_verifier::policy::Policy;

use self::round::Round;
use super::{
    Ahead, Answer, Pace, Probe, Witnesses, WitnessesStatus,
    ask::Line,
    millis,
    peers::{Peers, Sent},
};
use crate::{
    publish::{HeadSigner, Notice, Unsettled, Waiter},
    shared::Shared,
    store::{Head, Kept, StoreError},
    writer::{Stop, Until},
};

/// How long a store that refuses a checkpoint is left alone.
const RETRY: Duration = Duration::from_millis(250);

/// How far the comparison with the witnesses has come.
enum Guard {
    /// What they are asked about, and the policy by which the newest published head counts.
    Asking {
        newest: Arc<Kept>,
        judges: Policy,
    },
    Passed,
    /// Proof that this log must not write.
    Refused,
}

/// The publisher of a log with witnesses.
pub(crate) struct Rounds<V> {
    shared: Arc<Shared<V>>,
    signer: Arc<HeadSigner>,
    pace: Pace,
    policy: Policy,
    peers: Peers<V>,
    guard: Guard,
    /// The head that is being asked for.
    round: Option<Round>,
    /// The published one, which still takes lines that come late.
    last: Option<Round>,
    wanted: Head,
    /// The size of the newest head if clients alone have seen it, and no witness.
    spare: Option<u64>,
    /// What was raised of the mark and not synced.
    unsettled: Unsettled,
    waiting: Vec<Waiter>,
    open: bool,
    closing_since: Option<Instant>,
    next_head: Instant,
}

impl<V: Send + Sync + 'static> Rounds<V> {
    /// Begins with the guard: until it has passed, the log's gate is shut.
    ///
    /// # Errors
    /// What the store says.
    pub(crate) fn new(
        shared: Arc<Shared<V>>,
        signer: Arc<HeadSigner>,
        (witnesses, policy): (Witnesses, Policy),
        notices: mpsc::Sender<Notice>,
    ) -> Result<Rounds<V>, StoreError> {
        let newest = guarding::newest(&shared, &signer)?;
        let size = newest.head.size;
        let judges = witnesses.eras.for_size(size).unwrap_or(&policy).clone();
        let peers = Peers::new(
            shared.clone(),
            (witnesses.transport, witnesses.runtime),
            signer.clone(),
            notices,
            (&policy, &judges),
        );
        let rounds = Rounds {
            // Where the newest published head had no quorum, nobody was promised anything about it.
            guard: match judges.quorum() {
                // An earlier process was shown that something is missing here.
                _ if shared.gate.load().is_some() => Guard::Refused,
                None => Guard::Passed,
                Some(_) => Guard::Asking {
                    newest: Arc::new(newest),
                    judges,
                },
            },
            wanted: shared.committed.load().head,
            shared,
            signer,
            pace: witnesses.pace,
            policy,
            peers,
            round: None,
            last: None,
            spare: None,
            unsettled: Unsettled::default(),
            waiting: Vec::new(),
            open: true,
            closing_since: None,
            next_head: Instant::now(),
        };
        if matches!(rounds.guard, Guard::Asking { .. }) {
            let why =
                "the witnesses are being asked whether they hold anything beyond what is here";
            rounds
                .shared
                .gate
                .store(Some(Arc::new(Stop::Unguarded(why.into()))));
        }
        rounds.show(None);
        Ok(rounds)
    }

    /// Runs until told to close, or until the writer is gone.
    pub(crate) fn run(mut self, notices: &mpsc::Receiver<Notice>) {
        loop {
            match notices.recv_timeout(self.until_next().min(self.unsettled.patience())) {
                Ok(notice) => self.take(notice),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => self.open = false,
            }
            while let Ok(notice) = notices.try_recv() {
                self.take(notice);
            }
            if let Err(error) = self.step() {
                tracing::error!(%error, "a checkpoint could not be stored; trying again");
                self.shared.published_trouble.store(Some(Arc::new(error)));
                std::thread::sleep(RETRY);
            }
            self.unsettled.settle(&*self.shared.store);
            self.wake();
            if !self.open && self.finished() {
                break;
            }
        }
        self.unsettled.settle_now(&*self.shared.store);
    }

    fn take(&mut self, notice: Notice) {
        match notice {
            Notice::Grown { head, waiters, .. } => {
                if head.size > self.wanted.size {
                    self.wanted = head;
                }
                self.waiting.extend(waiters);
            }
            Notice::Close => self.open = false,
            Notice::Answered { peer, size, answer } => self.answered(peer, size, answer),
            Notice::Probed { peer, probe } => self.probed(peer, probe),
        }
    }

    /// What is to be done next, all of it idempotent.
    fn step(&mut self) -> Result<(), StoreError> {
        match &self.guard {
            Guard::Refused => return Ok(()),
            Guard::Asking { newest, .. } => {
                let newest = newest.clone();
                self.peers.ask(
                    |peer| !peer.same,
                    |asker, _| {
                        let newest = newest.clone();
                        async move { Sent::Probe(asker.probe(&newest).await) }
                    },
                );
                return Ok(());
            }
            Guard::Passed => {}
        }
        // Before a round may be asked for again, which forgets its lines.
        self.check_clock();
        self.sign_for_included()?;
        self.begin_round()?;
        self.publish_met()?;
        // What is published frees the place for the next head at once.
        self.begin_round()?;
        self.ask();
        self.note_quorum();
        Ok(())
    }

    fn begin_round(&mut self) -> Result<(), StoreError> {
        let published = self.shared.published.load().head;
        let grown = self.wanted.size > published.size;
        match &self.round {
            // A refresh makes way for what is new.
            Some(round) if round.kept.head.size == published.size && grown => self.round = None,
            // A client took a later head to a witness: nobody cosigns this one there any more, and nothing is lost by the next.
            Some(round)
                if round.passed
                    && round.began.elapsed() >= self.pace.round_timeout
                    && self.wanted.size > round.kept.head.size =>
            {
                self.round = None;
            }
            Some(round) => {
                let again = self.asks_again(round);
                if let Some(round) = self
                    .round
                    .as_mut()
                    .filter(|_| again.is_some_and(|at| at <= Instant::now()))
                {
                    round.ask_again();
                }
                return Ok(());
            }
            None => {}
        }
        let now = Instant::now();
        if grown {
            if now < self.next_head {
                return Ok(());
            }
            let kept = self.sign_for_round()?;
            self.next_head = now + self.pace.head_interval;
            self.round = Some(Round::new(kept));
        } else if published.size > 0
            && self
                .last
                .as_ref()
                .is_none_or(|l| l.began.elapsed() >= self.refresh())
        {
            // The same head again, for cosignatures that are not so old.
            self.round = Some(Round::new(self.signer.sign(&published)));
        }
        Ok(())
    }

    fn ask(&mut self) {
        let Some(round) = self.round.as_ref().or(self.last.as_ref()) else {
            return;
        };
        let kept = Arc::new(round.kept.clone());
        self.peers.ask(
            |peer| round.lacks(peer),
            |asker, holds| {
                let kept = kept.clone();
                async move {
                    let answer = asker.cosign(&kept, holds).await;
                    Sent::Answer(kept.head.size, answer)
                }
            },
        );
    }

    fn answered(&mut self, peer: usize, size: u64, answer: Answer) {
        match answer {
            Answer::Cosigned(lines) => {
                let time = lines.iter().map(|line| line.time).max().unwrap_or(0);
                if lines.iter().all(|line| line.ahead) {
                    let why = format!(
                        "its cosignature is dated ahead of this clock, at {time} s, and counts for nothing"
                    );
                    self.peers.ill(peer, Some(size), why);
                } else {
                    self.peers.well(peer, size, time);
                }
                for round in [&mut self.round, &mut self.last].into_iter().flatten() {
                    if round.kept.head.size == size {
                        round
                            .lines
                            .extend(lines.iter().map(|l| (l.witness, l.clone())));
                    }
                }
            }
            Answer::Failed(holds, why) => {
                let committed = self.shared.committed.load().head.size;
                if let Some(round) = &mut self.round
                    && holds.is_some_and(|held| held > round.kept.head.size && held <= committed)
                {
                    round.passed = true;
                }
                self.peers.ill(peer, holds, why);
            }
            Answer::Ahead(ahead) => self.refuse(peer, &ahead),
        }
        self.show_status();
    }

    fn wake(&mut self) {
        let witnessed = self.shared.published.load().head.size;
        let included = self.shared.signed.load().head.size.max(witnessed);
        let ready = |w: &mut Waiter| match w.until {
            Until::Witnessed => w.index < witnessed,
            Until::Sequenced | Until::Included => w.index < included,
        };
        for waiter in self.waiting.extract_if(.., ready) {
            // Who no longer listens has got his answer by deadline.
            let _ = waiter.wake.send(());
        }
        // Of those that have gone, none is kept: with a quorum lost for hours they would only pile up.
        self.waiting.retain(|waiter| !waiter.wake.is_closed());
    }
}
