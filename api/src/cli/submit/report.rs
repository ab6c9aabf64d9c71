//! What became of each envelope: a line each, and the exit code of all.

use std::{io::Write, path::PathBuf};

use serde_json::{Map, Value, json};

use super::{frame::Source, input::LINE_BYTES_MAX};
use crate::{
    cli::{REFUSED, UNKNOWN, UNUSABLE, client_exit_code, evidence::worst, out, out::Out},
    client::{Accepted, ClientError, Reached},
};

/// What became of one envelope.
#[derive(Debug)]
pub struct Outcome {
    /// Where it came from.
    pub source: Source,
    /// The service's answer, or why there is none.
    pub answer: Answer,
    /// With `--out`, of an envelope that is in the log: where its evidence is, or why it is nowhere.
    pub evidence: Option<Result<PathBuf, Missing>>,
}

/// What was answered.
#[derive(Debug)]
pub enum Answer {
    /// It is in the log.
    Accepted(Accepted),
    /// It is not, or nobody can tell.
    Failed(ClientError),
    /// It was never sent: no request can carry it.
    TooLong(usize),
    /// It, or what followed it, could not be read.
    Unreadable(std::io::Error),
}

/// Why there is no evidence file.
#[derive(Debug)]
pub enum Missing {
    /// The service did not give it in time.
    NotGiven(ClientError),
    /// It could not be written.
    NotWritten(String),
}

impl Outcome {
    /// The service could not be reached, or answered nothing that makes sense, or took nothing for as long as anybody was ready
    /// to try.
    pub fn is_hopeless(&self) -> bool {
        let Answer::Failed(error) = &self.answer else {
            return false;
        };
        error.is_transient() || error.problem().is_none()
    }

    /// Nobody answered.
    pub fn is_unreachable(&self) -> bool {
        matches!(
            &self.answer,
            Answer::Failed(ClientError::Unreachable { .. })
        )
    }

    /// The exit code, were it alone.
    pub fn exit_code(&self) -> u8 {
        let answer = match &self.answer {
            Answer::Accepted(accepted) if accepted.reached == Reached::Yes => 0,
            Answer::Accepted(_) => UNKNOWN,
            Answer::Failed(error) => client_exit_code(error),
            Answer::TooLong(_) => REFUSED,
            Answer::Unreadable(_) => UNUSABLE,
        };
        let evidence = match &self.evidence {
            Some(Err(Missing::NotGiven(_))) => UNKNOWN,
            Some(Err(Missing::NotWritten(_))) => UNUSABLE,
            _ => 0,
        };
        worst(&[answer, evidence])
    }

    /// Index, leaf hash, state, whether it is new, evidence file; tabs between.
    fn line(&self) -> Option<String> {
        let accepted = match &self.answer {
            Answer::Accepted(accepted) => accepted,
            Answer::Failed(ClientError::Refused(problem)) if self.exit_code() == REFUSED => {
                return Some(format!("-\t-\trefused\t{}", problem.code));
            }
            Answer::Failed(_) => return Some("-\t-\tunconfirmed\t-".into()),
            Answer::TooLong(_) => return Some("-\t-\trefused\tTOO_LARGE".into()),
            Answer::Unreadable(_) => return None,
        };
        let known = if accepted.duplicate {
            "duplicate"
        } else {
            "new"
        };
        let mut line = format!(
            "{}\t{}\t{}\t{known}",
            accepted.index,
            accepted.leaf_hash,
            accepted.state.name()
        );
        match &self.evidence {
            Some(Ok(path)) => line += &format!("\t{}", path.display()),
            Some(Err(_)) => line += "\t-",
            None => {}
        }
        Some(line)
    }

    fn json(&self) -> Value {
        let mut members = match &self.answer {
            Answer::Accepted(accepted) => accepted_members(accepted),
            Answer::Failed(ClientError::Refused(problem)) => {
                json!({"status": problem.status, "code": problem.code, "message": problem.message, "detail": problem.detail})
            }
            Answer::Failed(error) => json!({"error": error.to_string()}),
            Answer::TooLong(bytes) => {
                json!({"code": "TOO_LARGE", "message": too_long(*bytes), "detail": {"limit": LINE_BYTES_MAX, "bytes": bytes}})
            }
            Answer::Unreadable(error) => json!({"error": error.to_string()}),
        };
        members["source"] = (*self.source.name).into();
        members["line"] = self.source.line.into();
        members["confirmed"] = (self.exit_code() == 0).into();
        if let Some(Ok(path)) = &self.evidence {
            members["evidence"] = path.to_string_lossy().into();
        }
        members
    }

