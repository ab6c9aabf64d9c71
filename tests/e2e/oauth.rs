//! Tokens of an authorization server at `POST /mcp`: what leads a client there, whose such a token is, and whose not.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    process::Output,
};

use countersign_verifier::{base64, key::PrivateKey};
use serde_json::{Value, json};

use crate::rig::{Answer, JSON, Rig, clean, countersign, key, now};

fn base64url(bytes: &[u8]) -> String {
    let text = base64::encode(bytes);
    text.trim_end_matches('=')
        .replace('+', "-")
        .replace('/', "_")
}

/// An authorization server that publishes one key. Its URL. It goes on until the tests end.
fn issuer(own: &PrivateKey) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let spki = own.public().spki_der();
    let x = base64url(&spki[spki.len() - 32..]);
    let about = json!({"issuer": url, "jwks_uri": format!("{url}/keys")}).to_string();
    let keys = json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "1", "x": x}]}).to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let asked = lines.next().unwrap_or_default();
            let _ = lines.find(String::is_empty);
            let body = if asked.contains("/keys") {
                &keys
            } else {
                &about
            };
            let length = body.len();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
            // Who has gone away does not read it.
            let _ = write!(&stream, "{head}content-length: {length}\r\n\r\n{body}");
        }
    });
    url
}

/// A token for a subject, good for five minutes.
fn token(own: &PrivateKey, issuer: &str, audience: &str, more: &Value) -> String {
    let now = now() / 1_000;
    let mut claims = json!({"iss": issuer, "aud": audience, "exp": now + 300});
    for (name, value) in more.as_object().into_iter().flatten() {
        claims[name] = value.clone();
    }
    let header = json!({"alg": "EdDSA", "kid": "1", "typ": "at+jwt"});
    let text = |value: &Value| base64url(value.to_string().as_bytes());
    let message = format!("{}.{}", text(&header), text(&claims));
    let signature = own.sign(message.as_bytes());
    format!("{message}.{}", base64url(&signature))
}

fn call(rig: &Rig, token: &str, tool: &str, arguments: &Value) -> Answer {
    let bearer = format!("Bearer {token}");
    let headers = [
        ("content-type", JSON),
        ("authorization", bearer.as_str()),
        ("mcp-protocol-version", "2025-11-25"),
    ];
    let params = json!({"name": tool, "arguments": arguments});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    rig.http()
        .send("POST", "/mcp", &headers, body.to_string().as_bytes())
}

fn command(rig: &Rig, arguments: &[&str]) -> Output {
    let mut command = clean(countersign());
    command.args(arguments).arg("--dir").arg(rig.dir());
    let output = command.output().expect("countersign starts");
    assert!(output.status.success(), "{output:?}");
    output
}

