//! The parts of a running service, put together in one place.

mod accounts;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock},
};

use countersign_log::{Clocks, SystemClocks, store::rocks::Shared};
use countersign_verifier::{
    hash::{Hash, sha256},
    key::PrivateKey,
    leaf::Millis,
};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};

pub use accounts::Accounts;

use crate::{
    account::{Account, Explicit, OpenError},
    config::Config,
    data_dir::DataDir,
    metrics::Metrics,
    witnessing,
};

/// Everything that a request can need.
pub struct App {
    /// The configuration in force.
    pub config: Config,
    /// The data directory.
    pub dir: DataDir,
    /// The open accounts, by name.
    pub accounts: Accounts,
    /// What the operator said on the command line: it holds for each log that this process opens.
    pub explicit: Explicit,
    /// Held by whoever closes a log and opens it again.
    pub changing: Mutex<()>,
    /// What Prometheus reads.
    pub metrics: Metrics,
    /// One permit a request that is being answered.
    pub gate: Arc<Semaphore>,
    /// One permit a KiB of a request's body that is held.
    pub bodies: Arc<Semaphore>,
    /// One permit a watcher of events.
    pub watchers: Arc<Semaphore>,
    url: OnceLock<String>,
    stop: OnceLock<watch::Receiver<bool>>,
    owner_token: Option<Hash>,
    clocks: Arc<dyn Clocks>,
}

/// Why a service does not come up.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// There is no account in the directory.
    #[error("{0}: no account here; `countersign init` or `countersign up` makes one")]
    Empty(String),
    /// An account does not open.
    #[error("account `{name}`: {source}")]
    Account {
        /// Which.
        name: String,
        /// Why.
        source: OpenError,
    },
    /// Two accounts are one log: a copy of an account's folder, most likely. Both would sign, and fork it.
    #[error(
        "accounts `{0}` and `{1}` have the origin {2}: one is a copy of the other and must not be here"
    )]
    Twice(String, String, String),
    /// A file cannot be read.
    #[error("{what}: {source}")]
    File {
        /// Which.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
}

/// `cst_` and 32 bytes in base64 without padding.
const TOKEN_CHARS: usize = 47;

/// Before any of them is opened, because to open one is to sign with it.
fn refuse_copies(dir: &DataDir, names: &[String]) -> Result<(), BuildError> {
    let mut seen: BTreeMap<String, &String> = BTreeMap::new();
    for name in names {
        // A vkey that cannot be read is refused when the account is opened.
        let Ok(vkey) = std::fs::read_to_string(dir.account(name).log_vkey()) else {
            continue;
        };
        let origin = vkey.split('+').next().unwrap_or("").to_owned();
        if let Some(first) = seen.insert(origin.clone(), name) {
            return Err(BuildError::Twice(first.clone(), name.clone(), origin));
        }
    }
    Ok(())
}

