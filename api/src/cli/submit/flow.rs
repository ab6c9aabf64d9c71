//! From inputs to outcomes: cut into requests, a few of them under way, reported in order.

use std::{collections::VecDeque, io::Write, path::PathBuf, time::Duration};

use anyhow::Context as _;
use tokio::task::{JoinHandle, JoinSet};

use super::{
    batch::Batch,
    input::{Inputs, Next},
    progress::Progress,
    report::{Answer, Missing, Outcome, Report},
};
use crate::{
    cli::{out, save},
    client::{
        Accepted, Client, ClientError, NDJSON_BYTES_MAX, NDJSON_LINES_MAX, Reached, SubmitOptions,
    },
};

/// Requests under way at once: enough that the service always has one to check while another is written.
const REQUESTS: usize = 4;
/// Evidence fetched at once for each request.
const FETCHES: usize = 8;
/// An input that has been silent for this long has said what it has to say for now: what there is of a request is sent.
const SILENCE: Duration = Duration::from_millis(20);

/// What is done with a batch.
#[derive(Clone, Debug)]
pub struct Work {
    /// With whom.
    pub client: Client,
    /// What is asked of the answers.
    pub options: SubmitOptions,
    /// Where evidence goes.
    pub folder: Option<PathBuf>,
    /// How long to try again.
    pub patience: Duration,
}

/// All of it.
pub struct Flow<W> {
    work: Work,
    inputs: Inputs,
    report: Report<W>,
    progress: Progress,
    batch: Batch,
    under_way: VecDeque<JoinHandle<Vec<Outcome>>>,
    has_ended: bool,
    hint: Option<String>,
}

impl<W: Write> Flow<W> {
    /// Ready to run.
    pub fn new(work: Work, inputs: Inputs, report: Report<W>) -> Flow<W> {
        Flow {
            work,
            inputs,
            report,
            progress: Progress::new(),
            batch: Batch::default(),
            under_way: VecDeque::new(),
            has_ended: false,
            hint: None,
        }
    }

    /// With what to say, once, when nobody answers.
    pub fn with_hint(mut self, hint: Option<String>) -> Flow<W> {
        self.hint = hint;
        self
    }

    /// Until all inputs have ended and everything is answered.
    ///
    /// # Errors
    /// Standard output that cannot be written.
    pub async fn run(mut self) -> anyhow::Result<Report<W>> {
        loop {
            let is_free = self.under_way.len() < REQUESTS;
            if self.has_ended && is_free && !self.batch.is_empty() {
                self.launch();
                continue;
            }
            tokio::select! {
                biased;
                outcomes = first(&mut self.under_way), if !self.under_way.is_empty() => {
                    self.under_way.pop_front();
                    self.take(outcomes?)?;
                }
                next = self.inputs.next(), if !self.has_ended && is_free => match next {
                    Some(next) => self.add(next),
                    None => self.has_ended = true,
                },
                () = tokio::time::sleep(SILENCE), if !self.has_ended && is_free && !self.batch.is_empty() => self.launch(),
                else => break,
            }
        }
        self.progress.end();
        if let Some(summary) = self.report.summary() {
            out::note(summary);
        }
        Ok(self.report)
    }

    fn add(&mut self, next: Next) {
        // One request more than is free may start here; the next line waits for one to end.
        if !self.batch.fits(&next, NDJSON_LINES_MAX, NDJSON_BYTES_MAX) {
            self.launch();
        }
        self.batch.push(next);
    }

    fn launch(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        let (work, progress) = (self.work.clone(), self.progress.clone());
        self.under_way.push_back(tokio::spawn(
            async move { work.run(batch, &progress).await },
        ));
    }

    fn take(&mut self, outcomes: Vec<Outcome>) -> anyhow::Result<()> {
        if !self.has_ended && outcomes.iter().all(Outcome::is_hopeless) {
            // Patience has ended for a whole request; each further one would cost as much, and end the same.
            self.has_ended = true;
            let unsent = std::mem::take(&mut self.batch).rows.into_iter().next();
            let from = unsent.map_or(String::new(), |next| format!(" From {} on", next.source()));
            self.progress.aside(|| out::note(format_args!(
                "countersign: the service does not take anything just now, so the rest was not sent.{from} nothing was; run the same \
                 again: what is in the log is answered, not added"
            )));
        }
        let report = &mut self.report;
        self.progress
            .aside(|| outcomes.iter().try_for_each(|outcome| report.take(outcome)))
            .context("standard output")?;
        self.progress.add(outcomes.len() as u64);
        if outcomes.iter().any(Outcome::is_unreachable)
            && let Some(hint) = self.hint.take()
        {
            self.progress
                .aside(|| out::note(format_args!("countersign: {hint}")));
        }
        Ok(())
    }
}

