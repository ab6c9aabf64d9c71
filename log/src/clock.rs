//! Log time: the stamp on each leaf, which never goes back.
//!
//! It starts at max(wall clock, last stamp), advances with a clock that no one can set (CLOCK_BOOTTIME, which also counts
//! suspended time), and is drawn towards the wall clock by at most 500 ppm. So a step of the wall clock neither shortens
//! nor lengthens anything that was promised in log time. A step of more than ten minutes is beyond what a clock service does
//! by itself: writing then stops until an operator accepts it.

use std::time::{SystemTime, UNIX_EPOCH};

/// The most that the wall clock may differ before writing stops, in nanoseconds: ten minutes.
const TOLERANCE_NS: i128 = 600 * NS_PER_S;
/// The same in milliseconds.
pub(crate) const TOLERANCE_MS: u64 = 600_000;
/// Log time is drawn towards the wall clock by one part in 2,000 of the time that passes: 500 ppm.
const SLEW_DIVISOR: i128 = 2_000;
/// Closer than this to the wall clock, log time counts as having caught up, and earlier steps are forgotten.
const CAUGHT_UP_NS: i128 = NS_PER_S;
const NS_PER_S: i128 = 1_000_000_000;
const NS_PER_MS: i128 = 1_000_000;

/// The two clocks of the machine, read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// CLOCK_BOOTTIME in nanoseconds: never set, never back, counts suspended time.
    pub boot_ns: i128,
    /// CLOCK_REALTIME in nanoseconds since 1970: anybody may set it.
    pub wall_ns: i128,
}

/// Where the clocks are read. Only this module reads them.
pub trait Clocks: Send + Sync + 'static {
    /// Both clocks now.
    fn read(&self) -> Reading;
}

/// The clocks of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClocks;

impl Clocks for SystemClocks {
    fn read(&self) -> Reading {
        let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        // By way of the C library, as most of a machine reads it: what gives a process a wall clock of its own reaches us too.
        let wall = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i128::try_from(since.as_nanos()),
            Err(before) => i128::try_from(before.duration().as_nanos()).map(|ns| -ns),
        };
        Reading {
            boot_ns: i128::from(boot.tv_sec) * NS_PER_S + i128::from(boot.tv_nsec),
            // OK because 64 bits of seconds are far below 127 of nanoseconds.
            wall_ns: wall.expect("SystemClocks::read"),
        }
    }
}

/// Why the clock stops writing. Times are milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClockFault {
    /// At start the wall clock is more than ten minutes behind the last leaf.
    #[error("the wall clock ({wall_ms} ms) is {} s behind the last leaf ({last_ms} ms)", (last_ms - wall_ms) / 1000)]
    Behind {
        /// What the wall clock says.
        wall_ms: u64,
        /// The stamp of the last leaf.
        last_ms: u64,
    },
    /// While running, the wall clock moved by more than ten minutes against the clock that nobody can set.
    #[error("the wall clock was set by {moved_ms} ms while the service was running")]
    Stepped {
        /// How far, forward positive.
        moved_ms: i64,
    },
    /// The cosignatures of a quorum of witnesses all state a time more than ten minutes from the wall clock's.
    #[error(
        "the wall clock is {apart_ms} ms from the clocks of the witnesses; writing goes on once they agree"
    )]
    Disputed {
        /// The wall clock minus the nearest of them.
        apart_ms: i64,
    },
}

/// The wall clock, POSIX milliseconds: for comparison and display, never for a stamp.
pub(crate) fn wall_ms(clocks: &dyn Clocks) -> u64 {
    millis(clocks.read().wall_ns)
}

/// Log time.
#[derive(Debug)]
pub struct LogClock {
    /// The last stamp given, in nanoseconds since 1970.
    now_ns: i128,
    boot_ns: i128,
    /// Wall minus boot when log time last agreed with the wall clock (or at start): steps are measured against it.
    offset_ns: i128,
    wall_ns: i128,
    /// The stamp of the last leaf, where the wall clock was too far behind it at start and has not been accepted.
    ahead_ns: Option<i128>,
}

