//! What a call takes and what it is answered with, as JSON Schemas: both doors promise the same.

use serde_json::{Map, Value, json};

use super::{Handler, Tool};

/// What every call may carry beside its arguments.
fn common(tool: &Tool) -> Map<String, Value> {
    let mut members = Map::new();
    let mut add = |name: &str, schema: Value| members.insert(name.into(), schema);
    add(
        "session_id",
        json!({"type": "string", "minLength": 1, "description": "The session that this call is part of: a name, never a credential."}),
    );
    add(
        "signed",
        json!({"type": "object", "description": "A DSSE envelope whose payload is this very call; `countersign shim` makes it. The other members are then absent or equal to what is signed."}),
    );
    if matches!(tool.handler, Handler::Read(_)) {
        return members;
    }
    add(
        "idempotency_key",
        json!({"type": "string", "minLength": 16, "maxLength": 64, "description": "The same key and arguments again get the first answer."}),
    );
    add(
        "wait",
        json!({"type": "string", "enum": ["sequenced", "included", "witnessed"], "description": "How far the write has to be before it is answered."}),
    );
    add(
        "deadline_ms",
        json!({"type": "integer", "minimum": 0, "maximum": 50_000, "description": "How long it is waited for; 2000 if absent."}),
    );
    add(
        "include",
        json!({"type": "array", "items": {"type": "string", "enum": ["proof"]}, "description": "`proof`: the inclusion proof, kilobytes of text."}),
    );
    members
}

/// What a call takes: its arguments, and what every call may carry. Closed.
#[must_use]
pub fn call(tool: &Tool) -> Value {
    let mut schema = (tool.arguments)();
    plain(&mut schema);
    with_common(schema, common(tool))
}

/// The same with all that is taken: what may be left out may be `null`.
#[must_use]
pub fn call_with_null(tool: &Tool) -> Value {
    let mut members = common(tool);
    for of in members.values_mut() {
        if let Some(Value::Array(values)) = of.get_mut("enum") {
            values.push(Value::Null);
        }
        of["type"] = json!([of["type"], "null"]);
    }
    with_common((tool.arguments)(), members)
}

fn with_common(mut schema: Value, common: Map<String, Value>) -> Value {
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    if let Some(members) = schema["properties"].as_object_mut() {
        for (name, of) in common {
            // A tool that has an argument of this name says more about it.
            members.entry(name).or_insert(of);
        }
    }
    schema
}

/// What may be left out may be `null` too, and is still said to be of one type: not every client that hands schemas to a model
/// knows lists of types. Where `null` means something else than nothing, the argument has it as its default, and keeps it.
fn plain(schema: &mut Value) {
    match schema {
        Value::Object(members) if members.contains_key("default") => {}
        Value::Object(members) => {
            if let Some(Value::Array(kinds)) = members.get_mut("type") {
                kinds.retain(|kind| kind != "null");
                if let [kind] = &kinds[..] {
                    members["type"] = kind.clone();
                }
            }
            if let Some(Value::Array(values)) = members.get_mut("enum") {
                values.retain(|value| !value.is_null());
            }
            one_form(members);
            members.values_mut().for_each(plain);
        }
        Value::Array(elements) => elements.iter_mut().for_each(plain),
        _ => {}
    }
}

/// Of two forms of which one is `null`, the other.
fn one_form(members: &mut Map<String, Value>) {
    let Some(Value::Array(forms)) = members.get_mut("anyOf") else {
        return;
    };
    forms.retain(|form| form["type"] != "null");
    if let [Value::Object(form)] = &mut forms[..] {
        let form = std::mem::take(form);
        members.remove("anyOf");
        for (name, of) in form {
            // What is said of the argument is nearer than what is said of its type.
            members.entry(name).or_insert(of);
        }
    }
}

/// What is signed: a DSSE envelope.
#[must_use]
pub fn envelope() -> Value {
    let base64 = "^[A-Za-z0-9+/]*={0,2}$";
    json!({
        "type": "object",
        "properties": {
            "payloadType": {"type": "string", "minLength": 1},
            "payload": {"type": "string", "pattern": base64},
            "signatures": {
                "type": "array",
                "minItems": 1,
                "maxItems": countersign_verifier::limits::SIGNATURES_MAX,
                "items": {
                    "type": "object",
                    "properties": {
                        "keyid": {"type": "string"},
                        "sig": {"type": "string", "pattern": base64},
                    },
                    "required": ["sig"],
                },
            },
        },
        "required": ["payloadType", "payload", "signatures"],
    })
}

