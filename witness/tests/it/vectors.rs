//! Every vector of the witness kinds, against the real door.

use countersign_verifier::add_checkpoint::{AddCheckpoint, parse_conflict};
use countersign_verifier::note::Note;

use crate::support::{Running, check_lines, logs, text, vectors};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn witness_session() {
    let all = vectors("witness_session");
    assert_eq!(all.len(), 5);
    let mut steps = 0;
    for vector in all {
        let running = Running::memory(&logs(&vector)).await;
        let origin = text(&vector["logs"][0], "origin_line");
        let mut stored = None;
        for step in vector["steps"].as_array().unwrap() {
            let name = format!("{}: {}", text(&vector, "id"), text(step, "name"));
            let request = text(step, "request");
            let (said, expect) = (running.ask(request).await, &step["expect"]);
            assert_eq!(
                u64::from(said.status),
                expect["status"].as_u64().unwrap(),
                "{name}: {}",
                said.body
            );
            if let Some(kind) = expect["content_type"].as_str() {
                assert_eq!(said.kind, kind, "{name}");
            }
            if let Some(body) = expect["body"].as_str() {
                assert_eq!(said.body, body, "{name}");
            }
            if said.status == 200 {
                let note = AddCheckpoint::parse(request.as_bytes()).unwrap().note;
                check_lines(running.witness.keys(), &said.body, note.text);
                let after = &expect["stored_after"];
                stored = Some((
                    after["size"].as_u64().unwrap(),
                    text(after, "root").to_owned(),
                ));
            }
            let shown = running.newest(origin).await;
            let shown = shown.map(|head| (head.size, head.root.to_base64()));
            assert_eq!(shown, stored, "{name}");
            steps += 1;
        }
        running.stop().await;
    }
    assert_eq!(steps, STEPS);
}

/// Steps of all sessions.
const STEPS: usize = 118;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn witness_race() {
    let all = vectors("witness_race");
    assert_eq!(all.len(), 3);
    // 300 rounds over fresh state.
    for round in 0..100 {
        for vector in &all {
            let running = Running::memory(&logs(vector)).await;
            let setup = running.ask(text(vector, "setup")).await;
            assert_eq!(setup.status, 200, "{}", setup.body);
            let (a, b) = (text(vector, "request_a"), text(vector, "request_b"));
            let sizes = ["size_a", "size_b"].map(|size| vector[size].as_u64().unwrap());
            // Neither is always the first to be sent.
            let said = if round % 2 == 0 {
                let (a, b) = tokio::join!(running.ask(a), running.ask(b));
                [a, b]
            } else {
                let (b, a) = tokio::join!(running.ask(b), running.ask(a));
                [a, b]
            };
            let winner = said.iter().position(|s| s.status == 200).expect("one wins");
            let loser = &said[1 - winner];
            assert_eq!(
                (loser.status, loser.kind.as_str()),
                (409, "text/x.tlog.size")
            );
            assert_eq!(loser.body, format!("{}\n", sizes[winner]));
            let origin = text(&vector["logs"][0], "origin_line");
            assert_eq!(running.newest(origin).await.unwrap().size, sizes[winner]);
            running.stop().await;
        }
    }
}

#[test]
fn witness_conflict_response() {
    let all = vectors("witness_conflict_response");
    assert_eq!(all.len(), 10);
    for vector in all {
        let size = parse_conflict(
            text(&vector, "content_type"),
            text(&vector, "body").as_bytes(),
        );
        assert_eq!(size, vector["size"].as_u64(), "{}", text(&vector, "id"));
    }
}

#[test]
fn witness_request() {
    let all = vectors("witness_request");
    assert_eq!(all.len(), 3);
    for vector in all {
        let (id, body) = (text(&vector, "id"), text(&vector, "body"));
        let parsed = AddCheckpoint::parse(body.as_bytes());
        assert_eq!(parsed.is_ok(), vector["valid"] == true, "{id}");
        if let Ok(request) = parsed {
            assert_eq!(request.old.to_string(), text(&vector, "old_size"));
            assert_eq!(
                request.proof.len() as u64,
                vector["proof_hashes"].as_u64().unwrap()
            );
            assert_eq!(
                request.note.signatures.len() as u64,
                vector["signature_lines"].as_u64().unwrap()
            );
            let size = request.note.text.lines().nth(1);
            assert_eq!(size, vector["checkpoint_size"].as_str());
            // T37: cut at the first empty line, the rest as it came.
            let note = body.split_once("\n\n").unwrap().1;
            assert_eq!(Note::parse(note.as_bytes()), Ok(request.note));
        }
    }
}
