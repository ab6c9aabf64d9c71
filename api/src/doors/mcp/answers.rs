//! Answers: what the service says of itself, the list of tools, and the form that goes over the wire.

use std::sync::OnceLock;

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use serde_json::{Value, json};

use super::{
    accept::Accepts,
    era::{Era, MODERN},
    message::{self, Fault, Id},
};
use crate::{
    doors::{auth::Bearer, http::body, stream},
    state::{Identity, State},
    tools::{TOOLS, Tool, contract, is_offered},
};

/// How long a client may keep what the service says of itself, milliseconds: it changes with a release.
const SELF_TTL_MS: u64 = 3_600_000;
/// How long it may keep the list of tools: what a caller may do changes with a leaf.
const LIST_TTL_MS: u64 = 60_000;

const INSTRUCTIONS: &str = "Every write is one leaf of a Merkle log: its answer names the leaf (entry.index) and how far it is \
(entry.state). To repeat a call safely, send it again with the same idempotency_key. A refusal is a result with a code; its detail says \
what would help, and retryable whether waiting does.";

/// Makes the answers to one request.
pub(super) struct Answers {
    id: Option<Id>,
    pub accepts: Accepts,
    era: Era,
}

impl Answers {
    /// Answers to the request with this id; `None` where it could not be read, so that a protocol error is all there is to say.
    pub fn new(id: Option<Id>, accepts: Accepts, era: Era) -> Answers {
        Answers { id, accepts, era }
    }

    /// A result, in the form that the client takes.
    pub fn result(&self, result: Value) -> Response {
        let text = self.text(result);
        if self.accepts.json {
            return body::json(StatusCode::OK, text);
        }
        let mut answer = Response::new(Body::from(stream::message(&text)));
        let headers = answer.headers_mut();
        let kind = HeaderValue::from_static("text/event-stream");
        headers.insert(header::CONTENT_TYPE, kind);
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        answer
    }

    /// A result as one message.
    pub fn text(&self, mut result: Value) -> String {
        if self.era == Era::Modern {
            result["resultType"] = "complete".into();
            // Beside what is there: a result may have members of its own in `_meta`.
            result["_meta"]["io.modelcontextprotocol/serverInfo"] = about();
        }
        match &self.id {
            Some(id) => message::result(id, &result),
            // OK because a result is only ever made for a request that has an id.
            None => unreachable!("Answers::text"),
        }
    }

    /// A protocol error: always JSON, as it says what is wrong with the request.
    pub fn fault(&self, fault: &Fault) -> Response {
        // OK because statuses of faults are constants of `era`.
        let status = StatusCode::from_u16(self.era.status(fault)).expect("Answers::fault: status");
        body::json(status, fault.answer(self.id.as_ref()))
    }
}

fn about() -> Value {
    json!({"name": "countersign", "title": "Countersign", "version": env!("CARGO_PKG_VERSION")})
}

/// The result of `server/discover`.
pub(super) fn discovered() -> Value {
    json!({
        "supportedVersions": [MODERN],
        "capabilities": {"tools": {}},
        "instructions": INSTRUCTIONS,
        "ttlMs": SELF_TTL_MS,
        "cacheScope": "private",
    })
}

/// The result of `initialize`.
pub(super) fn initialized(version: &str) -> Value {
    json!({
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": about(),
        "instructions": INSTRUCTIONS,
    })
}

/// The result of `tools/list`: what this caller may call, in the order of the table.
pub(super) fn listed(bearer: &Bearer) -> Value {
    let state;
    let caller = match bearer {
        Bearer::Owner => None,
        Bearer::Identity(account, id) => {
            state = account.reader().version();
            state.identities.get(id).map(|identity| (&*state, identity))
        }
    };
    listed_to(caller)
}

/// The same for this identity; `None`: for whoever signs with a key that is not an identity's own.
fn listed_to(caller: Option<(&State, &Identity)>) -> Value {
    listed_of(|tool| is_offered(tool, caller))
}