/// The outcomes of the request that was sent first.
async fn first(under_way: &mut VecDeque<JoinHandle<Vec<Outcome>>>) -> anyhow::Result<Vec<Outcome>> {
    match under_way.front_mut() {
        Some(task) => task.await.context("a request broke off"),
        None => std::future::pending().await,
    }
}

impl Work {
    async fn run(&self, batch: Batch, progress: &Progress) -> Vec<Outcome> {
        let envelopes = batch.envelopes();
        let note =
            |error: &ClientError, pause: Duration| progress.waiting(&error.to_string(), pause);
        let submitted = self
            .client
            .submit_all(&envelopes, &self.options, self.patience, note);
        let why = "the service has not answered yet; still waiting";
        let mut answers = progress.told(why, submitted).await.into_iter();
        progress.goes_on();
        let mut outcomes = Vec::with_capacity(batch.rows.len());
        for next in batch.rows {
            let (source, answer) = match next {
                // OK because there is one answer an envelope.
                Next::Envelope(item) => (
                    item.source,
                    match answers.next().expect("Work::run: an answer each") {
                        Ok(accepted) => Answer::Accepted(accepted),
                        Err(error) => Answer::Failed(error),
                    },
                ),
                Next::TooLong(source, bytes) => (source, Answer::TooLong(bytes)),
                Next::Unreadable(source, error) => (source, Answer::Unreadable(error)),
            };
            outcomes.push(Outcome {
                source,
                answer,
                evidence: None,
            });
        }
        if let Some(folder) = &self.folder {
            self.fetch_all(folder, &mut outcomes, progress).await;
        }
        outcomes
    }

    /// Fetches and saves the evidence of what is in the log.
    async fn fetch_all(
        &self,
        folder: &std::path::Path,
        outcomes: &mut [Outcome],
        progress: &Progress,
    ) {
        let accepted = |outcome: &Outcome| match &outcome.answer {
            Answer::Accepted(accepted) => Some(accepted.clone()),
            _ => None,
        };
        let mut due: VecDeque<(usize, Accepted)> = outcomes
            .iter()
            .enumerate()
            .filter_map(|(i, outcome)| Some((i, accepted(outcome)?)))
            .collect();
        let mut fetches = JoinSet::new();
        loop {
            while fetches.len() < FETCHES
                && let Some((i, accepted)) = due.pop_front()
            {
                let (work, folder, progress) = (self.clone(), folder.to_owned(), progress.clone());
                fetches.spawn(async move {
                    let why = work.waits_for(accepted.index);
                    let fetched = work.fetch(&folder, &accepted);
                    (i, progress.told(&why, fetched).await)
                });
            }
            match fetches.join_next().await {
                Some(Ok((i, evidence))) => {
                    if evidence.is_ok() {
                        confirm(&mut outcomes[i].answer, self.options);
                    }
                    outcomes[i].evidence = Some(evidence);
                }
                // A task that panicked has no place to report to; its envelope then lacks its evidence.
                Some(Err(_)) => {}
                None => break,
            }
        }
    }

    /// What is said while evidence does not come.
    fn waits_for(&self, index: u64) -> String {
        format!(
            "leaf {index} is in the log, and under no head yet that its witnesses have cosigned: too few of them answer. Waiting up to {} s \
             for its evidence",
            self.patience.as_secs()
        )
    }

    async fn fetch(
        &self,
        folder: &std::path::Path,
        accepted: &Accepted,
    ) -> Result<PathBuf, Missing> {
        let evidence = self
            .client
            .evidence_when_ready(accepted.index, self.patience)
            .await
            .map_err(Missing::NotGiven)?;
        if evidence.leaf_hash != accepted.leaf_hash {
            let why = format!(
                "leaf {} was answered as {} and its evidence is of {}: the service contradicts itself. Keep this answer",
                accepted.index, accepted.leaf_hash, evidence.leaf_hash
            );
            return Err(Missing::NotWritten(why));
        }
        let folder = folder.to_owned();
        let saved = tokio::task::spawn_blocking(move || save::save(&folder, &evidence)).await;
        match saved {
            Ok(Ok(path)) => Ok(path),
            Ok(Err(error)) => Err(Missing::NotWritten(error.to_string())),
            Err(error) => Err(Missing::NotWritten(error.to_string())),
        }
    }
}

/// Evidence is given under a published head only, so what has it is included, whatever was known when it was handed in. That
/// witnesses have seen that head, evidence does not say without a policy.
fn confirm(answer: &mut Answer, asked: SubmitOptions) {
    use crate::client::Wait;
    let Answer::Accepted(accepted) = answer else {
        return;
    };
    accepted.state = accepted.state.max(Wait::Included);
    // What the service chose to wait for without being asked was publication.
    if asked.wait.is_none_or(|wait| wait <= accepted.state) {
        accepted.reached = Reached::Yes;
    }
}
