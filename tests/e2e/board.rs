//! The board: a file that comes in and goes out, work that two share, lists that stand still while others write.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Output,
    thread,
};

use countersign_verifier::{hash::sha256, json::canonical};
use serde_json::{Value, json};

use crate::rig::{Answer, JSON, Rig, clean, countersign};

/// A board of so many items, as another writer of the format would make it: members sorted, one object a line.
pub(super) fn file(count: usize) -> String {
    let item = |n: usize| {
        let status = ["pending", "done", "active", "pending"][n % 4];
        let parity = if n.is_multiple_of(2) { "even" } else { "odd" };
        let before: Vec<String> = n
            .checked_sub(4)
            .map(|n| format!("T-{n:03}"))
            .into_iter()
            .collect();
        let mut item = json!({
            "id": format!("T-{n:03}"),
            "title": format!("Item {n}: cafe\u{301}"),
            "description": "one\r\ntwo\tthree\u{2028}four \"five\" \\ \u{7}",
            "status": status,
            "priority": n % 5,
            "tags": ["docs", parity],
            "depends_on": before,
            "acceptance_criteria": ["it works"],
            "review_required": n.is_multiple_of(7),
            "links": [{"rel": "relates", "target": "https://example.com/1"}],
            "comments": [{"id": format!("c_{n}"), "author": "somebody", "at": "2026-01-02T03:04:05.678Z", "text": "a\r\nb"}],
            "version": n + 1,
            "created_at": "2026-01-01T00:00:00.000Z",
            "updated_at": "2026-01-02T03:04:05.678Z",
            "extra": {"legacy": {"n": n}},
            "x_of_a_later_release": [1, {"a": null}],
        });
        if n % 4 == 1 {
            item["done_at"] = "2026-01-02T00:00:00.000Z".into();
        }
        canonical(&item)
    };
    let mut text = canonical(&json!({"count": count, "format": "countersign.board/1"})) + "\n";
    for n in 0..count {
        text += &(item(n) + "\n");
    }
    let digest = sha256(text.as_bytes()).to_hex();
    text + &json!({ "sha256": digest }).to_string() + "\n"
}

/// A call with the owner's token.
pub(super) fn token_call(rig: &Rig, tool: &str, arguments: &Value) -> Answer {
    let token = format!("Bearer {}", rig.token());
    let headers = [("content-type", JSON), ("authorization", token.as_str())];
    let body = arguments.to_string();
    rig.http()
        .send("POST", &format!("/v1/{tool}"), &headers, body.as_bytes())
}

pub(super) fn result(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["result"].clone()
}

