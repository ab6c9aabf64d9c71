//! One account: one log, one key, one writer, one state.

mod create;
mod error;
mod explicit;
mod parts;
mod status;
#[cfg(test)]
pub(crate) mod tests;
mod was;

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::Instant,
};

use countersign_log::{
    Clocks, Log, Options, Reader, Store, StoreError, Witnesses,
    store::rocks::{RocksStore, Shared},
};
use countersign_verifier::{
    key::{KeyError, PrivateKey},
    policy::Eras,
    vkey::{NoteSigner, VerifierKey},
};
use serde::{Deserialize, Serialize};

pub use create::{After, New, policy_without_witnesses};
pub use error::OpenError;
pub use explicit::Explicit;
pub use parts::Parts;
pub use was::Was;

use crate::{
    blobs::Blobs,
    config,
    data_dir::{AccountDir, DataDir},
    files,
    ledger::Ledger,
    quota::Quotas,
    seat::Seats,
    state::{State, opened::Before},
    submit::{Line, Wait},
    versions::Versions,
    witnessing,
};

/// An open account.
pub struct Account {
    /// Its local name.
    pub name: String,
    /// Its log's origin, chosen once.
    pub origin: String,
    /// Whether anybody may read it.
    pub public: bool,
    /// Its log.
    pub log: Log<Ledger>,
    /// The present tlog-policy file, as it is.
    pub policy: String,
    /// Whether the present policy asks for a quorum of witnesses.
    pub witnessed: bool,
    /// Whether it was started without its witnesses' word that nothing is missing.
    pub unguarded: bool,
    /// The log's verifier key.
    pub vkey: String,
    /// Its policies, by which its own evidence is judged where somebody asks.
    pub eras: Eras,
    /// Who waits for a lease.
    pub line: Line,
    /// The keys that the service keeps for seats.
    pub seats: Seats,
    /// The versions of its state that open cursors name.
    pub versions: Arc<Versions>,
    /// The key of its service identity, which speaks for what the service itself observes.
    pub service: PrivateKey,
    /// The bodies beside its log.
    pub blobs: Arc<Blobs>,
    /// Where its files lie.
    pub dir: AccountDir,
    /// Which folder that was when it was opened.
    place: files::Identity,
    store: Arc<RocksStore>,
    /// How many receipts each signer has left, and since when that is counted.
    receipts: (Quotas, Instant),
}

/// What `account.json` holds: chosen at creation.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct About {
    origin: String,
    /// Base64 of the owner's SPKI.
    owner: String,
    public: bool,
    #[serde(default, skip_serializing_if = "is_zero")]
    epoch: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    predecessor: Option<Before>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde asks")]
fn is_zero(epoch: &u32) -> bool {
    *epoch == 0
}

impl Account {
    /// Opens an account and starts its log.
    ///
    /// # Errors
    /// See [`OpenError`]; a missing key is never made up for.
    pub fn open(
        dir: &DataDir,
        name: &str,
        shared: &Shared,
        clocks: Arc<dyn Clocks>,
        (settings, explicit): (&config::Witnesses, impl Into<Explicit>),
    ) -> Result<Account, OpenError> {
        let settings = (settings, explicit.into());
        Account::reopen((dir, name), (None, shared), clocks, settings, None)
    }

    /// The same on a store that is still open, where there is one; and only if it is what it was.
    ///
    /// # Errors
    /// As [`Account::open`]; `Wrong` for another account, or an older copy, that was put in its place.
    pub fn reopen(
        (dir, name): (&DataDir, &str),
        (store, shared): (Option<Arc<RocksStore>>, &Shared),
        clocks: Arc<dyn Clocks>,
        (settings, explicit): (&config::Witnesses, Explicit),
        was: Option<&Was>,
    ) -> Result<Account, OpenError> {
        let succeeded = dir.account(name).succeeded();
        if succeeded.exists() {
            return Err(OpenError::Succeeded { path: succeeded });
        }
        let parts = Parts::read(dir, name)?;
        if let Some(was) = was {
            was.same_files(&parts)?;
        }
        let (db, tidemark) = (parts.files.db(), parts.files.tidemark());
        // Before the store is opened: a store that is open while its policy is refused would only be in the way.
        let witnesses = asked(&parts, settings)?;
        let store = match store {
            Some(store) => store,
            None => Arc::new(RocksStore::open(&db, &tidemark, shared)?),
        };
        if let Some(was) = was {
            was.same_head(&parts, &*store)?;
        }
        // Of one that is opened anew nobody has anything in hand: what is half done in there is of before.
        let blobs = Arc::new(Blobs::open(&parts.files.blobs())?);
        Account::start(name, parts, (store, blobs), clocks, (witnesses, explicit))
    }

    /// Opens it anew on the store that it has, once its log is closed: with the policies that its files name by then.
    ///
    /// # Errors
    /// As [`Account::open`].
    pub fn again(
        &self,
        dir: &DataDir,
        clocks: Arc<dyn Clocks>,
        (settings, explicit): (&config::Witnesses, Explicit),
    ) -> Result<Account, OpenError> {
        let parts = Parts::read(dir, &self.name)?;
        let witnesses = asked(&parts, settings)?;
        let stores = (self.store.clone(), self.blobs.clone());
        let mut again = Account::start(&self.name, parts, stores, clocks, (witnesses, explicit))?;
        again.versions = self.versions.clone();
        Ok(again)
    }

