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

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Went {
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Became {
    verdict: &'static str,
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
    pulls: Family<Went, Count>,
    weighed: Family<Became, Count>,
    told: Family<Went, Count>,
    forks: Gauge,
    forks_later: Gauge,
    unresolved: Gauge,
    unresolved_since: Gauge,
    unresolved_dropped: Gauge,
    unwritten: Gauge,
    panics: Count,
    turned_away: Count,
}

/// What is true at the moment of reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Configured logs.
    pub logs: u64,
    /// Logs that there is evidence against.
    pub forks: u64,
    /// Evidence that came after the first of its log.
    pub forks_later: u64,
    /// Pairs of log and peer whose heads are not settled.
    pub unresolved: u64,
    /// Since when the oldest is, POSIX seconds; 0 if there is none.
    pub unresolved_since: u64,
    /// Heads that found no place among them.
    pub unresolved_dropped: u64,
    /// Logs whose evidence no disk would take yet.
    pub unwritten: u64,
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
            pulls: Family::default(),
            weighed: Family::default(),
            told: Family::default(),
            forks: Gauge::default(),
            forks_later: Gauge::default(),
            unresolved: Gauge::default(),
            unresolved_since: Gauge::default(),
            unresolved_dropped: Gauge::default(),
            unwritten: Gauge::default(),
            panics: Count::default(),
            turned_away: Count::default(),
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
        metrics.register_gossip();
        metrics
    }
}

impl Metrics {
    fn register_gossip(&mut self) {
        let registry = &mut self.registry;
        let pulls = self.pulls.clone();
        registry.register("gossip_pulls", "Pulls of peers", pulls);
        let weighed = self.weighed.clone();
        registry.register("gossip_heads", "Heads that others showed", weighed);
        let told = self.told.clone();
        registry.register("webhook", "Evidence that the webhook was told", told);
        let panics = self.panics.clone();
        registry.register("panics", "Tasks that ended in a panic", panics);
        let away = self.turned_away.clone();
        registry.register(
            "connections_turned_away",
            "Connections from addresses that had too many",
            away,
        );
        let gauges = [
            ("forks", "Logs that there is evidence against", &self.forks),
            (
                "forks_later",
                "Evidence after the first of its log",
                &self.forks_later,
            ),
            (
                "unresolved",
                "Heads of peers that are not settled",
                &self.unresolved,
            ),
            (
                "unresolved_since_seconds",
                "Since when the oldest of them is, 0 if none",
                &self.unresolved_since,
            ),
            (
                "unresolved_dropped",
                "Heads that found no place among them",
                &self.unresolved_dropped,
            ),
            (
                "forks_unwritten",
                "Evidence that could not be written yet",
                &self.unwritten,
            ),
        ];
        for (name, help, gauge) in gauges {
            registry.register(name, help, gauge.clone());
        }
    }

    /// Counts a task that ended in a panic.
    pub fn panicked(&self) {
        self.panics.inc();
    }

    /// Counts a connection that its address had too many of.
    pub fn turned_away(&self) {
        self.turned_away.inc();
    }

    /// Counts a pull of a peer.
    pub fn pulled(&self, whole: bool) {
        self.pulls.get_or_create(&went(whole)).inc();
    }

    /// Counts a head that somebody showed.
    pub fn weighed(&self, verdict: &'static str) {
        self.weighed.get_or_create(&Became { verdict }).inc();
    }

    /// Counts evidence that the webhook was told, or could not be.
    pub fn told(&self, told: bool) {
        self.told.get_or_create(&went(told)).inc();
    }

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

    /// The exposition text.
    #[must_use]
    pub fn render(&self, now: &Now) -> String {
        for (gauge, value) in [
            (&self.logs, now.logs),
            (&self.forks, now.forks),
            (&self.forks_later, now.forks_later),
            (&self.unresolved, now.unresolved),
            (&self.unresolved_since, now.unresolved_since),
            (&self.unresolved_dropped, now.unresolved_dropped),
            (&self.unwritten, now.unwritten),
        ] {
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        }
        let mut text = String::new();
        // OK because writing to a String does not fail.
        encode(&mut text, &self.registry).expect("Metrics::render");
        text
    }
}

fn went(well: bool) -> Went {
    let outcome = if well { "ok" } else { "failed" };
    Went { outcome }
}
