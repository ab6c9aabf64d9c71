//! What became of evidence of a fork, as text.

use std::format;
use std::string::{String, ToString as _};
use std::vec::Vec;

use super::{Cosigner, Judged, Shown};
use crate::fork::{Differs, Proven};
use crate::leaf::Millis;
use crate::scan::push_string;
use crate::words::printable;

/// What such evidence means for whoever relies on the log.
pub(super) const MEANING: &str = "\
no log that keeps its promise can sign both; some of its readers were shown another history than others. A proof under one of these heads \
says nothing to those who were shown the other. Hand this file to the log's witnesses and readers: it convinces whoever has the log's key";

impl Judged {
    /// Lines for people, the verdict last.
    pub(super) fn to_lines(&self, name: &str) -> String {
        let mut lines = printable(name) + "\n";
        let mut line = |name: &str, said: &str| {
            lines += &format!("  {name:<10} {}\n", printable(said));
        };
        let verdict = match self {
            Self::Holds(shown) => {
                let Shown { proven, cosigners } = &**shown;
                line("log", &proven.heads[0].checkpoint.origin);
                for (i, name) in ["first", "second"].into_iter().enumerate() {
                    line(name, &head(proven, i, &cosigners[i]));
                }
                line("fork", &proven.to_string());
                for name in on_both(cosigners) {
                    line(
                        "witness",
                        &format!("{name} cosigned both, which no honest witness does"),
                    );
                }
                line("meaning", MEANING);
                "holds: this log has FORKED\n"
            }
            Self::Fails(why) => {
                line("fork", why);
                "does not hold\n"
            }
            Self::Unknown(why) => {
                line("fork", why);
                "cannot tell\n"
            }
        };
        lines + verdict
    }

    /// One line: `{evidence, verdict, forked: true or null, detail, origin?, heads?, leaves?}`.
    pub(super) fn to_json(&self, name: &str) -> String {
        let mut out = Vec::new();
        let (verdict, detail) = match self {
            Self::Holds(shown) => ("holds", &shown.proven.to_string()),
            Self::Fails(why) => ("does_not_hold", why),
            Self::Unknown(why) => ("cannot_tell", why),
        };
        string(&mut out, "{\"evidence\":", name);
        string(&mut out, ",\"verdict\":", verdict);
        let forked = match self {
            Self::Holds(_) => "true",
            // Evidence that does not hold says nothing for a log either.
            Self::Fails(_) | Self::Unknown(_) => "null",
        };
        out.extend_from_slice(format!(",\"forked\":{forked}").as_bytes());
        string(&mut out, ",\"detail\":", detail);
        if let Self::Holds(shown) = self {
            let Shown { proven, cosigners } = &**shown;
            string(&mut out, ",\"origin\":", &proven.heads[0].checkpoint.origin);
            out.extend_from_slice(b",\"heads\":[");
            for (i, head) in proven.heads.iter().enumerate() {
                let comma = if i > 0 { "," } else { "" };
                // A size beyond what readers of JSON hold exactly is told as text, as all are.
                string(
                    &mut out,
                    &format!("{comma}{{\"size\":"),
                    &head.checkpoint.size.to_string(),
                );
                string(&mut out, ",\"root\":", &head.checkpoint.root.to_base64());
                string(
                    &mut out,
                    ",\"signed_by\":",
                    &format!("{}+{}", head.key.0, head.key.1),
                );
                out.extend_from_slice(b",\"cosigners\":[");
                for (i, cosigner) in cosigners[i].iter().enumerate() {
                    let comma = if i > 0 { "," } else { "" };
                    string(&mut out, &format!("{comma}{{\"name\":"), &cosigner.name);
                    string(&mut out, ",\"at\":", &spell(cosigner.time));
                    out.push(b'}');
                }
                out.extend_from_slice(b"]}");
            }
            out.push(b']');
            if let Differs::Leaves { start, end } = proven.differs {
                string(&mut out, ",\"leaves\":{\"start\":", &start.to_string());
                string(&mut out, ",\"end\":", &end.to_string());
                out.push(b'}');
            }
        }
        out.extend_from_slice(b"}\n");
        String::from_utf8(out).expect("OK because only whole strings are pushed")
    }
}

/// One line for a file that could not be read.
pub(super) fn error_json(name: &str, error: &str) -> String {
    let mut out = Vec::new();
    string(&mut out, "{\"evidence\":", name);
    string(&mut out, ",\"error\":", error);
    out.extend_from_slice(b"}\n");
    String::from_utf8(out).expect("OK because only whole strings are pushed")
}

fn string(out: &mut Vec<u8>, before: &str, value: &str) {
    out.extend_from_slice(before.as_bytes());
    push_string(out, value);
}

fn spell(time_s: u64) -> String {
    Millis(time_s.saturating_mul(1000)).to_string()
}

fn head(proven: &Proven, i: usize, cosigners: &[Cosigner]) -> String {
    let head = &proven.heads[i];
    let (size, root) = (head.checkpoint.size, head.checkpoint.root.to_base64());
    let mut said = format!(
        "{size} leaves, root {root}, signed by {}+{}",
        head.key.0, head.key.1
    );
    let mut comma = "; cosigned by ";
    for cosigner in cosigners {
        said += &format!("{comma}{} at {}", cosigner.name, spell(cosigner.time));
        comma = ", ";
    }
    said
}

fn on_both(cosigners: &[Vec<Cosigner>; 2]) -> impl Iterator<Item = &str> {
    let [first, second] = cosigners;
    let names = first.iter().map(|cosigner| cosigner.name.as_str());
    names.filter(|name| second.iter().any(|other| other.name == *name))
}
