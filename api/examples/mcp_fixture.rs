//! A server of the Model Context Protocol behind the product's own door, with the tools that the protocol's conformance suite calls by
//! name. For tests: it is no part of the product, and answers anybody on this machine. Prints its URL.

use std::{sync::Arc, time::Duration};

use axum::{Router, extract::Request, http::HeaderMap, response::Response, routing::any};
use bytes::Bytes;
use countersign_api::{
    doors::mcp::{Asked, Called, Host, Named, door},
    error::{Code, Problem},
};
use http_body_util::{BodyExt as _, Limited};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The largest body, in bytes.
const BODY_BYTES_MAX: usize = 100_000;
/// A picture of one red pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg==";
/// A sound of no length.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";
/// So long takes the tool that says that it goes on: three times as long as the door waits before it says so.
const LONG: Duration = Duration::from_millis(3_500);

struct Fixture {
    url: String,
    permits: Arc<Semaphore>,
}

/// A tool: its name, and what it answers.
type Answers = (&'static str, fn() -> Value);

/// Every tool.
const TOOLS: [Answers; 8] = [
    (
        "test_simple_text",
        || json!({"content": [text("This is a simple text response for testing.")]}),
    ),
    ("test_image_content", || json!({"content": [image()]})),
    (
        "test_audio_content",
        || json!({"content": [{"type": "audio", "data": WAV, "mimeType": "audio/wav"}]}),
    ),
    (
        "test_embedded_resource",
        || json!({"content": [resource()]}),
    ),
    (
        "test_multiple_content_types",
        || json!({"content": [text("Multiple content types test:"), image(), resource()]}),
    ),
    ("test_error_handling", || {
        let why = "This tool intentionally returns an error for testing";
        json!({"content": [text(why)], "isError": true})
    }),
    (
        "test_tool_with_progress",
        || json!({"content": [text("It took a while.")]}),
    ),
    (
        "json_schema_2020_12_tool",
        || json!({"content": [text("ok")]}),
    ),
];

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn image() -> Value {
    json!({"type": "image", "data": PNG, "mimeType": "image/png"})
}

fn resource() -> Value {
    json!({"type": "resource", "resource": {
        "uri": "test://embedded-resource",
        "mimeType": "text/plain",
        "text": "This is an embedded resource content.",
    }})
}

/// The schema whose words a server must hand on as they are (SEP-1613).
fn schema(name: &str) -> Value {
    if name != "json_schema_2020_12_tool" {
        return json!({"type": "object", "properties": {}, "additionalProperties": false});
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            },
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    })
}

impl Host for Fixture {
    type Caller = ();
    type Held = OwnedSemaphorePermit;

    fn url(&self) -> &str {
        &self.url
    }

    fn origins(&self) -> &[String] {
        &[]
    }

    async fn caller(&self, _: &HeaderMap, _: Named) -> Result<(), Problem> {
        Ok(())
    }

    fn must_be_known(&self, (): &()) -> Result<(), Problem> {
        Ok(())
    }

    async fn body(
        &self,
        request: Request,
        (): &(),
    ) -> Result<(Bytes, OwnedSemaphorePermit), Problem> {
        let held = self.permits.clone().try_acquire_owned();
        let held = held.map_err(|_| Problem::new(Code::Busy, "too many at once"))?;
        let body = Limited::new(request.into_body(), BODY_BYTES_MAX)
            .collect()
            .await;
        let body = body.map_err(|_| Problem::new(Code::TooLarge, "too large"))?;
        Ok((body.to_bytes(), held))
    }

    fn limit_of(&self, _: &str) -> usize {
        BODY_BYTES_MAX
    }

    fn listed(&self, (): &()) -> Value {
        let row = |(name, _): &(&str, fn() -> Value)| json!({"name": name, "description": "A tool of the conformance suite's.", "inputSchema": schema(name)});
        let tools: Vec<Value> = TOOLS.iter().map(row).collect();
        json!({"tools": tools, "ttlMs": 60_000, "cacheScope": "private"})
    }

    fn call(self: &Arc<Self>, (): (), asked: Asked<'_, Self::Held>) -> Result<Called, Problem> {
        let Some((name, answer)) = TOOLS.iter().find(|(name, _)| *name == asked.name) else {
            return Ok(Called::Unknown(String::new()));
        };
        Ok(Called::Work(Box::pin(async move {
            let _held = asked.held;
            if *name == "test_tool_with_progress" {
                tokio::time::sleep(LONG).await;
            }
            answer()
        })))
    }

    fn refused(&self, problem: Problem) -> Response {
        axum::response::IntoResponse::into_response(problem)
    }
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    println!("{url}");
    let fixture = Fixture {
        url,
        permits: Arc::new(Semaphore::new(64)),
    };
    let router = Router::new()
        .route("/mcp", any(door::<Fixture>))
        .with_state(Arc::new(fixture));
    axum::serve(listener, router).await
}
