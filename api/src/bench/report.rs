//! What a bench found, as a table for people or as JSON.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal as _},
};

use serde_json::{Value, json};

use super::stats;

/// The figures of one bench.
#[derive(Debug, Default)]
pub struct Report {
    /// The bench's name.
    pub bench: &'static str,
    /// One sentence: what was done, with the load and the machine.
    pub what: String,
    /// The same as names and values.
    pub settings: Value,
    /// Names of the figures, with their units.
    pub figures: Vec<&'static str>,
    /// Those measured side by side, in the order of a round.
    pub sides: Vec<Side>,
    /// Figures over one another.
    pub ratios: Vec<Ratio>,
    /// What else a reader should know.
    pub notes: Vec<String>,
}

/// One of those measured side by side.
#[derive(Debug)]
pub struct Side {
    /// Its name.
    pub name: String,
    /// A value for each figure, a row for each round; `NaN` is unknown.
    pub rounds: Vec<Vec<f64>>,
}

/// What a ratio must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Want {
    /// This or more.
    AtLeast(f64),
    /// This or less.
    AtMost(f64),
    /// Nothing is promised.
    Nothing,
}

/// One side's figure over another's: the ratio of their medians.
#[derive(Debug)]
pub struct Ratio {
    figure: &'static str,
    over: (String, String),
    value: f64,
    /// The smallest and the largest of the single rounds.
    rounds: (f64, f64),
    want: Want,
}

impl Ratio {
    fn is_reached(&self) -> bool {
        match self.want {
            Want::AtLeast(want) => self.value >= want,
            Want::AtMost(want) => self.value <= want,
            Want::Nothing => true,
        }
    }
}

impl Report {
    /// Notes figure number `figure` of side number `of` over the same of side `over`. Does nothing when a side is missing.
    pub fn compare(&mut self, figure: usize, of: usize, over: usize, want: Want) {
        let (Some(a), Some(b), Some(&name)) = (
            self.sides.get(of),
            self.sides.get(over),
            self.figures.get(figure),
        ) else {
            return;
        };
        let pairs = a
            .rounds
            .iter()
            .zip(&b.rounds)
            .map(|(a, b)| a[figure] / b[figure]);
        let single: Vec<f64> = pairs.filter(|ratio| !ratio.is_nan()).collect();
        self.ratios.push(Ratio {
            figure: name,
            over: (a.name.clone(), b.name.clone()),
            value: a.median(figure) / b.median(figure),
            rounds: stats::extent(&single).unwrap_or((f64::NAN, f64::NAN)),
            want,
        });
    }

    /// Notes whether the median of figure number `figure` of side number `of` is at most what is promised.
    pub fn promise(&mut self, figure: usize, of: usize, at_most: f64) {
        let (Some(side), Some(name)) = (self.sides.get(of), self.figures.get(figure)) else {
            return;
        };
        let median = side.median(figure);
        let verdict = if median <= at_most {
            "reached"
        } else {
            "missed"
        };
        self.notes.push(format!(
            "{name}, {}: {}; wanted at most {}: {verdict}",
            side.name,
            number(median),
            number(at_most)
        ));
    }

    /// A table: a row a figure, a column a side, medians over the rounds; then ratios and notes.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut out = format!("{}: {}\n\n", self.bench, self.what);
        let first = self
            .figures
            .iter()
            .map(|name| name.len())
            .max()
            .unwrap_or(0);
        let widths: Vec<usize> = self
            .sides
            .iter()
            .map(|side| side.name.len().max(11) + 2)
            .collect();
        // OK because writing to a String does not fail.
        let _ = write!(out, "{:first$}", "");
        for (side, width) in self.sides.iter().zip(&widths) {
            let _ = write!(out, "{:>width$}", side.name);
        }
        for (figure, name) in self.figures.iter().enumerate() {
            let _ = write!(out, "\n{name:first$}");
            for (side, width) in self.sides.iter().zip(&widths) {
                let _ = write!(out, "{:>width$}", number(side.median(figure)));
            }
        }
        out.push_str("\n\n");
        for ratio in &self.ratios {
            let (low, high) = ratio.rounds;
            let (of, over) = &ratio.over;
            let _ = write!(
                out,
                "{}: {of} is {:.2} times {over} (single rounds {low:.2} to {high:.2})",
                ratio.figure, ratio.value
            );
            let reached = if ratio.is_reached() {
                "reached"
            } else {
                "missed"
            };
            let _ = match ratio.want {
                Want::AtLeast(want) => write!(out, "; wanted at least {want:.2}: {reached}"),
                Want::AtMost(want) => write!(out, "; wanted at most {want:.2}: {reached}"),
                Want::Nothing => Ok(()),
            };
            out.push('\n');
        }
        for note in &self.notes {
            let _ = writeln!(out, "note: {note}");
        }
        out
    }

    /// One object: every round, the medians, the ratios and the notes.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let named = |row: &[f64]| -> Value {
            self.figures
                .iter()
                .copied()
                .zip(row.iter().map(|v| json!(v)))
                .collect()
        };
        let side = |side: &Side| {
            let medians: Vec<f64> = (0..self.figures.len())
                .map(|figure| side.median(figure))
                .collect();
            let rounds: Vec<Value> = side.rounds.iter().map(|row| named(row)).collect();
            json!({"name": side.name, "medians": named(&medians), "rounds": rounds})
        };
        let ratio = |ratio: &Ratio| {
            let want = match ratio.want {
                Want::AtLeast(want) => json!({"at_least": want, "reached": ratio.is_reached()}),
                Want::AtMost(want) => json!({"at_most": want, "reached": ratio.is_reached()}),
                Want::Nothing => Value::Null,
            };
            let (of, over) = &ratio.over;
            json!({"figure": ratio.figure, "of": of, "over": over, "ratio": ratio.value,
                "rounds": [ratio.rounds.0, ratio.rounds.1], "want": want})
        };
        json!({
            "bench": self.bench,
            "what": self.what,
            "settings": self.settings,
            "sides": self.sides.iter().map(side).collect::<Vec<_>>(),
            "ratios": self.ratios.iter().map(ratio).collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }
}

