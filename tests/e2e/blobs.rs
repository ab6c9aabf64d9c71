//! Bodies beside the log: kept, read, erased, and what becomes of them when the service or its disk has trouble.

use std::{ffi::OsStr, fs, path::PathBuf};

use countersign_verifier::{
    base64, blob::commitment, dsse::Envelope, hash::Hash, key::PrivateKey, operation::PAYLOAD_TYPE,
};
use serde_json::{Value, json};

use super::recovery::{Site, until, writes};
use crate::rig::{Answer, Call, Http, Rig, key, receipt, verify};

const SALT: [u8; 32] = [5; 32];
const MIB: usize = 1 << 20;

pub(super) fn named(body: &[u8]) -> String {
    commitment(&SALT, body).to_hex()
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

/// With the owner's token, under the salt of these tests.
pub(super) fn put(http: &mut Http, token: &str, body: &[u8]) -> Answer {
    put_at(http, "/v1/blobs", token, body)
}

fn put_at(http: &mut Http, target: &str, token: &str, body: &[u8]) -> Answer {
    let (token, salt) = (bearer(token), Hash(SALT).to_hex());
    let headers = [
        ("authorization", token.as_str()),
        ("content-type", "text/html; charset=utf-8"),
        ("countersign-salt", salt.as_str()),
    ];
    http.send("POST", target, &headers, body)
}

pub(super) fn get(http: &mut Http, token: &str, commitment: &str) -> Answer {
    let token = bearer(token);
    let target = format!("/v1/blobs/{commitment}");
    http.send("GET", &target, &[("authorization", &token)], b"")
}

/// What stands in `Countersign-Operation`.
fn signed(who: &PrivateKey, tool: &str, arguments: Value) -> String {
    let call = Call::new(tool, arguments);
    let envelope = Envelope::sign(PAYLOAD_TYPE, &call.payload(), std::slice::from_ref(who));
    base64::encode(&envelope.to_json())
}

/// Every file that holds a body.
fn files(rig: &Rig) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in fs::read_dir(rig.account("blobs"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let files = fs::read_dir(folder.path()).into_iter().flatten().flatten();
        found.extend(files.map(|file| file.path()));
    }
    found
}

#[test]
fn a_body_comes_back_as_it_came_and_nothing_in_it_runs() {
    let mut rig = Rig::up();
    let token = rig.token();
    let body = b"<script>alert(1)</script>".repeat(100);
    let kept = put(&mut rig.http(), &token, &body);
    assert_eq!(kept.status, 201, "{}", kept.text());
    let said = kept.json();
    let name = named(&body);
    assert_eq!(said["commitment"], name);
    assert_eq!(said["salt"], Hash(SALT).to_hex());
    assert_eq!(
        (&said["bytes"], &said["duplicate"]),
        (&json!(body.len()), &json!(false))
    );
    assert_eq!(said["media_type"], "text/html; charset=utf-8");
    assert_eq!(
        kept.header("location"),
        Some(format!("/v1/blobs/{name}").as_str())
    );
    let again = put(&mut rig.http(), &token, &body);
    assert_eq!(
        (again.status, &again.json()["duplicate"]),
        (200, &json!(true))
    );

    let found = get(&mut rig.http(), &token, &name);
    assert_eq!(
        (found.status, found.body.as_slice()),
        (200, body.as_slice())
    );
    for (header, value) in [
        ("content-type", "text/html; charset=utf-8"),
        ("x-content-type-options", "nosniff"),
        (
            "content-security-policy",
            "sandbox; default-src 'none'; frame-ancestors 'none'",
        ),
        ("cache-control", "private, no-store"),
        ("countersign-salt", &Hash(SALT).to_hex()),
        ("etag", &format!("\"{name}\"")),
        ("content-length", "2500"),
    ] {
        assert_eq!(found.header(header), Some(value), "{header}");
    }
    assert!(found.header("access-control-allow-origin").is_none());
    let (target, bearer) = (format!("/v1/blobs/{name}"), bearer(&token));
    let auth = ("authorization", bearer.as_str());
    let head = rig.http().send("HEAD", &target, &[auth], b"");
    assert_eq!(
        (head.status, head.header("content-length")),
        (200, Some("2500"))
    );
    let tag = format!("\"{name}\"");
    let known = rig
        .http()
        .send("GET", &target, &[auth, ("if-none-match", &tag)], b"");
    assert_eq!((known.status, known.body.len()), (304, 0));
    let zipped = rig
        .http()
        .send("GET", &target, &[auth, ("accept-encoding", "gzip")], b"");
    assert_eq!(
        (zipped.header("content-encoding"), zipped.body.len()),
        (None, 2500)
    );

    // A salt that is made here; and a body of nothing.
    let bare = rig.http().send("POST", "/v1/blobs", &[auth], b"");
    let bare = bare.json();
    let salt = Hash::from_hex(bare["salt"].as_str().expect("a salt")).expect("a salt");
    assert_eq!(bare["commitment"], commitment(&salt.0, b"").to_hex());
    assert_eq!(bare["media_type"], "application/octet-stream");
    let empty = get(
        &mut rig.http(),
        &token,
        bare["commitment"].as_str().expect("one"),
    );
    assert_eq!((empty.status, empty.body.len()), (200, 0));

    for (target, headers, status, code) in [
        ("/v1/blobs", vec![], 401, "KEY_REQUIRED"),
        (
            "/v1/blobs",
            vec![auth, ("countersign-salt", "x")],
            400,
            "MALFORMED",
        ),
        (
            "/v1/blobs",
            vec![auth, ("content-type", "x")],
            400,
            "MALFORMED",
        ),
        (
            "/v1/blobs",
            vec![auth, ("countersign-commitment", name.as_str())],
            422,
            "DIGEST_MISMATCH",
        ),
        (
            "/v1/blobs",
            vec![auth, ("content-encoding", "gzip")],
            415,
            "MEDIA_TYPE",
        ),
        ("/v1/blobs?acount=dev", vec![auth], 400, "MALFORMED"),
        ("/v1/blobs?account=none", vec![auth], 404, "NOT_FOUND"),
    ] {
        let answer = rig.http().send("POST", target, &headers, b"other");
        answer.problem(status, code);
    }
    rig.get(&target).problem(401, "KEY_REQUIRED");
    get(&mut rig.http(), &token, "x").problem(400, "MALFORMED");
    get(&mut rig.http(), &token, &named(b"absent")).problem(404, "NOT_FOUND");
    assert_eq!(files(&rig).len(), 2, "what was refused left nothing");
    let size = rig.size();
    rig.restart();
    assert_eq!(rig.size(), size, "nothing of all this is a leaf");
    assert_eq!(get(&mut rig.http(), &token, &name).body, body);
}

#[test]
fn sixteen_mebibytes_are_taken_and_one_byte_more_is_not_and_a_kill_loses_nothing() {
    let mut rig = Rig::up();
    let token = rig.token();
    let body: Vec<u8> = (0..16 * MIB)
        .map(|n| n.to_le_bytes()[0] ^ n.to_le_bytes()[1])
        .collect();
    let kept = put(&mut rig.http(), &token, &body);
    assert_eq!(kept.status, 201, "{}", kept.text());
    rig.crash();
    let found = get(&mut rig.http(), &token, &named(&body));
    assert!(found.status == 200 && found.body == body);
    let more = [body.as_slice(), b"x"].concat();
    let detail = put(&mut rig.http(), &token, &more).problem(413, "TOO_LARGE");
    assert_eq!(
        (&detail["limit"], &detail["bytes"]),
        (&json!(16 * MIB), &json!(16 * MIB + 1))
    );
    // One that does not say how long it is, and one that breaks off.
    let mut http = rig.http();
    let auth = bearer(&token);
    let head = format!("POST /v1/blobs HTTP/1.1\r\nhost: x\r\nauthorization: {auth}\r\n");
    http.write(format!("{head}transfer-encoding: chunked\r\n\r\n").as_bytes())
        .expect("a head");
    let chunk = [format!("{MIB:x}\r\n").as_bytes(), &body[..MIB], b"\r\n"].concat();
    // Whoever is refused may meet a closed door while still sending.
    let _ = (0..17).try_for_each(|_| http.write(&chunk));
    if let Ok(answer) = http.read(false) {
        answer.problem(413, "TOO_LARGE");
    }
    let mut http = rig.http();
    http.write(format!("{head}content-length: 100\r\n\r\nhalf").as_bytes())
        .expect("a part");
    drop(http);
    until("what broke off is gone", || files(&rig).len() == 1);
    let limits = rig.get("/health").json()["limits"].clone();
    assert_eq!(limits["blob_bytes_max"], 16 * MIB);
}

#[test]
fn who_holds_a_key_and_no_token_signs_for_the_one_body() {
    let mut rig = Rig::with("[blobs]\nidentity_bytes = 30\nidentity_count = 2\n");
    let (agent, looker) = (key("agent"), key("looker"));
    rig.enroll("agent", &agent);
    let looks = json!({"name": "looker", "public_key": crate::rig::spki(&looker), "possession": crate::rig::possession(&looker), "roles": ["reader"]});
    assert_eq!(rig.call("identity_enroll", looks).status, 200);
    let salt = Hash(SALT).to_hex();
    let send = |rig: &Rig, who: &PrivateKey, (asked, body): (Value, &[u8])| {
        let operation = signed(who, "blob_put", asked);
        let headers = [
            ("countersign-operation", operation.as_str()),
            ("countersign-salt", salt.as_str()),
            ("content-type", "text/plain"),
        ];
        rig.http().send("POST", "/v1/blobs", &headers, body)
    };
    let asks = |body: &[u8]| json!({"commitment": named(body), "bytes": body.len(), "media_type": "text/plain"});
    let body = b"twenty bytes of body";
    let kept = send(&rig, &agent, (asks(body), body));
    assert_eq!(kept.status, 201, "{}", kept.text());
    // Another body under this signature, another type, another length.
    send(&rig, &agent, (asks(body), b"another body in place")).problem(422, "DIGEST_MISMATCH");
    send(&rig, &agent, (asks(body), b"TWENTY bytes of body")).problem(422, "DIGEST_MISMATCH");
    let mut other = asks(b"x");
    other["media_type"] = "text/html".into();
    send(&rig, &agent, (other, b"x")).problem(422, "DIGEST_MISMATCH");
    send(&rig, &agent, (json!({"commitment": named(b"x")}), b"x")).problem(422, "DIGEST_MISMATCH");
    send(&rig, &key("stranger"), (asks(b"x"), b"x")).problem(401, "SIGNER_UNKNOWN");
    // Whom the policy lets look alone.
    send(&rig, &looker, (asks(b"x"), b"x")).problem(403, "NOT_ALLOWED");

    let target = format!("/v1/blobs/{}", named(body));
    let read = |who: &PrivateKey, asked: &str| {
        let operation = signed(who, "blob_get", json!({"commitment": asked}));
        let headers = [("countersign-operation", operation.as_str())];
        rig.http().send("GET", &target, &headers, b"")
    };
    assert_eq!(read(&looker, &named(body)).body, body);
    read(&looker, &named(b"x")).problem(400, "MALFORMED");
    read(&key("stranger"), &named(body)).problem(401, "SIGNER_UNKNOWN");

    // Quotas, by name; the same body again takes nothing of them.
    let refused = send(&rig, &agent, (asks(b"eleven more"), b"eleven more"));
    let detail = refused.problem(429, "QUOTA_REACHED");
    assert_eq!(
        (&detail["limit"], &detail["max"]),
        (&json!("blob_identity_bytes_max"), &json!(30))
    );
    assert_eq!(send(&rig, &agent, (asks(b"y"), b"y")).status, 201);
    let refused = send(&rig, &agent, (asks(b"z"), b"z"));
    assert_eq!(
        refused.problem(429, "QUOTA_REACHED")["limit"],
        "blob_identity_count_max"
    );
    assert_eq!(send(&rig, &agent, (asks(body), body)).status, 200);
    // And they are counted anew from what is there.
    rig.restart();
    let refused = send(&rig, &agent, (asks(b"z"), b"z"));
    assert_eq!(
        refused.problem(429, "QUOTA_REACHED")["limit"],
        "blob_identity_count_max"
    );
}

#[test]
fn an_erased_body_is_gone_and_stays_gone_on_a_disk_that_was_put_back() {
    // B195
    let mut rig = Rig::up();
    let token = rig.token();
    let body = b"what must be forgotten";
    let name = named(body);
    assert_eq!(put(&mut rig.http(), &token, body).status, 201);
    assert_eq!(put(&mut rig.http(), &token, b"what may stay").status, 201);
    let before = files(&rig);
    let copies: Vec<Vec<u8>> = before
        .iter()
        .map(|file| fs::read(file).expect("a file"))
        .collect();

    let asked = json!({"commitment": name, "reason": "asked to"});
    let by_token = rig.http().send(
        "POST",
        "/v1/blob_erase",
        &[
            ("content-type", crate::rig::JSON),
            ("authorization", &bearer(&token)),
        ],
        asked.to_string().as_bytes(),
    );
    by_token.problem(403, "ATTRIBUTION_TOO_LOW");
    let agent = key("agent");
    rig.enroll("agent", &agent);
    rig.call_as(&agent, &Call::new("blob_erase", asked.clone()))
        .problem(403, "NOT_ALLOWED");
    let done = rig.call("blob_erase", asked.clone());
    assert_eq!(done.status, 200, "{}", done.text());
    let index = done.json()["entry"]["index"].clone();
    assert_eq!(
        done.json()["result"],
        json!({"commitment": name, "erased_index": index})
    );
    assert_eq!(files(&rig).len(), 1, "gone by the time that it is answered");

    let is_gone = |rig: &Rig| {
        let detail = get(&mut rig.http(), &token, &name).problem(410, "BLOB_ERASED");
        assert_eq!(detail["erased_index"], index);
        put(&mut rig.http(), &token, body).problem(410, "BLOB_ERASED");
        // Stated, so that it is refused before it is read.
        let headers = [
            ("authorization", bearer(&token)),
            ("countersign-commitment", name.clone()),
        ];
        let headers = headers
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()));
        rig.http()
            .send("POST", "/v1/blobs", &headers, body)
            .problem(410, "BLOB_ERASED");
        assert_eq!(files(rig).len(), 1);
        assert_eq!(
            get(&mut rig.http(), &token, &named(b"what may stay")).status,
            200
        );
    };
    is_gone(&rig);
    let detail = rig.call("blob_erase", asked).problem(410, "BLOB_ERASED");
    assert_eq!(detail["erased_index"], index);
    // One that never was here can be erased too, and then never comes.
    let never = json!({"commitment": named(b"never")});
    assert_eq!(rig.call("blob_erase", never).status, 200);
    put(&mut rig.http(), &token, b"never").problem(410, "BLOB_ERASED");

    // The disk of the day before, put under the log of today.
    rig.service.stop();
    for (file, bytes) in before.iter().zip(&copies) {
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, bytes).expect("a file");
    }
    assert_eq!(files(&rig).len(), 2);
    let check = || {
        crate::rig::clean(crate::rig::countersign())
            .args(["check", "--dir"])
            .arg(rig.dir())
            .output()
            .expect("countersign runs")
    };
    let found = check();
    let said = String::from_utf8_lossy(&found.stdout).into_owned();
    assert_eq!(found.status.code(), Some(1), "{said}");
    assert!(said.contains("erased it; it goes when"), "{said}");
    assert_eq!(files(&rig).len(), 2, "and nothing was changed");
    rig.begin_again();
    is_gone(&rig);
    rig.crash();
    is_gone(&rig);
}

