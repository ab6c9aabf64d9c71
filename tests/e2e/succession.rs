//! The end of a log, and the one that goes on.

use std::fs;

use countersign_verifier::{
    checkpoint::Checkpoint, leaf::Leaf, note::Note, predecessor::Predecessor, tile::bundles,
};
use serde_json::{Value, json};

use super::recovery::{Site, mirror, send, submit, writes};
use crate::rig::{
    Call, JSON, Service, clean, countersign, key, possession_of, receipt, spki, verify,
};

/// What leaf 0 of an account says.
fn opened(service: &Service, account: &str) -> Value {
    let target = format!("/log/{account}/checkpoint");
    let note = service.http().get(&target);
    assert_eq!(note.status, 200, "{}", note.text());
    let note = Note::parse(&note.body).expect("a note");
    let head = Checkpoint::parse(note.text).expect("a checkpoint");
    let bundle = bundles(head.size).next().expect("a bundle");
    let target = format!("/log/{account}/{}", bundle.path());
    let bytes = service.http().get(&target).body;
    let leaves = countersign_verifier::tile::parse_bundle(&bytes, bundle.width).expect("a bundle");
    let Ok(Leaf::System(leaf)) = Leaf::parse(leaves[0]) else {
        panic!("leaf 0")
    };
    assert_eq!(leaf.event_type, "opened");
    serde_json::from_str(leaf.event).expect("an event")
}

#[test]
fn a_closed_log_is_served_and_takes_nothing_for_ever() {
    let site = Site::new();
    let mut service = site.start.run();
    submit(&site, &service, 0..2, "included");
    let owner = site.owner();
    let call = |service: &Service, who, tool: &str, arguments: Value| {
        let body = Call::new(tool, arguments).body(who).to_string();
        let target = format!("/v1/{tool}");
        service.http().post(&target, JSON, body.as_bytes())
    };
    let enrol = json!({"name": "ci", "public_key": spki(&key("ci"))});
    let ci = call(&service, &owner, "identity_enroll", enrol);
    assert_eq!(ci.status, 200, "{}", ci.text());
    for bad in ["", "a b", "localhost/dev", &site.vkey, "x+y"] {
        let refused = call(&service, &owner, "log_close", json!({"successor": bad}));
        refused.problem(400, "MALFORMED");
    }
    let said = site.done(&["close", "--successor", "localhost/next", "--json"]);
    let said: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(said["result"]["successor"], "localhost/next", "{said}");
    let refused = |service: &Service| {
        let detail = send(service, &receipt("new", &owner)).problem(410, "LOG_CLOSED");
        assert_eq!(detail["successor"], "localhost/next");
        let again = json!({"successor": "localhost/other"});
        call(service, &owner, "log_close", again).problem(410, "LOG_CLOSED");
        // What was written before is answered as ever.
        let known = send(service, &receipt("1", &owner));
        assert_eq!(known.json()["duplicate"], true, "{}", known.text());
    };
    refused(&service);
    let head = mirror(&service, &site.path("one"));
    assert_eq!(head.size, 5);
    service.stop();
    let mut service = site.start.run();
    refused(&service);
    let health = service.http().get("/health").json();
    let row = &health["accounts"][0];
    assert_eq!(row["closed"]["index"], 4, "{health}");
    assert_eq!(health["status"], "read_only");
    let says_so = |said: &Value| {
        let why = said.as_str().unwrap_or_else(|| panic!("no reason: {said}"));
        let words = ["closed at index 4", "never", "localhost/next"];
        assert!(words.iter().all(|word| why.contains(word)), "{why}");
    };
    says_so(&row["read_only"]);
    let ready = service.http().get("/health/ready");
    assert_eq!((ready.status, &ready.json()["ready"]), (503, &json!(false)));
    says_so(&ready.json()["why"]);
    let status: Value = serde_json::from_str(&site.done(&["status", "--json"])).expect("JSON");
    says_so(&status["accounts"][0]["read_only"]);
    let after = mirror(&service, &site.path("two"));
    assert_eq!((after.size, after.root), (head.size, head.root));
    let policy = site.account("policy").display().to_string();
    let log = format!("{}/log/dev", service.url);
    site.done_elsewhere(&["audit", &log, "--policy", &policy, "--replay"]);
    // Nor does an accepted clock.
    service.stop();
    let mut start = site.start.clone();
    start.more = vec!["--accept-clock".into()];
    let mut service = start.run();
    assert_eq!(mirror(&service, &site.path("three")).size, head.size);
    service.stop();
}

