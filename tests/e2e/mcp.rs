//! `POST /mcp`, as it goes over the wire: both eras, what they answer, and how clients that ask otherwise are told.

use serde_json::{Value, json};

use crate::rig::{Answer, Call, JSON, Rig, key, spki};

const MODERN: &str = "2026-07-28";

/// A client that says exactly what it is told to.
struct Client<'a> {
    rig: &'a Rig,
    /// Beside content type and, in the revision without a handshake, those of the request.
    headers: Vec<(&'static str, String)>,
}

impl<'a> Client<'a> {
    fn new(rig: &'a Rig) -> Client<'a> {
        Client {
            rig,
            headers: vec![("authorization", format!("Bearer {}", rig.token()))],
        }
    }

    fn without_token(rig: &'a Rig) -> Client<'a> {
        Client {
            rig,
            headers: Vec::new(),
        }
    }

    fn with(mut self, name: &'static str, value: &str) -> Client<'a> {
        self.headers.retain(|(n, _)| *n != name);
        self.headers.push((name, value.into()));
        self
    }

    fn send(&self, body: &str) -> Answer {
        let mut headers = vec![("content-type", JSON)];
        headers.extend(self.headers.iter().map(|(n, v)| (*n, v.as_str())));
        self.rig
            .http()
            .send("POST", "/mcp", &headers, body.as_bytes())
    }

    /// A request of a revision with a handshake.
    fn legacy(&self, method: &str, params: Value) -> Answer {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.send(&body.to_string())
    }

    /// A request of the revision without one, with the headers that it asks for.
    fn modern(&self, method: &str, mut params: Value) -> Answer {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        let name = params["name"].as_str().unwrap_or("").to_owned();
        let mut client = Client {
            rig: self.rig,
            headers: self.headers.clone(),
        };
        client.headers.push(("mcp-protocol-version", MODERN.into()));
        client.headers.push(("mcp-method", method.into()));
        if !name.is_empty() {
            client.headers.push(("mcp-name", name));
        }
        client.legacy(method, params)
    }
}

/// The result of an answer that has one.
#[track_caller]
fn result(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let body = answer.json();
    assert_eq!((&body["jsonrpc"], &body["id"]), (&json!("2.0"), &json!(1)));
    assert!(body.get("error").is_none(), "{body}");
    body["result"].clone()
}

/// That it is this protocol error, with this status.
#[track_caller]
fn fault(answer: &Answer, status: u16, code: i64) -> Value {
    assert_eq!(answer.status, status, "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some(JSON));
    let body = answer.json();
    assert_eq!(body["error"]["code"], code, "{body}");
    body
}

#[test]
fn b175_the_revision_without_a_handshake() {
    let rig = Rig::up();
    let client = Client::new(&rig);
    // The first thing that a client says is a request.
    let listed = client.modern("tools/list", json!({}));
    let list = result(&listed);
    assert_eq!(list["resultType"], "complete");
    assert_eq!(list["cacheScope"], "private");
    assert!(list["ttlMs"].is_u64(), "{list}");
    assert_eq!(listed.header("mcp-session-id"), None);
    let about = result(&client.modern("server/discover", json!({})));
    assert_eq!(about["supportedVersions"], json!([MODERN]));
    assert_eq!(about["capabilities"], json!({"tools": {}}));
    let server = &about["_meta"]["io.modelcontextprotocol/serverInfo"];
    assert_eq!(server["name"], "countersign");
    let call = json!({"name": "identity_list", "arguments": {"limit": 1}});
    let called = result(&client.modern("tools/call", call));
    assert_eq!(called["resultType"], "complete");
    assert_eq!(called["isError"], false);
    // What the handshake's revisions have is not there.
    for method in ["initialize", "ping", "logging/setLevel", "resources/list"] {
        let body = fault(&client.modern(method, json!({})), 404, -32_601);
        assert_eq!(body["id"], 1, "{method}");
    }
    for method in ["GET", "DELETE", "PUT"] {
        let token = client.headers[0].1.as_str();
        let headers = [("authorization", token), ("accept", "text/event-stream")];
        let answer = rig.http().send(method, "/mcp", &headers, b"");
        answer.problem(405, "METHOD_NOT_ALLOWED");
        assert_eq!(answer.header("allow"), Some("POST"), "{method}");
    }
    // Headers that say something else than the body.
    let lying = Client::new(&rig).with("mcp-method", "tools/call");
    fault(&lying.modern("tools/list", json!({})), 400, -32_020);
    let bare = Client::new(&rig).with("mcp-protocol-version", MODERN);
    fault(&bare.legacy("tools/list", json!({})), 400, -32_602);
    let future = "2030-01-01";
    let client = Client::new(&rig)
        .with("mcp-protocol-version", future)
        .with("mcp-method", "server/discover");
    let meta = json!({"_meta": {
        "io.modelcontextprotocol/protocolVersion": future,
        "io.modelcontextprotocol/clientCapabilities": {},
    }});
    let body = fault(&client.legacy("server/discover", meta), 400, -32_022);
    let data = json!({"supported": [MODERN], "requested": future});
    assert_eq!(body["error"]["data"], data);
}

#[test]
fn b168_to_b173_the_revisions_with_a_handshake_keep_no_session() {
    // B169, B170, B171
    let mut rig = Rig::up();
    for version in ["2025-06-18", "2025-11-25"] {
        let client = Client::new(&rig);
        let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
        let answer = client.legacy("initialize", params.clone());
        let about = result(&answer);
        assert_eq!(about["protocolVersion"], version);
        assert_eq!(about["serverInfo"]["name"], "countersign");
        assert_eq!(about.get("resultType"), None);
        assert_eq!(answer.header("mcp-session-id"), None);
        // With an id of before, or of nobody: no id was ever given, so there is none to be wrong.
        for header in ["mcp-session-id", "x-session-id"] {
            let stale = Client::new(&rig)
                .with(header, "dead")
                .with("mcp-protocol-version", version);
            result(&stale.legacy("initialize", params.clone()));
            result(&stale.legacy("tools/list", json!({})));
            result(&stale.legacy("ping", json!({})));
        }
        let unknown = client.legacy("resources/list", json!({}));
        fault(&unknown, 200, -32_601);
    }
    let before = result(&Client::new(&rig).legacy("tools/list", json!({})));
    // Another process, which has seen no handshake.
    rig.restart();
    let session = Client::new(&rig)
        .with("mcp-session-id", "dead")
        .with("mcp-protocol-version", "2025-11-25")
        .with("accept", "text/event-stream");
    let answer = session.legacy("tools/list", json!({}));
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let text = answer.text();
    let data = text
        .strip_prefix("event: message\ndata: ")
        .expect("an event");
    let message: Value = serde_json::from_str(data.trim_end()).expect("a message");
    assert_eq!(message["result"]["tools"], before["tools"]);
    let older = Client::new(&rig).with("mcp-protocol-version", "2024-11-05");
    fault(&older.legacy("tools/list", json!({})), 400, -32_022);
}

#[test]
fn b164_b165_b166_b177_what_is_accepted_and_how_ids_come_back() {
    let rig = Rig::up();
    for (accept, kind) in [
        ("*/*", JSON),
        ("application/*", JSON),
        ("application/json;q=0.9", JSON),
        ("application/json, text/event-stream", JSON),
        ("text/event-stream", "text/event-stream"),
    ] {
        let answer = Client::new(&rig)
            .with("accept", accept)
            .modern("tools/list", json!({}));
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (200, Some(kind)),
            "{accept}"
        );
    }
    Client::new(&rig)
        .with("accept", "text/html")
        .legacy("tools/list", json!({}))
        .problem(406, "NOT_ACCEPTABLE");
    let token = format!("Bearer {}", rig.token());
    let plain = [
        ("content-type", "text/plain"),
        ("authorization", token.as_str()),
    ];
    let answer = rig.http().send("POST", "/mcp", &plain, b"{}");
    answer.problem(415, "MEDIA_TYPE");
    let client = Client::new(&rig);
    for id in ["9007199254740993", "\"a\"", "-1"] {
        let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}");
        let answer = client.send(&body);
        let expected = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}");
        assert_eq!((answer.status, answer.text()), (200, expected));
    }
    let null = client.send("{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}");
    assert_eq!(fault(&null, 400, -32_600)["id"], Value::Null);
    fault(&client.send("{"), 400, -32_700);
    fault(&client.send("[]"), 400, -32_600);
    for method in [
        "notifications/initialized",
        "notifications/cancelled",
        "notifications/x",
    ] {
        let body = json!({"jsonrpc": "2.0", "method": method, "params": {"requestId": 1}});
        let answer = client.send(&body.to_string());
        assert_eq!((answer.status, answer.text()), (202, String::new()));
    }
    let large = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{}\"}}",
        "x".repeat(300_000)
    );
    client.send(&large).problem(413, "TOO_LARGE");
}

