//! Requests that nobody means well with: whatever comes in, the answer is a refusal of the client, never a fault of the service.

use countersign_verifier::{dsse::Envelope, key::PrivateKey, operation::PAYLOAD_TYPE};
use serde_json::{Value, json};

use crate::rig::{
    Answer, Call, Http, JSON, NDJSON, Random, Rig, TYPE, head, key, receipt, receipts, seed, spki,
};

/// Changes a few bytes: flips, removals, repetitions, and pieces of JSON where none belong.
fn mutate(random: &mut Random, bytes: &mut Vec<u8>) {
    let pieces: [&[u8]; 8] = [
        b"\"", b"{", b"]", b"\\u0000", b"null", b"-1e999", b"\xff", b"\n",
    ];
    for _ in 0..=random.below(3) {
        if bytes.is_empty() {
            return;
        }
        // OK because both are below the length of a short body.
        let at = usize::try_from(random.below(bytes.len() as u64)).unwrap();
        let piece = pieces[usize::try_from(random.below(8)).unwrap()];
        match random.below(5) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => drop(bytes.remove(at)),
            2 => drop(bytes.splice(at..at, piece.iter().copied())),
            3 => bytes.truncate(at),
            _ => {
                let end = (at + 20).min(bytes.len());
                let again = bytes[at..end].to_vec();
                drop(bytes.splice(at..at, again));
            }
        }
    }
}

/// A refusal that says whose fault it is, or a write.
fn is_the_clients(answer: &Answer, what: &str) {
    let status = answer.status;
    assert!(status < 500, "{status} to {what}: {}", answer.text());
    if status >= 400 {
        let code = answer.json()["code"].clone();
        answer.problem(status, code.as_str().unwrap());
    }
}

#[test]
fn mangled_receipts() {
    let mut random = seed("mangled receipts");
    let mut rig = Rig::up();
    let owner = rig.owner();
    let mut http = rig.http();
    let mut lines = Vec::new();
    for n in 0..1_500 {
        let mut body = receipt(&format!("{n}"), &owner).to_json();
        mutate(&mut random, &mut body);
        let answer = http.post(&receipts(""), JSON, &body);
        is_the_clients(&answer, &String::from_utf8_lossy(&body));
        lines.push(body);
    }
    for some in lines.chunks(300) {
        let rows = http.post(&receipts(""), NDJSON, &some.join(&b'\n')).lines();
        for row in rows {
            assert!(row["status"].as_u64().is_some_and(|s| s < 500), "{row}");
        }
    }
    rig.check();
    rig.restart();
}

/// A JSON value that no argument is.
fn odd(random: &mut Random) -> Value {
    let values = [
        json!(null),
        json!(true),
        json!(-1),
        json!(9_007_199_254_740_991_u64),
        json!(""),
        json!("\u{0}"),
        json!("\u{202e}\u{1f600}\u{2028}"),
        json!("x".repeat(3_000)),
        json!([]),
        json!([[[[{}]]]]),
        json!({"a": {"b": [1, 2]}}),
        json!("id_0000000000000000000000000000000000000000000000000000000000000000"),
    ];
    values[usize::try_from(random.below(12)).unwrap()].clone()
}