#[test]
fn a_successor_names_what_was_lost_and_the_old_log_never_signs_again() {
    let mut site = Site::new();
    let witnesses = site.witnessed();
    let mut service = site.start.run();
    writes(&service);
    submit(&site, &service, 0..2, "witnessed");
    service.stop();
    let older = site.keep("older");
    let mut service = site.start.run();
    writes(&service);
    submit(&site, &service, 2..7, "witnessed");
    let head = mirror(&service, &site.path("mirror"));
    service.stop();
    site.restore(&older);

    // Nobody kept the leaves; the witnesses have the head.
    let mut args: Vec<String> = ["succeed", "--name", "next", "--origin", "localhost/next"]
        .map(str::to_owned)
        .into();
    for (n, witness) in witnesses.0.iter().enumerate() {
        let note = witness.checkpoint("localhost/dev");
        if note.contains(&head.root.to_base64()) {
            let file = site.path(&format!("head-{n}"));
            fs::write(&file, note).expect("a head");
            args.extend(["--head".to_owned(), file.display().to_string()]);
        }
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let same = site.run(&["succeed", "--name", "x", "--origin", "localhost/dev"]);
    assert_eq!(same.code, Some(2), "{}", same.stderr);
    let vkey = site.done(&args).trim().to_owned();
    assert!(vkey.starts_with("localhost/next+"), "{vkey}");
    let other = site.run(&[
        "succeed",
        "--account",
        "dev",
        "--name",
        "more",
        "--origin",
        "localhost/more",
    ]);
    assert_eq!(other.code, Some(1), "{}", other.stderr);
    for witness in &witnesses.0 {
        witness.add_log(&vkey);
    }

    site.start.verb = &["serve"];
    site.start.account = "next";
    let mut service = site.start.run();
    writes(&service);
    let health = service.http().get("/health").json();
    let rows = health["accounts"].as_array().expect("accounts");
    assert_eq!(rows.len(), 1, "the old log is not served: {health}");
    let event = opened(&service, "next");
    assert_eq!(event["epoch"], 1);
    let before = Predecessor::parse(&event["predecessor"]).expect("a predecessor");
    assert_eq!(before.origin, "localhost/dev");
    assert_eq!(
        (before.recovered_size, before.lost),
        (3, Some((3, head.size)))
    );
    assert_eq!(before.head().expect("a head").root, head.root);
    let target = "/log/next/receipts?deadline_ms=30000";
    let envelope = receipt("on", &site.owner()).to_json();
    let answer = service.http().post(target, JSON, &envelope);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["index"], 1);
    assert_eq!(answer.json()["state"], "witnessed");
    // Its leaf 0 stands in the evidence of whoever it names, and is read by the verifier.
    let file = site.path("on.evidence.json");
    let evidence = service.http().get("/log/next/evidence/1");
    assert_eq!(evidence.status, 200, "{}", evidence.text());
    fs::write(&file, &evidence.body).expect("evidence");
    let policy = site.start.dir.join("accounts/next/policy");
    let verified = verify(&[file], &policy, &[]);
    assert_eq!(verified.verdicts[0]["verdict"], "holds", "{verified:?}");
    // The old one's store, whose end is lost, is looked at as it lies: beside the service and without it; and so is a backup of both.
    let looked = |name: &str| {
        let said = site.run(&["check"]);
        assert_eq!(said.code, Some(0), "{}{}", said.stdout, said.stderr);
        let (from, to) = (site.path(name), site.path(&format!("{name}-again")));
        site.done(&["backup", &from.display().to_string()]);
        let restored = clean(countersign())
            .arg("restore")
            .arg(&from)
            .arg("--dir")
            .arg(&to)
            .output()
            .expect("countersign runs");
        let said = String::from_utf8_lossy(&restored.stderr);
        assert_eq!(restored.status.code(), Some(0), "{said}");
        let out = site.path(&format!("{name}-leaves")).display().to_string();
        let exported = site.run(&["export", &out, "--account", "dev"]);
        assert_eq!(exported.code, Some(0), "{}", exported.stderr);
    };
    looked("beside");
    service.stop();
    looked("alone");
    fs::write(site.account("succeeded.json"), "garbage").expect("a mark");
    let said = site.run(&["check", "--account", "dev"]);
    assert_eq!(said.code, Some(1), "{}{}", said.stdout, said.stderr);
    assert!(said.stdout.contains("succeeded.json"), "{}", said.stdout);
}