#[test]
fn who_may_ask_and_what_helps_who_may_not() {
    let rig = Rig::up();
    for (origin, status) in [
        ("http://evil.example.com", 403),
        ("null", 403),
        ("http://localhost:6274", 200),
        (rig.service.url.as_str(), 200),
    ] {
        // The body is not looked at: it is no message.
        let body = if status == 403 {
            "{"
        } else {
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"
        };
        let answer = Client::new(&rig).with("origin", origin).send(body);
        assert_eq!(answer.status, status, "{origin}: {}", answer.text());
    }
    for (client, code) in [
        (Client::without_token(&rig), "KEY_REQUIRED"),
        (
            Client::without_token(&rig).with("authorization", "Bearer cst_wrong"),
            "TOKEN_INVALID",
        ),
    ] {
        for answer in [
            client.modern("tools/list", json!({})),
            client.modern("tools/call", json!({"name": "identity_list"})),
            client.legacy("initialize", json!({})),
            client.send("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"),
            client.send("{"),
        ] {
            let detail = answer.problem(401, code);
            let help = detail["help"].as_str().expect("what helps");
            assert!(help.contains("countersign token"), "{help}");
            let challenge = answer.header("www-authenticate");
            assert_eq!(challenge, Some("Bearer error=\"invalid_token\""));
        }
    }
    // B180: without an authorization server there is no metadata that leads nowhere.
    for suffix in ["", "/mcp"] {
        let target = format!("/.well-known/oauth-protected-resource{suffix}");
        rig.get(&target).problem(404, "NOT_FOUND");
    }
    let named = Rig::with("[mcp]\norigins = [\"https://tools.example.com\"]\n");
    let page = Client::new(&named).with("origin", "https://tools.example.com");
    result(&page.legacy("ping", json!({})));
}

