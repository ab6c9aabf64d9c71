//! How many calls an identity has left in this minute: in memory, and no part of any log.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use countersign_verifier::key::IdentityId;

use crate::error::{Code, Problem};

/// So many callers are remembered before those are forgotten who have their whole minute again.
const CALLERS: usize = 10_000;
const MINUTE_MS: u64 = 60_000;

/// What is left of a caller's minute. Counted in requests × 60,000, so that a millisecond is worth `requests_per_minute`.
#[derive(Clone, Copy)]
struct Bucket {
    left: u64,
    at_ms: u64,
    per_minute: u64,
}

impl Bucket {
    /// What is left at a later time.
    fn at(self, now_ms: u64, per_minute: u64) -> Bucket {
        let gained = now_ms.saturating_sub(self.at_ms).saturating_mul(per_minute);
        let left = self.left.saturating_add(gained).min(per_minute * MINUTE_MS);
        Bucket {
            left,
            at_ms: self.at_ms.max(now_ms),
            per_minute,
        }
    }

    fn is_full(self, now_ms: u64) -> bool {
        self.at(now_ms, self.per_minute).left >= self.per_minute * MINUTE_MS
    }
}

/// What an identity may do so many times a minute, and the setting that says so.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// What, in the plural.
    pub what: &'static str,
    /// By which setting.
    pub setting: &'static str,
    /// So many; 0 for any number.
    pub per_minute: u64,
}

impl Rate {
    /// Calls of whatever door.
    #[must_use]
    pub const fn calls(per_minute: u64) -> Rate {
        Rate {
            what: "calls",
            setting: "requests_per_minute",
            per_minute,
        }
    }

    /// Receipts, by the first of their signers.
    #[must_use]
    pub const fn receipts(per_minute: u64) -> Rate {
        Rate {
            what: "receipts",
            setting: "receipts_per_minute",
            per_minute,
        }
    }
}

/// The callers of a service, each by the origin of its account and by its identity there.
#[derive(Default)]
pub struct Quotas(Mutex<Callers>);

#[derive(Default)]
struct Callers {
    buckets: BTreeMap<(String, IdentityId), Bucket>,
    /// With so many it is looked for those that can be forgotten: twice as many as could not be the last time, so that looking
    /// costs each caller a constant.
    look_at: usize,
}

impl Quotas {
    /// Takes one of what a caller has so many of.
    ///
    /// # Errors
    /// `RateLimited`, with the time after which there is one again.
    pub fn take(
        &self,
        (origin, identity): (&str, IdentityId),
        rate: Rate,
        now_ms: u64,
    ) -> Result<(), Problem> {
        let per_minute = rate.per_minute;
        if per_minute == 0 {
            return Ok(());
        }
        let mut callers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if callers.buckets.len() >= callers.look_at.max(CALLERS) {
            callers.buckets.retain(|_, bucket| !bucket.is_full(now_ms));
            callers.look_at = 2 * callers.buckets.len();
        }
        let bucket = callers
            .buckets
            .entry((origin.to_owned(), identity))
            .or_insert(Bucket {
                left: per_minute * MINUTE_MS,
                at_ms: now_ms,
                per_minute,
            });
        *bucket = bucket.at(now_ms, per_minute);
        match bucket.left.checked_sub(MINUTE_MS) {
            Some(left) => {
                bucket.left = left;
                Ok(())
            }
            None => {
                let wait_ms = (MINUTE_MS - bucket.left).div_ceil(per_minute);
                let why = format!(
                    "this identity has {per_minute} {} a minute (`{}` of settings_get)",
                    rate.what, rate.setting
                );
                let refused = Problem::new(Code::RateLimited, why).with("limit", per_minute);
                Err(refused.retry_after(wait_ms))
            }
        }
    }

    /// Takes so many more, down to none: what a call cost beyond one.
    pub fn charge(&self, (origin, identity): (&str, IdentityId), more: u64) {
        let mut callers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (origin.to_owned(), identity);
        if let Some(bucket) = callers.buckets.get_mut(&key) {
            bucket.left = bucket.left.saturating_sub(more.saturating_mul(MINUTE_MS));
        }
    }

