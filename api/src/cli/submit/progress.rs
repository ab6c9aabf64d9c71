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
