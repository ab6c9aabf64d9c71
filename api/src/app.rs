//! The parts of a running service, put together in one place.

mod health;

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
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

pub(crate) use health::not_open;

use crate::{
    account::{Explicit, OpenError, origin_of},
    accounts::{Accounts, Opener},
    config::Config,
    data_dir::DataDir,
    doors::http::Room,
    error::{Code, Problem},
    files,
    issuer::{Issuer, Now},
    metrics::Metrics,
    quota::Quotas,
    watchers::Watchers,
};

/// Everything that a request can need.
pub struct App {
    /// The configuration in force.
    pub config: Config,
    /// The data directory.
    pub dir: DataDir,
    /// The accounts, open and closed.
    pub accounts: Accounts,
    /// Held by whoever closes a log and opens it again, or makes an account.
    pub changing: Mutex<()>,
    /// What Prometheus reads.
    pub metrics: Metrics,
    /// How many calls each caller has left.
    pub(crate) quotas: Quotas,
    /// One permit a request that is being answered.
    pub gate: Arc<Semaphore>,
    /// Calls that may wait for leases at once, of all accounts: each keeps its turn meanwhile, so that these are half of the turns. Who
    /// comes when there are more is answered at once.
    pub waiting: Semaphore,
    /// Memory for the bodies of requests.
    pub(crate) room: Arc<Room>,
    /// Memory for the bodies of large answers, as much again.
    pub(crate) answers: Arc<Room>,
    /// Who watches events.
    pub(crate) watchers: Watchers,
    /// Whose tokens are taken at `POST /mcp` besides our own.
    pub(crate) issuer: Option<Issuer>,
    /// One permit a body that comes in to be kept.
    pub uploads: Arc<Semaphore>,
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

/// The first two of these accounts that are one log, and its origin: a copy of an account's folder, most likely. Both would sign.
pub(crate) fn copies(dir: &DataDir, names: &[String]) -> Option<(String, String, String)> {
    let mut seen: BTreeMap<String, &String> = BTreeMap::new();
    for name in names {
        // A vkey that cannot be read is refused when the account is opened.
        let Some(origin) = origin_of(&dir.account(name)) else {
            continue;
        };
        if let Some(first) = seen.insert(origin.clone(), name) {
            return Some((first.clone(), name.clone(), origin));
        }
    }
    None
}

impl App {
    /// Opens the accounts of a directory, as many as may be open. The caller holds its lock.
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
        // Before any of them is opened, because to open one is to sign with it.
        if let Some((first, second, origin)) = copies(&dir, &names) {
            return Err(BuildError::Twice(first, second, origin));
        }
        let opener = Opener {
            dir: dir.clone(),
            shared,
            clocks: clocks.clone(),
            witnesses: config.witnesses.clone(),
            explicit,
        };
        let accounts = Accounts::new(opener, config.accounts.clone(), &names);
        let begun = accounts.begin();
        begun.map_err(|(name, source)| BuildError::Account { name, source })?;
        let owner_token = match files::read_small(&dir.owner_token()) {
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
        let waiting = Semaphore::new((config.limits.requests / 2).max(1));
        let room = Room::new(config.limits.body_memory_bytes);
        let answers = Room::new(config.limits.body_memory_bytes);
        let watchers = Watchers::new(&config.limits);
        let issuer = Issuer::of(&config.mcp);
        let uploads = Arc::new(Semaphore::new(config.blobs.uploads));
        Ok(App {
            config,
            dir,
            accounts,
            changing: Mutex::new(()),
            metrics: Metrics::default(),
            quotas: Quotas::default(),
            gate,
            waiting,
            room,
            answers,
            watchers,
            issuer,
            uploads,
            url: OnceLock::new(),
            stop: OnceLock::new(),
            owner_token,
            clocks,
        })
    }

    /// The turn of one request that is complete, and is to be answered now.
    ///
    /// # Errors
    /// `BUSY`: too many are.
    pub(crate) fn turn(&self) -> Result<OwnedSemaphorePermit, Problem> {
        self.gate.clone().try_acquire_owned().map_err(|_| {
            let why = "too many requests are being answered; see `requests_max` in /health";
            Problem::new(Code::Busy, why).retry_after(1_000)
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

    /// The wall clock, for answers: leaves carry log time.
    #[must_use]
    pub fn server_time(&self) -> String {
        Millis(self.now_ms()).to_string()
    }

    /// The wall clock, in milliseconds since 1970.
    #[must_use]
    fn now_ms(&self) -> u64 {
        u64::try_from(self.clocks.read().wall_ns / 1_000_000).unwrap_or(0)
    }

    /// Milliseconds that never go back, whatever the wall clock does.
    #[must_use]
    pub fn boot_ms(&self) -> u64 {
        u64::try_from(self.clocks.read().boot_ns / 1_000_000).unwrap_or(0)
    }

    /// Both of them.
    pub(crate) fn now(&self) -> Now {
        Now {
            wall_ms: self.now_ms(),
            boot_ms: self.boot_ms(),
        }
    }

    /// The owner's private key lies on this machine: whoever runs the service could sign for the owner.
    #[must_use]
    pub fn owner_is_forgeable(&self) -> bool {
        self.dir.owner_key().exists()
    }

    /// The owner's private key, where it lies on this machine and can be read.
    #[must_use]
    pub fn owner_key(&self) -> Option<PrivateKey> {
        let text = zeroize::Zeroizing::new(files::read_small(&self.dir.owner_key()).ok()?);
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
            "watchers_per_account_max": self.config.limits.watchers_per_account,
            "watchers_per_identity_max": self.config.limits.watchers_per_identity,
            "request_timeout_s": self.config.limits.request_timeout_s,
            "blob_bytes_max": crate::limits::BLOB_BYTES_MAX,
            "blob_identity_bytes_max": self.config.blobs.identity_bytes,
            "blob_identity_count_max": self.config.blobs.identity_count,
            "blob_account_bytes_max": self.config.blobs.account_bytes,
            "blob_account_count_max": self.config.blobs.account_count,
            "blob_uploads_max": self.config.blobs.uploads,
            "blob_identity_uploads_max": self.config.blobs.identity_uploads,
            "blob_timeout_s": self.config.blobs.timeout_s,
        })
    }

    /// Whoever waits in a line is let go: the service is about to stop.
    pub fn disperse(&self) {
        for account in self.accounts.values() {
            account.line.end();
        }
    }

    /// Takes no more writes, and finishes those that were taken.
    pub fn close(&self) {
        self.accounts.end();
    }
}