impl App {
    /// Opens every account of a directory. The caller holds its lock.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub fn build(config: Config, dir: DataDir, explicit: Explicit) -> Result<App, BuildError> {
        let file = |what: String| move |source| BuildError::File { what, source };
        let shared = Shared::new(config.store.cache_bytes, config.store.write_buffer_bytes);
        let clocks: Arc<dyn Clocks> = Arc::new(SystemClocks);
        let mut names = dir
            .account_names()
            .map_err(file(dir.root().display().to_string()))?;
        names.retain(|name| {
            let succeeded = dir.account(name).succeeded().exists();
            if succeeded {
                tracing::warn!(account = %name, "passed over: this log has a successor, and never signs again");
            }
            !succeeded
        });
        if names.is_empty() {
            return Err(BuildError::Empty(dir.root().display().to_string()));
        }
        refuse_copies(&dir, &names)?;
        let open = |name: String| {
            let settings = (&config.witnesses, explicit);
            let account = Account::open(&dir, &name, &shared, clocks.clone(), settings);
            account.map_err(|source| BuildError::Account { name, source })
        };
        let accounts: Accounts = names.into_iter().map(open).collect::<Result<_, _>>()?;
        let owner_token = match std::fs::read_to_string(dir.owner_token()) {
            // A cut file would make a short token that can be guessed.
            Ok(token) if token.trim().len() == TOKEN_CHARS => Some(sha256(token.trim().as_bytes())),
            Ok(_) => {
                let why = "not a token: `cst_` and 43 characters";
                let source = std::io::Error::new(std::io::ErrorKind::InvalidData, why);
                return Err(file(dir.owner_token().display().to_string())(source));
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            Err(e) => return Err(file(dir.owner_token().display().to_string())(e)),
        };
        let gate = Arc::new(Semaphore::new(config.limits.requests));
        let bodies = Arc::new(Semaphore::new(config.limits.body_memory_bytes / 1_024));
        let watchers = Arc::new(Semaphore::new(config.limits.watchers));
        Ok(App {
            config,
            dir,
            accounts,
            explicit,
            changing: Mutex::new(()),
            metrics: Metrics::default(),
            gate,
            bodies,
            watchers,
            url: OnceLock::new(),
            stop: OnceLock::new(),
            owner_token,
            clocks,
        })
    }

    /// Says where it listens, once that is known.
    pub fn listens_at(&self, url: String) {
        // A second listener would be a bug of `service`; the first one's address stands.
        let _ = self.url.set(url);
    }

    /// Says what tells that the service is to stop.
    pub fn stops_with(&self, stop: watch::Receiver<bool>) {
        // As above.
        let _ = self.stop.set(stop);
    }

    /// Waits until the service is to stop: answers that would go on for ever end then.
    pub async fn stopping(&self) {
        match self.stop.get() {
            // An error means that nobody can say "stop" any more, which is as good as having said it.
            Some(stop) => drop(stop.clone().wait_for(|stop| *stop).await),
            None => std::future::pending().await,
        }
    }

    /// The URL that clients know it by; empty before it listens.
    #[must_use]
    pub fn url(&self) -> &str {
        self.url.get().map_or("", String::as_str)
    }

    /// Whether this is the owner's token. Compared by hash, all of it, in the same time whatever is wrong.
    #[must_use]
    pub fn is_owner_token(&self, token: &str) -> bool {
        let given = sha256(token.as_bytes());
        self.owner_token
            .is_some_and(|ours| ours.0.iter().zip(given.0).fold(0, |d, (a, b)| d | (a ^ b)) == 0)
    }

    /// The account whose log has this origin.
    #[must_use]
    pub fn account_of_origin(&self, origin: &str) -> Option<Arc<Account>> {
        let mut accounts = self.accounts.values();
        accounts.find(|account| account.origin == origin)
    }

    /// The machine's clocks, for a log that is opened.
    #[must_use]
    pub fn clocks(&self) -> Arc<dyn Clocks> {
        self.clocks.clone()
    }

    /// The wall clock, for answers: leaves carry log time.
    #[must_use]
    pub fn server_time(&self) -> String {
        Millis(self.now_ms()).to_string()
    }

