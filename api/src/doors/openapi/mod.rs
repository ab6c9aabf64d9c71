//! `GET /openapi.json`: the addresses and the tools as OpenAPI 3.1, made from the same tables as what it describes.

mod addresses;

use std::sync::OnceLock;

use axum::{http::StatusCode, response::Response};
use serde_json::{Map, Value, json};

use self::addresses::{ADDRESSES, Address, Kind};
use super::http::body;
use crate::{
    limits::DEADLINE_MS_MAX,
    tools::{Handler, TOOLS, Tool, contract},
};

/// The media type of refusals.
const PROBLEM: &str = "application/problem+json";

pub(super) async fn served() -> Response {
    static TEXT: OnceLock<String> = OnceLock::new();
    let text = TEXT.get_or_init(|| document().to_string());
    let mut answer = body::json(StatusCode::OK, text.clone());
    let headers = answer.headers_mut();
    let any = axum::http::HeaderValue::from_static("*");
    headers.insert(axum::http::header::ACCESS_CONTROL_ALLOW_ORIGIN, any);
    answer
}

/// The whole document.
#[must_use]
pub fn document() -> Value {
    let mut paths = Map::new();
    let mut add = |path: &str, method: &str, operation: Value| {
        let item = paths.entry(path.to_owned()).or_insert_with(|| json!({}));
        item[method] = operation;
    };
    for address in ADDRESSES {
        add(address.path, address.method, of_address(address));
    }
    for tool in TOOLS {
        add(&format!("/v1/{}", tool.name), "post", of_tool(tool));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Countersign",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A transparency log, and a coordination API for agents on it. Every write is one leaf; its answer names the leaf.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": {
                "Entry": contract::entry(),
                "AsOf": contract::as_of(),
                "Problem": contract::problem(),
                "Envelope": contract::envelope(),
            },
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "`cst_` and 43 characters. A signed call needs none."},
            },
        },
    })
}

/// A refusal: a problem, or in another form where an address has one.
fn refused(others: &[&str]) -> Value {
    let mut content = json!({PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}});
    for kind in others {
        content[kind] = json!({});
    }
    json!({"description": "Refused", "content": content})
}

/// What a parameter may be.
fn schema(kind: Kind) -> Value {
    let number = |least: i64| json!({"type": "integer", "minimum": least});
    match kind {
        Kind::Text => json!({"type": "string", "minLength": 1}),
        Kind::Number => number(0),
        Kind::Position => number(-1),
        Kind::Deadline => json!({"type": "integer", "minimum": 0, "maximum": DEADLINE_MS_MAX}),
        Kind::Hash => json!({"type": "string", "pattern": "^[0-9a-f]{64}$"}),
        Kind::Indexes => json!({"type": "string", "pattern": "^(0|[1-9][0-9]*)(,[1-9][0-9]*)*$"}),
        Kind::Wait => json!({"type": "string", "enum": ["sequenced", "included", "witnessed"]}),
        Kind::Include => json!({"type": "string", "enum": ["proof"]}),
    }
}

/// What stands between the slashes of a path.
fn in_path(path: &str, name: &str) -> Value {
    match name {
        // As tlog-tiles writes it; what more there is to it stands in the summary.
        "index" if path.contains("/tile/") => json!({"type": "string", "pattern": "^[0-9]{3}$"}),
        "level" => json!({"type": "integer", "minimum": 0, "maximum": 63}),
        "index" => schema(Kind::Number),
        "leaf_hash" | "commitment" => schema(Kind::Hash),
        _ => schema(Kind::Text),
    }
}

/// What a body of an address is, by its media type.
fn of_body(path: &str, kind: &str) -> Value {
    match (path, kind) {
        ("/mcp", _) => json!({"schema": {
            "type": "object",
            "properties": {
                "jsonrpc": {"const": "2.0"},
                "id": {"type": ["string", "integer"]},
                "method": {"type": "string"},
                "params": {"type": ["object", "null"]},
            },
            "required": ["jsonrpc", "method"],
        }}),
        ("/log/{account}/receipts", kind) if kind.ends_with("json") && !kind.contains("ndjson") => {
            json!({"schema": {"$ref": "#/components/schemas/Envelope"}})
        }
        _ => json!({"schema": {"type": "string"}}),
    }
}