    /// What helps, for standard error.
    fn remarks(&self) -> Vec<String> {
        let source = &self.source;
        let mut remarks = Vec::new();
        match &self.answer {
            Answer::Accepted(accepted) => {
                for dropped in &accepted.dropped_signatures {
                    let (place, keyid) = (
                        dropped.position + 1,
                        if dropped.keyid.is_empty() {
                            "none"
                        } else {
                            &dropped.keyid
                        },
                    );
                    remarks.push(format!(
                        "{source}: signature {place} (keyid {keyid}) is not in the leaf: {}",
                        dropped.reason
                    ));
                }
                if accepted.reached == Reached::NotYet {
                    let (index, state) = (accepted.index, accepted.state.name());
                    remarks.push(format!("{source}: leaf {index} is {state} so far, not as far as was asked for; run the same again to see"));
                }
            }
            Answer::Failed(error) => remarks.push(format!("{source}: {error}")),
            Answer::TooLong(bytes) => remarks.push(format!("{source}: {}", too_long(*bytes))),
            Answer::Unreadable(error) => {
                remarks.push(format!("{source}: cannot be read from here on: {error}"))
            }
        }
        match &self.evidence {
            Some(Err(Missing::NotGiven(error))) => {
                remarks.push(format!("{source}: no evidence yet: {error}"))
            }
            Some(Err(Missing::NotWritten(why))) => remarks.push(format!("{source}: {why}")),
            _ => {}
        }
        remarks
    }
}

fn accepted_members(accepted: &Accepted) -> Value {
    let dropped = |d: &crate::client::DroppedSignature| json!({"position": d.position, "keyid": d.keyid, "reason": d.reason});
    let mut members = Map::new();
    members.insert("index".into(), accepted.index.into());
    members.insert("leaf_hash".into(), accepted.leaf_hash.to_hex().into());
    members.insert("at".into(), accepted.at.as_str().into());
    members.insert("state".into(), accepted.state.name().into());
    members.insert("duplicate".into(), accepted.duplicate.into());
    members.insert("evidence_url".into(), accepted.evidence_url.as_str().into());
    if !accepted.dropped_signatures.is_empty() {
        members.insert(
            "dropped_signatures".into(),
            accepted.dropped_signatures.iter().map(dropped).collect(),
        );
    }
    members.into()
}

fn too_long(bytes: usize) -> String {
    format!(
        "a line of {bytes} bytes, and no request carries more than {LINE_BYTES_MAX}; it was not sent"
    )
}

/// Prints outcomes and keeps count.
#[derive(Debug)]
pub struct Report<W = std::io::Stdout> {
    out: Out<W>,
    json: bool,
    codes: [u64; 4],
    last_failure: String,
}

impl<W: Write> Report<W> {
    /// Lines, or JSON.
    pub fn new(out: Out<W>, json: bool) -> Report<W> {
        Report {
            out,
            json,
            codes: [0; 4],
            last_failure: String::new(),
        }
    }

    /// Prints one.
    ///
    /// # Errors
    /// Standard output that cannot be written.
    pub fn take(&mut self, outcome: &Outcome) -> std::io::Result<()> {
        self.codes[usize::from(outcome.exit_code())] += 1;
        // A thousand lines that fail for one reason say it once; each has its own line of results.
        let failure = match &outcome.answer {
            Answer::Failed(error) => error.to_string(),
            _ => String::new(),
        };
        if failure.is_empty() || failure != self.last_failure {
            for remark in outcome.remarks() {
                out::note(format_args!("countersign: {remark}"));
            }
        }
        self.last_failure = failure;
        if self.json {
            return self.out.line(outcome.json());
        }
        outcome.line().map_or(Ok(()), |line| self.out.line(line))
    }

    /// Nothing was handed in.
    pub fn is_empty(&self) -> bool {
        self.codes == [0; 4]
    }

    /// Of all of them.
    pub fn exit_code(&self) -> u8 {
        let seen: Vec<u8> = (0..4)
            .filter(|code| self.codes[usize::from(*code)] > 0)
            .collect();
        worst(&seen)
    }

    /// `12 handed in, 1 refused`, where there was more than one.
    pub fn summary(&self) -> Option<String> {
        let [good, refused, unusable, unknown] = self.codes;
        let all = good + refused + unusable + unknown;
        let counts = [
            (good, "in the log"),
            (refused, "refused"),
            (unknown, "not confirmed"),
            (unusable, "unusable"),
        ];
        let words: Vec<String> = counts
            .iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, what)| format!("{n} {what}"))
            .collect();
        (all > 1).then(|| words.join(", "))
    }
}
