//! When to try again.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);

/// How much patience is left. Pauses double from 100 ms to 5 s, half of each by chance, so that many clients that were turned
/// away together do not come back together; what the service asks for is waited for in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    left: Duration,
    pause: Duration,
}

impl Retry {
    /// Pauses of at most `patience` in all; zero never tries again. Time spent in requests is not counted: each has a
    /// time-out of its own.
    #[must_use]
    pub fn new(patience: Duration) -> Retry {
        Retry {
            left: patience,
            pause: FIRST,
        }
    }

    /// The pause before the next attempt; `None` when patience ends before it would.
    pub fn next(&mut self, asked: Option<Duration>) -> Option<Duration> {
        let mut random = [0; 4];
        // Without randomness the pauses are only more regular.
        let _ = getrandom::fill(&mut random);
        self.step(asked, u32::from_le_bytes(random))
    }

    fn step(&mut self, asked: Option<Duration>, random: u32) -> Option<Duration> {
        let half = self.pause / 2;
        let pause = half + half.mul_f64(f64::from(random) / f64::from(u32::MAX));
        let pause = pause.max(asked.unwrap_or_default());
        self.left = self.left.checked_sub(pause)?;
        self.pause = (self.pause * 2).min(LONGEST);
        Some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn pauses_double_to_a_bound_and_end_with_patience() {
        let mut retry = Retry::new(ms(13_000));
        let pauses: Vec<_> = std::iter::from_fn(|| retry.step(None, u32::MAX)).collect();
        assert_eq!(
            pauses,
            [
                ms(100),
                ms(200),
                ms(400),
                ms(800),
                ms(1600),
                ms(3200),
                ms(5000)
            ]
        );
        assert_eq!(Retry::new(ms(60)).step(None, 0), Some(ms(50)));
        assert_eq!(Retry::new(Duration::ZERO).step(None, 0), None);
    }

    #[test]
    fn what_the_service_asks_for_is_waited_for_or_not_at_all() {
        let mut retry = Retry::new(ms(3_000));
        assert_eq!(retry.step(Some(ms(2_000)), 0), Some(ms(2_000)));
        // A minute is longer than what is left: giving up now says the same sooner.
        assert_eq!(retry.step(Some(ms(60_000)), 0), None);
        assert_eq!(retry.step(Some(ms(1)), u32::MAX), Some(ms(200)));
    }
}