fn of_tool(tool: &Tool) -> Value {
    let mut asked = contract::call_with_null(tool);
    let envelope = json!({"$ref": "#/components/schemas/Envelope"});
    asked["properties"]["signed"] = json!({"anyOf": [envelope, {"type": "null"}]});
    // What is signed says it all; then nothing has to stand beside it.
    if let Some(required) = asked.as_object_mut().and_then(|a| a.remove("required")) {
        asked["anyOf"] = json!([{"required": required}, {"required": ["signed"]}]);
    }
    let entry = json!({"$ref": "#/components/schemas/Entry"});
    let as_of = json!({"$ref": "#/components/schemas/AsOf"});
    let answer = json!({"application/json": {"schema": contract::answer(tool, &entry, &as_of)}});
    // OK because a test decodes every example.
    let example: Value = serde_json::from_str(tool.example).unwrap_or_default();
    let mut responses = json!({
        "200": {"description": "Done", "content": answer},
        "default": refused(&[]),
    });
    let mut parameters = vec![json!({
        "name": "account",
        "in": "query",
        "schema": {"type": "string", "minLength": 1},
        "description": "For a token that is good for several accounts: which.",
    })];
    if !matches!(tool.handler, Handler::Read(_)) {
        responses["202"] = json!({
            "description": "Written, and not as far as was asked for when the deadline passed: no evidence yet",
            "content": answer,
        });
        parameters.push(json!({
            "name": "Idempotency-Key",
            "in": "header",
            "schema": {"type": "string", "minLength": 16, "maxLength": 64},
            "description": "As `idempotency_key`.",
        }));
    }
    json!({
        "operationId": tool.name,
        "tags": ["tools"],
        "summary": tool.summary,
        "parameters": parameters,
        "requestBody": {
            "required": true,
            "content": {"application/json": {"schema": asked, "example": example}},
        },
        "responses": responses,
        "security": [{"token": []}, {}],
    })
}

fn of_address(address: &Address) -> Value {
    let in_path = address.path.split('/').filter_map(|part| {
        let name = part.strip_prefix('{')?.strip_suffix('}')?;
        let schema = in_path(address.path, name);
        Some(json!({"name": name, "in": "path", "required": true, "schema": schema}))
    });
    let in_query = address.query.iter().map(|(name, kind, required)| {
        json!({"name": name, "in": "query", "required": required, "schema": schema(*kind)})
    });
    let parameters: Vec<Value> = in_path.chain(in_query).collect();
    let content = |kinds: &[&str]| -> Map<String, Value> {
        let of = |kind: &&str| ((*kind).to_owned(), json!({}));
        kinds.iter().map(of).collect()
    };
    let mut operation = json!({
        "tags": [address.family],
        "summary": address.summary,
        "parameters": parameters,
        "responses": {
            "200": {"description": "As asked", "content": content(address.answer)},
            "default": refused(address.refusal),
        },
        "security": match address.open {
            true => json!([{}, {"token": []}]),
            false => json!([{"token": []}]),
        },
    });
    if !address.body.is_empty() {
        let of = |kind: &&str| ((*kind).to_owned(), of_body(address.path, kind));
        let bodies: Map<String, Value> = address.body.iter().map(of).collect();
        // No body is a body of no bytes, and can be kept as any other.
        let required = address.path != "/v1/blobs";
        operation["requestBody"] = json!({"required": required, "content": bodies});
        let later = |what: &str| json!({"description": what, "content": content(address.answer)});
        let (status, answer) = match address.path {
            "/mcp" => {
                let what = "Taken: a notification has no answer";
                ("202", json!({"description": what}))
            }
            "/v1/blobs" => ("201", later("Kept; 200 where it was here")),
            _ => ("202", later("Taken, and no answer yet")),
        };
        operation["responses"][status] = answer;
    }
    operation
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every `$ref` of a value.
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                if let Some(Value::String(to)) = members.get("$ref") {
                    found.push(to.clone());
                }
                members.values().for_each(|v| references(v, found));
            }
            Value::Array(elements) => elements.iter().for_each(|v| references(v, found)),
            _ => {}
        }
    }

    #[test]
    fn the_document_holds_together() {
        let document = document();
        let mut ids = std::collections::BTreeSet::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            assert!(path.starts_with('/'), "{path}");
            for (method, operation) in item.as_object().unwrap() {
                let place = format!("{method} {path}");
                if let Some(id) = operation["operationId"].as_str() {
                    assert!(ids.insert(id.to_owned()), "{place}");
                }
                assert!(operation["responses"]["200"].is_object(), "{place}");
                let parameters = operation["parameters"].as_array().unwrap();
                for name in path.split('{').skip(1).filter_map(|p| p.split('}').next()) {
                    let has = |p: &&Value| p["name"] == name && p["in"] == "path";
                    assert_eq!(parameters.iter().filter(has).count(), 1, "{place}: {name}");
                }
            }
        }
        let mut found = Vec::new();
        references(&document, &mut found);
        for to in found {
            let pointer = to.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{to}");
        }
    }

    #[test]
    fn every_route_is_in_the_document() {
        let document = document();
        let source = include_str!("../http/mod.rs");
        for route in source.split(".route(\"").skip(1) {
            let route = route.split('"').next().unwrap();
            let known = |path: &String| {
                let end = path.strip_prefix("/log/{account}").unwrap_or(path);
                // `{tool}` and `{*path}` stand for several.
                let open = route.split("{tool}").next().unwrap();
                let open = open.split("{*path}").next().unwrap();
                if open == route {
                    end == route
                } else {
                    end.starts_with(open)
                }
            };
            let paths = document["paths"].as_object().unwrap();
            assert!(paths.keys().any(known), "{route}");
        }
    }
}
