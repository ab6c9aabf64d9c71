//! What every call may carry beside its arguments.

use serde_json::{Map, Value};

use crate::{
    doors::http::answer::Ask,
    error::{Code, Problem},
    tools::Tool,
};

/// `include` of a tool that reads and says itself what can be had: never signed, so it is kept apart until the tool is run.
pub(super) fn own_include(tool: &Tool, members: &mut Map<String, Value>) -> Option<Value> {
    let is_own = tool.table().iter().any(|a| a.name == "include");
    is_own.then(|| members.remove("include")).flatten()
}

/// The arguments that a tool which reads is run with.
pub(super) fn with_include(arguments: &Value, own: Option<Value>) -> Value {
    let mut arguments = arguments.clone();
    if let (Some(members), Some(include)) = (arguments.as_object_mut(), own) {
        members.insert("include".into(), include);
    }
    arguments
}

/// Takes `wait`, `deadline_ms` and `include` out of a call.
pub(super) fn ask(call: &mut Map<String, Value>) -> Result<Ask, Problem> {
    let mut asked = Map::new();
    for name in ["wait", "deadline_ms", "include"] {
        match call.remove(name) {
            // A list of names, as every tool has it; the query parameter is the same names with commas.
            Some(Value::Array(names)) if name == "include" => {
                let names: Option<Vec<&str>> = names.iter().map(Value::as_str).collect();
                let names = names.ok_or_else(|| malformed("include", "a list of names"))?;
                asked.insert(name.into(), names.join(",").into());
            }
            Some(value) => {
                asked.insert(name.into(), value);
            }
            None => {}
        }
    }
    serde_json::from_value(Value::Object(asked))
        .map_err(|e| Problem::new(Code::Malformed, e.to_string()))
}

fn malformed(name: &str, why: &str) -> Problem {
    Problem::new(Code::Malformed, format!("{name}: {why}")).with("pointer", format!("/{name}"))
}

/// A member that is a text, taken out of a call.
pub(super) fn text(
    members: &mut Map<String, Value>,
    name: &str,
) -> Result<Option<String>, Problem> {
    match members.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if !text.is_empty() => Ok(Some(text)),
        Some(_) => Err(malformed(name, "a text")),
    }
}

/// The idempotency key: of the body, of the header, or a fresh one.
pub(super) fn key(
    members: &mut Map<String, Value>,
    header: Option<String>,
) -> Result<String, Problem> {
    let body = text(members, "idempotency_key")?;
    if let (Some(body), Some(header)) = (&body, &header)
        && body != header
    {
        return Err(malformed("idempotency_key", "the header has another one"));
    }
    let Some(key) = body.or(header) else {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|e| Problem::internal(&e))?;
        return Ok(format!("{:032x}", u128::from_be_bytes(random)));
    };
    if !(16..=64).contains(&key.chars().count()) || key.contains(char::is_control) {
        return Err(malformed("idempotency_key", "16 to 64 characters"));
    }
    Ok(key)
}
