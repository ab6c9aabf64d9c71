//! What Prometheus reads. Counters count since the start; gauges are taken at the moment of reading.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicI64, AtomicU64},
};

use countersign_log::Status;
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use crate::accounts::{Place, Standing};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Answer {
    door: &'static str,
    status: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Of {
    account: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Stands {
    standing: &'static str,
}

/// As many as policies name witnesses: clients add none.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Who {
    account: String,
    witness: String,
}

type Number = Gauge<i64, AtomicI64>;

/// The metrics of a process.
pub struct Metrics {
    registry: Registry,
    /// Held by whoever takes the gauges: they are those of one moment.
    taking: Mutex<()>,
    accounts: Family<Stands, Number>,
    answers: Family<Answer, Counter<u64, AtomicU64>>,
    write_seconds: Histogram,
    committed: Family<Of, Number>,
    published: Family<Of, Number>,
    read_only: Family<Of, Number>,
    clock_offset: Family<Of, Number>,
    quorum_lost: Family<Of, Number>,
    witness_size: Family<Who, Number>,
    witness_time: Family<Who, Number>,
    witness_latency: Family<Who, Number>,
    witness_failing: Family<Who, Number>,
}

impl Default for Metrics {
    fn default() -> Metrics {
        // From a commit on a fast disk (0.1 ms) to the longest deadline.
        let bounds = [
            0.000_1, 0.000_3, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0,
        ];
        let mut metrics = Metrics {
            registry: Registry::with_prefix("countersign"),
            taking: Mutex::default(),
            accounts: Family::default(),
            answers: Family::default(),
            write_seconds: Histogram::new(bounds),
            committed: Family::default(),
            published: Family::default(),
            read_only: Family::default(),
            clock_offset: Family::default(),
            quorum_lost: Family::default(),
            witness_size: Family::default(),
            witness_time: Family::default(),
            witness_latency: Family::default(),
            witness_failing: Family::default(),
        };
        metrics.register_witnesses();
        let registry = &mut metrics.registry;
        registry.register(
            "accounts",
            "Accounts by how they stand: open, closed (nobody asks for them), failing (they do not open)",
            metrics.accounts.clone(),
        );
        registry.register(
            "answers",
            "HTTP answers by door and status",
            metrics.answers.clone(),
        );
        registry.register(
            "write_seconds",
            "From the headers of a write read to its answer ready",
            metrics.write_seconds.clone(),
        );
        registry.register(
            "committed_size",
            "Leaves that are committed",
            metrics.committed.clone(),
        );
        registry.register(
            "published_size",
            "Leaves under the newest published checkpoint",
            metrics.published.clone(),
        );
        registry.register(
            "read_only",
            "1 while writes are refused",
            metrics.read_only.clone(),
        );
        registry.register(
            "clock_offset_milliseconds",
            "Wall clock minus log time",
            metrics.clock_offset.clone(),
        );
        metrics
    }
}

impl Metrics {
    fn register_witnesses(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "quorum_lost_seconds",
            "How long the quorum of witnesses has not been met; 0 while it is",
            self.quorum_lost.clone(),
        );
        for (name, help, family) in [
            (
                "witness_size",
                "Leaves under the largest head that the witness has cosigned since the start",
                &self.witness_size,
            ),
            (
                "witness_cosigned_timestamp_seconds",
                "When it cosigned that, by its own clock",
                &self.witness_time,
            ),
            (
                "witness_latency_milliseconds",
                "How long its last answer took",
                &self.witness_latency,
            ),
            (
                "witness_failing",
                "1 while its last answer was of no use",
                &self.witness_failing,
            ),
        ] {
            registry.register(name, help, family.clone());
        }
    }

    fn see_witnesses(&self, account: &str, status: &Status) {
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let lost = status.witnesses.quorum_lost_since;
        let lost_ms = lost.map_or(0, |since| status.wall_ms.saturating_sub(since));
        let account = account.to_owned();
        if !status.witnesses.witnesses.is_empty() {
            let of = Of {
                account: account.clone(),
            };
            // A second that has begun counts, so that a loss is never 0.
            self.quorum_lost
                .get_or_create(&of)
                .set(number(lost_ms.div_ceil(1_000)));
        }
        for witness in &status.witnesses.witnesses {
            let who = Who {
                account: account.clone(),
                witness: witness.name.clone(),
            };
            self.witness_size
                .get_or_create(&who)
                .set(number(witness.size));
            self.witness_time
                .get_or_create(&who)
                .set(number(witness.time));
            self.witness_latency
                .get_or_create(&who)
                .set(number(witness.latency_ms));
            let failing = i64::from(witness.error.is_some());
            self.witness_failing.get_or_create(&who).set(failing);
        }
    }

    /// Counts an answer.
    pub fn answered(&self, door: &'static str, status: u16) {
        self.answers.get_or_create(&Answer { door, status }).inc();
    }

    /// Notes how long a write took.
    pub fn wrote(&self, seconds: f64) {
        self.write_seconds.observe(seconds);
    }

    /// Forgets the gauges: an account that was closed since must not be shown as it was then.
    fn forget(&self) {
        let number = [
            &self.committed,
            &self.published,
            &self.read_only,
            &self.clock_offset,
            &self.quorum_lost,
        ];
        number.into_iter().for_each(|family| family.clear());
        let witness = [
            &self.witness_size,
            &self.witness_time,
            &self.witness_latency,
            &self.witness_failing,
        ];
        witness.into_iter().for_each(|family| family.clear());
    }

    /// The exposition text.
    #[must_use]
    pub fn render(&self, places: &[Arc<Place>]) -> String {
        let _taking = self.taking.lock().unwrap_or_else(PoisonError::into_inner);
        self.forget();
        let mut stand = [("open", 0_i64), ("closed", 0), ("failing", 0)];
        for place in places {
            let standing = place.standing();
            stand[match standing {
                Standing::Open(_) => 0,
                Standing::Closed(_) | Standing::Unopened => 1,
                Standing::Failing => 2,
            }]
            .1 += 1;
            let Standing::Open(account) = standing else {
                continue;
            };
            let of = Of {
                account: account.name.clone(),
            };
            let status = account.log.status();
            let size = |size: u64| i64::try_from(size).unwrap_or(i64::MAX);
            self.committed
                .get_or_create(&of)
                .set(size(status.committed.size));
            self.published
                .get_or_create(&of)
                .set(size(status.published.size));
            self.read_only
                .get_or_create(&of)
                .set(i64::from(account.takes_nothing(&status).is_some()));
            self.clock_offset
                .get_or_create(&of)
                .set(status.clock_offset_ms);
            self.see_witnesses(&account.name, &status);
        }
        for (standing, count) in stand {
            let stands = self.accounts.get_or_create(&Stands { standing });
            stands.set(count);
        }
        let mut text = String::new();
        // OK because writing to a String does not fail.
        encode(&mut text, &self.registry).expect("Metrics::render");
        text
    }
}
