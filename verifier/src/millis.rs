//! Log time: milliseconds since 1970 and their one spelling.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

/// Milliseconds since 1970-01-01T00:00:00Z, without leap seconds. Written `2026-11-29T13:00:00.123Z`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub u64);

/// A text that is not a time in the one spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a UTC time with milliseconds, like 2026-11-29T13:00:00.123Z")]
pub struct MillisError;

const DAY_MS: u64 = 86_400_000;

impl Millis {
    /// The last time with a spelling: 9999-12-31T23:59:59.999Z.
    pub const MAX: Self = Self(253_402_300_799_999);

    /// The 24 characters; a time after [`Millis::MAX`] is written as that.
    #[must_use]
    pub fn spell(self) -> [u8; 24] {
        let ms = self.0.min(Self::MAX.0);
        let (days, of_day) = (ms / DAY_MS, ms % DAY_MS);
        let (year, month, day) = civil(days);
        let mut out = *b"0000-00-00T00:00:00.000Z";
        let mut put = |at: usize, width: usize, mut n: u64| {
            for place in out[at..at + width].iter_mut().rev() {
                // OK because n % 10 is one digit.
                #[allow(clippy::cast_possible_truncation)]
                let digit = (n % 10) as u8;
                *place = b'0' + digit;
                n /= 10;
            }
        };
        put(0, 4, year);
        put(5, 2, month);
        put(8, 2, day);
        put(11, 2, of_day / 3_600_000);
        put(14, 2, of_day / 60_000 % 60);
        put(17, 2, of_day / 1000 % 60);
        put(20, 3, of_day % 1000);
        out
    }
}

/// Year, month and day of a day counted from 1970-01-01, by the Gregorian calendar: years begin in
/// March, so that the day added in a leap year is the last one.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march + 2) / 5 + 1;
    let month = if march < 10 { march + 3 } else { march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

/// The inverse of [`civil`], for years from 1970.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = year - u64::from(month <= 2);
    let (era, of_era) = (year / 400, year % 400);
    let march = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * march + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.spell()))
    }
}

impl FromStr for Millis {
    type Err = MillisError;

    fn from_str(text: &str) -> Result<Self, MillisError> {
        let bytes = text.as_bytes();
        if bytes.len() != 24 {
            return Err(MillisError);
        }
        let field = |at: usize, width: usize| {
            bytes[at..at + width]
                .iter()
                .try_fold(0u64, |n, digit| match digit {
                    b'0'..=b'9' => Some(n * 10 + u64::from(digit - b'0')),
                    _ => None,
                })
        };
        let read = || {
            let (year, month, day) = (field(0, 4)?, field(5, 2)?, field(8, 2)?);
            if year < 1970 || !(1..=12).contains(&month) || day == 0 {
                return None;
            }
            let seconds = (field(11, 2)? * 60 + field(14, 2)?) * 60 + field(17, 2)?;
            Some(Self(
                days(year, month, day) * DAY_MS + seconds * 1000 + field(20, 3)?,
            ))
        };
        // Written again it must be the same text: that settles months, hours and separators.
        read()
            .filter(|time| time.spell() == *bytes)
            .ok_or(MillisError)
    }
}
