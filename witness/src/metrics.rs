//! What Prometheus reads, counted since the start. Of single logs nothing is told here: there may be 100,000.

use std::sync::atomic::AtomicU64;

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Of {
    door: &'static str,
    status: u16,
}

type Count = Counter<u64, AtomicU64>;

/// The metrics of a witness.
pub struct Metrics {
    registry: Registry,
    answers: Family<Of, Count>,
    commits: Count,
    failed: Count,
    cosigned: Count,
    commit_seconds: Histogram,
    logs: Gauge,
}

impl Default for Metrics {
    fn default() -> Metrics {
        // From a commit on a fast disk (0.1 ms) to one that hangs.
        let bounds = [
            0.000_1, 0.000_3, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0,
        ];
        let mut metrics = Metrics {
            registry: Registry::with_prefix("countersign_witness"),
            answers: Family::default(),
            commits: Count::default(),
            failed: Count::default(),
            cosigned: Count::default(),
            commit_seconds: Histogram::new(bounds),
            logs: Gauge::default(),
        };
        let registry = &mut metrics.registry;
        let answers = metrics.answers.clone();
        registry.register("answers", "HTTP answers by door and status", answers);
        let commits = metrics.commits.clone();
        registry.register("commits", "Synced writes, many logs in one", commits);
        let failed = metrics.failed.clone();
        registry.register("commits_failed", "Commits of unknown outcome", failed);
        let cosigned = metrics.cosigned.clone();
        registry.register("cosigned", "Heads cosigned", cosigned);
        let seconds = metrics.commit_seconds.clone();
        registry.register("commit_seconds", "Signing and storing a batch", seconds);
        registry.register("logs", "Configured logs", metrics.logs.clone());
        metrics
    }
}

impl Metrics {
    /// Counts an answer.
    pub fn answered(&self, door: &'static str, status: u16) {
        self.answers.get_or_create(&Of { door, status }).inc();
    }

    /// Counts a commit of so many cosignatures.
    pub fn committed(&self, cosigned: usize, seconds: f64) {
        self.commits.inc();
        self.cosigned.inc_by(cosigned as u64);
        self.commit_seconds.observe(seconds);
    }

    /// Counts a commit whose outcome is unknown.
    pub fn failed(&self) {
        self.failed.inc();
    }

    /// The exposition text, with this number of logs.
    #[must_use]
    pub fn render(&self, logs: u64) -> String {
        self.logs.set(i64::try_from(logs).unwrap_or(i64::MAX));
        let mut text = String::new();
        // OK because writing to a String does not fail.
        encode(&mut text, &self.registry).expect("Metrics::render");
        text
    }
}
