//! What an account's owner sets: the bounds of decisions, and how often one may ask.

use serde_json::{Value, json};

use super::recovery::{Site, until};
use crate::rig::{Answer, Call, JSON, Rig, key, possession, receipt, spki};

fn with_token(rig: &Rig, tool: &str, arguments: &Value) -> Answer {
    let bearer = format!("Bearer {}", rig.token());
    let headers = [("content-type", JSON), ("authorization", bearer.as_str())];
    let body = arguments.to_string();
    let target = format!("/v1/{tool}");
    rig.http().send("POST", &target, &headers, body.as_bytes())
}

#[test]
fn settings_are_shown_set_by_the_owners_own_key_and_kept_to() {
    let site = Site::new();
    let _service = site.start.run();
    let set = r#"{"lease_ttl_s_max":60,"lease_ttl_s":30}"#;
    let said = site.done(&["call", "settings_set", "--json", set]);
    assert!(said.contains("\"lease_ttl_s\":30"), "{said}");
    let said = site.done(&["call", "settings_get", "--json", "{}"]);
    assert!(said.contains("\"lease_ttl_s_max\":60"), "{said}");
    let wrong = site.run(&["call", "settings_set", "--json", r#"{"lease_ttl_s":61}"#]);
    assert_eq!(wrong.code, Some(1), "{}", wrong.stderr);
    assert!(
        wrong.stderr.contains("lease_ttl_s: 10 to 60"),
        "{}",
        wrong.stderr
    );
}

#[test]
fn one_more_than_the_quota_is_refused_at_the_door_and_nobody_else_is() {
    let mut rig = Rig::up();
    let worker = key("worker");
    rig.enroll("worker", &worker);
    let set = json!({"requests_per_minute": 60});
    with_token(&rig, "settings_set", &set).problem(403, "ATTRIBUTION_TOO_LOW");
    assert_eq!(rig.call("settings_set", set).status, 200);
    let shown = with_token(&rig, "settings_get", &json!({})).json();
    assert_eq!(shown["result"]["settings"]["requests_per_minute"], 60);
    let listed = || with_token(&rig, "board_list", &json!({}));
    // One a second comes back: a machine that answers fewer than that has other troubles.
    let refused = (0..600)
        .map(|_| listed())
        .find(|answer| answer.status != 200);
    let refused = refused.expect("a quota");
    let size = rig.size();
    let problem = refused.problem(429, "RATE_LIMITED");
    assert_eq!(problem["limit"], 60);
    assert!((1..=1_000).contains(&refused.json()["retry_after_ms"].as_u64().unwrap()));
    assert_eq!(refused.header("retry-after"), Some("1"));
    let upsert = Call::new("board_upsert", json!({"item": {"id": "a", "title": "A"}}));
    assert_eq!(rig.call_as(&worker, &upsert).status, 200);
    assert_eq!(rig.size(), size + 1, "what was refused is no leaf");
    until("a call is to be had again", || {
        with_token(&rig, "board_list", &json!({})).status == 200
    });
    let another = key("another");
    let arguments = json!({"name": "another", "public_key": spki(&another), "possession": possession(&another)});
    until("and a signed one", || {
        rig.call("identity_enroll", arguments.clone()).status == 200
    });
}

#[test]
fn receipts_have_a_quota_of_their_own_by_who_signed_them() {
    let mut rig = Rig::up();
    let worker = key("worker");
    rig.enroll("worker", &worker);
    assert_eq!(
        rig.call("settings_set", json!({"receipts_per_minute": 60}))
            .status,
        200
    );
    let owner = rig.owner();
    let lines: Vec<_> = (0..600)
        .map(|n| receipt(&format!("{n}"), &owner).to_json())
        .collect();
    let before = rig.size();
    let rows = rig.submit_lines(&lines);
    let taken = rows.iter().filter(|row| row["status"] == 200).count();
    assert!((60..600).contains(&taken), "{taken}");
    assert_eq!(
        rig.size() - before,
        taken as u64,
        "what was refused is no leaf"
    );
    let refused = rows.iter().find(|row| row["status"] != 200).unwrap();
    assert_eq!(
        (&refused["status"], &refused["code"]),
        (&json!(429), &json!("RATE_LIMITED")),
        "{refused}"
    );
    assert_eq!(rig.submit(&receipt("another's", &worker)).status, 200);
    // Handed in again by anybody, what a signer has signed costs nobody anything.
    let again: Vec<_> = (0..200)
        .map(|_| receipt("another's", &worker).to_json())
        .collect();
    for row in rig.submit_lines(&again) {
        assert_eq!(
            (&row["status"], &row["duplicate"]),
            (&json!(200), &json!(true)),
            "{row}"
        );
    }
    assert_eq!(
        rig.submit(&receipt("another of another's", &worker)).status,
        200
    );
    // Calls are counted apart.
    assert_eq!(with_token(&rig, "settings_get", &json!({})).status, 200);
}
