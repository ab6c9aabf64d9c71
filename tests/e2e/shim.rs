//! A client of MCP at standard input, whose calls are signed by a key that the service has never had.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::rig::{Call, Rig, clean, countersign, key};

/// Reaching it is a failure, whatever the machine is busy with.
const PATIENCE: Duration = Duration::from_secs(90);

/// A running shim and the client's side of it.
struct Shim {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    next: u64,
    /// What every request of this era says of itself.
    meta: Option<Value>,
}

impl Shim {
    fn start(rig: &mut Rig, more: &[&str]) -> Shim {
        rig.enroll("agent", &key("agent"));
        let file = rig.scratch().join("agent.key");
        std::fs::write(&file, &*key("agent").to_pem()).expect("a key file");
        Shim::with(rig, &file, more)
    }

    fn with(rig: &Rig, key: &Path, more: &[&str]) -> Shim {
        let mut child = clean(countersign())
            .args(["shim", "--account", "dev", "--url", &rig.service.url])
            .arg("--key")
            .arg(key)
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("countersign starts");
        Shim {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().expect("its output")),
            child,
            next: 0,
            meta: None,
        }
    }

    fn say(&mut self, line: &str) {
        let input = self.input.as_mut().expect("an open input");
        writeln!(input, "{line}").expect("it reads");
    }

    /// A request, and its answer.
    fn ask(&mut self, method: &str, mut params: Value) -> Value {
        self.next += 1;
        if let Some(meta) = &self.meta {
            params["_meta"] = meta.clone();
        }
        let id = self.next;
        self.say(
            &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string(),
        );
        let mut line = String::new();
        self.output.read_line(&mut line).expect("its output");
        let answer: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// A call of a tool: whether it was refused, and the answer.
    fn call(&mut self, tool: &str, arguments: Value) -> (bool, Value) {
        let answer = self.ask("tools/call", json!({"name": tool, "arguments": arguments}));
        let result = &answer["result"];
        let refused = result["isError"].as_bool();
        (
            refused.unwrap_or_else(|| panic!("{answer}")),
            result["structuredContent"].clone(),
        )
    }

    fn done(&mut self, tool: &str, arguments: Value) -> Value {
        let (refused, answer) = self.call(tool, arguments);
        assert!(!refused, "{tool}: {answer}");
        answer
    }

    fn refused(&mut self, tool: &str, arguments: Value) -> Value {
        let (refused, answer) = self.call(tool, arguments);
        assert!(refused, "{tool}: {answer}");
        answer
    }

    /// The client goes.
    fn end(mut self) {
        drop(self.input.take());
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "{status}");
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a process"), signal).expect("a signal");
    }
}

/// A session as the service has it.
fn session(rig: &mut Rig, id: &str) -> Value {
    let owner = rig.owner();
    let answer = rig.call_as(&owner, &Call::new("ars_session_get", json!({"id": id})));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["result"].clone()
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_client_with_a_handshake_signs_by_the_key_of_its_session() {
    let mut rig = Rig::up();
    let mut shim = Shim::start(&mut rig, &[]);
    let begun = shim.ask("initialize", json!({"protocolVersion": "2025-06-18"}));
    assert_eq!(begun["result"]["protocolVersion"], "2025-06-18");
    shim.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let listed = shim.ask("tools/list", json!({}));
    let tools = listed["result"]["tools"].as_array().expect("tools");
    let named = |name: &str| tools.iter().any(|tool| tool["name"] == name);
    assert!(named("ars_start") && named("board_resolve") && !named("identity_enroll"));
    let item = json!({"item": {"id": "T-1", "title": "Write the release notes"}, "idempotency_key": "one-and-the-same"});
    let made = shim.done("board_upsert", item.clone());
    let entry = &made["entry"];
    assert_eq!(entry["by"]["class"], "session_key");
    assert_eq!(
        entry["by"]["identity"],
        key("agent").public().identity().to_string()
    );
    let id = made["result"]["item"]["provenance"]["session"]
        .as_str()
        .expect("a session")
        .to_owned();
    assert_eq!(shim.done("board_upsert", item)["entry"], *entry);
    let other = json!({"item": {"id": "T-1", "title": "x"}, "idempotency_key": "one-and-the-same"});
    let refused = shim.refused("board_upsert", other);
    assert_eq!(refused["code"], "IDEMPOTENCY_MISMATCH");
    // What a client says of itself renews the session that is there.
    let checkin = json!({"role": "agent", "harness": {"name": "example"}, "model": "m", "clock": "2026-11-29T13:00:00.000Z"});
    let again = shim.done("ars_session_checkin", checkin.clone());
    assert_eq!(again["result"]["session_id"], *id);
    let started = shim.done("ars_start", json!({"checkin": checkin}));
    assert_eq!(started["result"]["item"]["id"], "T-1");
    let proved = json!({"note": "half way", "include": ["proof"], "session_id": id});
    let beaten = shim.ask(
        "tools/call",
        json!({"name": "ars_session_heartbeat", "arguments": proved}),
    );
    let proof = &beaten["result"]["content"][1]["resource"]["text"];
    assert!(proof.as_str().expect("a proof").starts_with("c2sp.org/"));
    for (tool, arguments, code) in [
        (
            "identity_revoke",
            json!({"identity": entry["by"]["identity"]}),
            "ATTRIBUTION_TOO_LOW",
        ),
        (
            "board_get",
            json!({"id": "T-1", "session_id": "s_0"}),
            "MALFORMED",
        ),
        ("board_get", json!({"idd": "T-1"}), "UNKNOWN_ARGUMENT"),
        ("board_get", json!({"id": "T-9"}), "NOT_FOUND"),
    ] {
        let refused = shim.refused(tool, arguments);
        assert_eq!(refused["code"], code, "{refused}");
    }
    shim.end();
    let ended = session(&mut rig, &id);
    assert_eq!(
        (&ended["state"], &ended["outcome"], &ended["class"]),
        (&json!("ended"), &json!("incomplete"), &json!("session_key"))
    );
    assert_eq!(ended["model"], "m");
    rig.check();
}

#[test]
fn a_client_without_one_that_checks_out_begins_again_with_its_next_call() {
    let mut rig = Rig::up();
    let mut shim = Shim::start(&mut rig, &[]);
    shim.meta = Some(json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }));
    let found = shim.ask("server/discover", json!({}));
    assert_eq!(found["result"]["supportedVersions"][0], "2026-07-28");
    let out = shim.done("ars_session_checkout", json!({"outcome": "delivered"}));
    let first = out["result"]["session"]["session_id"].as_str();
    let first = first.expect("a session").to_owned();
    let lease = shim.done("ars_lease_acquire", json!({"resource": "item:T-1"}));
    let second = lease["result"]["session_id"].as_str().expect("a session");
    assert_ne!(first, second);
    assert_eq!(session(&mut rig, second)["resumed"], *first);
    // A client that is stopped checks out as one that goes.
    shim.signal(Signal::TERM);
    assert!(shim.child.wait().expect("it ends").success());
    let ended = session(&mut rig, second);
    assert_eq!(ended["outcome"], "incomplete");
    assert_eq!(session(&mut rig, &first)["outcome"], "delivered");
    rig.check();
}