#[test]
fn well_signed_nonsense() {
    let mut random = seed("well-signed nonsense");
    let mut rig = Rig::up();
    rig.enroll("agent", &key("agent"));
    let signers = [rig.owner(), key("agent")];
    let free = spki(&key("free"));
    let id = key("agent").public().identity().to_string();
    let tools = [
        (
            "identity_enroll",
            json!({"name": "x", "public_key": free, "class": "agent_key", "possession": "AAAA"}),
        ),
        (
            "identity_rotate",
            json!({"identity": id, "public_key": free, "possession": "AAAA"}),
        ),
        (
            "identity_revoke",
            json!({"identity": format!("id_{}", "1".repeat(64)), "reason": "r"}),
        ),
        (
            "receipt_policy",
            json!({"threshold": 99, "types": ["a/b"], "thresholds": {"a/b": 1}}),
        ),
        ("identity_list", json!({"limit": 1, "cursor": id})),
    ];
    let mut http = rig.http();
    for n in 0..600 {
        let (tool, arguments) = &tools[n % tools.len()];
        let mut call = Call::new(tool, arguments.clone());
        let members = call.arguments.as_object_mut().unwrap();
        let name = members.keys().nth(n % members.len()).unwrap().clone();
        // One argument is odd; whatever is left is refused too, so that the account stays as it is.
        members.insert(name, odd(&mut random));
        let payload = call.payload();
        let answer = send(&mut http, &call, &payload, &signers[n / 5 % 2]);
        is_the_clients(&answer, &call.arguments.to_string());
        let mut payload = payload;
        mutate(&mut random, &mut payload);
        let answer = send(&mut http, &call, &payload, &signers[n / 5 % 2]);
        is_the_clients(&answer, &String::from_utf8_lossy(&payload));
    }
    rig.check();
    rig.restart();
    rig.crash();
}

fn send(http: &mut Http, call: &Call, payload: &[u8], signer: &PrivateKey) -> Answer {
    let envelope = Envelope::sign(PAYLOAD_TYPE, payload, std::slice::from_ref(signer));
    let body = call.body_of(&envelope).to_string();
    http.post(&format!("/v1/{}", call.tool), JSON, body.as_bytes())
}

#[test]
fn payload_types_of_every_spelling_are_leaves_that_can_be_read() {
    let mut rig = Rig::up();
    let owner = [rig.owner()];
    let mut types: Vec<String> = (' '..='~').map(|c| format!("a{c}b")).collect();
    for odd in [
        "\u{7f}",
        "\u{80}",
        "\u{a0}",
        "\u{ad}",
        "\u{2028}",
        "\u{2029}",
        "\u{202e}",
        "\u{feff}",
        "\u{fffd}",
        "\u{ffff}",
        "\u{10ffff}",
        "\u{1f600}",
        "\u{e000}",
        "e\u{301}",
        "\\u0041",
        "\\\\",
        "\"\"",
    ] {
        types.push(format!("a{odd}b"));
        types.push(odd.repeat(512 / odd.len()));
    }
    let lines: Vec<Vec<u8>> = types
        .iter()
        .map(|t| Envelope::sign(t, b"{}", &owner).to_json())
        .collect();
    let rows = rig.submit_lines(&lines);
    for (name, row) in types.iter().zip(&rows) {
        let right = row["status"] == 200 || row["code"] == "TYPE_NOT_ALLOWED";
        assert!(right, "{name:?}: {row}");
    }
    assert!(rows.iter().filter(|row| row["status"] == 200).count() > 90);
    rig.restart();
}

#[test]
fn addresses_that_mean_nothing() {
    let mut random = seed("addresses");
    let rig = Rig::up();
    let mut http = rig.http();
    let known = [
        "/log/dev/tile/0/000.p/1",
        "/log/dev/evidence/0",
        "/log/dev/evidence-set?indexes=0",
        "/log/dev/consistency?from=0&to=1",
        "/log/dev/lookup?payload_sha256=00",
        "/v1/identity_list",
        "/health",
        "/",
    ];
    for n in 0..2_000 {
        let mut target = known[n % known.len()].as_bytes().to_vec();
        mutate(&mut random, &mut target);
        // What cannot stand in a request line is another test's matter.
        target.retain(|b| b.is_ascii_graphic());
        let target = format!(
            "/{}",
            String::from_utf8(target).unwrap().trim_start_matches('/')
        );
        let answer = http.get(&target);
        assert!(
            answer.status < 500,
            "{target}: {} {}",
            answer.status,
            answer.text()
        );
    }
}