fn board(dir: &Path, args: &[&str]) -> Output {
    let output = clean(countersign())
        .arg("board")
        .args(args)
        .arg("--dir")
        .arg(dir)
        .output();
    output.expect("countersign board")
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_file_comes_in_and_goes_out_byte_for_byte() {
    // B142, B147
    let mut rig = Rig::up();
    let content = file(118);
    let (path, out) = (
        rig.scratch().join("board.jsonl"),
        rig.scratch().join("out.jsonl"),
    );
    std::fs::write(&path, &content).unwrap();
    let (path, out) = (
        path.to_str().unwrap().to_owned(),
        out.to_str().unwrap().to_owned(),
    );
    let before = rig.size();
    let shown = stdout(&board(rig.dir(), &["import", &path]));
    assert!(
        shown.contains("118 new, 0 to change, 0 to pass over"),
        "{shown}"
    );
    assert_eq!(rig.size(), before, "a dry run writes nothing");
    let done = stdout(&board(rig.dir(), &["import", &path, "--apply", "--json"]));
    let done: Value = serde_json::from_str(&done).unwrap();
    assert_eq!(done["applied"], 118);
    rig.check();
    let size = rig.size();
    assert_eq!(size - before, done["parts"].as_u64().unwrap());
    stdout(&board(rig.dir(), &["export", &out]));
    assert_eq!(std::fs::read_to_string(&out).unwrap(), content);
    let again = stdout(&board(rig.dir(), &["import", &path, "--apply"]));
    assert!(
        again.contains("0 new, 0 changed, 118 passed over"),
        "{again}"
    );
    assert_eq!(rig.size(), size, "twice is once");
    for asked in [
        json!({"against": "replay"}),
        json!({"against": "snapshot", "content": content}),
        json!({"against": "snapshot", "sha256": sha256(content.as_bytes()).to_hex()}),
    ] {
        let parity = result(&token_call(&rig, "parity_check", &asked));
        assert_eq!(
            (&parity["drift"], &parity["ours"]["items"]),
            (&json!(0), &json!(118))
        );
    }
    // Another account, from the same file, converted on the way, with a token alone.
    let other = Rig::up();
    let converted = format!("\u{feff}{}", content.replace('\n', "\r\n"));
    let asked = json!({"format": "countersign.board/1", "content": converted, "dry_run": false});
    let done = result(&token_call(&other, "board_import", &asked));
    assert_eq!(done["applied"], 118);
    let exported = result(&token_call(&other, "board_export", &json!({})));
    assert_eq!(exported["content"], content);
    let again = result(&token_call(&other, "board_import", &asked));
    assert_eq!((&again["applied"], &again["parts"]), (&json!(0), &json!(0)));
    // What differs is named.
    let upsert = json!({"item": {"id": "T-000", "title": "other"}});
    result(&token_call(&other, "board_upsert", &upsert));
    let parity = json!({"against": "snapshot", "content": content});
    let parity = result(&token_call(&other, "parity_check", &parity));
    assert_eq!(parity["drift"], 1);
    let fields = json!(["title", "updated_at", "version"]);
    assert_eq!(parity["differ"], json!([{"id": "T-000", "fields": fields}]));
    // The board survives a restart, and the audit's own replay agrees with it.
    rig.crash();
    let exported = result(&token_call(&rig, "board_export", &json!({})));
    assert_eq!(exported["content"], content);
    let markdown = stdout(&board(rig.dir(), &["export", "--format", "markdown"]));
    assert!(
        markdown.contains("## pending") && markdown.contains("`T-000`"),
        "{markdown}"
    );
    let listed = stdout(&board(rig.dir(), &["list", "--tag", "even", "--json"]));
    assert_eq!(listed.lines().count(), 59);
}

#[test]
fn what_is_no_board_is_refused_with_its_line() {
    let rig = Rig::up();
    let content = file(3);
    let import = |content: &str| {
        let asked = json!({"format": "countersign.board/1", "content": content});
        token_call(&rig, "board_import", &asked)
    };
    let broken = content.replace("\"priority\":1", "\"priority\":1.5");
    assert_eq!(import(&broken).problem(422, "PARSE_ERROR")["line"], 3);
    import(&content.replace("Item 1", "Item 9")).problem(422, "DIGEST_MISMATCH");
    let path = rig.scratch().join("cut.jsonl");
    std::fs::write(&path, &content[..content.len() / 2]).unwrap();
    let output = board(rig.dir(), &["import", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("line 3"), "{said}");
    let missing = board(rig.dir(), &["import", "no such file"]);
    assert_eq!(missing.status.code(), Some(2), "{missing:?}");
}

#[test]
fn a_list_stands_still_while_others_write() {
    let (rig, other) = (Rig::up(), Rig::up());
    for n in 0..5 {
        let item = json!({"item": {"id": format!("T-{n}"), "title": "t"}});
        result(&token_call(&rig, "board_upsert", &item));
        result(&token_call(&other, "board_upsert", &item));
    }
    let page = |rig: &Rig, asked: Value| token_call(rig, "board_list", &asked);
    let first = page(&rig, json!({"limit": 2, "status": "pending"})).json();
    let cursor = first["result"]["next"].as_str().unwrap().to_owned();
    // What is behind the cursor changes its place, and something new comes before and behind it.
    result(&token_call(
        &rig,
        "board_resolve",
        &json!({"id": "T-3", "outcome": "done"}),
    ));
    for id in ["T-1x", "T-9"] {
        let item = json!({"item": {"id": id, "title": "t"}});
        result(&token_call(&rig, "board_upsert", &item));
    }
    let (mut ids, mut cursor) = (
        vec!["T-0".to_owned(), "T-1".to_owned()],
        Value::from(cursor),
    );
    let kept = cursor.clone();
    while !cursor.is_null() {
        let asked = json!({"limit": 2, "status": "pending", "cursor": cursor});
        let body = page(&rig, asked).json();
        assert_eq!(body["as_of"], first["as_of"]);
        let items = body["result"]["items"].as_array().unwrap().clone();
        ids.extend(
            items
                .iter()
                .map(|item| item["id"].as_str().unwrap().to_owned()),
        );
        cursor = body["result"]["next"].clone();
    }
    assert_eq!(ids, ["T-0", "T-1", "T-2", "T-3", "T-4"]);
    let with = |cursor: &Value| json!({"limit": 2, "status": "pending", "cursor": cursor});
    page(&other, with(&kept)).problem(400, "MALFORMED");
    page(&rig, json!({"cursor": kept})).problem(400, "MALFORMED");
    page(&rig, with(&json!("x"))).problem(400, "MALFORMED");
    let mut rig = rig;
    rig.restart();
    page(&rig, with(&kept)).problem(410, "CURSOR_EXPIRED");
}

#[test]
fn b139_an_export_is_the_board_at_the_size_that_it_names() {
    let (mut rig, other) = (Rig::up(), Rig::up());
    let shared = &rig;
    let (written, exports) = thread::scope(|scope| {
        let write = |n: usize| {
            let (id, title) = (format!("T-{}", n % 7), n.to_string());
            let asked = json!({"item": {"id": id, "title": title}, "wait": "sequenced"});
            let answer = token_call(shared, "board_upsert", &asked).json();
            let index = answer["entry"]["index"].as_u64().expect("an index");
            (index, id, title)
        };
        let writer = scope.spawn(move || (0..80).map(write).collect::<Vec<_>>());
        let mut exports = Vec::new();
        while !writer.is_finished() || exports.is_empty() {
            exports.push(token_call(shared, "board_export", &json!({})).json());
        }
        (writer.join().unwrap(), exports)
    });
    for export in &exports {
        let size = export["as_of"]["size"].as_u64().expect("the size");
        let below = written.iter().filter(|(index, ..)| *index < size);
        let expected: BTreeMap<&str, &str> =
            below.map(|(_, id, title)| (&**id, &**title)).collect();
        let content = export["result"]["content"].as_str().expect("a file");
        let lines: Vec<Value> = content
            .lines()
            .map(|line| serde_json::from_str(line).expect("a line"))
            .collect();
        let found: BTreeMap<&str, &str> = lines
            .iter()
            .filter_map(|line| Some((line["id"].as_str()?, line["title"].as_str()?)))
            .collect();
        assert_eq!(found, expected, "at size {size}");
    }
    // Elsewhere it is what it was.
    let content = &exports.last().expect("an export")["result"]["content"];
    let asked = json!({"format": "countersign.board/1", "content": content, "dry_run": false});
    result(&token_call(&other, "board_import", &asked));
    let there = result(&token_call(&other, "board_export", &json!({})));
    assert_eq!(&there["content"], content);
    rig.check();
}

#[test]
fn what_a_tool_refuses_is_said_by_its_code() {
    let rig = Rig::up();
    let upsert = |item: Value, more: Value| {
        let mut call = json!({ "item": item });
        call.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        token_call(&rig, "board_upsert", &call)
    };
    result(&upsert(
        json!({"id": "build-bot", "title": "t"}),
        json!({"if_version": 0}),
    ));
    result(&upsert(
        json!({"id": "build-top", "title": "t", "depends_on": ["build-bot"]}),
        json!({}),
    ));
    upsert(
        json!({"id": "build-bot", "title": "t"}),
        json!({"if_version": 9}),
    )
    .problem(412, "VERSION_MISMATCH");
    upsert(json!({"id": "Build-b\u{43e}t", "title": "t"}), json!({})).problem(409, "ID_TAKEN");
    upsert(
        json!({"id": "build-bot", "depends_on": ["build-top"]}),
        json!({}),
    )
    .problem(422, "DEPENDENCY_CYCLE");
    upsert(json!({"id": "build-bot"}), json!({"fence": 1})).problem(409, "STALE_FENCE");
    let get = |id: &str| token_call(&rig, "board_get", &json!({ "id": id }));
    let problem = get("build").problem(409, "AMBIGUOUS_ID");
    assert_eq!(problem["ids"], json!(["build-bot", "build-top"]));
    assert_eq!(result(&get("build-b"))["item"]["id"], "build-bot");
    get("nothing").problem(404, "NOT_FOUND");
    let answer = upsert(json!({"id": "x", "title": "t", "colour": "red"}), json!({}));
    let detail = answer.problem(400, "UNKNOWN_ARGUMENT");
    assert_eq!(detail["argument"], "item/colour");
}

/// Two workers take what is ready until nothing is left: nothing twice, nothing left over.
#[test]
fn two_workers_drain_a_board() {
    let mut rig = Rig::up();
    let count = 1_000;
    let mut text = canonical(&json!({"count": count, "format": "countersign.board/1"})) + "\n";
    for n in 0..count {
        text += &(json!({"id": format!("T-{n:04}"), "title": "t"}).to_string() + "\n");
    }
    let digest = sha256(text.as_bytes()).to_hex();
    text += &json!({ "sha256": digest }).to_string();
    let asked = json!({"format": "countersign.board/1", "content": text, "dry_run": false});
    assert_eq!(
        result(&token_call(&rig, "board_import", &asked))["applied"],
        count
    );
    let taken: Vec<Vec<(String, u64)>> = thread::scope(|scope| {
        let rig = &rig;
        let work = move || {
            let checkin = json!({"role": "owner", "harness": {"name": "worker"}, "clock": "2026-11-29T13:00:00.000Z"});
            let (mut asked, mut taken) = (
                json!({ "checkin": checkin, "wait": "sequenced" }),
                Vec::new(),
            );
            loop {
                let started = result(&token_call(rig, "ars_start", &asked));
                let session = started["session_id"].clone();
                asked = json!({"session_id": session, "wait": "sequenced"});
                if started["item"].is_null() {
                    return taken;
                }
                let (id, fence) = (
                    started["item"]["id"].clone(),
                    started["lease"]["fence"].clone(),
                );
                let done = json!({"id": id, "outcome": "done", "fence": fence, "session_id": session, "wait": "sequenced"});
                result(&token_call(rig, "board_resolve", &done));
                taken.push((id.as_str().unwrap().to_owned(), fence.as_u64().unwrap()));
            }
        };
        let workers = [scope.spawn(work), scope.spawn(work)];
        workers.map(|worker| worker.join().unwrap()).into()
    });
    // Each worker's fences rise, and no item and no fence was given twice.
    assert!(taken.iter().all(|by| by.is_sorted_by(|a, b| a.1 < b.1)));
    let all: BTreeMap<String, u64> = taken.iter().flatten().cloned().collect();
    let fences: BTreeSet<u64> = all.values().copied().collect();
    let claims: usize = taken.iter().map(Vec::len).sum();
    assert_eq!((claims, all.len(), fences.len()), (count, count, count));
    assert!(taken.iter().all(|by| !by.is_empty()), "both had work");
    rig.check();
    let parity = result(&token_call(
        &rig,
        "parity_check",
        &json!({"against": "replay"}),
    ));
    assert_eq!(parity["drift"], 0);
}