#[test]
fn a_token_of_another_account_sees_nothing() {
    let site = Site::new();
    let mut service = site.start.run();
    let owner = fs::read_to_string(site.start.dir.join("owner.token")).expect("a token");
    let owner = owner.trim();
    site.done(&["account", "create", "team", "--json"]);
    let token = |account: &str| {
        let said = site.done(&["token", "new", "seat", "--account", account]);
        said.trim().to_owned()
    };
    let (dev, team) = (token("dev"), token("team"));
    let body = b"of dev alone";
    assert_eq!(put(&mut service.http(), &dev, body).status, 201);
    let absent = get(&mut service.http(), &dev, &named(b"absent"));
    let hidden = get(&mut service.http(), &team, &named(body));
    hidden.problem(404, "NOT_FOUND");
    assert_eq!(hidden.json()["message"], absent.json()["message"]);
    put_at(&mut service.http(), "/v1/blobs?account=dev", &team, body)
        .problem(403, "ACCOUNT_MISMATCH");
    get(&mut service.http(), owner, &named(body)).problem(400, "MALFORMED");
    assert_eq!(get(&mut service.http(), &dev, &named(body)).body, body);
    service.stop();
}

#[test]
fn until_the_witnesses_have_spoken_no_body_is_given_out() {
    let site = Site::new();
    let witnesses = site.witnessed();
    let mut service = site.start.run();
    writes(&service);
    let token = fs::read_to_string(site.start.dir.join("owner.token")).expect("a token");
    let token = token.trim();
    let body = b"kept";
    assert_eq!(put(&mut service.http(), token, body).status, 201);
    // Something must be published: of nothing, nothing can be missing.
    super::recovery::submit(&site, &service, 1..2, "witnessed");
    service.stop();
    drop(witnesses);
    let mut service = site.start.run();
    get(&mut service.http(), token, &named(body)).problem(503, "READ_ONLY");
    put(&mut service.http(), token, b"more").problem(503, "READ_ONLY");
    service.stop();
}

