//! Scripted conversations.

use tokio::{
    io::{BufReader, duplex, split},
    sync::Notify,
};

use super::*;

/// Answers every call with what was asked; a slow one only once another asks for that.
#[derive(Default)]
struct Echo(Notify);

impl Carrier for Echo {
    async fn carry(
        &self,
        tool: &'static Tool,
        members: Map<String, Value>,
    ) -> Result<Value, Value> {
        if members.contains_key("slow") {
            self.0.notified().await;
        }
        if members.contains_key("release") {
            self.0.notify_one();
        }
        match members.get("refuse") {
            Some(code) => Err(json!({"code": code})),
            None => Ok(json!({"result": {"tool": tool.name, "arguments": members}})),
        }
    }

    /// One that a session's key may sign for, and one that it may not.
    async fn offered(&self) -> Option<Vec<String>> {
        Some(vec!["board_get".into(), "identity_enroll".into()])
    }
}

/// What a conversation is answered with, in the order of the ids.
async fn answers(lines: &[String]) -> Vec<Value> {
    let (mut ours, theirs) = duplex(1 << 20);
    let input = lines.join("\n");
    serve(input.as_bytes(), theirs, &Arc::new(Echo::default()))
        .await
        .unwrap();
    let mut text = String::new();
    ours.read_to_string(&mut text).await.unwrap();
    let mut all: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    all.sort_by_key(|answer| answer["id"].as_u64());
    all
}

fn request(id: u64, method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}

#[tokio::test]
async fn a_client_with_a_handshake() {
    for version in ["2025-06-18", "2025-11-25"] {
        let said = answers(&[
            request(1, "initialize", json!({"protocolVersion": version})),
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.into(),
            request(2, "ping", json!({})),
            request(3, "tools/list", json!({})),
            request(
                4,
                "tools/call",
                json!({"name": "board_get", "arguments": {"id": "T-1"}}),
            ),
            request(
                5,
                "tools/call",
                json!({"name": "board_get", "arguments": {"refuse": "NOT_FOUND"}}),
            ),
            request(6, "resources/list", json!({})),
            request(7, "tools/call", json!({"name": "no_such"})),
            request(
                8,
                "tools/call",
                json!({"name": "board_get", "arguments": []}),
            ),
        ])
        .await;
        assert_eq!(said.len(), 8, "{said:?}");
        assert_eq!(said[0]["result"]["protocolVersion"], version);
        assert_eq!(said[1]["result"], json!({}));
        let tools = said[2]["result"]["tools"].as_array().unwrap();
        let named = |name: &str| tools.iter().any(|tool| tool["name"] == name);
        assert!(named("board_get") && !named("identity_enroll") && !named("ars_start"));
        let echoed = &said[3]["result"]["structuredContent"]["result"];
        assert_eq!(
            *echoed,
            json!({"tool": "board_get", "arguments": {"id": "T-1"}})
        );
        assert_eq!(said[4]["result"]["isError"], true);
        assert_eq!(said[5]["error"]["code"], METHOD);
        assert_eq!(said[6]["error"]["code"], PARAMS);
        assert_eq!(said[7]["result"]["structuredContent"]["code"], "MALFORMED");
        assert!(!said[0].to_string().contains("resultType"));
    }
}

#[tokio::test]
async fn a_client_without_one() {
    let said = answers(&[
        request(1, "server/discover", modern(json!({}))),
        request(2, "tools/list", modern(json!({}))),
        request(
            3,
            "tools/call",
            modern(json!({"name": "board_list", "arguments": {"ready": true}})),
        ),
        request(4, "initialize", modern(json!({}))),
        request(5, "server/discover", json!({})),
        request(
            6,
            "tools/list",
            json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2030-01-01", "io.modelcontextprotocol/clientCapabilities": {}}}),
        ),
    ])
    .await;
    assert_eq!(said[0]["result"]["supportedVersions"][0], "2026-07-28");
    assert!(
        said[..3]
            .iter()
            .all(|a| a["result"]["resultType"] == "complete")
    );
    let echoed = &said[2]["result"]["structuredContent"]["result"];
    assert_eq!(echoed["arguments"]["ready"], true);
    assert_eq!(said[3]["error"]["code"], METHOD);
    assert_eq!(said[4]["error"]["code"], PARAMS);
    assert_eq!(said[5]["error"]["data"]["supported"][0], "2026-07-28");
}

#[tokio::test]
async fn what_is_no_message_is_answered_and_what_follows_too() {
    let long = "x".repeat(BODY_BYTES_MAX + 10);
    let said = answers(&[
        String::new(),
        "nonsense".into(),
        "[]".into(),
        long,
        request(9, "ping", json!({})),
    ])
    .await;
    let codes: Vec<_> = said.iter().map(|a| a["error"]["code"].as_i64()).collect();
    assert_eq!(codes, [Some(-32_700), Some(-32_600), Some(-32_700), None]);
    assert_eq!(said[3]["id"], 9);
}

#[tokio::test]
async fn a_long_call_says_so_and_holds_nobody_up() {
    let ((ours, theirs), echo) = (duplex(1 << 20), Arc::new(Echo::default()));
    let (input, output) = split(theirs);
    let served = tokio::spawn(async move { serve(BufReader::new(input), output, &echo).await });
    let (read, mut write) = split(ours);
    let mut lines = BufReader::new(read).lines();
    let mut next = async || -> Value {
        let line = lines.next_line().await.unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    };
    let slow =
        json!({"name": "board_get", "arguments": {"slow": 1}, "_meta": {"progressToken": "p"}});
    let asked = [
        request(1, "tools/call", slow),
        request(2, "ping", json!({})),
    ];
    write
        .write_all((asked.join("\n") + "\n").as_bytes())
        .await
        .unwrap();
    assert_eq!(next().await["id"], 2);
    for seconds in [1, 2] {
        let said = next().await;
        assert_eq!(said["method"], "notifications/progress");
        assert_eq!(said["params"]["progress"], seconds);
        assert_eq!(said["params"]["progressToken"], "p");
    }
    let release = json!({"name": "board_get", "arguments": {"release": 1}});
    let release = request(3, "tools/call", release) + "\n";
    write.write_all(release.as_bytes()).await.unwrap();
    let mut answered = Vec::new();
    while answered.len() < 2 {
        answered.extend(next().await["id"].as_u64());
    }
    answered.sort_unstable();
    assert_eq!(answered, [1, 3]);
    write.shutdown().await.unwrap();
    served.await.unwrap().unwrap();
}
