//! Medians and percentiles.

/// The median: the middle value, or the mean of the two middle ones; `None` of nothing.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// The smallest and the largest value; `None` of nothing.
#[must_use]
pub fn extent(values: &[f64]) -> Option<(f64, f64)> {
    let first = *values.first()?;
    Some(
        values
            .iter()
            .fold((first, first), |(low, high), &v| (low.min(v), high.max(v))),
    )
}

/// Times of single requests.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    micros: Vec<u32>,
}

impl Latencies {
    /// Adds one, in whole microseconds; above 71 minutes it counts as that.
    pub fn add(&mut self, latency: std::time::Duration) {
        self.micros
            .push(u32::try_from(latency.as_micros()).unwrap_or(u32::MAX));
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.micros.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.micros.is_empty()
    }

    /// The `percent`-th percentile in milliseconds by the nearest rank (the smallest value that at least so many percent
    /// of all do not exceed); `NaN` of nothing.
    #[must_use]
    pub fn percentile_ms(&self, percent: u32) -> f64 {
        let mut sorted = self.micros.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() as u64 * u64::from(percent.min(100)))
            .div_ceil(100)
            .max(1);
        let at = usize::try_from(rank - 1).unwrap_or(usize::MAX);
        sorted
            .get(at)
            .map_or(f64::NAN, |&micros| f64::from(micros) / 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn medians() {
        for (values, want) in [
            (&[][..], None),
            (&[3.0], Some(3.0)),
            (&[4.0, 1.0], Some(2.5)),
            (&[9.0, 1.0, 5.0], Some(5.0)),
            (&[9.0, 1.0, 5.0, 6.0], Some(5.5)),
        ] {
            assert_eq!(median(values), want, "{values:?}");
        }
        assert_eq!(extent(&[2.0, 1.0, 3.0]), Some((1.0, 3.0)));
        assert_eq!(extent(&[]), None);
    }

    #[test]
    fn percentiles_by_nearest_rank() {
        let mut latencies = Latencies::default();
        assert!(latencies.percentile_ms(50).is_nan());
        for ms in (1..=200).rev() {
            latencies.add(Duration::from_millis(ms));
        }
        for (percent, want) in [
            (0, 1.0),
            (1, 2.0),
            (50, 100.0),
            (99, 198.0),
            (100, 200.0),
            (101, 200.0),
        ] {
            assert_eq!(latencies.percentile_ms(percent), want, "{percent}");
        }
        assert_eq!(latencies.len(), 200);
    }
}
