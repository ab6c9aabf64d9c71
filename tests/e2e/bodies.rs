//! Bodies that cannot be taken: malformed, too large, of another type, compressed, unfinished.

use countersign_verifier::dsse::Envelope;
use serde_json::{Value, json};

use crate::rig::{Answer, JSON, NDJSON, Rig, TYPE, head, receipt, receipts};

#[test]
fn what_is_malformed_is_named_by_place() {
    let mut rig = Rig::up();
    let before = rig.size();
    let good = r#"{"payloadType":"a/b","payload":"e30=","signatures":[{"sig":"AAAA"}]}"#;
    for (from, to, pointer) in [
        (good, "", ""),
        (good, "{", ""),
        (good, "[]", ""),
        (good, "nonsense", ""),
        ("}]}", "}]} {}", ""),
        ("}]}", "}]},", ""),
        ("\"payload\":\"e30=\",", "", ""),
        ("\"payloadType\":\"a/b\",", "", ""),
        (",\"signatures\":[{\"sig\":\"AAAA\"}]", "", ""),
        ("{\"sig\":\"AAAA\"}", "", "/signatures"),
        ("{\"sig\":\"AAAA\"}", "{}", "/signatures/0"),
        ("{\"sig\":\"AAAA\"}", "{\"sig\":7}", "/signatures/0/sig"),
        ("\"AAAA\"", "\"AAA\"", "/signatures/0/sig"),
        ("\"AAAA\"", "\"A AA\"", "/signatures/0/sig"),
        ("\"e30=\"", "\"e30\"", "/payload"),
        ("\"e30=\"", "null", "/payload"),
        ("\"e30=\"", "{\"a\":1}", "/payload"),
        ("\"e30=\"", "\"e3-+\"", "/payload"),
        ("\"a/b\"", "7", "/payloadType"),
        // Of two members of one name, readers would pick either (B079).
        ("\"payload\":", "\"payload\":\"\",\"payload\":", "/payload"),
        ("\"sig\":", "\"sig\":\"\",\"sig\":", "/signatures/0/sig"),
        (
            "\"payload\":",
            "\"p\\u0061yload\":\"\",\"payload\":",
            "/payload",
        ),
        // B084: no scalar value.
        ("\"a/b\"", "\"\\ud800\"", "/payloadType"),
        ("\"a/b\"", "\"\u{7}\"", "/payloadType"),
        ("{\"pay", "\u{feff}{\"pay", ""),
        ("{\"pay", "{'a':1,\"pay", ""),
        ("{\"pay", "{/**/\"pay", ""),
    ] {
        let body = good.replacen(from, to, 1);
        let answer = rig.http().post(&receipts(""), JSON, body.as_bytes());
        let detail = answer.problem(400, "MALFORMED");
        let place = detail["pointer"]
            .as_str()
            .unwrap_or_else(|| panic!("{body}: {detail}"));
        assert!(place.starts_with(pointer), "{body}: {place}, not {pointer}");
        assert!(detail["offset"].is_u64(), "{body}: {detail}");
    }
    // On the line where it is.
    let body = good.replace(',', ",\n").replace("\"e30=\"", "7");
    let detail = rig.submit_to("", body.as_bytes()).problem(400, "MALFORMED");
    assert_eq!(detail["line"], 2, "{detail}");
    // Not UTF-8, and nested without end.
    for body in [&b"{\"a\":\"\xff\"}"[..], "[".repeat(200_000).as_bytes()] {
        rig.submit_to("", body).problem(400, "MALFORMED");
    }
    assert_eq!(rig.size(), before);
}

fn limits(rig: &Rig) -> Value {
    rig.get("/health").json()["limits"].clone()
}

/// A number among the limits that `/health` states.
fn limit(rig: &Rig, name: &str) -> usize {
    let value = limits(rig)[name].as_u64();
    usize::try_from(value.unwrap_or_else(|| panic!("no {name} in /health"))).unwrap()
}

