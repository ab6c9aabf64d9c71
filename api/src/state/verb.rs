//! The operations that a log records, each with its judgement: what `tools` offer and replay repeats.

use countersign_verifier::{key::IdentityId, operation::Operation};
use serde_json::{Map, Value};

use super::{
    At, Caller, Decided, State, blob, board, closed, head, identity, lease, policy, receipt,
    refusal, session, settings, start, token,
};
use crate::code::Code;

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
    lease::ACQUIRE,
    lease::RELEASE,
    lease::RENEW,
    session::CHECKIN,
    session::CHECKOUT,
    session::HEARTBEAT,
    start::START,
    blob::ERASE,
    board::COMMENT,
    board::IMPORT,
    board::RESOLVE,
    board::UPSERT,
    closed::CLOSE,
    head::SUBMIT,
    head::TRACK,
    identity::ENROLL,
    identity::REVOKE,
    identity::ROTATE,
    policy::SET,
    receipt::POLICY,
    refusal::FOLDED,
    settings::SET,
    token::NEW,
    token::REVOKE,
];

/// What nobody may do but with a key of his own (`agent_key`), whatever the account's policy says: one that the service could sign
/// for would give itself more than it was given.
const OWN_KEY: &[&str] = &[
    "blob_erase",
    "head_track",
    "identity_enroll",
    "identity_revoke",
    "identity_rotate",
    "log_close",
    "policy_set",
    "receipt_policy",
    "settings_set",
    "token_new",
];

/// Whether this tool's operations need a signature by a key that the service does not hold.
#[must_use]
pub fn needs_own_key(tool: &str) -> bool {
    OWN_KEY.contains(&tool)
}

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

/// A refusal of arguments that cannot be read: no leaf.
pub(super) fn malformed(why: String) -> Decided {
    Decided::refuse(Code::Malformed, why)
}

/// `Err` is a refusal on the way out of a judgement; in the end both are decisions.
pub(super) fn settle(result: Result<Decided, Decided>) -> Decided {
    result.unwrap_or_else(|refused| refused)
}

/// A text among the arguments; empty if it is none.
pub(super) fn member(arguments: &Value, name: &str) -> String {
    let text = arguments.get(name).and_then(Value::as_str);
    text.unwrap_or_default().into()
}

/// The members of an object literal.
pub(super) fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        // OK because every caller passes an object literal.
        _ => unreachable!("verb::map"),
    }
}