/// The leaf of a write, as it is answered.
#[must_use]
pub fn entry() -> Value {
    json!({
        "type": "object",
        "properties": {
            "index": {"type": "integer"},
            "leaf_hash": {"type": "string"},
            "at": {"type": "string"},
            "by": {"type": "object"},
            "state": {"type": "string", "enum": ["sequenced", "included", "witnessed"]},
            "evidence_url": {"type": "string"},
            "proof": {"type": "string"},
            "unprotected": {"type": "boolean"},
            "folded": {"type": "boolean"},
        },
        "required": ["index", "leaf_hash", "at", "by", "state", "evidence_url"],
    })
}

/// The size that a read shows.
#[must_use]
pub fn as_of() -> Value {
    json!({
        "type": "object",
        "properties": {
            "size": {"type": "integer"},
            "root": {"type": "string"},
            "at": {"type": "string"},
            "witnessed_size": {"type": "integer"},
        },
        "required": ["size", "root", "at", "witnessed_size"],
    })
}

/// A refusal.
#[must_use]
pub fn problem() -> Value {
    json!({
        "type": "object",
        "properties": {
            "code": {"type": "string"},
            "message": {"type": "string"},
            "status": {"type": "integer"},
            "retryable": {"type": "boolean"},
            "retry_after_ms": {"type": "integer"},
            "detail": {"type": "object"},
            "entry": {"type": "object"},
        },
        "required": ["code", "message", "status", "retryable", "detail"],
    })
}

/// What a call is answered with, where it is not refused. `entry` and `as_of` are given as they are to stand there.
#[must_use]
pub fn answer(tool: &Tool, entry: &Value, as_of: &Value) -> Value {
    let (writes, reads) = match tool.handler {
        Handler::Write(_) | Handler::Receipt => (true, false),
        Handler::Read(_) => (false, true),
        Handler::Either { .. } | Handler::Parts { .. } => (true, true),
    };
    let mut members = Map::new();
    let mut required = vec!["result", "server_time"];
    members.insert("result".into(), (tool.result)());
    members.insert("server_time".into(), json!({"type": "string"}));
    for (name, schema, there, always) in [
        ("entry", entry, writes, !reads),
        ("as_of", as_of, reads, !writes),
    ] {
        if there {
            members.insert(name.into(), schema.clone());
        }
        if always {
            required.push(name);
        }
    }
    json!({"type": "object", "properties": members, "required": required})
}

/// What stands in `structuredContent`: an answer, or a refusal. Some clients hold a refusal against the schema too.
#[must_use]
pub fn answer_or_problem(tool: &Tool) -> Value {
    let answer = answer(tool, &entry(), &as_of());
    json!({"type": "object", "anyOf": [answer, problem()]})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::TOOLS;

    #[test]
    fn every_schema_is_closed_where_it_is_asked_and_an_object_where_it_is_answered() {
        for tool in TOOLS {
            let call = call(tool);
            assert_eq!(call["type"], "object", "{}", tool.name);
            assert_eq!(call["additionalProperties"], false, "{}", tool.name);
            let writes = !matches!(tool.handler, Handler::Read(_));
            for (name, there) in [("session_id", true), ("signed", true), ("wait", writes)] {
                let has = call["properties"].get(name).is_some();
                assert_eq!(has, there, "{}: {name}", tool.name);
            }
            assert_eq!(answer_or_problem(tool)["type"], "object");
        }
    }

    #[test]
    fn what_may_be_null_is_said_to_be_what_it_is_otherwise() {
        let mut schema = json!({"properties": {
            "a": {"type": ["string", "null"]},
            "b": {"description": "B", "anyOf": [{"type": "object", "description": "T"}, {"type": "null"}]},
            "c": {"type": ["string", "null"], "enum": ["x", null]},
            "d": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
            "e": {"type": ["string", "null"], "default": null},
        }});
        plain(&mut schema);
        let expected = json!({"properties": {
            "a": {"type": "string"},
            "b": {"description": "B", "type": "object"},
            "c": {"type": "string", "enum": ["x"]},
            "d": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            "e": {"type": ["string", "null"], "default": null},
        }});
        assert_eq!(schema, expected);
    }
}
