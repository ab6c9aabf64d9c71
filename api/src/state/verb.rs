//! The operations that a log records, each with its judgement: what `tools` offer and replay repeats.

use countersign_verifier::{key::IdentityId, operation::Operation};
use serde_json::{Map, Value};

use super::{At, Caller, Decided, State, closed, head, identity, receipt, refusal};

/// Takes in an applied operation.
pub type Apply =
    fn(&mut State, IdentityId, &Operation, &Map<String, Value>, u64) -> Result<(), String>;

/// How one tool's operations are judged, taken in, and named in refusals.
pub struct Verb {
    /// The tool's name.
    pub tool: &'static str,
    /// Judges; pure.
    pub decide: fn(&State, &Caller<'_>, &Operation, At) -> Decided,
    /// Takes in an applied operation: by whom, what was asked, the recorded effect, the leaf's index.
    pub apply: Apply,
    /// What a refusal is about: the part of the arguments that makes two refusals the same.
    pub resource: fn(&Value) -> String,
}

/// Every verb, by name.
pub const VERBS: &[Verb] = &[
    closed::CLOSE,
    head::SUBMIT,
    head::TRACK,
    identity::ENROLL,
    identity::REVOKE,
    identity::ROTATE,
    receipt::POLICY,
    refusal::FOLDED,
];

/// The verb of this tool.
#[must_use]
pub fn find(tool: &str) -> Option<&'static Verb> {
    VERBS.iter().find(|verb| verb.tool == tool)
}

/// Reads the arguments of a tool into their type, and says which is wrong where they do not fit.
///
/// # Errors
/// A sentence that names the argument.
pub fn arguments<T: serde::de::DeserializeOwned>(arguments: &Value) -> Result<T, String> {
    T::deserialize(arguments).map_err(|e| e.to_string())
}