#[test]
fn a_board_that_no_operation_can_carry_is_brought_in_in_parts() {
    let mut rig = Rig::up();
    let mut shim = Shim::start(&mut rig, &[]);
    let mut text = json!({"count": 60, "format": "countersign.board/1"}).to_string() + "\n";
    for n in 0..60 {
        let item = json!({"id": format!("T-{n:02}"), "title": "x".repeat(1_000)});
        text += &(item.to_string() + "\n");
    }
    let trailer = json!({"sha256": crate::rig::hex(text.as_bytes())});
    let text = text + &trailer.to_string() + "\n";
    let file = |content: &str| json!({"format": "countersign.board/1", "content": content, "dry_run": false});
    let done = shim.done("board_import", file(&text));
    let result = &done["result"];
    assert_eq!(
        (&result["applied"], &result["parts"]),
        (&json!(60), &json!(2))
    );
    assert_eq!(done["entry"]["by"]["class"], "session_key");
    let again = shim.done("board_import", file(&text));
    assert_eq!(again["result"]["applied"], 0);
    assert_eq!(
        again["result"]["plan"]["skip"].as_array().map(Vec::len),
        Some(60)
    );
    assert!(again.get("entry").is_none(), "nothing was written");
    let cut = shim.refused("board_import", file(&text[..text.len() / 2]));
    assert_eq!(cut["code"], "PARSE_ERROR");
    shim.end();
    rig.check();
}

#[test]
fn a_session_lives_by_itself_and_its_end_is_told() {
    let mut rig = Rig::up();
    let mut shim = Shim::start(&mut rig, &["--ttl-s", "10"]);
    shim.ask("initialize", json!({"protocolVersion": "2025-11-25"}));
    let lease = shim.done("ars_lease_acquire", json!({"resource": "item:T-1"}));
    let id = lease["result"]["session_id"].as_str().expect("a session");
    let seen = session(&mut rig, id)["seen_at"].clone();
    until("no heartbeat by itself", || {
        session(&mut rig, id)["seen_at"] != seen
    });
    shim.signal(Signal::STOP);
    until("it does not end", || {
        session(&mut rig, id)["state"] == "ended"
    });
    shim.signal(Signal::CONT);
    let told = shim.refused("board_list", json!({}));
    assert_eq!(told["code"], "SESSION_EXPIRED", "{told}");
    let now = told["detail"]["session_id"].as_str().expect("another one");
    assert_ne!(now, id);
    shim.done("board_list", json!({}));
    assert_eq!(session(&mut rig, now)["resumed"], id);
    shim.end();
    rig.check();
}

