//! `GET /openapi.json`: the addresses and the tools as OpenAPI 3.1, made from the same tables as what it describes.

mod addresses;

use std::sync::OnceLock;

use axum::{http::StatusCode, response::Response};
use serde_json::{Map, Value, json};

use self::addresses::{ADDRESSES, Address};
use super::http::body;
use crate::tools::{Handler, TOOLS, Tool, contract};

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
            },
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "`cst_` and 43 characters. A signed call needs none."},
            },
        },
    })
}

fn refused() -> Value {
    json!({
        "description": "Refused",
        "content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    })
}

fn of_tool(tool: &Tool) -> Value {
    let mut asked = contract::call(tool);
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
        "default": refused(),
    });
    let mut parameters = vec![json!({
        "name": "account",
        "in": "query",
        "schema": {"type": "string"},
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
        let kind = if name == "index" || name == "level" {
            "integer"
        } else {
            "string"
        };
        Some(json!({"name": name, "in": "path", "required": true, "schema": {"type": kind}}))
    });
    let in_query = address.query.iter().map(|(name, kind, required)| {
        json!({"name": name, "in": "query", "required": required, "schema": {"type": kind}})
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
            "default": refused(),
        },
        "security": match address.open {
            true => json!([{}, {"token": []}]),
            false => json!([{"token": []}]),
        },
    });
    if !address.body.is_empty() {
        operation["requestBody"] = json!({"required": true, "content": content(address.body)});
        operation["responses"]["202"] = json!({
            "description": "Taken, and no answer yet",
            "content": content(address.answer),
        });
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