#[test]
fn a_successor_is_begun_from_the_newest_head_that_is_known() {
    let site = Site::new();
    let mut serve = site.start.clone();
    serve.verb = &["serve"];
    let mut witnesses = site.witnessed();
    let mut service = site.start.run();
    writes(&service);
    submit(&site, &service, 0..2, "witnessed");
    service.stop();
    let older = site.keep("older");
    let mut service = site.start.run();
    writes(&service);
    let before = mirror(&service, &site.path("before"));
    let early = site.path("before/checkpoint").display().to_string();
    submit(&site, &service, 2..7, "witnessed");
    let head = mirror(&service, &site.path("mirror"));
    service.stop();

    // What is kept here is more than the head given, whoever else answers.
    let next = ["succeed", "--name", "next", "--origin", "localhost/next"];
    let with = |more: &[&str]| site.run(&[&next[..], more].concat());
    let refused = |more: &[&str]| {
        let said = with(more);
        assert_eq!(said.code, Some(1), "{}{}", said.stdout, said.stderr);
        let size = format!("size {}, root {}", head.size, head.root);
        assert!(said.stderr.contains(&size), "{}", said.stderr);
        assert!(!site.account("succeeded.json").exists());
    };
    refused(&["--head", &early]);
    // Put back, nothing here is: the witnesses' answers are.
    site.restore(&older);
    refused(&["--head", &early]);
    // Nor is one witness forgotten that has shown it, though none answers any more.
    let mut service = serve.run();
    super::recovery::until("it is refused", || {
        let health = service.http().get("/health").json();
        let why = health["accounts"][0]["read_only"].as_str();
        why.is_some_and(|why| why.contains("older copy"))
    });
    service.stop();
    for witness in &mut witnesses.0 {
        witness.kill();
    }
    refused(&["--head", &early]);
    let only = with(&["--head", &early, "--below-known"]);
    assert_eq!(only.code, Some(0), "{}", only.stderr);

    // Again, with none named: the same one, as its leaf 0 says, and commands mean it from now on.
    let again = with(&[]);
    assert_eq!(
        (again.code, again.stdout),
        (Some(0), only.stdout),
        "{}",
        again.stderr
    );
    let size = format!("whose last witnessed head has {} leaves", before.size);
    assert!(again.stderr.contains(&size), "{}", again.stderr);
    let shown: Value =
        serde_json::from_str(&site.done(&["quorum", "show", "--json"])).expect("JSON");
    assert_eq!(shown["account"], "next");
    let other = site.run(&[
        "succeed",
        "--account",
        "dev",
        "--name",
        "x",
        "--origin",
        "localhost/x",
    ]);
    assert_eq!(other.code, Some(1), "{}", other.stderr);
}

#[test]
fn without_a_head_given_the_witnesses_say_which_and_an_interrupted_attempt_is_finished() {
    let mut site = Site::new();
    let witnesses = site.witnessed();
    let mut service = site.start.run();
    writes(&service);
    submit(&site, &service, 0..2, "witnessed");
    service.stop();
    let older = site.keep("older");
    let mut service = site.start.run();
    writes(&service);
    submit(&site, &service, 2..7, "witnessed");
    let head = mirror(&service, &site.path("mirror"));
    service.stop();
    site.restore(&older);
    // An attempt that was killed after its mark, with half an account beside its place.
    let mark = r#"{"origin":"localhost/next","account":"next"}"#;
    fs::write(site.account("succeeded.json"), mark).expect("a mark");
    let stage = site.start.dir.join(".successor-new");
    let half = stage.join("accounts/next");
    fs::create_dir_all(&half).expect("a folder");
    fs::write(half.join("log.key"), "half").expect("a file");
    let next = ["succeed", "--name", "next", "--origin", "localhost/next"];
    let vkey = site.done(&next).trim().to_owned();
    assert!(!stage.exists());
    assert_eq!(site.done(&next).trim(), vkey);
    for witness in &witnesses.0 {
        witness.add_log(&vkey);
    }
    site.start.verb = &["serve"];
    site.start.account = "next";
    let mut service = site.start.run();
    writes(&service);
    let event = opened(&service, "next");
    let before = Predecessor::parse(&event["predecessor"]).expect("a predecessor");
    assert_eq!(before.lost, Some((3, head.size)));
    // The client's commands mean the one that is open.
    let payload = site.path("hello.json");
    fs::write(&payload, "{}").expect("a file");
    let signed = site.done(&[
        "sign",
        "--type",
        "application/vnd.example.receipt+json",
        &payload.display().to_string(),
    ]);
    let envelope = site.path("envelope.json");
    fs::write(&envelope, signed).expect("a file");
    let taken = site.done(&["submit", &envelope.display().to_string(), "--json"]);
    assert!(taken.contains("\"index\":1"), "{taken}");
    service.stop();
}

