//! Verdicts as text: one JSON line, or lines for people.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use super::{Outcome, Subject, Verdict};
use crate::json::MAX_INTEGER;
use crate::leaf::Millis;
use crate::scan::push_string;
use crate::words::printable;

impl Verdict {
    /// One JSON object without a line break: `{evidence, verdict, checks, subject, by, cosigners}`.
    /// `subject` is an object for one leaf and an array of such for a set; it and `by` are null where
    /// there is none.
    #[must_use]
    pub fn to_json(&self, evidence: &str) -> String {
        let mut out = Vec::with_capacity(2048);
        text(&mut out, "{\"evidence\":", evidence);
        text(&mut out, ",\"verdict\":", self.outcome.as_str());
        out.extend_from_slice(b",\"checks\":[");
        for (i, check) in self.checks.iter().enumerate() {
            text(
                &mut out,
                if i > 0 { ",{\"name\":" } else { "{\"name\":" },
                check.name.as_str(),
            );
            text(&mut out, ",\"status\":", check.status.as_str());
            text(&mut out, ",\"detail\":", &check.detail);
            out.push(b'}');
        }
        out.extend_from_slice(b"],\"subject\":");
        match self.subjects.as_slice() {
            [] => out.extend_from_slice(b"null"),
            [one] => self.push_subject(&mut out, one),
            many => {
                for (i, one) in many.iter().enumerate() {
                    out.push(if i > 0 { b',' } else { b'[' });
                    self.push_subject(&mut out, one);
                }
                out.push(b']');
            }
        }
        self.push_by(&mut out);
        out.extend_from_slice(b",\"cosigners\":[");
        for (i, cosigner) in self.cosigners.iter().enumerate() {
            text(
                &mut out,
                if i > 0 { ",{\"name\":" } else { "{\"name\":" },
                &cosigner.name,
            );
            text(&mut out, ",\"key\":", &cosigner.key);
            // A time beyond what readers hold exactly is no time of this world; it is capped.
            let time = cosigner.time.min(MAX_INTEGER.unsigned_abs());
            text(&mut out, &format!(",\"time\":{time},\"at\":"), &spell(time));
            out.push(b'}');
        }
        out.extend_from_slice(b"]}");
        String::from_utf8(out).expect("OK because only whole strings are pushed")
    }

    fn push_subject(&self, out: &mut Vec<u8>, subject: &Subject) {
        out.extend_from_slice(format!("{{\"index\":{}", subject.index).as_bytes());
        text(out, ",\"leaf_hash\":", &subject.leaf_hash.to_hex());
        text(out, ",\"kind\":", subject.kind);
        if let Some(at) = subject.at {
            text(out, ",\"at\":", &at.to_string());
        }
        if let (Some(origin), Some(size)) = (&self.origin, self.size) {
            text(out, ",\"origin\":", origin);
            out.extend_from_slice(format!(",\"size\":{size}").as_bytes());
        }
        if let (Some(kind), Some(bytes), Some(sha256)) = (
            &subject.payload_type,
            subject.payload_bytes,
            &subject.payload_sha256,
        ) {
            text(out, ",\"payload_type\":", kind);
            out.extend_from_slice(format!(",\"payload_bytes\":{bytes}").as_bytes());
            text(out, ",\"payload_sha256\":", &sha256.to_hex());
        }
        out.push(b'}');
    }

    fn push_by(&self, out: &mut Vec<u8>) {
        let Some(by) = &self.by else {
            out.extend_from_slice(b",\"by\":null");
            return;
        };
        text(out, ",\"by\":{\"identity\":", &by.identity.to_string());
        text(out, ",\"class\":", by.class.name());
        if let Some(session) = &by.session {
            text(out, ",\"session\":", session);
        }
        out.push(b'}');
    }

    /// Lines for people: the file, one a check, and the verdict last. Control characters of what the
    /// file says are shown as escapes, so that no file can draw on the reader's terminal.
    #[must_use]
    pub fn to_lines(&self, evidence: &str) -> String {
        let mut out = printable(evidence) + "\n";
        for check in &self.checks {
            let (name, status) = (check.name.as_str(), check.status.as_str());
            out += &format!("  {name:<11} {status:<8} {}\n", printable(&check.detail));
        }
        out + match self.outcome {
            Outcome::Holds => "holds\n",
            Outcome::DoesNotHold => "does not hold\n",
            Outcome::CannotTell => "cannot tell\n",
        }
    }
}

fn text(out: &mut Vec<u8>, before: &str, value: &str) {
    out.extend_from_slice(before.as_bytes());
    push_string(out, value);
}

fn spell(time_s: u64) -> String {
    Millis(time_s.saturating_mul(1000)).to_string()
}
