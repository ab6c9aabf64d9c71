//! How fast a log may grow: only where a list announced how often it asks, and then generously.
//!
//! Only new heads count. Their signatures are the log's own, so that nobody else can use up its share; repeating a public
//! checkpoint costs no write within a second, and conflicts cost none at all.

use std::collections::HashMap;

use countersign_verifier::hash::Hash;

/// A log may grow so many times as often as was announced for it.
const GENEROSITY: u64 = 4;
/// However little was announced, so many heads in a row are cosigned.
const BURST_MIN: u64 = 60;
/// Logs whose share is remembered, of 48 bytes; of the rest it begins anew.
const HELD_MAX: usize = 16_384;
const DAY_S: u64 = 86_400;

#[derive(Clone, Copy)]
struct Share {
    /// What is left, in heads times [`DAY_S`].
    left: u64,
    at: u64,
}

/// The shares of those logs that grew lately.
#[derive(Default)]
pub(super) struct Rates(HashMap<Hash, Share>);

impl Rates {
    /// Takes one head from a log's share; the seconds until there is one again if there is none left.
    pub(super) fn grow(&mut self, log: Hash, qpd: Option<u32>, now: u64) -> Option<u64> {
        let per_day = GENEROSITY * u64::from(qpd?.max(1));
        let most = (per_day / 24).max(BURST_MIN) * DAY_S;
        if self.0.len() >= HELD_MAX && !self.0.contains_key(&log) {
            self.0.clear();
        }
        let share = self.0.entry(log).or_insert(Share {
            left: most,
            at: now,
        });
        let gone = now.saturating_sub(share.at);
        share.left = share
            .left
            .saturating_add(gone.saturating_mul(per_day))
            .min(most);
        share.at = now;
        match share.left.checked_sub(DAY_S) {
            Some(left) => {
                share.left = left;
                None
            }
            None => Some((DAY_S - share.left).div_ceil(per_day)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: Hash = Hash([1; 32]);

    #[test]
    fn a_log_that_announced_nothing_has_no_limit() {
        let mut rates = Rates::default();
        assert!((0..10_000).all(|_| rates.grow(LOG, None, 5).is_none()));
    }

    #[test]
    fn a_share_is_used_up_and_comes_back() {
        let mut rates = Rates::default();
        let qpd = Some(24);
        assert!((0..BURST_MIN).all(|_| rates.grow(LOG, qpd, 1_000).is_none()));
        // Four times 24 a day: one in 15 minutes.
        assert_eq!(rates.grow(LOG, qpd, 1_000), Some(900));
        assert_eq!(rates.grow(LOG, qpd, 1_899), Some(1));
        assert_eq!(rates.grow(LOG, qpd, 1_900), None);
        assert_eq!(rates.grow(LOG, qpd, 1_900), Some(900));
        assert!(
            rates.grow(LOG, qpd, 10).is_some(),
            "a clock that went back gives nothing"
        );
        assert_eq!(rates.grow(Hash([2; 32]), qpd, 1_900), None, "another log");
    }
}
