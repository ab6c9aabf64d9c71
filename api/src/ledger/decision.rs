//! Decisions as leaves record them, and back.

use countersign_verifier::{
    json::{canonical, parse as parse_json},
    leaf::{By, Class, Decision, Leaf},
};
use serde_json::{Map, Value, json};

use crate::{code::Code, state::Decided};

/// An effect or a detail that a leaf records has at most this many bytes.
pub const DECISION_BYTES_MAX: usize = 4_096;

/// The effect, or the detail with the message in it, as compact JSON.
pub(super) fn decision_text(decided: &Decided) -> String {
    let object: Map<String, Value> = match decided {
        Decided::Applied(effect) => effect.clone(),
        Decided::Refused(_, message, detail) => {
            let mut detail = detail.clone();
            detail.insert("message".into(), message.as_str().into());
            detail
        }
    };
    canonical(&Value::Object(object))
}

/// What an operation's leaf records.
#[derive(Clone, Debug, PartialEq)]
pub enum Recorded {
    /// It was done: the effect.
    Applied(Map<String, Value>),
    /// It was refused: why, and the detail.
    Refused(Code, Map<String, Value>),
}

/// What an operation's leaf records.
///
/// # Errors
/// What is wrong with the text; a code that this release does not know.
pub fn decision_of(leaf: &Leaf<'_>) -> Result<Recorded, String> {
    let Leaf::Operation(operation) = leaf else {
        return Err("not an operation".into());
    };
    let object = |text: &str| match parse_json(text.as_bytes()) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err("not an object".into()),
        Err(e) => Err(e.to_string()),
    };
    match operation.decision {
        Decision::Applied { effect } => Ok(Recorded::Applied(object(effect)?)),
        Decision::Refused { code, detail } => {
            let known = Code::from_name(code)
                .ok_or_else(|| format!("code `{code}`, which this release does not know"))?;
            Ok(Recorded::Refused(known, object(detail)?))
        }
    }
}

/// Who asked, as answers show it.
#[must_use]
pub fn by_json(by: &By) -> Value {
    let class: Class = by.class;
    let mut shown = json!({"identity": by.identity.to_string(), "class": class.name()});
    if let Some(session) = &by.session {
        shown["session"] = session.as_str().into();
    }
    shown
}
