//! Many accounts in one service: made by command, opened on demand, and nothing of one in another.

use std::{collections::BTreeSet, fs, io::Write as _, net::TcpStream, thread};

use countersign_verifier::{key::PrivateKey, leaf::Leaf, operation::Operation};
use serde_json::{Value, json};

use super::recovery::{Site, until};
use crate::rig::{Answer, Call, JSON, Service, Start, head, hex, key, spki, token_hash};

/// The owner's token.
pub(super) fn token(site: &Site) -> String {
    let token = fs::read_to_string(site.start.dir.join("owner.token")).expect("owner.token");
    token.trim().to_owned()
}

/// A call with a token.
pub(super) fn call(
    service: &Service,
    token: &str,
    (account, tool): (&str, &str),
    arguments: &Value,
) -> Answer {
    let bearer = format!("Bearer {token}");
    let headers = [("content-type", JSON), ("authorization", bearer.as_str())];
    let target = match account {
        "" => format!("/v1/{tool}"),
        account => format!("/v1/{tool}?account={account}"),
    };
    let body = arguments.to_string();
    service
        .http()
        .send("POST", &target, &headers, body.as_bytes())
}

/// The same, which must succeed.
pub(super) fn done(service: &Service, token: &str, to: (&str, &str), arguments: &Value) -> Value {
    let answer = call(service, token, to, arguments);
    assert_eq!(answer.status, 200, "{to:?}: {}", answer.text());
    answer.json()
}

pub(super) fn get(service: &Service, token: Option<&str>, target: &str) -> Answer {
    let bearer = token.map(|token| format!("Bearer {token}"));
    let headers: Vec<(&str, &str)> = bearer
        .iter()
        .map(|b| ("authorization", b.as_str()))
        .collect();
    service.http().send("GET", target, &headers, b"")
}

/// A call signed for the log of this origin.
fn signed(
    service: &Service,
    who: &PrivateKey,
    origin: &str,
    (tool, arguments): (&str, Value),
) -> Answer {
    let call = Call {
        log: origin.into(),
        ..Call::new(tool, arguments)
    };
    let target = format!("/v1/{tool}");
    let body = call.body(who).to_string();
    service.http().post(&target, JSON, body.as_bytes())
}

/// Makes an account; what was said of it.
pub(super) fn create(site: &Site, name: &str, more: &[&str]) -> Value {
    let said = site.done(&[&["account", "create", name, "--json"], more].concat());
    serde_json::from_str(&said).expect("a line of JSON")
}

/// The accounts by name, each with its state.
pub(super) fn list(site: &Site) -> Vec<(String, String)> {
    let said = site.done(&["account", "list", "--json"]);
    let row = |line: &str| {
        let row: Value = serde_json::from_str(line).expect("a line of JSON");
        let text = |name: &str| row[name].as_str().expect("a text").to_owned();
        (text("name"), text("state"))
    };
    said.lines().map(row).collect()
}

#[test]
fn an_account_is_made_beside_a_running_service_and_without_one() {
    let site = Site::new();
    let mut service = site.start.run();
    let token = token(&site);
    let team = create(&site, "team", &[]);
    let origin = team["origin"].as_str().unwrap();
    let (host, end) = origin.split_once('/').unwrap();
    assert_eq!((host, end.len()), ("localhost", 26));
    let open = create(
        &site,
        "open",
        &["--public", "--origin", "log.example.com/open"],
    );
    assert_eq!(open["origin"], "log.example.com/open");
    // Private means: nobody reads it, and nobody is told of it.
    assert_eq!(get(&service, None, "/log/team/checkpoint").status, 401);
    let note = get(&service, Some(&token), "/log/team/checkpoint");
    assert_eq!(note.status, 200, "{}", note.text());
    assert!(note.text().starts_with(origin));
    assert_eq!(get(&service, None, "/log/open/checkpoint").status, 200);
    assert!(!get(&service, None, "/health").text().contains("team"));
    assert!(!get(&service, None, "/").text().contains(end));
    // It is a log like any other.
    done(
        &service,
        &token,
        ("team", "board_upsert"),
        &json!({"item": {"id": "a", "title": "A"}}),
    );
    let asked = call(&service, &token, ("", "board_list"), &json!({}));
    assert_eq!(
        asked.problem(400, "MALFORMED")["accounts"],
        json!(["dev", "open", "team"])
    );

    let taken = site.run(&["account", "create", "team"]);
    assert_eq!(taken.code, Some(1), "{}", taken.stderr);
    assert!(taken.stderr.contains("there already"), "{}", taken.stderr);
    assert_eq!(site.run(&["account", "create", "No"]).code, Some(1));
    let same = [
        "account",
        "create",
        "two",
        "--public",
        "--origin",
        "localhost/dev",
    ];
    assert_eq!(site.run(&same).code, Some(1), "one origin is one log");
    service.stop();

    create(&site, "zulu", &[]);
    assert_eq!(site.run(&["account", "create", "zulu"]).code, Some(2));
    let names = ["dev", "open", "team", "zulu"].map(|name| (name.to_owned(), "stopped".to_owned()));
    assert_eq!(list(&site), names);
    let service = site.start.run();
    assert!(list(&site).iter().all(|(_, state)| state == "open"));
    done(
        &service,
        &token,
        ("zulu", "board_upsert"),
        &json!({"item": {"id": "z", "title": "Z"}}),
    );
    let item = done(&service, &token, ("team", "board_get"), &json!({"id": "a"}));
    assert_eq!(item["result"]["item"]["title"], "A");
}

