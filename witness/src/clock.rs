//! The one place that reads the time.

use std::sync::{Mutex, PoisonError};

use rustix::time::{ClockId, clock_gettime};

/// Tells the time, POSIX seconds.
pub type Clock = Box<dyn Fn() -> u64 + Send + Sync>;

/// The wall clock may move so far against the clock that nobody can set, in seconds: what a clock service does by itself.
const TOLERANCE_S: i64 = 600;
/// A larger step is believed once it has lasted so long, in seconds.
const PATIENCE_S: i64 = 3_600;

/// The wall clock of this machine, POSIX seconds; 0 where it stands before 1970.
///
/// A step of more than ten minutes is not followed before it has lasted an hour. What a witness once cosigned with a time to come
/// it could sign with no earlier one: a clock that jumps ahead for a second would ruin it until that day.
#[must_use]
pub fn wall() -> Clock {
    let read = || {
        let s = |id| clock_gettime(id).tv_sec;
        (s(ClockId::Realtime), s(ClockId::Boottime))
    };
    let steady = Mutex::new(Steady::new(read()));
    Box::new(move || {
        let mut steady = steady.lock().unwrap_or_else(PoisonError::into_inner);
        u64::try_from(steady.at(read())).unwrap_or(0)
    })
}

/// Wall minus boot time, as it is believed, and since when (boot time) it has been another one.
struct Steady {
    offset: i64,
    other: Option<(i64, i64)>,
}

impl Steady {
    fn new((wall, boot): (i64, i64)) -> Steady {
        Steady {
            offset: wall - boot,
            other: None,
        }
    }

    fn at(&mut self, (wall, boot): (i64, i64)) -> i64 {
        let offset = wall - boot;
        let apart = |from: i64| (offset - from).abs() > TOLERANCE_S;
        if apart(self.offset) {
            let since = match self.other {
                Some((other, since)) if !apart(other) => since,
                _ => {
                    tracing::error!(
                        "the wall clock was set by {} s; cosignatures follow it if it stays so for an hour",
                        offset - self.offset
                    );
                    boot
                }
            };
            self.other = Some((offset, since));
            if boot - since < PATIENCE_S {
                return boot + self.offset;
            }
        }
        self.other = None;
        self.offset = offset;
        wall
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_followed_once_it_lasts() {
        let mut clock = Steady::new((1_000_000, 50));
        // Drift and small corrections are followed at once, however they add up.
        for (wall, boot) in [(1_000_010, 60), (1_000_600, 100), (1_001_200, 200)] {
            assert_eq!(clock.at((wall, boot)), wall);
        }
        // A year ahead for a moment, and back.
        assert_eq!(clock.at((32_000_000, 300)), 1_001_300);
        assert_eq!(clock.at((1_001_400, 400)), 1_001_400);
        // Back by a day, and it stays so.
        assert_eq!(clock.at((915_000, 500)), 1_001_500);
        assert_eq!(clock.at((918_599, 4_099)), 1_005_099);
        assert_eq!(clock.at((918_600, 4_100)), 918_600);
        // A step that is itself stepped begins anew.
        assert_eq!(clock.at((2_000_000, 4_200)), 918_700);
        assert_eq!(clock.at((3_003_500, 7_700)), 922_200);
        assert_eq!(clock.at((3_003_700, 7_900)), 922_400);
    }
}
