//! One account of a service, open or not.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, Weak,
    atomic::{AtomicU64, Ordering},
};

use countersign_log::store::{Head, rocks::RocksStore};
use countersign_verifier::hash::Hash;

use crate::{
    account::{Account, Was, is_public, origin_of},
    config,
    data_dir::DataDir,
    state::Tokens,
    versions::Versions,
};

/// What falls due within so many milliseconds is waited for.
const SOON_MS: u64 = 1_000;

/// An account, open or not.
pub struct Place {
    /// Its local name.
    pub name: String,
    /// Its log's origin; empty if its files do not say.
    pub origin: String,
    /// Whether anybody may read it.
    pub public: bool,
    /// Held by whoever opens or closes it.
    pub(super) turn: Mutex<()>,
    now: Mutex<Now>,
    used_ms: AtomicU64,
}

/// What it is at this moment.
pub(super) struct Now {
    pub(super) open: Option<Arc<Account>>,
    /// The store that it had last: whoever still reads there holds it, and two of one database cannot be.
    pub(super) store: Weak<RocksStore>,
    /// The versions that open cursors name outlive a closed log.
    pub(super) versions: Arc<Versions>,
    /// What it was when it was closed; `None` before it was first opened.
    pub(super) left: Option<Left>,
    /// When it last did not open.
    pub(super) failed_ms: Option<u64>,
}

/// What is remembered of a closed account. Nothing of it changes while it is closed.
#[derive(Clone)]
pub struct Left {
    /// Leaves in the published tree.
    pub size: u64,
    /// The published head.
    pub(super) published: Head,
    /// Leaves under a witnessed head.
    pub witnessed_size: u64,
    /// Whether its owner has closed its log for ever.
    pub ended: bool,
    tokens: Tokens,
    /// When it must be opened again, if ever.
    wake_ms: Option<u64>,
}

/// How an account stands.
pub enum Standing {
    /// It is open.
    Open(Arc<Account>),
    /// It was closed because nobody asked for it.
    Closed(Left),
    /// It has not been opened since the service began.
    Unopened,
    /// It does not open.
    Failing,
}

impl Left {
    /// What is to be remembered of it at `now_ms`.
    pub(super) fn of(account: &Account, now_ms: u64, settings: &config::Witnesses) -> Left {
        let status = account.log.status();
        let state = account.reader().version();
        let log_now = account.log_now_ms();
        let due = state.next_due().filter(|_| state.closed.is_none());
        let due = due.map(|due| now_ms + due.at.saturating_sub(log_now));
        // An open log asks its witnesses again once their cosignatures are this old.
        let refresh = account
            .witnessed
            .then(|| now_ms + settings.refresh_s.saturating_mul(1_000));
        let size = status.published.size;
        Left {
            size,
            published: status.published,
            witnessed_size: if account.witnessed { size } else { 0 },
            ended: state.closed.is_some(),
            tokens: state.tokens.clone(),
            wake_ms: due.into_iter().chain(refresh).min(),
        }
    }
}

impl Place {
    /// The account of this name, as its files describe it.
    pub(super) fn new(dir: &DataDir, name: &str) -> Place {
        let files = dir.account(name);
        Place {
            name: name.into(),
            // What is wrong with its files is said when it is opened.
            origin: origin_of(&files).unwrap_or_default(),
            public: is_public(&files),
            turn: Mutex::new(()),
            now: Mutex::new(Now {
                open: None,
                store: Weak::new(),
                versions: Arc::default(),
                left: None,
                failed_ms: None,
            }),
            used_ms: AtomicU64::new(0),
        }
    }

    /// How it stands.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let now = self.now();
        match (&now.open, &now.left, now.failed_ms) {
            (Some(open), ..) => Standing::Open(open.clone()),
            (None, _, Some(_)) => Standing::Failing,
            (None, Some(left), None) => Standing::Closed(left.clone()),
            (None, None, None) => Standing::Unopened,
        }
    }

    /// What it must be when it is opened; `None` where its files said nothing when the service began.
    pub(super) fn was(&self) -> Option<Was> {
        let published = self.now().left.as_ref().map(|left| left.published);
        (!self.origin.is_empty()).then(|| Was {
            origin: self.origin.clone(),
            public: self.public,
            published,
        })
    }

    /// Whether it did not open when it was last tried.
    pub(super) fn is_failing(&self) -> bool {
        self.now().failed_ms.is_some()
    }

    pub(super) fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn used_ms(&self) -> u64 {
        self.used_ms.load(Ordering::Relaxed)
    }

    pub(super) fn use_at(&self, now_ms: u64) {
        self.used_ms.fetch_max(now_ms, Ordering::Relaxed);
    }

    /// Whether it has made the token with this SHA-256; `None` if that cannot be told.
    pub(super) fn has_token(&self, sha256: &Hash) -> Option<bool> {
        let now = self.now();
        if let Some(open) = &now.open {
            return Some(open.reader().version().tokens.get(sha256).is_some());
        }
        let left = now.left.as_ref()?;
        Some(left.tokens.get(sha256).is_some())
    }

    /// Whether it must be opened though nobody asks for it: something falls due, or nobody knows whether it does.
    pub(super) fn is_due(&self, now_ms: u64) -> bool {
        let now = self.now();
        let wakes = match &now.left {
            Some(left) => left.wake_ms.is_some_and(|at| at <= now_ms),
            None => true,
        };
        now.open.is_none() && wakes
    }

    /// Takes the open account out of its place, if nobody has it in hand and it owes nothing at this moment: no write whose head is
    /// still to be published, nothing that is due.
    pub(super) fn take_if_idle(
        &self,
        now_ms: u64,
        settings: &config::Witnesses,
    ) -> Option<Arc<Account>> {
        let mut now = self.now();
        let account = now.open.as_ref()?;
        let status = account.log.status();
        let is_published = status.published.size >= status.committed.size;
        let soon = account.log_now_ms() + SOON_MS;
        let state = account.reader().version();
        // A log that does not write cannot write what is due either.
        let is_due = status.stop.is_none() && state.next_due().is_some_and(|due| due.at <= soon);
        // Whoever takes it in hand does so under this lock.
        if Arc::strong_count(account) > 1 || !is_published || is_due {
            return None;
        }
        now.left = Some(Left::of(account, now_ms, settings));
        now.open.take()
    }
}