#[test]
fn both_doors_give_the_same() {
    let mut rig = Rig::up();
    rig.enroll("agent", &key("agent"));
    let token = format!("Bearer {}", rig.token());
    let headers = [("content-type", JSON), ("authorization", token.as_str())];
    let same = |tool: &str, arguments: Value| {
        let body = arguments.to_string();
        let target = format!("/v1/{tool}");
        let http = rig.http().send("POST", &target, &headers, body.as_bytes());
        let call = json!({"name": tool, "arguments": arguments});
        let mut answers = vec![http.json()];
        for called in [
            Client::new(&rig).modern("tools/call", call.clone()),
            Client::new(&rig).legacy("tools/call", call),
        ] {
            let called = result(&called);
            assert_eq!(called["isError"], http.status >= 400, "{called}");
            let text = called["content"][0]["text"].as_str().expect("a text");
            let structured = called["structuredContent"].clone();
            assert_eq!(
                serde_json::from_str::<Value>(text).expect("JSON"),
                structured
            );
            answers.push(structured);
        }
        for answer in &mut answers {
            // The one member that is another each time, and the leaf that a refusal folds into.
            answer["server_time"] = Value::Null;
            answer["entry"] = Value::Null;
        }
        assert_eq!(answers[0], answers[1]);
        assert_eq!(answers[0], answers[2]);
    };
    same("identity_list", json!({"limit": 1}));
    same("identity_list", json!({"limt": 1}));
    same("identity_list", json!({"limit": 1.5}));
    same("seat_get", json!({"name": "builder"}));
    let nobody = "00".repeat(32);
    same("token_revoke", json!({"token_sha256": nobody}));
    rig.check();
    let unknown = json!({"name": "no_such_tool", "arguments": {}});
    fault(
        &Client::new(&rig).legacy("tools/call", unknown.clone()),
        200,
        -32_602,
    );
    fault(
        &Client::new(&rig).modern("tools/call", unknown),
        400,
        -32_602,
    );
}