#[test]
fn the_commands_keep_read_erase_and_verify() {
    // B195
    let site = Site::new();
    let mut service = site.start.run();
    let path = |name: &str| site.path(name).display().to_string();
    fs::write(site.path("body"), b"a long report").expect("a file");
    let put = site.done(&[
        "blob",
        "put",
        &path("body"),
        "--media-type",
        "text/plain",
        "--json",
    ]);
    let put: Value = serde_json::from_str(&put).expect("JSON");
    let text = |name: &str| put[name].as_str().expect("a text").to_owned();
    let (name, salt) = (text("commitment"), text("salt"));
    let again = site.done(&["blob", "put", &path("body"), "--salt", &salt]);
    assert_eq!(again.trim(), name);
    assert_eq!(site.done(&["blob", "get", &name]), "a long report");
    site.done(&["blob", "get", &name, "--out", &path("out")]);
    assert_eq!(
        fs::read(site.path("out")).expect("a file"),
        b"a long report"
    );

    // A receipt that refers to it, and its evidence.
    let owner = site.owner();
    let payload = json!({"report": {"commitment": name, "bytes": 13, "media_type": "text/plain"}});
    let mut envelope = receipt("1", &owner);
    envelope = Envelope::sign(
        &envelope.payload_type,
        payload.to_string().as_bytes(),
        &[owner],
    );
    let target = "/log/dev/receipts";
    let index = service
        .http()
        .post(target, crate::rig::JSON, &envelope.to_json())
        .index();
    let evidence = |index: u64| {
        let file = site.path(&format!("{index}.evidence.json"));
        let answer = service.http().get(&format!("/log/dev/evidence/{index}"));
        fs::write(&file, answer.body).expect("a file");
        file
    };
    let about = evidence(index);
    let policy = site.account("policy");
    let check = |more: &[&str]| {
        let more: Vec<&OsStr> = more.iter().map(OsStr::new).collect();
        verify(std::slice::from_ref(&about), &policy, &more)
    };
    let (body, other) = (path("body"), site.account("log.vkey").display().to_string());
    assert_eq!(check(&["--body", &body, "--salt", &salt]).code, 0);
    assert_eq!(check(&["--body", &other, "--salt", &salt]).code, 1);

    let erased = site.done(&["blob", "erase", &name, "--reason", "asked to", "--json"]);
    let erased: Value = serde_json::from_str(&erased).expect("JSON");
    let erased = evidence(erased["entry"]["index"].as_u64().expect("an index"));
    let erased = erased.display().to_string();
    let told = check(&["--erased", &erased]);
    assert_eq!(told.code, 3, "{told:?}");
    assert_eq!(told.verdicts[0]["verdict"], "cannot_tell");
    let payload = told.verdicts[0]["checks"][3]["detail"]
        .as_str()
        .expect("a detail");
    assert!(payload.contains("body erased"), "{payload}");
    assert_eq!(check(&[]).code, 0, "the leaf itself holds as ever");
    let about = about.display().to_string();
    let policy = policy.display().to_string();
    let told = crate::rig::clean(crate::rig::countersign())
        .args(["verify", &about, "--policy", &policy, "--erased", &erased])
        .output()
        .expect("countersign runs");
    assert_eq!(told.status.code(), Some(3));
    // What was decided is what the rules say, also for whoever replays it.
    let log = format!("{}/log/dev", service.url);
    let audited = crate::rig::clean(crate::rig::countersign())
        .args(["audit", &log, "--policy", &policy, "--replay"])
        .output()
        .expect("countersign runs");
    assert_eq!(audited.status.code(), Some(0), "{audited:?}");
    let gone = site.run(&["blob", "get", &name]);
    assert_eq!(gone.code, Some(1), "{}", gone.stderr);
    assert!(
        gone.stderr.contains("was erased by the leaf"),
        "{}",
        gone.stderr
    );
    assert_eq!(
        site.run(&["blob", "put", &path("body"), "--salt", &salt])
            .code,
        Some(1)
    );
    let absent = "0".repeat(64);
    assert_eq!(site.run(&["blob", "get", &absent]).code, Some(1));
    assert_eq!(site.run(&["blob", "get", "x"]).code, Some(2));
    service.stop();
}
