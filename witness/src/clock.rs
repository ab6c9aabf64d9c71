//! The one place that reads the time.

use std::time::{SystemTime, UNIX_EPOCH};

/// Tells the time, POSIX seconds.
pub type Clock = Box<dyn Fn() -> u64 + Send + Sync>;

/// The wall clock of this machine, POSIX seconds; 0 where it stands before 1970.
#[must_use]
pub fn wall() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