/// The tools that are shown.
pub(super) fn listed_of(is_shown: impl Fn(&Tool) -> bool) -> Value {
    static ROWS: OnceLock<Vec<(&Tool, Value)>> = OnceLock::new();
    let rows = ROWS.get_or_init(|| TOOLS.iter().map(|tool| (tool, row(tool))).collect());
    let offered = rows.iter().filter(|(tool, _)| is_shown(tool));
    let tools: Vec<&Value> = offered.map(|(_, row)| row).collect();
    json!({"tools": tools, "ttlMs": LIST_TTL_MS, "cacheScope": "private"})
}

/// A tool as it is listed.
fn row(tool: &Tool) -> Value {
    json!({
        "name": tool.name,
        "description": tool.summary,
        "inputSchema": contract::call(tool),
        "outputSchema": contract::answer_or_problem(tool),
        "annotations": {
            "readOnlyHint": tool.hints.read_only,
            "destructiveHint": tool.hints.destructive,
            // The same again is the same leaf only under the same key.
            "idempotentHint": tool.hints.read_only,
            "openWorldHint": tool.hints.open_world,
        },
    })
}

/// The result of `tools/call`: the answer of either door as it is; its proof beside it, for a program and not for a model.
pub(super) fn called(answer: Result<Value, Value>) -> Value {
    let is_error = answer.is_err();
    let mut answer = answer.unwrap_or_else(|problem| problem);
    let entry = answer.get_mut("entry").and_then(Value::as_object_mut);
    let proof =
        entry.and_then(|entry| Some((entry.remove("proof")?, entry["evidence_url"].clone())));
    let mut content = vec![json!({"type": "text", "text": answer.to_string()})];
    if let Some((proof, uri)) = proof {
        content.push(json!({
            "type": "resource",
            "resource": {"uri": uri, "mimeType": "text/plain", "text": proof},
            "annotations": {"audience": ["user"]},
        }));
    }
    json!({"content": content, "structuredContent": answer, "isError": is_error})
}

/// What a call that takes long says in between.
pub(super) fn progress(token: &Value, seconds: u64) -> bytes::Bytes {
    stream::message(&progress_text(token, seconds))
}

/// The same as one message.
pub(super) fn progress_text(token: &Value, seconds: u64) -> String {
    let notification = json!({
        "jsonrpc": "2.0",
        "method": "notifications/progress",
        "params": {
            "progressToken": token,
            "progress": seconds,
            "message": "waiting until the write is as far as was asked for, or until its deadline",
        },
    });
    notification.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_stands_outside_what_a_model_reads() {
        let answer = json!({"result": {}, "entry": {"index": 3, "evidence_url": "http://h/log/dev/evidence/3", "proof": "c2sp.org/tlog-proof@v1\n…"}});
        let called = called(Ok(answer));
        assert_eq!(called["isError"], false);
        assert_eq!(called["structuredContent"]["entry"]["index"], 3);
        assert!(called["structuredContent"]["entry"].get("proof").is_none());
        let text = called["content"][0]["text"].as_str().unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(text).unwrap(),
            called["structuredContent"]
        );
        let resource = &called["content"][1];
        assert_eq!(resource["annotations"]["audience"][0], "user");
        assert!(
            resource["resource"]["text"]
                .as_str()
                .unwrap()
                .starts_with("c2sp.org")
        );
    }

    #[test]
    fn a_refusal_is_a_result_that_says_so() {
        let called = called(Err(json!({"code": "NOT_FOUND", "message": "…"})));
        assert_eq!(called["isError"], true);
        assert_eq!(called["structuredContent"]["code"], "NOT_FOUND");
        assert_eq!(called["content"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn results_of_2026_07_28_say_what_they_are() {
        let accepts = Accepts {
            json: true,
            events: true,
        };
        let answers = |era| Answers::new(Some(Id::of("7")), accepts, era);
        let modern: Value = serde_json::from_str(&answers(Era::Modern).text(discovered())).unwrap();
        assert_eq!(modern["id"], 7);
        assert_eq!(modern["result"]["resultType"], "complete");
        let about = &modern["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
        assert_eq!(about["name"], "countersign");
        let legacy = answers(Era::Legacy).text(initialized("2025-06-18"));
        assert!(!legacy.contains("resultType"), "{legacy}");
    }
}