#[test]
fn the_limits_that_are_stated_are_those_that_hold() {
    // B095
    let mut rig = Rig::up();
    let owner = [rig.owner()];
    let largest = limit(&rig, "payload_bytes_max");
    assert_eq!(largest, 40_000);
    for (bytes, fits) in [(largest, true), (largest + 1, false)] {
        let payload: Vec<u8> = (0..bytes).map(|i| u8::try_from(i % 251).unwrap()).collect();
        let answer = rig.submit(&Envelope::sign(TYPE, &payload, &owner));
        if fits {
            answer.index();
            continue;
        }
        let detail = answer.problem(413, "TOO_LARGE");
        assert_eq!(
            (&detail["limit"], &detail["bytes"]),
            (&json!(largest), &json!(bytes))
        );
        assert_eq!(answer.json()["retryable"], false);
    }
    let most = limit(&rig, "signatures_max");
    assert_eq!(most, 16);
    for (count, status) in [(most, 200), (most + 1, 400)] {
        let mut envelope = receipt(&format!("{count}"), &owner[0]);
        envelope.signatures = vec![envelope.signatures[0].clone(); count];
        let answer = rig.submit(&envelope);
        assert_eq!(answer.status, status, "{count}: {}", answer.text());
    }
    let largest = limit(&rig, "body_bytes_max");
    for (bytes, status) in [(largest, 200), (largest + 1, 413)] {
        let mut body = receipt(&format!("{bytes}"), &owner[0]).to_json();
        body.resize(bytes, b' ');
        let answer = rig.submit_to("", &body);
        assert_eq!(answer.status, status, "{bytes}: {}", answer.text());
    }
    // A leaf at every limit at once still fits.
    let payload = vec![0xff; limit(&rig, "payload_bytes_max")];
    let answer = rig.submit(&Envelope::sign(&"t".repeat(512), &payload, &owner));
    answer.index();
    for name in [
        "ndjson_lines_max",
        "ndjson_bytes_max",
        "deadline_ms_max",
        "evidence_set_max",
    ] {
        limit(&rig, name);
    }
}

/// Announces a body of this length and sends none of it.
fn announce(rig: &Rig, kind: &str, length: u64) -> Answer {
    let length = length.to_string();
    let headers = [("content-type", kind), ("content-length", length.as_str())];
    let request = head("POST", &receipts(""), &headers) + "\r\n";
    rig.http()
        .raw(request.as_bytes(), false)
        .expect("an answer before the body")
}

#[test]
fn a_body_that_is_announced_too_large_is_refused_unread() {
    // B096: 46 MB.
    let rig = Rig::up();
    for (kind, limit) in [(JSON, 256 << 10), (NDJSON, 16 << 20)] {
        for bytes in [limit + 1, 46_000_000, 1 << 60] {
            let detail = announce(&rig, kind, bytes).problem(413, "TOO_LARGE");
            assert_eq!(detail["limit"], limit);
            assert_eq!(detail["bytes"], bytes);
        }
    }
}

#[test]
fn a_body_without_a_length_is_refused_once_it_is_too_large() {
    let rig = Rig::up();
    let request = head(
        "POST",
        &receipts(""),
        &[("content-type", JSON), ("transfer-encoding", "chunked")],
    );
    let mut http = rig.http();
    http.write((request + "\r\n").as_bytes()).unwrap();
    let chunk = [b"10000\r\n", &[b' '; 0x10000][..], b"\r\n"].concat();
    // Four chunks are the limit. The fifth may find the door closed already.
    for _ in 0..4 {
        http.write(&chunk).unwrap();
    }
    let _ = http.write(&chunk[..100]);
    let answer = http
        .read(false)
        .expect("an answer to a body that has no end");
    let detail = answer.problem(413, "TOO_LARGE");
    assert_eq!(detail["limit"], 256 << 10);
    // In chunks and within the limit it is as good as any.
    let body = receipt("chunked", &rig.owner()).to_json();
    let mut request = head(
        "POST",
        &receipts(""),
        &[("content-type", JSON), ("transfer-encoding", "chunked")],
    )
    .into_bytes();
    request.extend(b"\r\n");
    for part in body.chunks(100) {
        request.extend(format!("{:x}\r\n", part.len()).as_bytes());
        request.extend(part);
        request.extend(b"\r\n");
    }
    request.extend(b"0\r\n\r\n");
    rig.http().raw(&request, false).unwrap().index();
}

#[test]
fn media_types_are_looked_at() {
    let mut rig = Rig::up();
    let body = receipt("typed", &rig.owner()).to_json();
    let mut index = None;
    for (kind, taken) in [
        ("application/json", true),
        ("application/vnd.dsse.envelope.v1+json", true),
        ("Application/JSON; charset=utf-8", true),
        ("text/plain", false),
        ("application/x-www-form-urlencoded", false),
        ("application/jsonx", false),
        ("multipart/form-data; boundary=x", false),
        ("", false),
    ] {
        let answer = rig.http().post(&receipts(""), kind, &body);
        if taken {
            assert_eq!(
                *index.get_or_insert(answer.index()),
                answer.index(),
                "{kind}"
            );
        } else {
            answer.problem(415, "MEDIA_TYPE");
        }
    }
    let answer = rig.http().send("POST", &receipts(""), &[], &body);
    answer.problem(415, "MEDIA_TYPE");
    let answer = rig.http().post("/v1/identity_list", "text/plain", b"{}");
    answer.problem(415, "MEDIA_TYPE");
    rig.check();
}

