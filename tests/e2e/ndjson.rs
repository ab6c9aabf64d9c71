//! Many receipts in one body.

use serde_json::{Value, json};

use crate::rig::{JSON, NDJSON, Rig, check_problem, key, receipt, receipts};

#[test]
fn each_line_is_answered_in_order_and_a_bad_one_stops_no_other() {
    let mut rig = Rig::up();
    let owner = rig.owner();
    let before = rig.size();
    let mut failing = receipt("failing", &owner);
    failing.signatures[0].sig[0] ^= 1;
    let lines: Vec<Vec<u8>> = vec![
        receipt("one", &owner).to_json(),
        b"not json".to_vec(),
        receipt("stranger", &key("stranger")).to_json(),
        failing.to_json(),
        b"{\"payloadType\":\"\"}".to_vec(),
        receipt("two", &owner).to_json(),
    ];
    let answers = rig.submit_lines(&lines);
    let expected = [
        (200, None),
        (400, Some("MALFORMED")),
        (401, Some("SIGNER_UNKNOWN")),
        (422, Some("SIGNATURE_INVALID")),
        (400, Some("MALFORMED")),
        (200, None),
    ];
    assert_eq!(answers.len(), expected.len());
    for (n, (answer, (status, code))) in answers.iter().zip(expected).enumerate() {
        assert_eq!(answer["line"], n + 1, "{answer}");
        assert_eq!(answer["status"], status, "{answer}");
        if let Some(code) = code {
            check_problem(answer, code);
            assert_eq!(answer["detail"]["line"], n + 1, "{answer}");
        }
    }
    assert_eq!(answers[0]["index"], before);
    assert_eq!(answers[5]["index"], before + 1);
    assert_eq!(rig.size(), before + 2);
}

#[test]
fn blank_lines_are_skipped_and_counted() {
    let mut rig = Rig::up();
    let owner = rig.owner();
    let line = |n: &str| String::from_utf8(receipt(n, &owner).to_json()).unwrap();
    let body = format!("\n{}\r\n  \n\t\n{}\n\n{}", line("a"), line("b"), line("c"));
    let answer = rig.http().post(&receipts(""), NDJSON, body.as_bytes());
    let rows = answer.lines();
    let numbers: Vec<&Value> = rows.iter().map(|row| &row["line"]).collect();
    assert_eq!(numbers, [&json!(2), &json!(5), &json!(7)]);
    assert!(rows.iter().all(|row| row["status"] == 200), "{rows:?}");
    for body in ["", "\n", " \n\n"] {
        let answer = rig.http().post(&receipts(""), NDJSON, body.as_bytes());
        assert_eq!((answer.status, answer.lines().len()), (200, 0));
    }
    rig.check();
}

#[test]
fn a_body_has_its_limits_and_beyond_them_nothing_is_taken() {
    let mut rig = Rig::up();
    let owner = rig.owner();
    let before = rig.size();
    let mut lines: Vec<Vec<u8>> = (0..1_001)
        .map(|n| receipt(&format!("{n}"), &owner).to_json())
        .collect();
    let answer = rig.http().post(&receipts(""), NDJSON, &lines.join(&b'\n'));
    let detail = answer.problem(413, "TOO_LARGE");
    assert_eq!(
        (&detail["limit"], &detail["lines"]),
        (&json!(1_000), &json!(1_001))
    );
    assert_eq!(rig.size(), before);
    // One byte more than 16 MiB, of a first line that would do alone.
    let mut body = lines[0].clone();
    body.resize((16 << 20) + 1, b'\n');
    let answer = rig.http().post(&receipts(""), NDJSON, &body);
    let detail = answer.problem(413, "TOO_LARGE");
    assert_eq!(detail["limit"], 16 << 20);
    assert_eq!(rig.size(), before);
    // Exactly both limits.
    lines.pop();
    let mut body = lines.join(&b'\n');
    body.resize(16 << 20, b'\n');
    let rows = rig.http().post(&receipts(""), NDJSON, &body).lines();
    assert_eq!(rows.len(), 1_000);
    for (n, row) in (0..).zip(&rows) {
        assert_eq!(
            (&row["line"], &row["index"]),
            (&json!(n + 1), &json!(before + n))
        );
    }
    rig.check();
    assert_eq!(rig.size(), before + 1_000);
}

#[test]
fn what_is_asked_holds_for_every_line() {
    let mut rig = Rig::up();
    let owner = rig.owner();
    let body = [
        receipt("a", &owner).to_json(),
        receipt("b", &owner).to_json(),
    ]
    .join(&b'\n');
    let answer = rig.http().post(&receipts("?include=proof"), NDJSON, &body);
    assert!(
        answer
            .lines()
            .iter()
            .all(|row| row["proof"].is_string() && row["state"] == "included")
    );
    let answer = rig.http().post(&receipts("?wait=soon"), NDJSON, &body);
    answer.problem(400, "MALFORMED");
    // The body's type is the whole body's: lines are no JSON value.
    rig.http()
        .post(&receipts(""), JSON, &body)
        .problem(400, "MALFORMED");
    rig.check();
}

#[test]
fn an_owners_token_changes_the_code_of_a_line_as_of_a_body() {
    let rig = Rig::up();
    let body = receipt("stranger", &key("stranger")).to_json();
    let token = format!("Bearer {}", rig.token());
    let headers = [("content-type", NDJSON), ("authorization", token.as_str())];
    let rows = rig
        .http()
        .send("POST", &receipts(""), &headers, &body)
        .lines();
    assert_eq!(rows[0]["status"], 403);
    check_problem(&rows[0], "SIGNER_UNKNOWN");
}