#[test]
fn request_lines_and_headers_that_are_none() {
    let rig = Rig::up();
    for bytes in [
        &b"GET\r\n\r\n"[..],
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nhost\r\n\r\n",
        b"GET  / HTTP/1.1\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nhost: a\r\n\r\n",
        b"POST /log/dev/receipts HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nabcdef",
        b"POST /log/dev/receipts HTTP/1.1\r\nhost: a\r\ncontent-length: -5\r\n\r\n",
        b"POST /log/dev/receipts HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"POST /log/dev/receipts HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nx: \x00\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut http = rig.http();
        // Refused, or hung up on.
        if let Ok(answer) = http.raw(bytes, false) {
            assert!((400..500).contains(&answer.status), "{bytes:?}: {}", answer.status);
        }
        assert_eq!(rig.get("/health").status, 200);
    }
    // A body that breaks off: nothing is taken.
    let mut http = rig.http();
    let half = receipt("half", &rig.owner()).to_json();
    let request = format!(
        "POST /log/dev/receipts HTTP/1.1\r\nhost: a\r\ncontent-type: {JSON}\r\ncontent-length: {}\r\n\r\n",
        half.len()
    );
    http.write(&[request.as_bytes(), &half[..half.len() / 2]].concat())
        .unwrap();
    drop(http);
    assert_eq!(rig.size(), 1);
}

#[test]
fn signatures_with_a_torsion_component_are_refused() {
    // P006: a batch equation would take them, one verification does not.
    use curve25519_dalek::{EdwardsPoint, Scalar, constants::EIGHT_TORSION};
    use sha2::{Digest, Sha512};

    let mut rig = Rig::up();
    let (secret, nonce) = (Scalar::from(7_777_u64), Scalar::from(31_337_u64));
    let public = EdwardsPoint::mul_base(&secret).compress();
    let der = [
        &b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00"[..],
        public.as_bytes(),
    ]
    .concat();
    let public_key = countersign_verifier::base64::encode(&der);
    let asked = json!({"name": "torsion", "public_key": public_key});
    assert_eq!(rig.call("identity_enroll", asked).status, 200);
    let mut envelope = receipt("torsion", &key("nobody"));
    envelope.signatures[0].keyid.clear();
    let pae = envelope.pae();
    let mut sign = |torsion: &EdwardsPoint| {
        let r = (EdwardsPoint::mul_base(&nonce) + torsion).compress();
        let digest = Sha512::new()
            .chain_update(r.as_bytes())
            .chain_update(public.as_bytes())
            .chain_update(&pae);
        let k = Scalar::from_bytes_mod_order_wide(&digest.finalize().into());
        envelope.signatures[0].sig = [*r.as_bytes(), (nonce + k * secret).to_bytes()].concat();
        envelope.clone()
    };
    for torsion in &EIGHT_TORSION[1..] {
        let envelope = sign(torsion);
        rig.submit(&envelope).problem(401, "SIGNER_UNKNOWN");
    }
    // The same without it is a good one.
    let good = sign(&EIGHT_TORSION[0]);
    assert_eq!(good.payload_type, TYPE);
    rig.submit(&good).index();
}

/// The head of a request with a body of so many bytes, and the first of them.
fn begun(path: &str, kind: &str, bytes: usize, sent: usize) -> Vec<u8> {
    let mut request = head("POST", path, &[("content-type", kind)]);
    request += &format!("content-length: {bytes}\r\n\r\n");
    request += &" ".repeat(sent);
    request.into_bytes()
}

#[test]
fn bodies_that_never_end_keep_nobody_out() {
    let mut rig = Rig::with(
        "[limits]\nrequests = 3\nbody_memory_bytes = 33554432\nrequest_timeout_s = 3600\n",
    );
    let mut stalled = Vec::new();
    // More requests than may be answered at once, and more memory than there is.
    for (kind, bytes, sent) in [(JSON, 1_000, 10), (NDJSON, 16 << 20, 15 << 20)] {
        for _ in 0..6 {
            let mut http = rig.http();
            // Who gave way may have been cut off while it was sending.
            let _ = http.write(&begun(&receipts(""), kind, bytes, sent));
            stalled.push(http);
        }
    }
    let owner = rig.owner();
    assert_eq!(rig.submit(&receipt("one", &owner)).status, 200);
    let lines: Vec<_> = (0..200)
        .map(|n| receipt(&format!("{n}"), &owner).to_json())
        .collect();
    for line in rig.submit_lines(&lines) {
        assert_eq!(line["status"], 200, "{line}");
    }
    drop(stalled);
}
