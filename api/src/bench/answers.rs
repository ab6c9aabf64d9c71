//! What an answer to submitted receipts says, read without taking the JSON apart: the generator shares the processors with
//! the service, and both sides write compact JSON.

use super::wire::Answer;

/// States of a receipt, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wait {
    /// It has an index.
    Sequenced,
    /// It is under a head that the log signed.
    Included,
    /// A quorum of witnesses has cosigned that head.
    Witnessed,
}

impl Wait {
    /// As the query and the answers write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Wait::Sequenced => "sequenced",
            Wait::Included => "included",
            Wait::Witnessed => "witnessed",
        }
    }

    fn met_by(self, state: &str) -> bool {
        match state {
            "sequenced" => self == Wait::Sequenced,
            "included" => self != Wait::Witnessed,
            "witnessed" => true,
            _ => false,
        }
    }
}

/// What became of the receipts of one request.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Accepted now, in the state asked for or a later one.
    pub accepted: usize,
    /// The index in the log of the first of the request, where it was accepted.
    pub first_index: Option<u64>,
    /// What was said of the first that was not accepted.
    pub complaint: Option<String>,
}

/// Reads the answer to `sent` receipts: one as an object, or several as lines.
#[must_use]
pub fn read(answer: Answer<'_>, sent: usize, as_lines: bool, wait: Wait) -> Tally {
    let mut tally = Tally::default();
    let body = String::from_utf8_lossy(answer.body);
    if !as_lines {
        tally.take(&body, answer.status == 200 && accepted(&body, wait), true);
        return tally;
    }
    if answer.status == 200 {
        for (at, line) in body.lines().enumerate() {
            tally.take(
                line,
                line.contains("\"status\":200") && accepted(line, wait),
                at == 0,
            );
        }
    }
    if tally.accepted < sent && tally.complaint.is_none() {
        tally.complaint = Some(format!("status {}: {}", answer.status, shortened(&body)));
    }
    tally
}

impl Tally {
    fn take(&mut self, object: &str, accepted: bool, first: bool) {
        if accepted {
            self.accepted += 1;
            if first {
                self.first_index = index(object);
            }
        } else if self.complaint.is_none() {
            self.complaint = Some(shortened(object));
        }
    }
}

fn accepted(object: &str, wait: Wait) -> bool {
    let state = after(object, "\"state\":\"").and_then(|rest| rest.split('"').next());
    state.is_some_and(|state| wait.met_by(state)) && !object.contains("\"duplicate\":true")
}

fn index(object: &str) -> Option<u64> {
    let rest = after(object, "\"index\":")?;
    rest[..rest.find(|c: char| !c.is_ascii_digit())?]
        .parse()
        .ok()
}

fn after<'t>(text: &'t str, what: &str) -> Option<&'t str> {
    Some(&text[text.find(what)? + what.len()..])
}

fn shortened(text: &str) -> String {
    text.chars().take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(status: u16, body: &str, wait: Wait) -> (usize, Option<u64>) {
        let tally = read(
            Answer {
                status,
                body: body.as_bytes(),
            },
            1,
            false,
            wait,
        );
        assert_eq!(tally.accepted == 1, tally.complaint.is_none(), "{body}");
        (tally.accepted, tally.first_index)
    }

    #[test]
    fn only_new_receipts_in_the_state_asked_for_count() {
        use Wait::{Included, Sequenced};
        for (status, body, wait, want) in [
            (
                200,
                r#"{"index":7,"state":"sequenced"}"#,
                Sequenced,
                (1, Some(7)),
            ),
            (
                200,
                r#"{"index":7,"duplicate":false,"state":"included"}"#,
                Sequenced,
                (1, Some(7)),
            ),
            (
                200,
                r#"{"index":12,"state":"witnessed"}"#,
                Included,
                (1, Some(12)),
            ),
            (
                200,
                r#"{"index":7,"state":"sequenced"}"#,
                Included,
                (0, None),
            ),
            (
                200,
                r#"{"index":7,"state":"included","duplicate":true}"#,
                Included,
                (0, None),
            ),
            (
                202,
                r#"{"index":7,"state":"included"}"#,
                Included,
                (0, None),
            ),
            (503, r#"{"code":"BUSY"}"#, Sequenced, (0, None)),
            (200, "", Sequenced, (0, None)),
        ] {
            assert_eq!(one(status, body, wait), want, "{status} {body}");
        }
    }

    #[test]
    fn lines_count_singly_and_missing_ones_are_missed() {
        let good = r#"{"line":1,"status":200,"index":3,"state":"included"}"#;
        let bad = r#"{"line":2,"status":422,"code":"SIGNATURE_INVALID"}"#;
        for (status, body, accepted, first_index, complains) in [
            (200, [good, good].join("\n"), 2, Some(3), false),
            (200, [good, bad].join("\n") + "\n", 1, Some(3), true),
            (200, [bad, good].join("\n") + "\n", 1, None, true),
            (200, format!("{good}\n"), 1, Some(3), true),
            (413, [good, good].join("\n"), 0, None, true),
        ] {
            let answer = Answer {
                status,
                body: body.as_bytes(),
            };
            let tally = read(answer, 2, true, Wait::Included);
            assert_eq!(
                (tally.accepted, tally.first_index, tally.complaint.is_some()),
                (accepted, first_index, complains),
                "{body}"
            );
        }
    }
}
