//! What a person at a terminal sees of work that takes more than a second.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cli::out;

const SHOWN_AFTER: Duration = Duration::from_secs(1);

/// A line on standard error, if that is a terminal.
#[derive(Clone, Debug)]
pub struct Progress {
    bar: ProgressBar,
    has_waited: Arc<AtomicBool>,
    /// How long silence is nothing to speak of.
    patience: Duration,
}

impl Progress {
    /// Nothing shows yet.
    pub fn new() -> Progress {
        let style =
            ProgressStyle::with_template("{spinner} {pos} answered, {per_sec}, {elapsed} {msg}");
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        // OK because the template is a constant; a bar without style would only look different.
        let bar = bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        Progress {
            bar,
            has_waited: Arc::default(),
            patience: SHOWN_AFTER,
        }
    }

    /// So many more are done.
    pub fn add(&self, count: u64) {
        self.show_when_due();
        self.bar.inc(count);
    }

    /// What is waited for. Said once for good, and from then on in the line of progress only.
    pub fn waiting(&self, why: &str, pause: Duration) {
        if !self.has_waited.swap(true, Ordering::Relaxed) {
            self.aside(|| out::note(format_args!("countersign: {why}; trying again")));
        }
        self.show_when_due();
        self.bar
            .set_message(format!("(waits {:.1} s: {why})", pause.as_secs_f64()));
    }

    /// The same of work that may be silent: said when it has been for a second.
    pub async fn told<T>(&self, why: &str, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        match tokio::time::timeout(self.patience, &mut work).await {
            Ok(done) => done,
            Err(_) => {
                if !self.has_waited.swap(true, Ordering::Relaxed) {
                    self.aside(|| out::note(format_args!("countersign: {why}")));
                }
                self.show_when_due();
                self.bar.set_message(format!("({why})"));
                work.await
            }
        }
    }

    /// Whether anything was said of waiting.
    #[cfg(test)]
    pub fn has_waited(&self) -> bool {
        self.has_waited.load(Ordering::Relaxed)
    }

    /// With another patience than a second.
    #[cfg(test)]
    pub fn with_patience(self, patience: Duration) -> Progress {
        Progress { patience, ..self }
    }

    /// Nothing is waited for any more.
    pub fn goes_on(&self) {
        self.bar.set_message("");
    }

    /// Prints, without the line in between.
    pub fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }

    /// Takes the line away.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn show_when_due(&self) {
        if self.bar.is_hidden() && self.bar.elapsed() > SHOWN_AFTER {
            // Hidden still, where standard error is no terminal.
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn silence_is_told_once_and_what_answers_at_once_is_not() {
        let progress = Progress::new().with_patience(Duration::from_secs(60));
        assert_eq!(progress.told("waits", async { 1 }).await, 1);
        assert!(!progress.has_waited());
        let progress = Progress::new().with_patience(Duration::ZERO);
        let (send, answer) = tokio::sync::oneshot::channel();
        let seen = progress.clone();
        let work = async { answer.await.unwrap_or(0) };
        let watch = async {
            while !seen.has_waited() {
                tokio::task::yield_now().await;
            }
            send.send(2).unwrap();
        };
        let (told, ()) = tokio::join!(progress.told("waits", work), watch);
        assert_eq!(told, 2);
    }
}
