//! One account: one log, one key, one writer, one state.

mod error;
mod explicit;
mod parts;
mod status;

use std::{io, path::PathBuf, sync::Arc};

use countersign_log::{
    Clocks, Log, Options, Reader, Store, Witnesses,
    store::rocks::{RocksStore, Shared},
};
use countersign_verifier::{
    base64,
    key::{KeyError, PrivateKey, PublicKey},
    policy::{Eras, Policy},
    predecessor::Predecessor,
    vkey::NoteSigner,
};
use serde::{Deserialize, Serialize};

pub use error::OpenError;
pub use explicit::Explicit;
pub use parts::Parts;

use crate::{
    config,
    data_dir::{AccountDir, DataDir, write_public, write_secret},
    ledger::Ledger,
    local_witnesses::{self, PolicyLine},
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
    pub versions: Versions,
    /// The key of its service identity, which speaks for what the service itself observes.
    pub service: PrivateKey,
    /// Where its files lie.
    pub dir: AccountDir,
    store: Arc<RocksStore>,
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

/// What a new account is made of.
pub struct New {
    /// Its local name.
    pub name: String,
    /// Its log's origin.
    pub origin: String,
    /// Its owner's public key.
    pub owner: PublicKey,
    /// Whether anybody may read it.
    pub public: bool,
    /// Who must cosign its heads, by the policy that it begins with.
    pub witnesses: Vec<PolicyLine>,
}

/// What a log takes over from the one that it goes on from.
pub struct After {
    /// One more than the epoch of that.
    pub epoch: u32,
    /// What leaf 0 says of it.
    pub predecessor: Predecessor,
    /// Its present policy, and the key in it that gives way to the new log's.
    pub policy: String,
    /// That key.
    pub vkey: String,
}

impl Account {
    /// Makes the files of an account and its store, and returns the log's verifier key. Never over an existing one. Leaf 0 is
    /// written too, but with witnesses at the first start: no head of such a log may be without them.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn create(
        dir: &DataDir,
        new: &New,
        shared: &Shared,
        clocks: Arc<dyn Clocks>,
    ) -> Result<String, OpenError> {
        Account::create_after(dir, new, None, shared, clocks)
    }

    /// The same for a log that goes on from another one. Where the policy that it takes over names witnesses, leaf 0 is written at
    /// the first start.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn create_after(
        dir: &DataDir,
        new: &New,
        after: Option<&After>,
        shared: &Shared,
        clocks: Arc<dyn Clocks>,
    ) -> Result<String, OpenError> {
        let files = dir.account(&new.name);
        let file = |path: PathBuf| move |source| OpenError::File { path, source };
        std::fs::create_dir_all(files.root()).map_err(file(files.root().into()))?;
        let log_key = generate().map_err(file(files.log_key()))?;
        let service_key = generate().map_err(file(files.service_key()))?;
        let signer = signer(&new.origin, &log_key, &files)?;
        let about = About {
            origin: new.origin.clone(),
            owner: base64::encode(&new.owner.spki_der()),
            public: new.public,
            epoch: after.map_or(0, |after| after.epoch),
            predecessor: after.map(|after| Before::from(&after.predecessor)),
        };
        // OK because a struct of strings has no key that is not a string.
        let about =
            serde_json::to_string_pretty(&about).expect("Account::create: account.json") + "\n";
        let vkey = signer.vkey().to_string();
        write_secret(&files.log_key(), log_key.to_pem().as_bytes())
            .map_err(file(files.log_key()))?;
        write_secret(&files.service_key(), service_key.to_pem().as_bytes())
            .map_err(file(files.service_key()))?;
        let secret = Seats::fresh().map_err(file(files.seat_secret()))?;
        write_secret(&files.seat_secret(), secret.as_bytes()).map_err(file(files.seat_secret()))?;
        write_public(&files.about(), about.as_bytes()).map_err(file(files.about()))?;
        let policy = match after {
            Some(after) => after.policy.replace(&after.vkey, &vkey),
            None if new.witnesses.is_empty() => policy_without_witnesses(&vkey),
            None => local_witnesses::policy(&vkey, &new.witnesses),
        };
        let alone = Policy::parse(&policy).is_ok_and(|policy| policy.witnesses().is_empty());
        write_public(&files.policy(), policy.as_bytes()).map_err(file(files.policy()))?;
        drop(RocksStore::create(&files.db(), &files.tidemark(), shared)?);
        // Last: a directory with a vkey is an account.
        write_public(&files.log_vkey(), format!("{vkey}\n").as_bytes())
            .map_err(file(files.log_vkey()))?;
        if alone {
            let settings = config::Witnesses::default();
            let account = Account::open(dir, &new.name, shared, clocks, (&settings, false))?;
            account.log.close();
        }
        Ok(vkey)
    }

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
        let succeeded = dir.account(name).succeeded();
        if succeeded.exists() {
            return Err(OpenError::Succeeded { path: succeeded });
        }
        let parts = Parts::read(dir, name)?;
        let (db, tidemark) = (parts.files.db(), parts.files.tidemark());
        // Before the store is opened: a store that is open while its policy is refused would only be in the way.
        let witnesses = asked(&parts, settings)?;
        let store = Arc::new(RocksStore::open(&db, &tidemark, shared)?);
        Account::start(name, parts, store, clocks, (witnesses, explicit.into()))
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
        let store = self.store.clone();
        Account::start(&self.name, parts, store, clocks, (witnesses, explicit))
    }

    fn start(
        name: &str,
        parts: Parts,
        store: Arc<RocksStore>,
        clocks: Arc<dyn Clocks>,
        (witnesses, explicit): (Option<Witnesses>, Explicit),
    ) -> Result<Account, OpenError> {
        let (ledger, service, seats) = (parts.ledger()?, parts.service()?, parts.seats()?);
        let Parts {
            files,
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
        Ok(Account {
            name: name.into(),
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
            versions: Versions::default(),
            service,
            dir: files,
            store,
        })
    }

    /// Its store, for who has closed its log.
    #[must_use]
    pub fn store(&self) -> &dyn Store {
        &*self.store
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

/// A policy that the log's own signature meets.
#[must_use]
pub fn policy_without_witnesses(vkey: &str) -> String {
    format!(
        "# Who must have signed a checkpoint for a proof to count (c2sp.org/tlog-policy).\nlog {vkey}\nquorum none\n"
    )
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
    let text = match std::fs::read_to_string(&path) {
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
    std::fs::read_to_string(&path).map_err(|source| OpenError::File { path, source })
}