#[test]
fn the_witnesses_of_a_directory_know_a_new_account_at_once() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let start = Start::witnessed(&home.path().join("data"));
    let mut service = start.run();
    let site = Site {
        vkey: service.vkey.clone(),
        home,
        start,
    };
    let token = token(&site);
    for (name, more) in [("private", &[][..]), ("public", &["--public"][..])] {
        let made = create(&site, name, more);
        let policy = fs::read_to_string(made["policy"].as_str().unwrap()).expect("its policy");
        assert_eq!(
            policy.lines().filter(|l| l.starts_with("witness ")).count(),
            3
        );
        assert!(policy.contains("\nquorum local"), "{policy}");
    }
    let wait =
        json!({"item": {"id": "a", "title": "A"}, "wait": "witnessed", "deadline_ms": 10_000});
    let writes = |service: &Service, name: &str| {
        let answer = call(service, &token, (name, "board_upsert"), &wait);
        answer.status == 200 && answer.json()["entry"]["state"] == "witnessed"
    };
    for name in ["private", "public"] {
        until("the witnesses cosign its heads", || writes(&service, name));
    }
    service.stop();
    create(&site, "still", &[]);
    let service = site.start.run();
    for name in ["private", "public", "still"] {
        until("the witnesses cosign its heads", || writes(&service, name));
    }
}

#[test]
fn an_account_that_is_named_is_not_answered_for_by_the_token_of_another() {
    let site = Site::new();
    let _service = site.start.run();
    create(&site, "team", &[]);
    let file = site.start.dir.join("seat.token");
    let file = file.to_str().unwrap();
    site.done(&["token", "new", "seat", "--account", "dev", "--out", file]);
    for command in [["board", "list"], ["policy", "show"], ["token", "list"]] {
        let named =
            |account| [&command[..], &["--account", account, "--token-file", file]].concat();
        site.done(&named("dev"));
        let refused = site.run(&named("team"));
        assert_eq!(refused.code, Some(1), "{command:?}: {}", refused.stderr);
        assert!(
            refused.stderr.contains("ACCOUNT_MISMATCH"),
            "{command:?}: {}",
            refused.stderr
        );
    }
}

