//! A new account: its keys, its files, its store.

use std::{path::PathBuf, sync::Arc};

use countersign_log::{
    Clocks, Stop,
    store::{
        Head, StoreError,
        rocks::{RocksStore, Shared},
    },
};
use countersign_verifier::{base64, key::PublicKey, policy::Policy, predecessor::Predecessor};

use super::{About, Account, OpenError, generate, signer};
use crate::{
    config,
    data_dir::{DataDir, write_public, write_secret},
    local_witnesses::{self, PolicyLine},
    seat::Seats,
    state::opened::Before,
};

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
            let status = account.log.status();
            // A wrong clock is the operator's to accept, at the first start.
            let waits = matches!(status.stop, Some(Stop::Clock(_)));
            if status.published == Head::EMPTY && !waits {
                let why = format!("{}: its first leaf was not written", files.db().display());
                return Err(StoreError::Unavailable(why).into());
            }
        }
        Ok(vkey)
    }
}

/// A policy that the log's own signature meets.
#[must_use]
pub fn policy_without_witnesses(vkey: &str) -> String {
    format!(
        "# Who must have signed a checkpoint for a proof to count (c2sp.org/tlog-policy).\nlog {vkey}\nquorum none\n"
    )
}
