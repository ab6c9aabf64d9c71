//! The end of a log: what its owner says last.

use std::fmt;

use countersign_verifier::{key::IdentityId, operation::Operation, vkey::VerifierKey};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    At, Caller, Decided, State,
    verb::{Verb, arguments, malformed},
};
use crate::code::Code;

/// c2sp.org/tlog-cosignature: an origin of more bytes cannot be cosigned. A key is not longer than that and its base64.
const SUCCESSOR_BYTES_MAX: usize = 512;

/// A log to which nothing more is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The leaf that says so, the last one.
    pub index: u64,
    /// The log that goes on: its verifier key, or its origin.
    pub successor: String,
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the log was closed at index {}, and will never take a write again; it goes on as {}",
            self.index, self.successor
        )
    }
}

/// Arguments of `log_close`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Close {
    /// The verifier key of the log that goes on, or its origin.
    pub successor: String,
}

/// `log_close`.
pub const CLOSE: Verb = Verb {
    tool: "log_close",
    decide,
    apply,
    resource: |_| String::new(),
};

fn decide(state: &State, caller: &Caller<'_>, operation: &Operation, _at: At) -> Decided {
    let asked: Close = match arguments(&operation.arguments) {
        Ok(asked) => asked,
        Err(why) => return malformed(why),
    };
    if state.owner() != Some(caller.identity.id) {
        return Decided::refuse(Code::NotAllowed, "only the account's owner may do this");
    }
    if let Err(why) = check(&asked.successor, state.origin()) {
        return malformed(why);
    }
    Decided::Applied(Map::new()).with("successor", asked.successor)
}

/// Whether this can name a log, and another one than this.
fn check(successor: &str, origin: &str) -> Result<(), String> {
    let name = if successor.contains('+') {
        VerifierKey::parse(successor)
            .map_err(|e| format!("successor: {e}"))?
            .name
    } else {
        successor.to_owned()
    };
    let bad = |c: char| c.is_whitespace() || c.is_control();
    if name.is_empty() || successor.len() > SUCCESSOR_BYTES_MAX || name.contains(bad) {
        return Err("successor: a verifier key, or an origin such as log.example.com/next".into());
    }
    if name == origin {
        return Err("successor: another log than this one".into());
    }
    Ok(())
}

fn apply(
    state: &mut State,
    _by: IdentityId,
    operation: &Operation,
    _effect: &Map<String, Value>,
    index: u64,
) -> Result<(), String> {
    let Close { successor } = arguments(&operation.arguments)?;
    state.closed = Some(Closed { index, successor });
    Ok(())
}
