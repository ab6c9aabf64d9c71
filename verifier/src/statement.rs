//! in-toto Statement v1: which artifacts a signed payload speaks of.

use alloc::string::String;
use alloc::vec::Vec;

use crate::hash::{Hash, hex};
use crate::json::{Fault, JsonError};
use crate::scan::Scanner;

/// The `_type` of the one version that is read.
pub const TYPE: &str = "https://in-toto.io/Statement/v1";

/// The payloadType of a statement with any predicate.
pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

/// Whether an envelope of this type carries a statement: [`PAYLOAD_TYPE`] or
/// `application/vnd.in-toto.<predicate>+json`. The predicate's type is read in the statement only.
#[must_use]
pub fn is_payload_type(payload_type: &str) -> bool {
    payload_type == PAYLOAD_TYPE
        || payload_type
            .strip_prefix("application/vnd.in-toto.")
            .and_then(|rest| rest.strip_suffix("+json"))
            .is_some_and(|predicate| !predicate.is_empty())
}

/// One artifact that a statement speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// A label; never compared.
    pub name: Option<String>,
    /// Algorithm and digest, in the order written; at least one.
    pub digests: Vec<(String, String)>,
}

/// A statement. Its predicate is for others to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// At least one.
    pub subjects: Vec<Subject>,
    /// What is said of them.
    pub predicate_type: String,
}

impl Statement {
    /// Reads a payload. Unknown members are passed over; `Statement/v0.1` is another type and refused.
    ///
    /// # Errors
    /// [`JsonError`] also for a statement about nothing, a subject without a digest, and digests of the
    /// SHA family, of git objects and the like that are not lowercase hexadecimal.
    pub fn parse(payload: &[u8]) -> Result<Self, JsonError> {
        let mut scanner = Scanner::new(payload)?;
        let statement = scanner.statement()?;
        scanner.end()?;
        Ok(statement)
    }

    /// Whether one of the subjects has this SHA-256. No other algorithm is accepted, so a match by a weak
    /// one cannot stand in for it (the text lets any accepted algorithm match); names are not compared.
    #[must_use]
    pub fn speaks_of(&self, sha256: &Hash) -> bool {
        let digest = hex(&sha256.0);
        let same =
            |(algorithm, value): &(String, String)| algorithm == "sha256" && *value == digest;
        self.subjects
            .iter()
            .any(|subject| subject.digests.iter().any(same))
    }
}

type Read<T> = Result<T, JsonError>;

impl Scanner<'_> {
    fn statement(&mut self) -> Read<Statement> {
        let (mut kind, mut subjects, mut predicate_type, mut predicate) = (None, None, None, None);
        self.object(|s, name| match name.as_ref() {
            "_type" => s.once(&mut kind, |s| {
                let start = s.offset();
                if s.string()? == TYPE {
                    Ok(())
                } else {
                    s.fail_at(start, Fault::Form("Statement/v1 of in-toto"))
                }
            }),
            "subject" => s.once(&mut subjects, Self::subjects),
            "predicateType" => s.once(&mut predicate_type, |s| {
                let start = s.offset();
                let text = s.string()?.into_owned();
                if text.is_empty() {
                    s.fail_at(start, Fault::Form("a type of predicate"))
                } else {
                    Ok(text)
                }
            }),
            "predicate" => s.once(&mut predicate, |s| s.object(|s, _| s.skip())),
            _ => s.skip(),
        })?;
        self.need(kind, "_type")?;
        Ok(Statement {
            subjects: self.need(subjects, "subject")?,
            predicate_type: self.need(predicate_type, "predicateType")?,
        })
    }

    fn subjects(&mut self) -> Read<Vec<Subject>> {
        let start = self.offset();
        let mut subjects = Vec::new();
        self.array(|s, _| {
            subjects.push(s.subject()?);
            Ok(())
        })?;
        if subjects.is_empty() {
            return self.fail_at(start, Fault::Form("at least one subject"));
        }
        Ok(subjects)
    }

    fn subject(&mut self) -> Read<Subject> {
        let (mut name, mut digests) = (None, None);
        self.object(|s, member| match member.as_ref() {
            "name" => s.once(&mut name, |s| Ok(s.string()?.into_owned())),
            "digest" => s.once(&mut digests, Self::digests),
            _ => s.skip(),
        })?;
        Ok(Subject {
            name,
            digests: self.need(digests, "digest")?,
        })
    }

    fn digests(&mut self) -> Read<Vec<(String, String)>> {
        let start = self.offset();
        let mut digests: Vec<(String, String)> = Vec::new();
        self.object(|s, algorithm| {
            if digests.iter().any(|(known, _)| *known == algorithm) {
                return s.fail(Fault::Duplicate);
            }
            let start = s.offset();
            let value = s.string()?;
            if !well_formed(&algorithm, &value) {
                return s.fail_at(start, Fault::Form("a digest in lowercase hexadecimal"));
            }
            digests.push((algorithm.into_owned(), value.into_owned()));
            Ok(())
        })?;
        if digests.is_empty() {
            return self.fail_at(start, Fault::Form("at least one digest"));
        }
        Ok(digests)
    }
}

/// Algorithms that the text does not define may have any form: their digests are never compared.
fn well_formed(algorithm: &str, digest: &str) -> bool {
    let hexadecimal = ["sha", "git", "md5", "blake"]
        .iter()
        .any(|family| algorithm.starts_with(family));
    let lowercase = digest
        .bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    match algorithm {
        "sha256" => digest.len() == 64 && lowercase,
        _ if hexadecimal => !digest.is_empty() && lowercase,
        _ => !digest.is_empty(),
    }
}
