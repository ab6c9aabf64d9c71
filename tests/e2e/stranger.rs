//! A stranger's view: from tiles, keys and policy alone another process replays the log and prints the board.

use std::{fs, path::Path};

use serde_json::{Value, json};

use super::{
    accounts::{self, create, done},
    audit::audit,
    board::{file, result, token_call},
    recovery::Site,
};
use crate::rig::{Rig, clean, countersign, key};

/// The export, and how it was taken.
struct Taken {
    content: String,
    sha256: Value,
    size: u64,
    root: Value,
}

impl Taken {
    fn of(exported: &Value) -> Taken {
        Taken {
            content: exported["content"].as_str().expect("a text").to_owned(),
            sha256: exported["sha256"].clone(),
            size: exported["size"].as_u64().expect("a size"),
            root: exported["root"].clone(),
        }
    }

    /// What an audit writes at that size is this, byte for byte.
    fn is_replayed(&self, log: &str, policy: &Path, to: &Path, more: &[&str]) {
        let _ = fs::remove_file(to);
        let (at, board) = (self.size.to_string(), to.to_str().expect("UTF-8"));
        let asked = [&["--replay", "--at", &at, "--board", board], more].concat();
        let audited = audit(log, policy, &asked);
        assert_eq!(
            audited.code,
            Some(0),
            "{} {}",
            audited.report,
            audited.stderr
        );
        assert_eq!(fs::read_to_string(to).expect("the board"), self.content);
        let board = &audited.report["board"];
        assert_eq!(
            (&board["sha256"], &board["root"], &board["size"]),
            (&self.sha256, &self.root, &json!(self.size))
        );
    }
}

#[test]
fn the_board_of_any_size_is_what_a_replay_of_the_leaves_makes() {
    let mut rig = Rig::up();
    let asked = json!({"format": "countersign.board/1", "content": file(60), "dry_run": false});
    result(&token_call(&rig, "board_import", &asked));
    let mut taken = Vec::new();
    let export = |rig: &Rig| Taken::of(&result(&token_call(rig, "board_export", &json!({}))));
    taken.push(export(&rig));
    for n in 0..4 {
        let item = json!({"item": {"id": format!("N-{n}"), "title": "cafe\u{301}\r\n", "tags": ["x"]}, "wait": "included"});
        result(&token_call(&rig, "board_upsert", &item));
        let text = json!({"id": "T-001", "text": "one more", "wait": "included"});
        result(&token_call(&rig, "board_comment", &text));
        taken.push(export(&rig));
    }
    let refused = token_call(
        &rig,
        "board_resolve",
        &json!({"id": "nothing", "outcome": "done"}),
    );
    assert_eq!(refused.status, 404, "{}", refused.text());
    rig.enroll("reader", &key("reader"));
    taken.push(export(&rig));
    rig.check();
    let policy = rig.service.policy.clone();
    let url = format!("{}/log/dev", rig.service.url);
    let to = rig.scratch().join("board.jsonl");
    for taken in &taken {
        taken.is_replayed(&url, &policy, &to, &[]);
        // And the service agrees that it is the board, where it is the present one.
        let content = fs::read_to_string(&to).expect("the board");
        let compared = json!({"against": "snapshot", "content": content});
        let drift = result(&token_call(&rig, "parity_check", &compared))["drift"].clone();
        let newest = taken.content == export(&rig).content;
        assert_eq!(drift == 0, newest, "{drift}");
    }
    let replayed = result(&token_call(
        &rig,
        "parity_check",
        &json!({"against": "replay"}),
    ));
    assert_eq!(replayed["drift"], 0);
    // On standard output, with the report beside it.
    let newest = taken.last().expect("an export");
    let output = clean(countersign())
        .args(["audit", &url, "--replay", "--board", "-", "--policy"])
        .arg(&policy)
        .output()
        .expect("countersign runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), newest.content);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("holds\n"), "{said}");
    // No replay, no board; and none of nothing.
    assert_eq!(audit(&url, &policy, &["--board", "x"]).code, Some(2));
    fs::remove_file(&to).expect("a board");
    let board = to.to_str().expect("UTF-8");
    let empty = audit(&url, &policy, &["--replay", "--at", "0", "--board", board]);
    assert_eq!(
        (empty.code, to.exists()),
        (Some(3), false),
        "{}",
        empty.stderr
    );
    // Out of the store of a directory that nobody serves, and going on from an earlier audit.
    rig.service.stop();
    let dir = rig.dir().to_str().expect("UTF-8").to_owned();
    let state = rig.scratch().join("kept.audit");
    let state = ["--state", state.to_str().expect("UTF-8")];
    for taken in &taken {
        taken.is_replayed(&dir, &policy, &to, &state);
    }
    rig.begin_again();
}

#[test]
fn a_reader_of_a_private_account_needs_a_token_and_nothing_else() {
    let site = Site::new();
    let service = site.start.run();
    let token = accounts::token(&site);
    let made = create(&site, "team", &[]);
    let policy = Path::new(made["policy"].as_str().expect("a policy")).to_owned();
    for n in 0..3 {
        let item = json!({"item": {"id": format!("i{n}"), "title": "t"}, "wait": "included"});
        done(&service, &token, ("team", "board_upsert"), &item);
    }
    let secret = site.path("reader.token");
    let out = secret.to_str().expect("UTF-8").to_owned();
    let new = [
        "token",
        "new",
        "visitor",
        "--role",
        "reader",
        "--out",
        &out,
        "--account",
        "team",
    ];
    site.done(&new);
    let exported = done(&service, &token, ("team", "board_export"), &json!({}));
    let taken = Taken::of(&exported["result"]);
    let url = format!("{}/log/team", service.url);
    let (to, shown) = (site.path("board.jsonl"), ["--log-token", &out]);
    taken.is_replayed(&url, &policy, &to, &shown);
    // Without one nothing is told, and nothing is written.
    fs::remove_file(&to).expect("a board");
    let board = to.to_str().expect("UTF-8");
    let refused = audit(&url, &policy, &["--replay", "--board", board]);
    assert_eq!(
        (refused.code, to.exists()),
        (Some(3), false),
        "{}",
        refused.stderr
    );
}
