//! Leaves one after the other, as a reader of the log is shown them.

use countersign_verifier::{
    hash::leaf_hash,
    key::IdentityId,
    leaf::{Decision, Leaf},
    operation::Operation,
};
use serde_json::{Map, Value};

use crate::{ledger::by_json, state::verb};

/// Which leaves are wanted; what is `None` lets all pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// `operation`, `receipt` or `system`.
    pub kind: Option<String>,
    /// An identity that signed.
    pub identity: Option<IdentityId>,
    /// The session that it was part of.
    pub session: Option<String>,
    /// What it is about, as refusals name it.
    pub resource: Option<String>,
    /// The run that it is about.
    pub run: Option<String>,
    /// The code of a refusal.
    pub code: Option<String>,
}

impl Wanted {
    /// Whether a leaf is one of them.
    #[must_use]
    pub fn takes(&self, leaf: &Leaf<'_>) -> bool {
        let is =
            |wanted: &Option<String>, has: &dyn Fn(&str) -> bool| wanted.as_deref().is_none_or(has);
        is(&self.kind, &|kind| leaf.kind() == kind)
            && self.identity.is_none_or(|id| signed_by(leaf, id))
            && is(&self.session, &|session| {
                session_of(leaf).as_deref() == Some(session) || says(leaf, "session_id", session)
            })
            && is(&self.resource, &|resource| is_about(leaf, resource))
            && is(&self.run, &|run| {
                says(leaf, "run_id", run) || is_about(leaf, &format!("run:{run}"))
            })
            && is(&self.code, &|code| match leaf {
                Leaf::Operation(operation) => {
                    matches!(operation.decision, Decision::Refused { code: has, .. } if has == code)
                }
                _ => false,
            })
    }
}

fn signed_by(leaf: &Leaf<'_>, id: IdentityId) -> bool {
    match leaf {
        Leaf::Operation(operation) => operation.by.identity == id,
        Leaf::Receipt(receipt) => receipt.signers.contains(&id),
        Leaf::System(_) => false,
    }
}

fn session_of(leaf: &Leaf<'_>) -> Option<String> {
    match leaf {
        Leaf::Operation(operation) => operation.by.session.clone(),
        Leaf::Receipt(receipt) => receipt.by.session.clone(),
        Leaf::System(_) => None,
    }
}

/// Whether an operation, what was decided on it, or an event has this member with this text.
fn says(leaf: &Leaf<'_>, name: &str, text: &str) -> bool {
    let has = |object: &str| {
        let object: Value = serde_json::from_str(object).unwrap_or_default();
        object[name] == text
    };
    match leaf {
        Leaf::Operation(operation) => {
            let (Decision::Applied { effect: decided }
            | Decision::Refused {
                detail: decided, ..
            }) = operation.decision;
            let asked = Operation::parse(&operation.envelope.payload);
            has(decided) || asked.is_ok_and(|asked| asked.arguments[name] == text)
        }
        Leaf::System(system) => has(system.event),
        Leaf::Receipt(_) => false,
    }
}

fn is_about(leaf: &Leaf<'_>, resource: &str) -> bool {
    if says(leaf, "resource", resource) {
        return true;
    }
    let Leaf::Operation(operation) = leaf else {
        return false;
    };
    let Ok(asked) = Operation::parse(&operation.envelope.payload) else {
        return false;
    };
    verb::find(&asked.tool).is_some_and(|verb| (verb.resource)(&asked.arguments) == resource)
}

/// A leaf in a line: what it is, who asked, and how that ended.
///
/// # Errors
/// That the bytes are no leaf.
pub fn row(index: u64, bytes: &[u8]) -> Result<Map<String, Value>, String> {
    let leaf = Leaf::parse(bytes).map_err(|e| e.to_string())?;
    Ok(shown(index, bytes, &leaf))
}

/// The same of a leaf that was read.
#[must_use]
pub fn shown(index: u64, bytes: &[u8], leaf: &Leaf<'_>) -> Map<String, Value> {
    let mut row = Map::new();
    let mut say = |name: &str, value: Value| row.insert(name.into(), value);
    say("index", index.into());
    say("leaf_hash", leaf_hash(bytes).to_hex().into());
    say("at", leaf.at().to_string().into());
    say("kind", leaf.kind().into());
    let who = match leaf {
        Leaf::Operation(operation) => Some(&operation.by),
        Leaf::Receipt(receipt) => Some(&receipt.by),
        Leaf::System(_) => None,
    };
    if let Some(who) = who {
        let mut by = by_json(who);
        if let Some(session) = &who.session {
            by["session"] = session.as_str().into();
        }
        say("by", by);
    }
    match leaf {
        Leaf::Operation(operation) => {
            if let Ok(asked) = Operation::parse(&operation.envelope.payload) {
                say("tool", asked.tool.into());
            }
            match operation.decision {
                Decision::Applied { .. } => say("outcome", "applied".into()),
                Decision::Refused { code, .. } => {
                    say("code", code.into());
                    say("outcome", "refused".into())
                }
            };
        }
        Leaf::Receipt(receipt) => {
            say("type", receipt.envelope.payload_type.as_str().into());
            say("outcome", "applied".into());
        }
        Leaf::System(system) => {
            say("type", system.event_type.into());
        }
    }
    row
}
