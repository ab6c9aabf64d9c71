//! What a payload says of bodies beside the log, held against what the reader has.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use super::head::Head;
use super::{Found, Options, Outcome, Status, Verdict, Verifier, found};
use crate::blob::{Reference, references};
use crate::dsse::Envelope;
use crate::evidence::{Format, Members};
use crate::hash::Hash;
use crate::json;
use crate::leaf::{Decision, Leaf};
use crate::operation::{self, Operation};

/// The tool whose leaves erase.
const ERASE: &str = "blob_erase";

/// A body that the reader holds, by what its salt and its bytes give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// SHA-256(salt ‖ body).
    pub commitment: Hash,
    /// How many bytes it has.
    pub bytes: u64,
}

/// That a body was erased, as the evidence of a leaf showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Erasure {
    /// The log that says so.
    pub origin: String,
    /// The leaf.
    pub index: u64,
    /// What it erased.
    pub commitment: Hash,
}

impl Verifier {
    /// What a leaf erased, by its evidence: checked as any other is.
    ///
    /// # Errors
    /// Why it shows no erasure: its verdict where that is not that it holds, or what the leaf is instead.
    pub fn erasure(&mut self, file: &[u8]) -> Result<Erasure, String> {
        let verdict = self.evidence(file);
        if verdict.outcome != Outcome::Holds {
            return Err(why_not(&verdict));
        }
        let read = || {
            let members = Members::parse(file).ok()?;
            let one = matches!(members.format, Format::One);
            members.leaf().ok().filter(|_| one)
        };
        let leaf = read().ok_or("evidence of one leaf is needed, not of a set")?;
        let erased = erased(&leaf).ok_or("this leaf erases no body")?;
        let place = verdict.subjects.first().map(|subject| subject.index);
        match (verdict.origin, place) {
            (Some(origin), Some(index)) => Ok(Erasure {
                origin,
                index,
                commitment: erased,
            }),
            _ => Err("it names no log".into()),
        }
    }
}

fn why_not(verdict: &Verdict) -> String {
    let bad = |check: &&super::Check| matches!(check.status, Status::Fail | Status::Unknown);
    let first = verdict.checks.iter().find(bad);
    let detail = first.map_or_else(String::new, |check| {
        format!(" ({}: {})", check.name.as_str(), check.detail)
    });
    format!("{}{detail}", verdict.outcome.as_str())
}

/// The commitment that a leaf erases; `None` for any other leaf, a refusal included.
fn erased(leaf: &[u8]) -> Option<Hash> {
    let Ok(Leaf::Operation(leaf)) = Leaf::parse(leaf) else {
        return None;
    };
    let Decision::Applied { effect } = leaf.decision else {
        return None;
    };
    let asked = Operation::parse(&leaf.envelope.payload).ok()?;
    let effect = json::parse(effect.as_bytes()).ok()?;
    let commitment = effect.get("commitment")?.as_str()?;
    let commitment = Hash::from_hex(commitment).ok()?;
    (asked.tool == ERASE).then_some(commitment)
}

/// The payload's references beside the body that the reader holds, and beside what was erased; `None` where there is nothing to say.
///
/// A body that is gone is no fault of the leaf: it cannot be told any more what it was.
pub(super) fn compared(envelope: &Envelope, head: &Head, options: &Options) -> Option<Found> {
    if options.body.is_none() && options.erased.is_empty() {
        return None;
    }
    let references = spoken_of(envelope);
    if let Some(body) = &options.body
        && let Some(reference) = references.iter().find(|r| r.commitment == body.commitment)
    {
        return Some(held(reference, body));
    }
    let origin = head.checkpoint.as_ref().map(|c| c.origin.as_str());
    let gone = references.iter().find_map(|reference| {
        let mut erased = options.erased.iter();
        erased.find(|erased| {
            erased.commitment == reference.commitment && Some(erased.origin.as_str()) == origin
        })
    });
    if let Some(Erasure {
        index, commitment, ..
    }) = gone
    {
        let given = match options.body {
            Some(_) => "; whether the body given is that one, nobody can tell without its salt",
            None => "",
        };
        let detail = format!("body erased: {commitment}, by leaf {index}, with its salt{given}");
        return Some(found(Status::Unknown, detail));
    }
    let body = options.body.as_ref()?;
    let commitment = body.commitment;
    let detail = match references.len() {
        0 => "the payload refers to no body".to_string(),
        n => format!(
            "none of the payload's {n} references is to the body given, which under the salt given is {commitment}"
        ),
    };
    Some(found(Status::Fail, detail))
}

/// The references of a payload. The leaf that erases a body names it, and does not speak of it.
fn spoken_of(envelope: &Envelope) -> Vec<Reference> {
    let is_operation = envelope.payload_type == operation::PAYLOAD_TYPE;
    let asked = is_operation.then(|| Operation::parse(&envelope.payload).ok());
    match asked.flatten() {
        Some(asked) if asked.tool == ERASE => Vec::new(),
        _ => references(&envelope.payload),
    }
}

fn held(reference: &Reference, body: &Body) -> Found {
    let Body { commitment, bytes } = body;
    match reference.bytes {
        Some(stated) if stated != *bytes => found(
            Status::Fail,
            format!("the payload says that body {commitment} has {stated} bytes; it has {bytes}"),
        ),
        _ => {
            let kind = match &reference.media_type {
                Some(kind) => format!(" as {kind:?}"),
                None => String::new(),
            };
            found(
                Status::Pass,
                format!(
                    "the payload refers{kind} to the body of {bytes} bytes given: {commitment}"
                ),
            )
        }
    }
}