/// What is served as the evidence of a leaf, kept in a file.
fn evidence(site: &Site, service: &Service, account: &str) -> std::path::PathBuf {
    let target = format!("/log/{account}/evidence/1");
    let answer = service.http().get(&target);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let file = site.path(&format!("{account}.evidence.json"));
    fs::write(&file, &answer.body).expect("evidence");
    file
}

#[test]
fn b158_old_proofs_hold_under_the_old_key_and_new_ones_under_the_new() {
    let mut site = Site::new();
    let mut service = site.start.run();
    submit(&site, &service, 0..2, "included");
    let old = evidence(&site, &service, "dev");
    site.done(&["close", "--successor", "localhost/next"]);
    service.stop();
    site.done(&["succeed", "--name", "next", "--origin", "localhost/next"]);
    site.start.verb = &["serve"];
    site.start.account = "next";
    let mut service = site.start.run();
    writes(&service);
    let body = receipt("on", &site.owner()).to_json();
    let answer = service.http().post("/log/next/receipts", JSON, &body);
    assert_eq!(answer.index(), 1, "{}", answer.text());
    let new = evidence(&site, &service, "next");
    let policy = |account: &str| site.start.dir.join("accounts").join(account).join("policy");
    for (file, account, holds) in [
        (&old, "dev", true),
        (&new, "next", true),
        (&old, "next", false),
        (&new, "dev", false),
    ] {
        let verified = verify(std::slice::from_ref(file), &policy(account), &[]);
        let verdict = &verified.verdicts[0]["verdict"];
        assert_eq!(verdict == "holds", holds, "{account}: {verified:?}");
    }
    service.stop();
}

#[test]
fn a_closed_log_goes_on_only_where_its_last_leaf_says() {
    let site = Site::new();
    let mut service = site.start.run();
    submit(&site, &service, 0..2, "included");
    site.done(&["close", "--successor", "localhost/next"]);
    service.stop();
    let other = site.run(&["succeed", "--name", "next", "--origin", "localhost/other"]);
    assert_eq!(other.code, Some(1), "{}", other.stderr);
    assert!(
        other.stderr.contains("names localhost/next"),
        "{}",
        other.stderr
    );
    assert!(!site.account("succeeded.json").exists());
    site.done(&["succeed", "--name", "next", "--origin", "localhost/next"]);
}

#[test]
fn a_successor_belongs_to_the_owner_by_the_key_that_it_had_last() {
    let site = Site::new();
    let mut service = site.start.run();
    submit(&site, &service, 0..2, "included");
    let (owner, new) = (site.owner(), key("new owner"));
    let id = owner.public().identity();
    let asked = json!({
        "identity": id.to_string(), "public_key": spki(&new), "possession": possession_of(&new, id)
    });
    let body = Call::new("identity_rotate", asked).body(&owner).to_string();
    let done = service
        .http()
        .post("/v1/identity_rotate", JSON, body.as_bytes());
    assert_eq!(done.status, 200, "{}", done.text());
    let note = service.http().get("/log/dev/checkpoint").body;
    service.stop();
    let kept = site.keep("before");
    let begun = |more: &[&str]| {
        let next = ["succeed", "--name", "next", "--origin", "localhost/next"];
        let said = site.run(&[&next[..], more].concat());
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        let again = site.run(&[&next[..], more].concat());
        assert_eq!(again.code, Some(0), "{}", again.stderr);
        for warning in ["the owner's key is the one", "none are counted"] {
            let is_said = [&said, &again].map(|said| said.stderr.contains(warning));
            assert_eq!(is_said[0], is_said[1], "{}{}", said.stderr, again.stderr);
        }
        let mut start = site.start.clone();
        (start.verb, start.account) = (&["serve"], "next");
        let mut service = start.run();
        let owner = opened(&service, "next")["owner"].clone();
        service.stop();
        site.restore(&kept);
        (owner["public_key"].clone(), said.stderr)
    };
    assert_eq!(begun(&[]).0, spki(&new));
    // Who lost that one too says which.
    let other = site.path("other.pem");
    fs::write(&other, key("other").public().spki_der()).expect("a key");
    let said = begun(&["--owner", &other.display().to_string()]);
    assert_eq!(said.0, spki(&key("other")));
    // Where no leaf can be read, leaf 0's key is what is known, and that is said, also to who runs it again.
    fs::remove_file(site.account("db/CURRENT")).expect("the database");
    let head = site.path("head");
    fs::write(&head, &note).expect("a head");
    let said = begun(&["--head", &head.display().to_string()]);
    assert_eq!(said.0, spki(&owner));
    assert!(said.1.contains("had at size 1"), "{}", said.1);
}

