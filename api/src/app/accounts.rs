//! The open accounts of a service, each of which may be replaced by itself opened anew.

use std::{collections::BTreeMap, sync::Arc};

use arc_swap::ArcSwap;

use crate::account::Account;

/// By name. Which names there are stays as it is while the service runs.
#[derive(Default)]
pub struct Accounts(BTreeMap<String, ArcSwap<Account>>);

impl Accounts {
    /// The account of this name, as it is now: whoever holds it goes on with that one.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<Account>> {
        self.0.get(name).map(ArcSwap::load_full)
    }

    /// All of them, by name.
    pub fn values(&self) -> impl Iterator<Item = Arc<Account>> + use<'_> {
        self.0.values().map(ArcSwap::load_full)
    }

    /// Their names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Puts an account in the place of the one of its name. One of a new name is dropped.
    pub fn replace(&self, account: Account) {
        if let Some(place) = self.0.get(&account.name) {
            place.store(Arc::new(account));
        }
    }
}

impl FromIterator<Account> for Accounts {
    fn from_iter<I: IntoIterator<Item = Account>>(accounts: I) -> Accounts {
        let named = accounts.into_iter();
        let named = named.map(|a| (a.name.clone(), ArcSwap::from_pointee(a)));
        Accounts(named.collect())
    }
}