#[test]
fn a_compressed_body_is_refused_and_never_parsed() {
    // B063: whatever it claims to inflate to.
    let rig = Rig::up();
    let body = receipt("compressed", &rig.owner()).to_json();
    for coding in ["gzip", "br", "deflate", "zstd", "gzip, identity", "x"] {
        let headers = [("content-type", JSON), ("content-encoding", coding)];
        let answer = rig.http().send("POST", &receipts(""), &headers, &body);
        answer.problem(415, "MEDIA_TYPE");
    }
    let headers = [("content-type", JSON), ("content-encoding", "identity")];
    rig.http()
        .send("POST", &receipts(""), &headers, &body)
        .index();
}

#[test]
fn a_compressed_bomb_is_refused_unread_at_every_door() {
    // B063: 10 MB that claim to be 10 GB. None of it is sent, so that an answer shows that none was waited for.
    let rig = Rig::up();
    let bearer = format!("Bearer {}", rig.token());
    for target in [
        "/log/dev/receipts",
        "/log/dev/heads",
        "/v1/board_upsert",
        "/mcp",
        "/v1/blobs",
    ] {
        for coding in ["gzip", "deflate", "br", "zstd", "GZIP", "gzip, gzip"] {
            let headers = [
                ("authorization", bearer.as_str()),
                ("content-type", JSON),
                ("accept", "application/json, text/event-stream"),
                ("content-encoding", coding),
                ("content-length", "10000000"),
            ];
            let request = head("POST", target, &headers) + "\r\n";
            let answer = rig.http().raw(request.as_bytes(), false);
            let answer = answer.unwrap_or_else(|e| panic!("{target} {coding}: {e}"));
            assert!(
                [413, 415].contains(&answer.status),
                "{target} {coding}: {} {}",
                answer.status,
                answer.text()
            );
        }
    }
}

#[test]
fn other_methods_and_addresses_are_refused_in_the_same_form() {
    let rig = Rig::up();
    for (method, target, status, code) in [
        ("GET", "/log/dev/receipts", 405, "METHOD_NOT_ALLOWED"),
        ("PUT", "/log/dev/receipts", 405, "METHOD_NOT_ALLOWED"),
        ("GET", "/v1/identity_list", 405, "METHOD_NOT_ALLOWED"),
        ("POST", "/log/dev/checkpoint", 405, "METHOD_NOT_ALLOWED"),
        ("DELETE", "/log/dev/evidence/0", 405, "METHOD_NOT_ALLOWED"),
        ("GET", "/nothing/here", 404, "NOT_FOUND"),
        ("GET", "/log", 404, "NOT_FOUND"),
        ("GET", "/log/nobody/checkpoint", 404, "NOT_FOUND"),
        ("GET", "/log/nobody/evidence/0", 404, "NOT_FOUND"),
        ("POST", "/log/nobody/receipts", 404, "NOT_FOUND"),
        ("POST", "/v1/nothing", 404, "TOOL_UNKNOWN"),
    ] {
        let headers = [("content-type", JSON)];
        let answer = rig.http().send(method, target, &headers, b"{}");
        answer.problem(status, code);
        if status == 405 {
            assert!(answer.header("allow").is_some(), "{method} {target}");
        }
    }
}

#[test]
fn a_body_may_take_its_time_and_no_longer() {
    let mut rig = Rig::with("[limits]\nrequest_timeout_s = 1\nheader_timeout_s = 1\n");
    let body = receipt("slow", &rig.owner()).to_json();
    let length = (body.len() + 1).to_string();
    let request = head(
        "POST",
        &receipts(""),
        &[("content-type", JSON), ("content-length", &length)],
    );
    let mut http = rig.http();
    http.write(&[request.as_bytes(), b"\r\n", &body].concat())
        .unwrap();
    http.read(false).expect("an answer").problem(408, "TIMEOUT");
    // Headers that never end: the connection is closed, with or without an answer.
    let mut http = rig.http();
    http.write(b"GET / HTTP/1.1\r\nhost: x\r\n").unwrap();
    if let Ok(answer) = http.read(false) {
        assert_eq!(answer.status, 408);
    }
    // Headers without end in bytes.
    let mut http = rig.http();
    let long = "x".repeat(60_000);
    if let Ok(answer) = http.try_send("GET", "/", &[("x-long", &long)], b"") {
        assert_eq!(answer.status, 431, "{}", answer.text());
    }
    rig.check();
}