impl Side {
    fn values(&self, figure: usize) -> Vec<f64> {
        self.rounds
            .iter()
            .filter_map(|row| row.get(figure).copied())
            .filter(|v| !v.is_nan())
            .collect()
    }

    fn median(&self, figure: usize) -> f64 {
        stats::median(&self.values(figure)).unwrap_or(f64::NAN)
    }
}

/// Tells a person at a terminal how far the bench is.
pub fn say(what: &str) {
    if io::stderr().is_terminal() {
        eprintln!("{what}");
    }
}

/// Three significant digits or more, thousands set apart.
fn number(value: f64) -> String {
    if value.is_nan() {
        return "-".into();
    }
    if value < 1000.0 {
        return if value < 100.0 {
            format!("{value:.2}")
        } else {
            format!("{value:.1}")
        };
    }
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let side = |name: &str, rounds: &[[f64; 2]]| Side {
            name: name.into(),
            rounds: rounds.iter().map(|r| r.to_vec()).collect(),
        };
        Report {
            bench: "http",
            what: "receipts".into(),
            figures: vec!["receipts/s", "p50 ms"],
            sides: vec![
                side("ours", &[[30_000.0, 1.0], [10_000.0, 2.0], [20_000.0, 3.0]]),
                side(
                    "peer",
                    &[[5000.0, f64::NAN], [5000.0, f64::NAN], [4000.0, 9.0]],
                ),
            ],
            ..Report::default()
        }
    }

    #[test]
    fn ratios_are_of_medians() {
        let mut report = report();
        report.compare(0, 0, 1, Want::AtLeast(3.0));
        report.compare(1, 1, 0, Want::Nothing);
        report.compare(0, 0, 2, Want::Nothing);
        let [rate, latency] = &report.ratios[..] else {
            panic!("a missing side is not compared")
        };
        assert_eq!((rate.value, rate.rounds), (4.0, (2.0, 6.0)));
        assert_eq!(latency.value, 4.5);
        let text = report.to_text();
        assert!(text.contains("receipts/s: ours is 4.00 times peer (single rounds 2.00 to 6.00); wanted at least 3.00: reached"), "{text}");
        let json = report.to_json();
        assert_eq!(json["sides"][0]["medians"]["receipts/s"], 20_000.0);
        assert_eq!(json["sides"][1]["rounds"][0]["p50 ms"], Value::Null);
        assert_eq!(json["ratios"][0]["want"]["reached"], true);
    }

    #[test]
    fn promises_are_kept_at_the_median() {
        let mut report = report();
        report.promise(1, 0, 2.0);
        report.promise(1, 0, 1.9);
        report.promise(1, 2, 1.0);
        assert_eq!(
            report.notes,
            [
                "p50 ms, ours: 2.00; wanted at most 2.00: reached",
                "p50 ms, ours: 2.00; wanted at most 1.90: missed"
            ]
        );
    }

    #[test]
    fn numbers() {
        for (value, want) in [
            (f64::NAN, "-"),
            (0.5, "0.50"),
            (99.994, "99.99"),
            (123.45, "123.5"),
            (1234.5, "1,234"),
            (1_234_567.0, "1,234,567"),
        ] {
            assert_eq!(number(value), want);
        }
    }
}
