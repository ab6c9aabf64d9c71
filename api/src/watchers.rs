//! Who watches events: so many in all, so many of an account, so many of one identity. A watcher costs a connection and a task for as
//! long as it likes, so that one token must not take what all have.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use countersign_verifier::key::IdentityId;

use crate::{
    config::Limits,
    error::{Code, Problem},
};

/// What one more watcher is told to wait before it comes again, in milliseconds.
const AGAIN_MS: u64 = 5_000;

/// Who watches now.
pub(crate) struct Watchers {
    limits: [usize; 3],
    counts: Arc<Mutex<BTreeMap<Who, usize>>>,
}

/// Whose watchers are counted together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    All,
    /// Of the account whose log has this origin.
    Account(String),
    /// Of one identity of it; `None`: whoever holds the owner's token.
    Identity(String, Option<IdentityId>),
}

/// A watcher's place, given back when it is dropped.
pub(crate) struct Place {
    counts: Arc<Mutex<BTreeMap<Who, usize>>>,
    of: [Who; 3],
}

impl Watchers {
    pub(crate) fn new(limits: &Limits) -> Watchers {
        Watchers {
            limits: [
                limits.watchers_per_identity,
                limits.watchers_per_account,
                limits.watchers,
            ],
            counts: Arc::default(),
        }
    }

    /// A place for one more.
    ///
    /// # Errors
    /// `RateLimited` where an identity or an account has as many as it may, `Busy` where the service has.
    pub(crate) fn take(&self, origin: &str, who: Option<IdentityId>) -> Result<Place, Problem> {
        let of = [
            Who::Identity(origin.to_owned(), who),
            Who::Account(origin.to_owned()),
            Who::All,
        ];
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = |who: &Who| counts.get(who).copied().unwrap_or(0);
        let full = of
            .iter()
            .zip(self.limits)
            .find(|(who, most)| count(who) >= *most);
        if let Some((who, most)) = full {
            let (code, name) = match who {
                Who::Identity(..) => (Code::RateLimited, "watchers_per_identity_max"),
                Who::Account(_) => (Code::RateLimited, "watchers_per_account_max"),
                Who::All => (Code::Busy, "watchers_max"),
            };
            let why = format!("{most} watch already, which is as many as may: `{name}` in /health");
            let problem = Problem::new(code, why)
                .with("limit", most)
                .with("name", name);
            return Err(problem.retry_after(AGAIN_MS));
        }
        for who in &of {
            *counts.entry(who.clone()).or_default() += 1;
        }
        Ok(Place {
            counts: self.counts.clone(),
            of,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        for who in &self.of {
            match counts.get_mut(who) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(counts.remove(who)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use countersign_verifier::hash::Hash;

    use super::*;

    #[test]
    fn nobody_takes_what_all_have_and_a_place_is_given_back() {
        let watchers = Watchers::new(&Limits {
            watchers: 4,
            watchers_per_account: 3,
            watchers_per_identity: 2,
            ..Limits::default()
        });
        let id = |n: u8| Some(IdentityId(Hash([n; 32])));
        let refused = |origin, who| {
            let refused = watchers.take(origin, who).err().expect("a refusal");
            (refused.code, refused.detail["name"].clone())
        };
        let first = watchers.take("example.com/a", id(1)).unwrap();
        let _second = watchers.take("example.com/a", id(1)).unwrap();
        let (code, name) = refused("example.com/a", id(1));
        assert_eq!(
            (code, name),
            (Code::RateLimited, "watchers_per_identity_max".into())
        );
        let _owner = watchers.take("example.com/a", None).unwrap();
        let (code, name) = refused("example.com/a", id(2));
        assert_eq!(
            (code, name),
            (Code::RateLimited, "watchers_per_account_max".into())
        );
        let _other = watchers.take("example.com/b", id(1)).unwrap();
        let (code, name) = refused("example.com/b", id(1));
        assert_eq!((code, name), (Code::Busy, "watchers_max".into()));
        drop(first);
        let _again = watchers.take("example.com/a", id(1)).unwrap();
        let counts = watchers.counts.lock().unwrap();
        assert_eq!(counts[&Who::All], 4);
    }
}