impl LogClock {
    /// Starts after a last leaf stamped `last_ms` (0: none). With [`ClockFault::Behind`] it stands still until the wall clock is
    /// set right or accepted.
    #[must_use]
    pub fn start(last_ms: u64, reading: Reading) -> (LogClock, Option<ClockFault>) {
        let last_ns = i128::from(last_ms) * NS_PER_MS;
        let mut clock = LogClock {
            now_ns: last_ns.max(reading.wall_ns),
            boot_ns: reading.boot_ns,
            offset_ns: reading.wall_ns - reading.boot_ns,
            wall_ns: reading.wall_ns,
            ahead_ns: None,
        };
        if last_ns - reading.wall_ns <= TOLERANCE_NS {
            return (clock, None);
        }
        clock.ahead_ns = Some(last_ns);
        let fault = behind(last_ns, reading.wall_ns);
        (clock, Some(fault))
    }

    /// Goes on from a last leaf stamped `last_ms`, where the wall clock is more than ten minutes ahead of it: what lies between is for
    /// [`LogClock::accept`] to say, so that it shortens nothing that was promised. `None` where it is not, or there is no leaf.
    ///
    /// Whether the clock was set or the log merely stood still cannot be told after a start. An operator who accepts it says that it
    /// was set; what he is wrong about ends late, and nothing ends early.
    #[must_use]
    pub fn set_ahead(last_ms: u64, reading: Reading) -> Option<LogClock> {
        let last_ns = i128::from(last_ms) * NS_PER_MS;
        let ahead = last_ms > 0 && reading.wall_ns - last_ns > TOLERANCE_NS;
        ahead.then(|| LogClock {
            now_ns: last_ns,
            ..LogClock::start(last_ms, reading).0
        })
    }

    /// Log time at `reading`, in milliseconds since 1970; never less than before.
    ///
    /// # Errors
    /// [`ClockFault`], for as long as the wall clock is where it is and nobody accepts it.
    pub fn now(&mut self, reading: Reading) -> Result<u64, ClockFault> {
        if let Some(last_ns) = self.ahead_ns {
            self.boot_ns = reading.boot_ns;
            self.wall_ns = reading.wall_ns;
            if last_ns - reading.wall_ns > TOLERANCE_NS {
                return Err(behind(last_ns, reading.wall_ns));
            }
            self.ahead_ns = None;
            self.now_ns = last_ns.max(reading.wall_ns);
            self.offset_ns = reading.wall_ns - reading.boot_ns;
        }
        let passed = (reading.boot_ns - self.boot_ns).max(0);
        self.boot_ns = self.boot_ns.max(reading.boot_ns);
        self.wall_ns = reading.wall_ns;
        self.now_ns += passed;
        let most = passed / SLEW_DIVISOR;
        self.now_ns += (reading.wall_ns - self.now_ns).clamp(-most, most);
        let offset = reading.wall_ns - reading.boot_ns;
        let moved = offset - self.offset_ns;
        if moved.abs() > TOLERANCE_NS {
            let moved_ms = i64::try_from(moved / NS_PER_MS).unwrap_or(i64::MAX);
            return Err(ClockFault::Stepped { moved_ms });
        }
        if (reading.wall_ns - self.now_ns).abs() < CAUGHT_UP_NS {
            self.offset_ns = offset;
        }
        Ok(millis(self.now_ns))
    }

    /// Takes the wall clock as it is: log time jumps forward to it, or waits for it where it is behind. Returns (from, to) in
    /// milliseconds, for the leaf that says so.
    pub fn accept(&mut self, reading: Reading) -> (u64, u64) {
        let from = millis(self.now_ns);
        self.now_ns = self.now_ns.max(reading.wall_ns);
        self.boot_ns = reading.boot_ns;
        self.wall_ns = reading.wall_ns;
        self.offset_ns = reading.wall_ns - reading.boot_ns;
        self.ahead_ns = None;
        (from, millis(self.now_ns))
    }

    /// Wall clock minus log time when last read, in milliseconds.
    #[must_use]
    pub fn offset_ms(&self) -> i64 {
        i64::try_from((self.wall_ns - self.now_ns) / NS_PER_MS).unwrap_or(i64::MAX)
    }
}