#[test]
fn a_client_is_led_to_the_server_and_its_token_is_that_of_a_seat() {
    let own = key("an authorization server");
    let issuer = issuer(&own);
    let rig = Rig::with(&format!(
        "[mcp]\nauthorization_server = \"{issuer}\"\nscopes = [\"countersign\"]\n"
    ));
    let url = &rig.service.url;
    let resource = format!("{url}/mcp");
    let good = json!({"sub": "agent-7", "scope": "openid countersign"});
    for path in ["", "/mcp"] {
        let about = rig.get(&format!("/.well-known/oauth-protected-resource{path}"));
        assert_eq!(about.status, 200, "{}", about.text());
        let about = about.json();
        assert_eq!(about["resource"], json!(resource));
        assert_eq!(about["authorization_servers"], json!([issuer]));
        assert_eq!(about["scopes_supported"], json!(["countersign"]));
    }
    let asked = rig
        .http()
        .send("POST", "/mcp", &[("content-type", JSON)], b"{}");
    asked.problem(401, "KEY_REQUIRED");
    let led = format!(
        "Bearer error=\"invalid_token\", resource_metadata=\"{url}/.well-known/oauth-protected-resource/mcp\", scope=\"countersign\""
    );
    assert_eq!(asked.header("www-authenticate"), Some(led.as_str()));

    // A good token of somebody who is nobody here; then bound to a seat that there was not before.
    let list = json!({"limit": 1});
    let jwt = token(&own, &issuer, &resource, &good);
    call(&rig, &jwt, "identity_list", &list).problem(403, "SUBJECT_UNKNOWN");
    let bind = [
        "token",
        "bind",
        "robot",
        "--issuer",
        &issuer,
        "--subject",
        "agent-7",
    ];
    let bound = command(&rig, &bind);
    let item = json!({"item": {"id": "T-1", "title": "Something to do"}});
    let made = call(&rig, &jwt, "board_upsert", &item);
    assert_eq!(made.status, 200, "{}", made.text());
    let by = made.json()["result"]["structuredContent"]["entry"]["by"].clone();
    assert_eq!(by["class"], "seat_key", "{by}");

    // For another resource, without the scope, by another key: each in the words of its kind.
    let other = token(&own, &issuer, "https://other.example.com/mcp", &good);
    let refused = call(&rig, &other, "identity_list", &list);
    refused.problem(401, "TOKEN_INVALID");
    assert_eq!(refused.header("www-authenticate"), Some(led.as_str()));
    let narrow = token(&own, &issuer, &resource, &json!({"sub": "agent-7"}));
    let refused = call(&rig, &narrow, "identity_list", &list);
    refused.problem(403, "SCOPE_MISSING");
    let challenge = refused.header("www-authenticate").unwrap_or_default();
    assert!(
        challenge.contains("error=\"insufficient_scope\""),
        "{challenge}"
    );
    let forged = token(&key("somebody else"), &issuer, &resource, &good);
    call(&rig, &forged, "identity_list", &list).problem(401, "TOKEN_INVALID");

    // Only here: the other door is another resource.
    let bearer = format!("Bearer {jwt}");
    let headers = [("content-type", JSON), ("authorization", bearer.as_str())];
    let elsewhere = rig
        .http()
        .send("POST", "/v1/identity_list", &headers, b"{}");
    elsewhere.problem(401, "TOKEN_INVALID");
    // The service's own tokens are good beside it.
    let own_token = call(&rig, &rig.token(), "identity_list", &list);
    assert_eq!(own_token.status, 200, "{}", own_token.text());

    // The binding ends as a token does; the seat with all that is bound to it.
    let said = String::from_utf8_lossy(&bound.stderr).into_owned();
    let hash = said
        .split("token revoke ")
        .nth(1)
        .and_then(|rest| rest.split('`').next());
    command(&rig, &["token", "revoke", hash.expect("its hash")]);
    call(&rig, &jwt, "identity_list", &list).problem(403, "SUBJECT_UNKNOWN");
    let second = token(
        &own,
        &issuer,
        &resource,
        &json!({"sub": "agent-8", "scope": "countersign"}),
    );
    let bind = [
        "token",
        "bind",
        "robot",
        "--issuer",
        &issuer,
        "--subject",
        "agent-8",
    ];
    command(&rig, &bind);
    assert_eq!(call(&rig, &second, "identity_list", &list).status, 200);
    command(&rig, &["identity", "revoke", "robot"]);
    call(&rig, &second, "identity_list", &list).problem(403, "KEY_REVOKED");
}

#[test]
fn without_a_server_nothing_leads_to_one() {
    let rig = Rig::up();
    for path in ["", "/mcp"] {
        rig.get(&format!("/.well-known/oauth-protected-resource{path}"))
            .problem(404, "NOT_FOUND");
    }
    let asked = rig
        .http()
        .send("POST", "/mcp", &[("content-type", JSON)], b"{}");
    let challenge = asked.header("www-authenticate");
    assert_eq!(challenge, Some("Bearer error=\"invalid_token\""));
}