#[test]
fn a_signed_call_needs_no_token_and_its_proof_stands_apart() {
    let mut rig = Rig::up();
    let arguments = json!({"name": "a", "public_key": spki(&key("a"))});
    let body = Call::new("identity_enroll", arguments).body(&rig.owner());
    let mut members = body.clone();
    members["include"] = json!(["proof"]);
    let call = json!({"name": "identity_enroll", "arguments": members});
    let called = result(&Client::without_token(&rig).modern("tools/call", call));
    assert_eq!(called["isError"], false, "{called}");
    let entry = &called["structuredContent"]["entry"];
    assert_eq!(entry["state"], "included");
    assert!(entry.get("proof").is_none(), "{entry}");
    let resource = &called["content"][1]["resource"];
    assert_eq!(resource["uri"], entry["evidence_url"]);
    let proof = resource["text"].as_str().expect("a proof");
    assert!(proof.starts_with("c2sp.org/tlog-proof@v1\n"), "{proof}");
    rig.check();
    // The same again over the other door is the same leaf.
    let again = rig
        .http()
        .post("/v1/identity_enroll", JSON, body.to_string().as_bytes());
    assert_eq!(again.json()["entry"]["index"], entry["index"]);
}

#[test]
fn the_list_is_what_the_caller_may_call_and_what_its_schemas_promise() {
    let rig = Rig::up();
    let list = result(&Client::new(&rig).modern("tools/list", json!({})));
    let tools = list["tools"].as_array().expect("tools");
    let names: Vec<&str> = tools.iter().filter_map(|t| t["name"].as_str()).collect();
    assert!(names.contains(&"identity_list"), "{names:?}");
    for hidden in ["identity_enroll", "token_new", "log_close", "head_track"] {
        assert!(
            !names.contains(&hidden),
            "{hidden} takes a key of one's own"
        );
    }
    for tool in tools {
        let name = &tool["name"];
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{name}");
        assert_eq!(tool["outputSchema"]["type"], "object", "{name}");
        assert!(
            !tool["description"].as_str().unwrap_or("").is_empty(),
            "{name}"
        );
        let hints = &tool["annotations"];
        assert!(hints["readOnlyHint"].is_boolean(), "{name}");
        assert_eq!(hints["openWorldHint"], false, "{name}");
    }
}

#[test]
fn a_long_call_says_that_it_goes_on() {
    let rig = Rig::witnessed();
    // With one witness of three a write waits for its deadline.
    for number in [1, 2] {
        super::witnessed::take_down(rig.dir(), number);
    }
    let arguments = json!({"name": "a", "public_key": spki(&key("a"))});
    let mut members = Call::new("identity_enroll", arguments).body(&rig.owner());
    members["deadline_ms"] = 3_500.into();
    let call =
        json!({"name": "identity_enroll", "arguments": members, "_meta": {"progressToken": "p"}});
    let answer = Client::new(&rig).modern("tools/call", call.clone());
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let text = answer.text();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let mut messages: Vec<Value> = data
        .map(|data| serde_json::from_str(data).expect("a message"))
        .collect();
    let last = messages.pop().expect("the result");
    assert_eq!(last["id"], 1);
    let result = &last["result"];
    assert_eq!(result["resultType"], "complete");
    let entry = &result["structuredContent"]["entry"];
    assert_ne!(entry["state"], "witnessed", "{last}");
    assert!(!messages.is_empty());
    for (n, message) in (1_u64..).zip(&messages) {
        assert_eq!(message["method"], "notifications/progress");
        assert_eq!(message["params"]["progressToken"], "p");
        assert_eq!(message["params"]["progress"], n);
    }
    // A client that takes no events is answered once.
    let again = Client::new(&rig)
        .with("accept", "application/json")
        .modern("tools/call", call);
    assert_eq!(again.header("content-type"), Some(JSON));
    let again = again.json();
    let index = &again["result"]["structuredContent"]["entry"]["index"];
    assert_eq!(index, &entry["index"]);
}