#[test]
fn the_work_of_a_holder_that_was_killed_comes_back_at_its_time_and_not_before() {
    let mut rig = Rig::up();
    let owner = rig.owner();
    let item = json!({"item": {"id": "T-1", "title": "t"}});
    assert_eq!(rig.call("board_upsert", item).status, 200);
    let mut shim = Shim::start(&mut rig, &["--ttl-s", "10"]);
    shim.ask("initialize", json!({"protocolVersion": "2025-11-25"}));
    let started = shim.done("ars_start", json!({}));
    assert_eq!(started["result"]["item"]["id"], "T-1");
    let id = started["result"]["session_id"]
        .as_str()
        .expect("a session")
        .to_owned();
    shim.signal(Signal::KILL);
    shim.child.wait().expect("it is gone");
    let due = session(&mut rig, &id)["expires_at"].clone();
    let checkin = super::sessions::checkin(&json!({"role": "owner"}));
    let begun = rig.call("ars_session_checkin", checkin).json();
    let other = begun["result"]["session_id"]
        .as_str()
        .expect("a session")
        .to_owned();
    let call = |more: Value| Call {
        session: Some(other.clone()),
        ..Call::new("ars_lease_acquire", more)
    };
    // Held, until nobody has been heard of for as long as was agreed.
    let asked = json!({"resource": "item:T-1"});
    rig.call_as(&owner, &call(asked.clone()))
        .problem(409, "LEASE_CONFLICT");
    let mut waiting = asked;
    waiting["wait_ms"] = 50_000.into();
    let had = rig.call_as(&owner, &call(waiting));
    assert_eq!(had.status, 200, "{}", had.text());
    let had = had.json();
    let (at, due) = (
        had["entry"]["at"].as_str().expect("a time"),
        due.as_str().expect("a time"),
    );
    assert!(at >= due, "granted at {at}, and it was held until {due}");
    let fence = |of: &Value| of["result"]["fence"].as_u64();
    assert!(fence(&had) > started["result"]["lease"]["fence"].as_u64());
    // The log says who lost it, and why.
    let leaves = rig.auditor.leaves().iter();
    let told = leaves.filter(|leaf| {
        let leaf = String::from_utf8_lossy(leaf);
        leaf.contains("\"session_expired\"") && leaf.contains(&id)
    });
    assert_eq!(told.count(), 1);
}

#[test]
fn a_key_that_nobody_has_enrolled_is_told_at_the_start() {
    let rig = Rig::up();
    let file = rig.scratch().join("stranger.key");
    std::fs::write(&file, &*key("stranger").to_pem()).expect("a key file");
    let output = clean(countersign())
        .args(["shim", "--account", "dev", "--url", &rig.service.url])
        .arg("--key")
        .arg(&file)
        .stdin(Stdio::null())
        .output()
        .expect("countersign starts");
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("SIGNER_UNKNOWN"), "{said}");
}

#[test]
fn the_list_is_what_the_policy_leaves_to_the_identity() {
    let mut rig = Rig::up();
    let mut shim = Shim::start(&mut rig, &[]);
    let id = key("agent").public().identity().to_string();
    let token = format!("cst_{:0>43}", 7);
    let asked =
        json!({"identity": id, "token_sha256": crate::rig::token_hash("localhost/dev", &token)});
    let made = rig.call("token_new", asked);
    assert_eq!(made.status, 200, "{}", made.text());
    let names = |listed: &Value| -> Vec<String> {
        let tools = listed["result"]["tools"].as_array().expect("tools");
        let names = tools.iter().filter_map(|tool| tool["name"].as_str());
        names.map(str::to_owned).collect()
    };
    // What a key of a session never signs is on the list of the identity's token, which is that of an agent_key.
    let own_key = [
        "identity_enroll",
        "identity_rotate",
        "identity_revoke",
        "receipt_policy",
        "policy_set",
        "token_new",
        "head_track",
        "settings_set",
        "log_close",
        "blob_erase",
    ];
    let by_token = |rig: &Rig| {
        let bearer = format!("Bearer {token}");
        let headers = [
            ("content-type", "application/json"),
            ("authorization", bearer.as_str()),
            ("mcp-protocol-version", "2025-11-25"),
        ];
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
        let listed = rig
            .http()
            .send("POST", "/mcp", &headers, body.as_bytes())
            .json();
        let mut names = names(&listed);
        names.retain(|name| !own_key.contains(&name.as_str()));
        names
    };
    let before = names(&shim.ask("tools/list", json!({})));
    assert_eq!(before, by_token(&rig));
    assert!(before.contains(&"board_import".into()));
    let policy = r#"
        permit (principal, action, resource);
        forbid (principal, action == Action::"board_import", resource) unless { principal.roles.contains("owner") };
        forbid (principal, action == Action::"ars_lease_acquire", resource) unless { principal.roles.contains("owner") };
    "#;
    let set = rig.call("policy_set", json!({"text": policy}));
    assert_eq!(set.status, 200, "{}", set.text());
    let after = names(&shim.ask("tools/list", json!({})));
    assert_eq!(after, by_token(&rig));
    for gone in ["board_import", "ars_lease_acquire"] {
        assert!(!after.contains(&gone.into()), "{gone}");
    }
    shim.end();
}