    fn start(
        name: &str,
        parts: Parts,
        (store, blobs): (Arc<RocksStore>, Arc<Blobs>),
        clocks: Arc<dyn Clocks>,
        (witnesses, explicit): (Option<Witnesses>, Explicit),
    ) -> Result<Account, OpenError> {
        let (ledger, service, seats) = (parts.ledger()?, parts.service()?, parts.seats()?);
        let Parts {
            files: dir,
            public,
            vkey,
            opened,
            policies,
            signer,
        } = parts;
        let witnessed = policies.present.quorum().is_some();
        let eras = policies.judges.clone();
        let unguarded = explicit.unguarded && witnesses.is_some();
        let start = if unguarded {
            Log::start_unguarded
        } else {
            Log::start
        };
        let log = start(Options {
            origin: opened.origin.clone(),
            signer,
            store: store.clone(),
            judge: ledger,
            clocks,
            witnesses,
            accept_clock: explicit.accept_clock,
        })?;
        let account = Account {
            name: name.into(),
            place: files::identity(dir.root()).map_err(|source| OpenError::File {
                path: dir.root().into(),
                source,
            })?,
            origin: opened.origin,
            public,
            log,
            policy: policies.text,
            witnessed,
            unguarded,
            vkey,
            eras,
            line: Line::default(),
            seats,
            versions: Arc::default(),
            service,
            blobs,
            dir,
            store,
            receipts: (Quotas::default(), Instant::now()),
        };
        // Before anybody can ask for a body that a restored disk may hold again.
        account.erase_owed();
        Ok(account)
    }

    /// Whether its files still lie where they were opened; where that cannot be told, they do.
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        match files::identity(self.dir.root()) {
            Ok(now) => now == self.place,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }

    /// Takes away what leaves have erased and is still here.
    pub fn erase_owed(&self) {
        self.blobs.erase_owed(&self.reader().version().erased);
    }

    /// Its store, for who has closed its log.
    #[must_use]
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// A copy of its store as it is now, in a folder that does not exist yet, for whoever checks it.
    ///
    /// # Errors
    /// What the store says.
    pub fn copy_store(&self, folder: &Path) -> Result<(), StoreError> {
        self.store.copy_to(folder)
    }

    /// Its store, for as long as somebody holds it.
    #[must_use]
    pub fn held_store(&self) -> Weak<RocksStore> {
        Arc::downgrade(&self.store)
    }

    /// What a write waits for unless it says otherwise.
    #[must_use]
    pub fn wait(&self) -> Wait {
        if self.witnessed {
            Wait::Witnessed
        } else {
            Wait::Included
        }
    }

    /// How far the leaf at `index`, which is committed, has come.
    #[must_use]
    pub fn state_of(&self, index: u64) -> Wait {
        let reader = self.reader();
        if index < reader.published().head.size {
            self.wait()
        } else if index < reader.signed().head.size {
            Wait::Included
        } else {
            Wait::Sequenced
        }
    }

    /// What was published.
    #[must_use]
    pub fn reader(&self) -> Reader<State> {
        self.log.reader()
    }
}

/// Whom its policies have the log ask.
fn asked(parts: &Parts, settings: &config::Witnesses) -> Result<Option<Witnesses>, OpenError> {
    let eras = parts.policies.judges.clone();
    witnessing::witnesses(eras, settings).map_err(|why| {
        let path = parts.files.policy();
        OpenError::Wrong { path, why }
    })
}

/// Whether these files say that anybody may read the account; files that say nothing do not.
#[must_use]
pub fn is_public(files: &AccountDir) -> bool {
    let about = read(files.about()).ok();
    let about = about.and_then(|text| serde_json::from_str::<About>(&text).ok());
    about.is_some_and(|about| about.public)
}

/// The origin of the log that these files are of; `None` where they do not say.
#[must_use]
pub fn origin_of(files: &AccountDir) -> Option<String> {
    let vkey = read(files.log_vkey()).ok()?;
    let vkey = VerifierKey::parse(vkey.trim()).ok()?;
    Some(vkey.name)
}

/// A fresh Ed25519 key from the system's randomness.
///
/// # Errors
/// If the system gives none.
pub fn generate() -> io::Result<PrivateKey> {
    let mut secret = zeroize::Zeroizing::new([0; 32]);
    getrandom::fill(&mut *secret).map_err(io::Error::other)?;
    PrivateKey::from_secret(countersign_verifier::key::Algorithm::Ed25519, &*secret)
        .map_err(io::Error::other)
}

fn signer(origin: &str, key: &PrivateKey, files: &AccountDir) -> Result<NoteSigner, OpenError> {
    let wrong = |why: String| OpenError::Key {
        path: files.log_key(),
        why,
    };
    let PrivateKey::Ed25519(key) = key else {
        return Err(wrong("a log signs with Ed25519".into()));
    };
    NoteSigner::new(origin, key.clone()).map_err(|e| wrong(e.to_string()))
}

fn private_key(path: PathBuf) -> Result<PrivateKey, OpenError> {
    let text = match files::read_small(&path) {
        Ok(text) => zeroize::Zeroizing::new(text),
        Err(e) => {
            let why = format!(
                "{e}; without its key the service does not start, and never makes another one"
            );
            return Err(OpenError::Key { path, why });
        }
    };
    PrivateKey::parse(&text).map_err(|e: KeyError| OpenError::Key {
        path,
        why: e.to_string(),
    })
}

fn read(path: PathBuf) -> Result<String, OpenError> {
    files::read_small(&path).map_err(|source| OpenError::File { path, source })
}