    /// Gives back one that came to nothing.
    pub fn give_back(&self, (origin, identity): (&str, IdentityId)) {
        let mut callers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (origin.to_owned(), identity);
        if let Some(bucket) = callers.buckets.get_mut(&key) {
            let most = bucket.per_minute * MINUTE_MS;
            bucket.left = bucket.left.saturating_add(MINUTE_MS).min(most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> IdentityId {
        format!("id_{}", format!("{n:02x}").repeat(32))
            .parse()
            .unwrap()
    }

    #[test]
    fn a_minute_has_so_many_calls_and_they_come_back_one_by_one() {
        let quotas = Quotas::default();
        let take = |now_ms| quotas.take(("a", id(1)), Rate::calls(60), now_ms);
        for _ in 0..60 {
            take(1_000).unwrap();
        }
        let refused = take(1_000).unwrap_err();
        assert_eq!(refused.code, Code::RateLimited);
        assert_eq!(refused.retry_after_ms, Some(1_000));
        assert_eq!(take(1_999).unwrap_err().retry_after_ms, Some(1));
        take(2_000).unwrap();
        assert!(take(2_000).is_err());
        // A minute later there are as many as at first, and no more.
        for _ in 0..60 {
            take(1_000_000).unwrap();
        }
        assert!(take(1_000_000).is_err());
    }

    #[test]
    fn nobody_uses_up_what_another_has() {
        let quotas = Quotas::default();
        quotas.take(("a", id(1)), Rate::calls(1), 0).unwrap();
        assert!(quotas.take(("a", id(1)), Rate::calls(1), 0).is_err());
        quotas.take(("a", id(2)), Rate::calls(1), 0).unwrap();
        quotas.take(("b", id(1)), Rate::calls(1), 0).unwrap();
        for _ in 0..10 {
            quotas.take(("a", id(3)), Rate::calls(0), 0).unwrap();
        }
    }

    #[test]
    fn another_setting_holds_at_once() {
        let quotas = Quotas::default();
        quotas.take(("a", id(1)), Rate::calls(1_000), 0).unwrap();
        quotas.take(("a", id(1)), Rate::calls(1), 0).unwrap();
        assert!(quotas.take(("a", id(1)), Rate::calls(1), 0).is_err());
    }

    #[test]
    fn callers_who_have_all_they_may_have_are_forgotten() {
        let quotas = Quotas::default();
        for n in 0..CALLERS {
            quotas
                .take((&n.to_string(), id(1)), Rate::calls(60), 0)
                .unwrap();
        }
        quotas.take(("x", id(1)), Rate::calls(60), 2_000).unwrap();
        assert_eq!(quotas.0.lock().unwrap().buckets.len(), 1);
    }

    #[test]
    fn many_who_have_less_than_all_are_not_looked_through_each_time() {
        let quotas = Quotas::default();
        for n in 0..=CALLERS {
            quotas
                .take((&n.to_string(), id(1)), Rate::calls(60), 0)
                .unwrap();
        }
        let callers = quotas.0.lock().unwrap();
        assert_eq!(
            (callers.buckets.len(), callers.look_at),
            (CALLERS + 1, 2 * CALLERS)
        );
    }

    #[test]
    fn what_costs_more_than_a_call_is_paid_for() {
        let quotas = Quotas::default();
        let take = || quotas.take(("a", id(1)), Rate::calls(10), 0);
        take().unwrap();
        quotas.charge(("a", id(1)), 8);
        take().unwrap();
        assert!(take().is_err());
        quotas.charge(("a", id(1)), 1_000);
        assert_eq!(take().unwrap_err().retry_after_ms, Some(6_000), "no debt");
    }

    #[test]
    fn what_came_to_nothing_is_given_back_and_no_more_than_that() {
        let quotas = Quotas::default();
        let take = || quotas.take(("a", id(1)), Rate::calls(1), 0);
        take().unwrap();
        quotas.give_back(("a", id(1)));
        quotas.give_back(("a", id(1)));
        take().unwrap();
        assert!(take().is_err());
        quotas.give_back(("a", id(2)));
    }
}
