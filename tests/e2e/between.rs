//! `kill -9` between commit and answer: of what was decided nothing is lost and nothing granted twice, and the repeat is answered
//! with the first result.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use countersign_verifier::{leaf::Leaf, operation::Operation};
use serde_json::{Value, json};

use super::sessions::{begin, checkin, within};
use crate::rig::{Answer, Call, JSON, Rig, head, key, rounds};

/// Sends a call and stands in its way back: at the first byte of the answer, which comes after the commit, the service is killed, and
/// its client gets nothing.
fn lose_the_answer(rig: &mut Rig, call: &Call, who: &str) {
    let body = call.body(&key(who)).to_string();
    let target = format!("/v1/{}", call.tool);
    let length = body.len().to_string();
    let headers = [("content-type", JSON), ("content-length", length.as_str())];
    let request = head("POST", &target, &headers) + "\r\n" + &body;
    let mut stream = TcpStream::connect(rig.service.address).expect("a connection");
    stream
        .set_read_timeout(Some(Duration::from_secs(90)))
        .expect("a time-out");
    stream.write_all(request.as_bytes()).expect("the request");
    stream.read_exact(&mut [0]).expect("an answer begins");
    rig.service.kill();
}

fn again(rig: &Rig, call: &Call, who: &str) -> Answer {
    let body = call.body(&key(who)).to_string();
    let target = format!("/v1/{}", call.tool);
    rig.http().post(&target, JSON, body.as_bytes())
}

/// The indexes of the leaves that hold this call.
fn leaves_of(rig: &Rig, call: &Call) -> Vec<u64> {
    let holds = |leaf: &[u8]| match Leaf::parse(leaf) {
        Ok(Leaf::Operation(leaf)) => {
            Operation::parse(&leaf.envelope.payload)
                .expect("an operation")
                .nonce
                == call.nonce
        }
        _ => false,
    };
    let all = (0..).zip(rig.auditor.leaves());
    let found = all.filter(|(_, leaf)| holds(leaf));
    found.map(|(index, _)| index).collect()
}

#[test]
fn what_was_committed_and_not_answered_is_answered_with_the_first_result() {
    let mut rig = Rig::up();
    for name in ["one", "two"] {
        rig.enroll(name, &key(name));
    }
    let sessions = ["one", "two"].map(|name| begin(&mut rig, &key(name), &json!({})));
    let mut fences = Vec::new();
    for round in 0..rounds(1) {
        for n in 0..2 {
            let item = json!({"item": {"id": format!("T-{round}-{n}"), "title": "t"}});
            assert_eq!(rig.call("board_upsert", item).status, 200);
        }
        let on = |what: &str| json!({"resource": format!("item:{what}-{round}")});
        // Some answered once committed, some once that is signed and published.
        let calls: [(&str, Value, Option<&str>); 6] = [
            ("ars_lease_acquire", on("A"), Some("sequenced")),
            ("ars_lease_acquire", on("B"), None),
            ("ars_start", json!({}), Some("sequenced")),
            (
                "board_upsert",
                json!({"item": {"title": "named by its leaf"}}),
                Some("sequenced"),
            ),
            (
                "ars_session_checkin",
                checkin(&json!({})),
                Some("sequenced"),
            ),
            (
                "board_comment",
                json!({"id": format!("nothing-{round}"), "text": "x"}),
                Some("sequenced"),
            ),
        ];
        for (tool, arguments, wait) in calls {
            let mut call = match tool {
                "ars_session_checkin" => Call::new(tool, arguments),
                _ => within(&sessions[0], tool, arguments),
            };
            if let Some(wait) = wait {
                call.beside.insert("wait".into(), wait.into());
            }
            lose_the_answer(&mut rig, &call, "one");
            rig.begin_again();
            let first = again(&rig, &call, "one");
            let second = again(&rig, &call, "one");
            assert_eq!(
                first.status,
                if tool == "board_comment" { 404 } else { 200 },
                "{}",
                first.text()
            );
            rig.check();
            let [first, second] = [first.json(), second.json()];
            let index = first["entry"]["index"].as_u64().expect("an index");
            assert_eq!(leaves_of(&rig, &call), [index], "{tool}: one leaf");
            assert_eq!(first["entry"]["index"], second["entry"]["index"], "{tool}");
            for member in ["lease_id", "fence", "session_id", "item"] {
                assert_eq!(first["result"][member], second["result"][member], "{tool}");
            }
            fences.extend(first["result"]["fence"].as_u64());
            fences.extend(first["result"]["lease"]["fence"].as_u64());
        }
        // What nobody was told of is held all the same.
        let other = within(&sessions[1], "ars_lease_acquire", on("A"));
        let refused = rig.call_as(&key("two"), &other);
        let detail = refused.problem(409, "LEASE_CONFLICT");
        assert_eq!(detail["holder"]["session_id"], sessions[0].as_str());
        let next = rig.call_as(&key("two"), &within(&sessions[1], "ars_start", json!({})));
        fences.extend(next.json()["result"]["lease"]["fence"].as_u64());
    }
    assert!(
        fences.len() >= 4 && fences.is_sorted_by(|a, b| a < b),
        "{fences:?}"
    );
    let policy = rig.service.policy.clone();
    let url = format!("{}/log/dev", rig.service.url);
    super::audit::audit(&url, &policy, &["--replay"]).holds(&["witnesses"]);
}
