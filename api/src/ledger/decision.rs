//! Decisions as leaves record them, and back.

use countersign_verifier::{
    json::{canonical, parse as parse_json},
    leaf::{By, Class, Decision, Leaf},
};
use serde_json::{Map, Value, json};

use crate::{error::Code, state::Decided};

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

/// The result of a leaf's decision as an object, and whether it was applied.
///
/// # Errors
/// What is wrong with the text.
pub fn decision_of(leaf: &Leaf<'_>) -> Result<(Option<Code>, Map<String, Value>), String> {
    let text = match leaf {
        Leaf::Operation(operation) => match operation.decision {
            Decision::Applied { effect } => (None, effect),
            Decision::Refused { code, detail } => (Code::from_name(code), detail),
        },
        _ => return Err("not an operation".into()),
    };
    match parse_json(text.1.as_bytes()) {
        Ok(Value::Object(map)) => Ok((text.0, map)),
        Ok(_) => Err("not an object".into()),
        Err(e) => Err(e.to_string()),
    }
}

/// The class whose word a leaf's `by` is.
#[must_use]
pub fn by_json(by: &By) -> Value {
    let class: Class = by.class;
    json!({"identity": by.identity.to_string(), "class": class.name()})
}