#[test]
fn a_key_of_one_account_is_in_another_what_it_is_there() {
    let site = Site::new();
    let service = site.start.run();
    let made = create(&site, "team", &[]);
    let team = made["origin"].as_str().unwrap();
    let (owner, worker) = (site.owner(), key("worker"));
    let upsert = || ("board_upsert", json!({"item": {"id": "a", "title": "A"}}));
    let enrol = |origin: &str, more: Value| {
        let mut arguments = json!({"name": "worker", "public_key": spki(&worker)});
        for (name, value) in more.as_object().unwrap() {
            arguments[name] = value.clone();
        }
        let answer = signed(&service, &owner, origin, ("identity_enroll", arguments));
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    enrol(
        "localhost/dev",
        json!({"possession": crate::rig::possession(&worker), "roles": ["agent", "reviewer"]}),
    );
    assert_eq!(
        signed(&service, &worker, "localhost/dev", upsert()).status,
        200
    );
    // There it is nobody yet.
    signed(&service, &worker, team, upsert()).problem(401, "SIGNER_UNKNOWN");
    // Of a proof for one log nothing follows in another.
    let arguments = json!({"name": "worker", "public_key": spki(&worker), "possession": crate::rig::possession(&worker)});
    signed(&service, &owner, team, ("identity_enroll", arguments))
        .problem(422, "POSSESSION_INVALID");
    enrol(team, json!({}));
    signed(&service, &worker, team, upsert()).problem(403, "POSSESSION_UNPROVED");
    let listed = signed(&service, &owner, team, ("identity_list", json!({}))).json();
    let rows = listed["result"]["identities"].as_array().unwrap();
    let row = rows.iter().find(|row| row["name"] == "worker").unwrap();
    assert_eq!(
        (&row["roles"], &row["possession"]),
        (&json!(["agent"]), &json!("stated"))
    );
    // Whoever is stopped there goes on here.
    let id = worker.public().identity().to_string();
    let answer = signed(
        &service,
        &owner,
        team,
        ("identity_revoke", json!({"identity": id})),
    );
    assert_eq!(answer.status, 200, "{}", answer.text());
    signed(&service, &worker, team, upsert()).problem(403, "KEY_REVOKED");
    assert_eq!(
        signed(&service, &worker, "localhost/dev", upsert()).status,
        200
    );
}

/// Makes a token for the owner's identity in an account.
fn owners_token(service: &Service, site: &Site, origin: &str, text: &str) {
    let owner = site.owner();
    let arguments = json!({
        "identity": owner.public().identity().to_string(),
        "token_sha256": token_hash(origin, text),
        "ttl_s": 86_400,
    });
    let answer = signed(service, &owner, origin, ("token_new", arguments));
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn what_one_account_shows_of_a_token_is_good_for_nothing_in_another() {
    let site = Site::new();
    let service = site.start.run();
    // By name it comes before the other: whoever looks through all finds it first.
    let made = create(&site, "aaa", &[]);
    let thief = made["origin"].as_str().unwrap();
    let text = format!("cst_{:0>43}", 7);
    owners_token(&service, &site, "localhost/dev", &text);
    let owner = site.owner();
    let shown = [token_hash("localhost/dev", &text), hex(text.as_bytes())];
    for hash in &shown {
        let arguments =
            json!({"identity": owner.public().identity().to_string(), "token_sha256": hash});
        let answer = signed(&service, &owner, thief, ("token_new", arguments));
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let seen = || done(&service, &text, ("", "board_list"), &json!({}));
    let upsert = json!({"item": {"id": "a", "title": "of dev"}});
    assert_eq!(
        signed(&service, &owner, "localhost/dev", ("board_upsert", upsert)).status,
        200
    );
    assert_eq!(seen()["result"]["items"][0]["title"], "of dev");
    for hash in &shown {
        let arguments = json!({"token_sha256": hash});
        let answer = signed(&service, &owner, thief, ("token_revoke", arguments));
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    assert_eq!(seen()["result"]["items"][0]["title"], "of dev");
}

#[test]
fn two_accounts_hammering_one_service_share_nothing() {
    const ITEMS: usize = 30;
    let site = Site::new();
    let service = site.start.run();
    let token = token(&site);
    let made = create(&site, "team", &[]);
    let team = made["origin"].as_str().unwrap();
    let names = ["dev", "team"];
    thread::scope(|scope| {
        for (name, origin) in names.into_iter().zip(["localhost/dev", team]) {
            let (service, token, owner) = (&service, &token, site.owner());
            scope.spawn(move || {
                // One name, and whose it is differs.
                let worker = json!({"name": "worker", "public_key": spki(&key(name))});
                let answer = signed(service, &owner, origin, ("identity_enroll", worker));
                assert_eq!(answer.status, 200, "{}", answer.text());
                let checkin = json!({"role": "owner", "harness": {"name": "test"}, "clock": "2026-11-29T13:00:00.000Z", "exclusive": true});
                let session = done(service, token, (name, "ars_session_checkin"), &checkin);
                let session = session["result"]["session_id"].as_str().unwrap().to_owned();
                for n in 0..ITEMS {
                    // The same ids and the same resources in both, alone in each.
                    let item = json!({"item": {"id": format!("i{n}"), "title": format!("{name} {n}")}, "wait": "included"});
                    done(service, token, (name, "board_upsert"), &item);
                    let lease = json!({"resource": format!("item:i{n}"), "session_id": session, "wait": "included"});
                    let lease = done(service, token, (name, "ars_lease_acquire"), &lease);
                    assert_eq!(lease["result"]["mode"], "exclusive");
                }
            });
        }
    });
    let mut leaves = Vec::new();
    for (name, other) in [("dev", "team"), ("team", "dev")] {
        let listed = done(
            &service,
            &token,
            (name, "board_list"),
            &json!({"limit": 100}),
        );
        let items = listed["result"]["items"].as_array().unwrap();
        assert_eq!(items.len(), ITEMS);
        assert!(
            items
                .iter()
                .all(|item| item["title"].as_str().unwrap().starts_with(name))
        );
        let parity = done(
            &service,
            &token,
            (name, "parity_check"),
            &json!({"against": "replay"}),
        );
        assert_eq!(parity["result"]["drift"], 0);
        // A cursor of one is nothing to the other.
        let page = done(&service, &token, (name, "board_list"), &json!({"limit": 5}));
        let cursor = page["result"]["next"].as_str().unwrap();
        let page = json!({"limit": 5, "cursor": cursor});
        done(&service, &token, (name, "board_list"), &page);
        call(&service, &token, (other, "board_list"), &page).problem(400, "MALFORMED");
        let bundle = get(
            &service,
            Some(&token),
            &format!(
                "/log/{name}/tile/entries/000.p/{}",
                size(&service, &token, name)
            ),
        );
        assert_eq!(bundle.status, 200, "{name}: {}", bundle.text());
        leaves.push(bundle.body);
    }
    // Every operation in its tiles is one that was signed for it.
    for (bundle, origin) in leaves.iter().zip(["localhost/dev", team]) {
        let mut operations = 0;
        for leaf in entries(bundle) {
            if let Leaf::Operation(leaf) = Leaf::parse(leaf).expect("a leaf") {
                let operation = Operation::parse(&leaf.envelope.payload).expect("an operation");
                assert_eq!(operation.log, origin);
                operations += 1;
            }
        }
        assert!(operations > 2 * ITEMS, "{operations}");
    }
    for (name, origin) in names.into_iter().zip(["localhost/dev", team]) {
        let listed = signed(
            &service,
            &site.owner(),
            origin,
            ("identity_list", json!({})),
        );
        let listed = listed.json();
        let mut rows = listed["result"]["identities"].as_array().unwrap().iter();
        let worker = rows.find(|row| row["name"] == "worker").unwrap();
        let id = key(name).public().identity().to_string();
        assert_eq!(worker["identity"], id.as_str(), "{name}");
    }
    // Each is whole, and what the service holds of it is what its leaves make.
    assert_eq!(site.run(&["check"]).code, Some(0));
    // A token is good in its account, and there alone.
    owners_token(&service, &site, team, "cst_team");
    done(
        &service,
        "cst_team",
        ("", "board_get"),
        &json!({"id": "i0"}),
    );
    call(
        &service,
        "cst_team",
        ("dev", "board_get"),
        &json!({"id": "i0"}),
    )
    .problem(403, "ACCOUNT_MISMATCH");
    assert_eq!(
        get(&service, Some("cst_team"), "/log/team/checkpoint").status,
        200
    );
    let crossed = Call {
        log: "localhost/dev".into(),
        ..Call::new("board_get", json!({"id": "i0"}))
    };
    call(
        &service,
        "cst_team",
        ("", "board_get"),
        &crossed.body(&site.owner()),
    )
    .problem(403, "ACCOUNT_MISMATCH");
    call(
        &service,
        "cst_none",
        ("", "board_get"),
        &json!({"id": "i0"}),
    )
    .problem(401, "TOKEN_INVALID");
}

/// The leaves of a bundle: two bytes of length before each.
fn entries(mut bundle: &[u8]) -> Vec<&[u8]> {
    let mut all = Vec::new();
    while let Some((length, rest)) = bundle.split_first_chunk::<2>() {
        let (leaf, rest) = rest.split_at(u16::from_be_bytes(*length).into());
        all.push(leaf);
        bundle = rest;
    }
    all
}

/// Leaves of an account's published tree.
fn size(service: &Service, token: &str, name: &str) -> u64 {
    let note = get(service, Some(token), &format!("/log/{name}/checkpoint"));
    let note = note.text();
    let size = note.lines().nth(1).and_then(|line| line.parse().ok());
    size.unwrap_or_else(|| panic!("{name}: {note}"))
}

#[test]
fn sixty_accounts_find_room_for_twelve() {
    let site = Site::new();
    fs::write(
        site.start.dir.join("config.toml"),
        "[accounts]\nopen_max = 12\n",
    )
    .unwrap();
    let mut service = site.start.run();
    let token = token(&site);
    let names: Vec<String> = (0..60).map(|n| format!("t{n:02}")).collect();
    let mut origins = Vec::new();
    for name in &names {
        origins.push(
            create(&site, name, &[])["origin"]
                .as_str()
                .unwrap()
                .to_owned(),
        );
    }
    assert_eq!(origins.iter().collect::<BTreeSet<_>>().len(), 60);
    let opened = || {
        list(&site)
            .iter()
            .filter(|(_, state)| state == "open")
            .count()
    };
    assert!(opened() <= 12);
    // One of them has something fall due while it is closed.
    let checkin = json!({"role": "owner", "harness": {"name": "test"}, "clock": "2026-11-29T13:00:00.000Z", "ttl_s": 10});
    done(&service, &token, ("t00", "ars_session_checkin"), &checkin);
    owners_token(&service, &site, &origins[1], "cst_one");
    let before = size(&service, &token, "t00");
    for round in 0..2 {
        for name in &names {
            let item = json!({"item": {"id": format!("i{round}"), "title": name}});
            done(&service, &token, (name, "board_upsert"), &item);
        }
        assert!(opened() <= 12);
    }
    for name in &names {
        let item = done(&service, &token, (name, "board_get"), &json!({"id": "i1"}));
        assert_eq!(item["result"]["item"]["title"], name.as_str());
    }
    // Its account is closed by now, and nobody says which it is.
    done(&service, "cst_one", ("", "board_get"), &json!({"id": "i1"}));
    call(
        &service,
        "cst_none",
        ("", "board_get"),
        &json!({"id": "i1"}),
    )
    .problem(401, "TOKEN_INVALID");
    // Two items, and the end of the session: read from a listing, which opens nothing.
    until("what is due is written though nobody asks", || {
        let said = site.done(&["account", "list", "--json"]);
        let row = said
            .lines()
            .find(|line| line.contains("\"t00\""))
            .expect("t00");
        let row: Value = serde_json::from_str(row).expect("a line of JSON");
        row["size"].as_u64() == Some(before + 3)
    });
    service.stop();

    // After a start every account is looked through in its turn, and each token is found.
    let service = site.start.run();
    assert!(opened() <= 12);
    until("the token is found again", || {
        call(&service, "cst_one", ("", "board_get"), &json!({"id": "i1"})).status == 200
    });
    for name in &names {
        let item = done(&service, &token, (name, "board_get"), &json!({"id": "i0"}));
        assert_eq!(item["result"]["item"]["title"], name.as_str());
    }
}

#[test]
fn an_account_that_does_not_open_leaves_the_others_alone() {
    let site = Site::new();
    create(&site, "team", &["--public"]);
    fs::remove_file(site.start.dir.join("accounts/team/log.key")).unwrap();
    let mut service = site.start.run();
    let token = token(&site);
    done(
        &service,
        &token,
        ("dev", "board_upsert"),
        &json!({"item": {"id": "a", "title": "A"}}),
    );
    let refused = get(&service, None, "/log/team/checkpoint");
    refused.problem(503, "BUSY");
    assert!(!refused.text().contains("log.key"), "{}", refused.text());
    let health = get(&service, None, "/health").json();
    assert_eq!(health["status"], "degraded");
    assert_eq!(health["accounts"][1]["open"], false);
    assert_eq!(get(&service, None, "/health/ready").status, 200);
    assert!(list(&site).contains(&("team".into(), "failing".into())));
    let metrics = get(&service, Some(&token), "/metrics").text();
    for row in [
        "countersign_accounts{standing=\"failing\"} 1",
        "countersign_accounts{standing=\"open\"} 1",
    ] {
        assert!(metrics.contains(row), "{metrics}");
    }
    service.stop();
    // Where none opens, the service ends as it does with one.
    fs::remove_file(site.start.dir.join("accounts/dev/log.key")).unwrap();
    let ended = site.start.try_run().err().expect("no service");
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
}

#[test]
fn who_sends_by_the_drop_keeps_no_account_open() {
    let site = Site::new();
    let config = "[accounts]\nopen_max = 1\n";
    fs::write(site.start.dir.join("config.toml"), config).expect("the settings");
    let mut service = site.start.run();
    let token = token(&site);
    create(&site, "other", &[]);
    let length = [("content-type", JSON), ("content-length", "5000")];
    let begun = head("POST", "/log/dev/receipts", &length) + "\r\n{\"pay";
    let held: Vec<TcpStream> = (0..8)
        .map(|_| {
            let mut stream = TcpStream::connect(service.address).expect("a connection");
            stream.write_all(begun.as_bytes()).expect("half a body");
            stream
        })
        .collect();
    // There is room for one: each is opened in the place of the other, whoever is still sending.
    for _ in 0..4 {
        for name in ["other", "dev"] {
            let target = format!("/log/{name}/checkpoint");
            let answer = get(&service, Some(&token), &target);
            assert_eq!(answer.status, 200, "{name}: {}", answer.text());
        }
    }
    drop(held);
    service.stop();
}