/// Begins the successor of an account.
fn succeed(site: &Site, account: &str, name: &str, origin: &str) -> super::recovery::Said {
    let account = ["succeed", "--account", account];
    let next = ["--name", name, "--origin", origin];
    site.run(&[&account[..], &next].concat())
}

#[test]
fn a_successor_takes_no_name_that_another_account_has() {
    let site = Site::new();
    super::accounts::create(&site, "team", &["--public", "--origin", "localhost/team"]);
    let team = site.start.dir.join("accounts/team");
    let mark = site.account("succeeded.json");
    let key = fs::read(team.join("log.key")).expect("a key");
    let refused = |text: &str| {
        fs::write(&mark, text).expect("a mark");
        for _ in 0..2 {
            let said = succeed(&site, "dev", "team", "localhost/next");
            assert_eq!(said.code, Some(2), "{}", said.stderr);
            let why = "there is an account of this name already";
            assert!(said.stderr.contains(why), "{}", said.stderr);
            assert_eq!(fs::read_to_string(&mark).expect("a mark"), text);
            assert_eq!(fs::read(team.join("log.key")).expect("a key"), key);
        }
    };
    // Cut short, no mark, or for it: whole, and without the file that makes it an account.
    let (vkey, away) = (team.join("log.vkey"), site.path("log.vkey"));
    for text in [
        "",
        "garbage",
        r#"{"origin":"localhost/next","account":"team"}"#,
    ] {
        refused(text);
        fs::rename(&vkey, &away).expect("a vkey");
        refused(text);
        fs::rename(&away, &vkey).expect("a vkey");
    }
    // What cannot be read is no leave to begin another one.
    fs::write(&mark, "garbage").expect("a mark");
    let said = succeed(&site, "dev", "next", "localhost/next");
    assert_eq!(said.code, Some(2), "{}", said.stderr);
    assert!(said.stderr.contains("from a backup"), "{}", said.stderr);
    // Nor is an origin free that an account of the directory has.
    fs::write(&mark, "").expect("a mark");
    let said = succeed(&site, "dev", "next", "localhost/team");
    assert_eq!(said.code, Some(2), "{}", said.stderr);
    let said = succeed(&site, "dev", "next", "localhost/next");
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    site.done(&["check"]);
}

#[test]
fn a_log_whose_name_another_successor_took_goes_on_under_another_one() {
    let site = Site::new();
    super::accounts::create(&site, "team", &["--public", "--origin", "localhost/team"]);
    // As an attempt leaves it that is killed right after the mark.
    let mark = r#"{"origin":"localhost/dev-2","account":"next"}"#;
    fs::write(site.account("succeeded.json"), mark).expect("a mark");
    let other = succeed(&site, "team", "next", "localhost/team-2");
    assert_eq!(other.code, Some(0), "{}", other.stderr);
    let said = succeed(&site, "dev", "next", "localhost/dev-2");
    assert_eq!(said.code, Some(2), "{}", said.stderr);
    assert_eq!(said.stdout, "");
    for what in ["goes on from localhost/team", "another name"] {
        assert!(said.stderr.contains(what), "{}", said.stderr);
    }
    let said = succeed(&site, "dev", "dev-2", "localhost/dev-2");
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let vkey = &said.stdout;
    assert!(vkey.starts_with("localhost/dev-2+"), "{vkey}");
    // From then on it has a successor.
    let said = succeed(&site, "dev", "dev-3", "localhost/dev-3");
    assert_eq!(said.code, Some(1), "{}", said.stderr);
    site.done(&["check"]);
}
