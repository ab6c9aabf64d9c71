//! `audit --replay --nouns`: all that the leaves make, at any size, is what the service's own lists said then.

use std::{collections::BTreeMap, fs, path::Path};

use countersign_verifier::key::PrivateKey;
use serde_json::{Value, json};

use super::{
    audit::audit,
    board::{file, result, token_call},
    sessions::{begin, within},
};
use crate::rig::{Call, Rig, key};

/// Every list that the service has, all pages, by noun.
fn listed(rig: &Rig) -> BTreeMap<&'static str, Vec<Value>> {
    let pages = |tool: &str, name: &str, more: Value| {
        let (mut rows, mut asked) = (Vec::new(), more);
        asked["limit"] = json!(7);
        loop {
            let page = result(&token_call(rig, tool, &asked));
            rows.extend(page[name].as_array().expect("rows").iter().cloned());
            if page["next"].is_null() {
                return rows;
            }
            asked["cursor"] = page["next"].clone();
        }
    };
    let mut policy = result(&token_call(rig, "policy_get", &json!({})));
    policy.as_object_mut().expect("an object").remove("offered");
    let settings = result(&token_call(rig, "settings_get", &json!({})));
    let mut leases = pages("ars_lease_list", "leases", json!({}));
    let ended = json!({"filter": {"state": "ended"}});
    leases.extend(pages("ars_lease_list", "leases", ended));
    BTreeMap::from([
        ("identity", pages("identity_list", "identities", json!({}))),
        ("token", pages("token_list", "tokens", json!({}))),
        ("head", pages("head_list", "logs", json!({}))),
        ("session", pages("ars_session_list", "sessions", json!({}))),
        ("lease", leases),
        ("item", pages("board_list", "items", json!({}))),
        ("policy", vec![policy]),
        ("settings", vec![settings["settings"].clone()]),
    ])
}

/// A row without what depends on when one asks.
fn timeless(row: &mut Value) {
    if let Some(row) = row.as_object_mut() {
        row.remove("expires_in_ms");
        row.remove("good");
        for lease in row
            .get_mut("leases")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            timeless(lease);
        }
    }
}

/// What was listed at a size.
struct Taken {
    size: u64,
    rows: BTreeMap<&'static str, Vec<Value>>,
}

impl Taken {
    fn of(rig: &mut Rig) -> Taken {
        // Nothing falls due meanwhile: everything here runs for minutes.
        let mut rows = listed(rig);
        rows.values_mut().flatten().for_each(timeless);
        rig.check();
        Taken {
            size: rig.size(),
            rows,
        }
    }

    /// What a replay writes at this size says the same, noun by noun and in order.
    fn is_replayed(&self, log: &str, policy: &Path, to: &Path) {
        let (at, file) = (self.size.to_string(), to.to_str().expect("UTF-8"));
        let audited = audit(log, policy, &["--replay", "--at", &at, "--nouns", file]);
        assert_eq!(
            audited.code,
            Some(0),
            "{} {}",
            audited.report,
            audited.stderr
        );
        let text = fs::read_to_string(to).expect("the file");
        let mut lines = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let head = lines.next().expect("a head");
        assert_eq!(head["format"], "countersign.state/1");
        assert_eq!(
            (&head["size"], &head["origin"]),
            (&json!(self.size), &json!("localhost/dev"))
        );
        assert_eq!(audited.report["nouns"]["root"], head["root"]);
        let mut found: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for mut line in lines {
            let noun = line["noun"].as_str().expect("a noun").to_owned();
            found.entry(noun).or_default().push(line["row"].take());
        }
        assert_eq!(found.remove("opened").map(|rows| rows.len()), Some(1));
        assert_eq!(
            found.remove("receipt_policy").map(|rows| rows.len()),
            Some(1)
        );
        for (noun, rows) in &self.rows {
            let replayed = found.remove(*noun).unwrap_or_default();
            assert_eq!(&replayed, rows, "{noun} at {}", self.size);
        }
        assert_eq!(found, BTreeMap::new());
    }
}

#[test]
fn every_noun_at_any_size_is_what_the_lists_said_then() {
    let mut rig = Rig::up();
    let mut taken = vec![Taken::of(&mut rig)];
    let (ann, bob) = (key("ann"), key("bob"));
    rig.enroll("ann", &ann);
    let bob_at = rig.enroll("bob", &bob);
    let work = json!({"role": "agent", "ttl_s": 900});
    let (at_ann, at_bob) = (begin(&mut rig, &ann, &work), begin(&mut rig, &bob, &work));
    let lease = |resource: &str| json!({"resource": resource, "ttl_s": 800});
    let call = |rig: &mut Rig, who: &PrivateKey, session: &str, tool: &str, asked| {
        let answer = rig.call_as(who, &within(session, tool, asked));
        assert_eq!(answer.status, 200, "{tool}: {}", answer.text());
        answer.json()["result"].clone()
    };
    for n in 0..9 {
        call(
            &mut rig,
            &ann,
            &at_ann,
            "ars_lease_acquire",
            lease(&format!("path:site:a{n}/**")),
        );
    }
    let held = call(
        &mut rig,
        &bob,
        &at_bob,
        "ars_lease_acquire",
        lease("path:site:b/**"),
    );
    taken.push(Taken::of(&mut rig));
    let back = json!({"lease_id": held["lease_id"], "fence": held["fence"]});
    call(&mut rig, &bob, &at_bob, "ars_lease_release", back);
    let board = json!({"format": "countersign.board/1", "content": file(20), "dry_run": false});
    result(&token_call(&rig, "board_import", &board));
    taken.push(Taken::of(&mut rig));
    let out = json!({"outcome": "delivered"});
    call(&mut rig, &ann, &at_ann, "ars_session_checkout", out);
    for (tool, asked) in [
        ("settings_set", json!({"lease_ttl_s_max": 3600})),
        (
            "policy_set",
            json!({"text": "permit (principal, action, resource);"}),
        ),
        ("receipt_policy", json!({"threshold": 2})),
        (
            "token_new",
            json!({"identity": ann.public().identity().to_string(), "token_sha256": "ab".repeat(32)}),
        ),
        (
            "head_track",
            json!({"vkey": "sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8", "origin": "go.sum database tree"}),
        ),
        (
            "identity_revoke",
            json!({"identity": bob.public().identity().to_string(), "reason": "left"}),
        ),
    ] {
        let answer = rig.call(tool, asked);
        assert_eq!(answer.status, 200, "{tool}: {}", answer.text());
    }
    taken.push(Taken::of(&mut rig));
    assert!(
        taken[3].rows["identity"]
            .iter()
            .any(|row| row["revoked_index"].as_u64() > Some(bob_at))
    );
    let policy = rig.service.policy.clone();
    let (url, to) = (
        format!("{}/log/dev", rig.service.url),
        rig.scratch().join("state.jsonl"),
    );
    for taken in &taken {
        taken.is_replayed(&url, &policy, &to);
    }
    // One file to standard output, never two; and none without a replay.
    for args in [
        &["--replay", "--board", "-", "--nouns", "-"][..],
        &["--nouns", "x"],
    ] {
        assert_eq!(audit(&url, &policy, args).code, Some(2), "{args:?}");
    }
    // A refusal is a leaf that changes none of it.
    let refused = rig.call_as(
        &bob,
        &Call::new("board_comment", json!({"id": "T-001", "text": "x"})),
    );
    assert_ne!(refused.status, 200);
}