    /// The wall clock, in milliseconds since 1970.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        u64::try_from(self.clocks.read().wall_ns / 1_000_000).unwrap_or(0)
    }

    /// The owner's private key lies on this machine: whoever runs the service could sign for the owner.
    #[must_use]
    pub fn owner_is_forgeable(&self) -> bool {
        self.dir.owner_key().exists()
    }

    /// The owner's private key, where it lies on this machine and can be read.
    #[must_use]
    pub fn owner_key(&self) -> Option<PrivateKey> {
        let text = zeroize::Zeroizing::new(std::fs::read_to_string(self.dir.owner_key()).ok()?);
        PrivateKey::parse(&text).ok()
    }

    /// The bounds that a client can meet, by name.
    #[must_use]
    pub fn limits(&self) -> Value {
        use countersign_verifier::limits;
        json!({
            "payload_bytes_max": limits::PAYLOAD_BYTES_MAX,
            "signatures_max": limits::SIGNATURES_MAX,
            "leaf_bytes_max": limits::ENTRY_BYTES_MAX,
            "decision_bytes_max": crate::ledger::DECISION_BYTES_MAX,
            "body_bytes_max": crate::limits::BODY_BYTES_MAX,
            "ndjson_lines_max": crate::limits::NDJSON_LINES_MAX,
            "ndjson_bytes_max": crate::limits::NDJSON_BYTES_MAX,
            "evidence_set_max": limits::MULTI_LEAVES_MAX,
            "deadline_ms_max": crate::limits::DEADLINE_MS_MAX,
            "header_bytes_max": self.config.limits.header_bytes,
            "connections_max": self.config.limits.connections,
            "requests_max": self.config.limits.requests,
            "body_memory_bytes": self.config.limits.body_memory_bytes,
            "watchers_max": self.config.limits.watchers,
            "request_timeout_s": self.config.limits.request_timeout_s,
        })
    }

    /// How the service is: what `/health` says. `all` shows private accounts too.
    #[must_use]
    pub fn health(&self, all: bool) -> Value {
        let mut worst = "ok";
        let mut rows = Vec::new();
        let mut offset = 0_i64;
        let all_closed = self.all_closed();
        for account in self.accounts.values() {
            let status = account.log.status();
            if status.clock_offset_ms.abs() > offset.abs() {
                offset = status.clock_offset_ms;
            }
            // A log that its owner closed is as he wants it: it says nothing against the others.
            if status.stop.is_some() || all_closed {
                worst = "read_only";
            } else if (status.publication.is_some() || status.witnesses.quorum_lost_since.is_some())
                && worst == "ok"
            {
                worst = "degraded";
            }
            if !account.public && !all {
                continue;
            }
            let mut row = json!({
                "name": account.name,
                "origin": account.origin,
                "size": status.published.size,
                // Without a quorum nobody but the log has signed: there is no witnessed head.
                "witnessed_size": if account.witnessed { status.published.size } else { 0 },
                "owner_forgeable": self.owner_is_forgeable(),
            });
            witnessing::show(&status.witnesses, &mut row);
            if let Some(closed) = account.closed() {
                row["closed"] = json!({"index": closed.index, "successor": closed.successor});
            }
            if account.unguarded {
                row["unguarded"] = true.into();
            }
            if let Some(why) = account.takes_nothing(&status) {
                row["read_only"] = why.into();
            }
            rows.push(row);
        }
        json!({
            "status": worst,
            "version": env!("CARGO_PKG_VERSION"),
            "limits": self.limits(),
            "accounts": rows,
            "clock_offset_ms": offset,
        })
    }

    /// Why not every account takes writes; `None` where all do that are not closed. A private account is not named.
    #[must_use]
    pub fn not_ready(&self) -> Option<String> {
        let all_closed = self.all_closed();
        self.accounts.values().find_map(|account| {
            let status = account.log.status();
            if status.stop.is_none() && !all_closed {
                return None;
            }
            let why = account.takes_nothing(&status)?;
            Some(match account.public {
                true => format!("account {}: {why}", account.name),
                false => why,
            })
        })
    }

    /// Whether no account will ever take a write again, because their owners said so.
    fn all_closed(&self) -> bool {
        let mut accounts = self.accounts.values();
        accounts.all(|account| account.closed().is_some())
    }

    /// Whoever waits in a line is let go: the service is about to stop.
    pub fn disperse(&self) {
        for account in self.accounts.values() {
            account.line.end();
        }
    }

    /// Takes no more writes, and finishes those that were taken.
    pub fn close(&self) {
        for account in self.accounts.values() {
            account.log.close();
        }
    }
}