fn behind(last_ns: i128, wall_ns: i128) -> ClockFault {
    ClockFault::Behind {
        wall_ms: millis(wall_ns),
        last_ms: millis(last_ns),
    }
}

fn millis(ns: i128) -> u64 {
    u64::try_from(ns / NS_PER_MS).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: i128 = 60 * NS_PER_S;
    const START_MS: u64 = 1_700_000_000_000;

    fn at(boot: i128, wall_shift: i128) -> Reading {
        Reading {
            boot_ns: boot,
            wall_ns: i128::from(START_MS) * NS_PER_MS + boot + wall_shift,
        }
    }

    fn started() -> LogClock {
        LogClock::start(0, at(0, 0)).0
    }

    #[test]
    fn it_follows_the_wall_clock_where_nothing_happens() {
        let mut clock = started();
        for s in 0..10 {
            assert_eq!(
                clock.now(at(s * NS_PER_S, 0)),
                Ok(START_MS + 1000 * u64::try_from(s).unwrap())
            );
        }
    }

    #[test]
    fn b122_five_minutes_forward_shorten_no_lease_and_an_hour_stops_writing() {
        let mut clock = started();
        let before = clock.now(at(5 * NS_PER_S, 0)).unwrap();
        let after = clock.now(at(6 * NS_PER_S, 5 * MIN)).unwrap();
        assert!(
            after - before < 1002,
            "a second and its slew, not five minutes: {}",
            after - before
        );
        assert_eq!(clock.offset_ms() / 1000, 299);
        let fault = clock.now(at(7 * NS_PER_S, 65 * MIN)).unwrap_err();
        assert_eq!(
            fault,
            ClockFault::Stepped {
                moved_ms: 65 * 60_000
            }
        );
    }

    #[test]
    fn b123_five_minutes_back_never_turn_time_back_and_an_hour_stops_writing() {
        let mut clock = started();
        let before = clock.now(at(5 * NS_PER_S, 0)).unwrap();
        let after = clock.now(at(6 * NS_PER_S, -5 * MIN)).unwrap();
        assert!(after >= before + 999);
        assert!(clock.now(at(7 * NS_PER_S, -60 * MIN)).is_err());
        let again = clock.now(at(8 * NS_PER_S, 0)).unwrap();
        assert!(again >= after, "the step undone, writing goes on");
    }

    #[test]
    fn it_is_drawn_to_the_wall_clock_by_500_ppm() {
        let mut clock = started();
        clock.now(at(0, MIN)).unwrap();
        let after = clock.now(at(2_000 * NS_PER_S, MIN)).unwrap();
        assert_eq!(after, START_MS + 2_000_000 + 1_000);
    }

    #[test]
    fn steps_that_were_caught_up_with_do_not_add_up() {
        let mut clock = started();
        let mut boot = 0;
        for n in 1..=5 {
            clock.now(at(boot, n * 9 * MIN)).unwrap();
            boot += 2_000 * 9 * MIN; // long enough to slew nine minutes
            clock.now(at(boot, n * 9 * MIN)).unwrap();
        }
    }

    #[test]
    fn a_start_behind_the_last_leaf_needs_acceptance_beyond_ten_minutes() {
        let last = START_MS + 9 * 60_000;
        let mut clock = LogClock::start(last, at(0, 0)).0;
        assert_eq!(clock.now(at(0, 0)), Ok(last));
        let last = START_MS + 11 * 60_000;
        let (mut clock, fault) = LogClock::start(last, at(0, 0));
        let fault = fault.unwrap();
        assert_eq!(
            fault,
            ClockFault::Behind {
                wall_ms: START_MS,
                last_ms: last
            }
        );
        assert_eq!(clock.now(at(0, 0)), Err(fault), "it stays so by itself");
        assert_eq!(clock.accept(at(0, 0)), (last, last));
        assert_eq!(clock.now(at(0, 0)), Ok(last));
        let (mut clock, _) = LogClock::start(last, at(0, 0));
        assert_eq!(
            clock.now(at(0, 2 * MIN)),
            Ok(last),
            "and ends when the wall clock is set right"
        );
    }

    #[test]
    fn having_been_off_for_years_is_no_fault() {
        let mut clock = LogClock::start(START_MS, at(0, 3 * 365 * 24 * 60 * MIN)).0;
        assert!(clock.now(at(1, 3 * 365 * 24 * 60 * MIN)).is_ok());
    }

    #[test]
    fn suspended_time_counts_and_is_no_step() {
        let mut clock = started();
        assert_eq!(clock.now(at(8 * 60 * MIN, 0)), Ok(START_MS + 8 * 3_600_000));
    }

    #[test]
    fn accepting_a_step_forward_jumps_to_it() {
        let mut clock = started();
        clock.now(at(0, 60 * MIN)).unwrap_err();
        assert_eq!(
            clock.accept(at(0, 60 * MIN)),
            (START_MS, START_MS + 3_600_000)
        );
        assert_eq!(clock.now(at(0, 60 * MIN)), Ok(START_MS + 3_600_000));
    }

    /// SplitMix64: a walk that is another one for each seed, and the same for the same.
    struct Walk(u64);

    impl Walk {
        fn below(&mut self, n: u64) -> i128 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            i128::from((z ^ (z >> 31)) % n)
        }

        /// Forwards or backwards: seconds, minutes, hours or years.
        fn step(&mut self) -> i128 {
            let most = [60, 600, 7_200, 100_000_000][usize::try_from(self.below(4)).unwrap()];
            (self.below(2 * most) - i128::from(most)) * NS_PER_S
        }
    }

    /// Clocks that are set, machines that are suspended and started anew (CLOCK_BOOTTIME begins again), logs that are stopped, and
    /// operators who accept: whatever the order, no stamp is before an earlier one, and between two that nothing was accepted or
    /// started between, so much log time passes as the machine ran, to 500 ppm.
    #[test]
    fn b122_b123_whatever_is_set_nothing_goes_back_and_nothing_lasts_longer_or_shorter() {
        for seed in 0..2_000 {
            let mut walk = Walk(seed);
            let (mut boot, mut shift) = (walk.below(1 << 50), 0);
            let mut clock = LogClock::start(0, at(boot, shift)).0;
            let mut last = clock.now(at(boot, shift)).unwrap();
            // The last stamp, and when it was given, while the same clock runs on.
            let mut since = Some((last, boot));
            for _ in 0..60 {
                match walk.below(5) {
                    0 => shift += walk.step(),
                    1 => {
                        // A reboot or a plain restart.
                        if walk.below(2) == 0 {
                            let wall = shift + boot;
                            boot = walk.below(1 << 50);
                            shift = wall - boot;
                        }
                        let reading = at(boot, shift);
                        let told = walk.below(2) == 0;
                        let ahead = LogClock::set_ahead(last, reading).filter(|_| told);
                        clock = ahead.unwrap_or_else(|| LogClock::start(last, reading).0);
                        since = None;
                        if told {
                            let (from, to) = clock.accept(reading);
                            assert!(last <= from && from <= to, "seed {seed}");
                        }
                    }
                    2 => {
                        let (from, to) = clock.accept(at(boot, shift));
                        assert!(last <= to && from <= to, "seed {seed}");
                        since = None;
                    }
                    // Suspended for a while, or idle.
                    3 => boot += walk.below(100_000) * NS_PER_S,
                    _ => boot += walk.below(1_000_000_000),
                }
                let Ok(now) = clock.now(at(boot, shift)) else {
                    continue;
                };
                assert!(now >= last, "seed {seed}: {now} after {last}");
                if let Some((stamp, then)) = since {
                    let (passed, ran) = (i128::from(now - stamp) * NS_PER_MS, boot - then);
                    let most = ran / SLEW_DIVISOR + 2 * NS_PER_MS;
                    assert!(
                        (passed - ran).abs() <= most,
                        "seed {seed}: {passed} in {ran}"
                    );
                }
                last = now;
                since = Some((now, boot));
            }
        }
    }
}
