//! DSSE envelopes: the vectors, the traps, and the cases of their users.

use countersign_verifier::base64;
use countersign_verifier::dsse::{Envelope, Signature, count, pae};
use countersign_verifier::hash::sha256;
use countersign_verifier::json::Fault;
use countersign_verifier::key::{PrivateKey, PublicKey};
use countersign_verifier::limits;
use serde_json::{Value, json};

use crate::keys::{AGENT_RAW, ed25519};
use crate::support::{text, unhex, vectors};

const TYPE: &str = "application/vnd.example.receipt+json";
const D1: &[u8] = b"{\"run\":\"r-1\",\"amount\":9007199254740993}";
const D1_SIG: &str =
    "0OYatAnGG1eDBineZY2iKcfjfYqx+971DUG4Lj4Da6uNJ0oh/Z/j0gMryZ3pGIOdv+9QNOZHryMO+D/B1vvKAg==";
const D2: &[u8] = b"{\"note\":\"~~~???>>>\"}";
const D2_STANDARD: &str = "eyJub3RlIjoifn5+Pz8/Pj4+In0=";
const D2_URL: &str = "eyJub3RlIjoifn5-Pz8_Pj4-In0=";
const D2_SIG: &str =
    "xZ0B0Z560MzVoVZBWsu5oX7GYHhK1GzafVVlKDE3ruQFltzNh5t2vAoX/xQlYZgHCSP7lFpXyEMG9i3XjZJgCA==";

fn parse(envelope: &Value) -> Envelope {
    Envelope::parse(envelope.to_string().as_bytes()).unwrap()
}

fn fault(text: &str) -> (String, Fault) {
    let error = Envelope::parse(text.as_bytes()).unwrap_err();
    assert!(error.offset <= text.len() && error.line >= 1);
    (error.pointer, error.what)
}

fn agent() -> PublicKey {
    let agent = ed25519(3).public();
    assert_eq!(agent.raw(), base64::decode(AGENT_RAW).unwrap());
    agent
}

fn counted(envelope: &Envelope, keys: &[PublicKey]) -> Vec<usize> {
    count(&envelope.pae(), &envelope.signatures, keys)
        .iter()
        .map(|c| c.key)
        .collect()
}

fn vector_key(key: &Value) -> PublicKey {
    match key["spki_b64"].as_str() {
        Some(spki) => PublicKey::from_spki(&base64::decode(spki).unwrap()).unwrap(),
        None => PublicKey::from_ed25519(&unhex(text(key, "public_key_hex")).try_into().unwrap())
            .unwrap(),
    }
}

#[test]
fn vectors_of_envelopes() {
    let all = vectors("dsse_envelope");
    assert_eq!(all.len(), 28);
    for v in all {
        let id = text(&v, "id");
        let envelope = v["envelope_text"]
            .as_str()
            .map_or_else(|| v["envelope"].to_string(), String::from);
        let keys: Vec<PublicKey> = v["keys"]
            .as_array()
            .unwrap()
            .iter()
            .map(vector_key)
            .collect();
        let parsed = Envelope::parse(envelope.as_bytes());
        if v["result"] == "malformed" {
            assert!(parsed.is_err(), "{id}");
            continue;
        }
        let parsed = parsed.expect(id);
        let accepted = count(&parsed.pae(), &parsed.signatures, &keys).len();
        assert_eq!(v["accepted_keys"], accepted, "{id}");
        assert_eq!(
            v["result"] == "ok",
            v["threshold"].as_u64().unwrap() <= accepted as u64,
            "{id}"
        );
        if let Some(payload) = v["payload_b64"].as_str() {
            assert_eq!(parsed.payload, base64::decode(payload).unwrap());
        }
    }
}

#[test]
fn vectors_of_pae_and_t58_lengths_in_bytes() {
    let all = vectors("dsse_pae");
    assert_eq!(all.len(), 6);
    for v in all {
        let encoded = pae(text(&v, "payload_type"), &unhex(text(&v, "payload_hex")));
        let id = text(&v, "id");
        if let Some(hex) = v["pae_hex"].as_str() {
            assert_eq!(encoded, unhex(hex), "{id}");
        } else {
            assert_eq!(sha256(&encoded).to_hex(), text(&v, "pae_sha256"), "{id}");
        }
    }
    assert_eq!(pae("", b""), b"DSSEv1 0  0 ");
    assert_eq!(
        pae("t\u{e9}", "\u{1f600}".as_bytes()),
        "DSSEv1 3 t\u{e9} 4 \u{1f600}".as_bytes()
    );
}

#[test]
fn d1_and_b081_b080_bytes_are_signed_not_numbers() {
    let envelope = parse(
        &json!({"payloadType": TYPE, "payload": base64::encode(D1), "signatures": [{"sig": D1_SIG}]}),
    );
    assert_eq!(envelope.payload, D1);
    assert_eq!(counted(&envelope, &[agent()]), [0]);
    // What a reader with doubles would show is another payload.
    for other in ["9007199254740992", "9007199254740994"] {
        let payload = String::from_utf8(D1.into())
            .unwrap()
            .replace("9007199254740993", other);
        let changed = Envelope {
            payload: payload.into(),
            ..envelope.clone()
        };
        assert!(counted(&changed, &[agent()]).is_empty(), "{other}");
    }
}

#[test]
fn b064_t59_both_alphabets_are_read_and_one_is_written() {
    let url = |text: &str| text.replace('+', "-").replace('/', "_");
    for (payload, sig) in [
        (D2_STANDARD, D2_SIG.into()),
        (D2_URL, url(D2_SIG)),
        (D2_URL, D2_SIG.into()),
    ] {
        let envelope =
            parse(&json!({"payloadType": TYPE, "payload": payload, "signatures": [{"sig": sig}]}));
        assert_eq!(envelope.payload, D2);
        assert_eq!(counted(&envelope, &[agent()]), [0]);
        let written = envelope.to_json();
        assert!(
            String::from_utf8(written.clone())
                .unwrap()
                .contains(D2_STANDARD)
        );
        assert_eq!(Envelope::parse(&written).unwrap(), envelope);
    }
    // One alphabet a string, and always padded.
    for payload in ["+-==", "_/A=", "AA", "AB==", "A A=", "AA==\n"] {
        let text = json!({"payloadType": "t", "payload": payload, "signatures": [{"sig": ""}]})
            .to_string();
        assert!(
            matches!(fault(&text), (at, Fault::Base64(_)) if at == "/payload"),
            "{payload:?}"
        );
    }
    // PHP escapes the slash; it is the same string.
    let text = r#"{"payloadType":"a\/b","payload":"_\/8=","signatures":[{"sig":"\/\/8="}]}"#;
    assert!(matches!(fault(text), (_, Fault::Base64(_))));
    let envelope = Envelope::parse(text.replace('_', "\\/").as_bytes()).unwrap();
    assert_eq!(
        (envelope.payload_type.as_str(), &envelope.payload[..]),
        ("a/b", &[255, 255][..])
    );
}

#[test]
fn b065_b073_t60_keyids_are_hints() {
    let b = ed25519(4).public();
    let claimed = b.identity().to_string();
    for keyid in [None, Some(""), Some("nonsense"), Some(claimed.as_str())] {
        let mut signature = json!({"sig": D1_SIG});
        if let Some(keyid) = keyid {
            signature["keyid"] = keyid.into();
        }
        let envelope = parse(
            &json!({"payloadType": TYPE, "payload": base64::encode(D1), "signatures": [signature]}),
        );
        assert_eq!(envelope.signatures[0].keyid, keyid.unwrap_or_default());
        // The key that verifies is who signed, never the one that the keyid names.
        assert_eq!(counted(&envelope, &[b.clone(), agent()]), [1]);
        assert!(counted(&envelope, std::slice::from_ref(&b)).is_empty());
    }
}

#[test]
fn b066_t60_one_key_counts_once() {
    let key = PrivateKey::parse(
        &PrivateKey::from_secret(countersign_verifier::key::Algorithm::EcdsaP256, &[7; 32])
            .unwrap()
            .to_pem(),
    )
    .unwrap();
    let mut envelope = Envelope::sign("t", b"p", &[ed25519(3), ed25519(3), key]);
    assert_eq!(envelope.signatures[0].sig, envelope.signatures[1].sig);
    let (a, p) = (
        agent(),
        PrivateKey::from_secret(countersign_verifier::key::Algorithm::EcdsaP256, &[7; 32])
            .unwrap()
            .public(),
    );
    assert_eq!(counted(&envelope, &[a.clone(), p.clone()]), [0, 1]);
    // Listed twice, under another keyid, and with the other of ECDSA's two signatures.
    assert_eq!(
        counted(&envelope, &[a.clone(), a.clone(), p.clone(), p.clone()]),
        [0, 2]
    );
    let raw = p256::ecdsa::Signature::from_slice(&envelope.signatures[2].sig).unwrap();
    let other =
        p256::ecdsa::Signature::from_scalars(raw.r().to_bytes(), (-*raw.s().as_ref()).to_bytes())
            .unwrap();
    envelope.signatures.push(Signature {
        keyid: "x".into(),
        sig: other.to_bytes().to_vec(),
    });
    envelope.signatures.push(Signature {
        keyid: String::new(),
        sig: other.to_der().as_bytes().to_vec(),
    });
    assert_eq!(counted(&envelope, &[p]), [0]);
}

#[test]
fn b067_what_fails_is_passed_over() {
    let envelope = Envelope::sign("t", b"p", &[ed25519(8), ed25519(3)]);
    let found = count(&envelope.pae(), &envelope.signatures, &[agent()]);
    assert_eq!((found.len(), found[0].key, found[0].signature), (1, 0, 1));
    let mut invalid = Envelope::sign("t", b"p", &[ed25519(3), ed25519(4)]);
    invalid.signatures[1].sig[5] ^= 1;
    assert_eq!(counted(&invalid, &[agent(), ed25519(4).public()]), [0]);
}

#[test]
fn b074_the_type_must_be_there_and_is_signed() {
    let (at, what) = fault(r#"{"payload":"","signatures":[{"sig":""}]}"#);
    assert_eq!((at.as_str(), what), ("", Fault::Missing("payloadType")));
    let good = Envelope::sign("application/json", b"{}", &[ed25519(3)]);
    assert_eq!(counted(&good, &[agent()]), [0]);
    for other in ["", "application/json ", "Application/json"] {
        let changed = Envelope {
            payload_type: other.into(),
            ..good.clone()
        };
        assert_eq!(Envelope::parse(&changed.to_json()).unwrap(), changed);
        assert!(counted(&changed, &[agent()]).is_empty(), "{other:?}");
    }
}

#[test]
fn b078_many_signatures_survive() {
    let keys: Vec<PrivateKey> = (1..=16).map(ed25519).collect();
    let envelope = Envelope::sign("t", b"p", &keys);
    let again = Envelope::parse(&envelope.to_json()).unwrap();
    assert_eq!(again, envelope);
    let publics: Vec<PublicKey> = keys.iter().map(PrivateKey::public).collect();
    assert_eq!(counted(&again, &publics), (0..16).collect::<Vec<_>>());
}

#[test]
fn t61_the_payload_is_decoded_once() {
    // The bytes under the signature are those that the envelope holds, and no others can be had.
    let envelope = Envelope::sign(TYPE, D1, &[ed25519(3)]);
    let parsed = Envelope::parse(&envelope.to_json()).unwrap();
    assert!(agent().verify(
        &pae(&parsed.payload_type, &parsed.payload),
        &parsed.signatures[0].sig
    ));
    assert!(parsed.pae().ends_with(&parsed.payload));
}

#[test]
fn t62_what_stands_twice_is_refused() {
    for (text, at) in [
        (
            r#"{"payload":"AA==","payload":"AQ==","payloadType":"t","signatures":[{"sig":""}]}"#,
            "/payload",
        ),
        (
            r#"{"payload":"","payloadType":"t","payloadType":"t","signatures":[{"sig":""}]}"#,
            "/payloadType",
        ),
        (
            r#"{"payload":"","payloadType":"t","signatures":[{"sig":"","sig":""}]}"#,
            "/signatures/0/sig",
        ),
        (
            r#"{"payload":"","payloadType":"t","signatures":[{"sig":"","keyid":"a","keyid":"a"}]}"#,
            "/signatures/0/keyid",
        ),
        (
            r#"{"payload":"","p\u0061yload":"","payloadType":"t","signatures":[{"sig":""}]}"#,
            "/payload",
        ),
    ] {
        assert_eq!(fault(text), (at.into(), Fault::Duplicate), "{text}");
    }
}

#[test]
fn t63_a_second_spelling_is_the_same_envelope() {
    let envelope = Envelope::sign(TYPE, D1, &[ed25519(3)]);
    let pretty = json!({
        "signatures": [{"extra": [1.5, {"deep": null}], "sig": base64::encode(&envelope.signatures[0].sig), "keyid": envelope.signatures[0].keyid}],
        "payloadType": TYPE, "unknown": {"payload": "x"}, "payload": base64::encode(D1),
    });
    let again = Envelope::parse(serde_json::to_string_pretty(&pretty).unwrap().as_bytes()).unwrap();
    assert_eq!(again, envelope);
    assert_eq!(again.pae(), envelope.pae());
}

#[test]
fn malformed_envelopes_say_what_and_where() {
    let sigs = |n: usize| vec![r#"{"sig":""}"#; n].join(",");
    for (text, at, what) in [
        ("", "", Fault::End { due: "an object" }),
        ("[]", "", Fault::Unexpected { due: "an object" }),
        (r#"["t","",[]]"#, "", Fault::Unexpected { due: "an object" }),
        (
            r#"{"payload":1}"#,
            "/payload",
            Fault::Unexpected { due: "a string" },
        ),
        (
            r#"{"payload":null}"#,
            "/payload",
            Fault::Unexpected { due: "a string" },
        ),
        (
            r#"{"payload":"","payloadType":"t"}"#,
            "",
            Fault::Missing("signatures"),
        ),
        (
            r#"{"payloadType":"t","signatures":[{"sig":""}]}"#,
            "",
            Fault::Missing("payload"),
        ),
        (
            r#"{"payload":"","payloadType":"t","signatures":[{"keyid":""}]}"#,
            "/signatures/0",
            Fault::Missing("sig"),
        ),
        (
            r#"{"payload":"","payloadType":"t","signatures":[["",""]]}"#,
            "/signatures/0",
            Fault::Unexpected { due: "an object" },
        ),
        (
            r#"{"payload":"","payloadType":"t","signatures":[]}"#,
            "/signatures",
            Fault::Form("at least one signature"),
        ),
        (
            r#"{"payload":"","payloadType":"t","signatures":{}}"#,
            "/signatures",
            Fault::Unexpected { due: "an array" },
        ),
        (
            r#"{"a~/b":[0,tru]}"#,
            "/a~0~1b/1",
            Fault::Unexpected { due: "a value" },
        ),
        (
            r#"{"payload":"","payloadType":"t","signatures":[{"sig":""}]} x"#,
            "",
            Fault::Trailing,
        ),
        ("{\"payload\":\"a\nb\"}", "/payload", Fault::Control),
        (r#"{"payload":"\ud800"}"#, "/payload", Fault::Surrogate),
        (r#"{"payload":"\x"}"#, "/payload", Fault::Escape),
        (
            r#"{"payload":"abc"#,
            "/payload",
            Fault::End {
                due: "the end of a string",
            },
        ),
    ] {
        assert_eq!(fault(text), (at.into(), what), "{text}");
    }
    let text = format!(
        r#"{{"payload":"","payloadType":"t","signatures":[{}]}}"#,
        sigs(17)
    );
    assert_eq!(
        fault(&text),
        (
            "/signatures/16".into(),
            Fault::TooMany {
                limit: limits::SIGNATURES_MAX
            }
        )
    );
    assert!(Envelope::parse(text.replacen(r#"{"sig":""},"#, "", 1).as_bytes()).is_ok());
    let error = Envelope::parse(b"{\"a\":1,\n\"b\":\"\xff\"}").unwrap_err();
    assert_eq!((error.offset, error.line, error.what), (13, 2, Fault::Utf8));
}

#[test]
fn payloads_have_a_bound() {
    let max = limits::PAYLOAD_BYTES_MAX;
    for (bytes, good) in [
        (max, true),
        (max + 1, false),
        (max + 2, false),
        (max + 3, false),
        (4 * max, false),
    ] {
        let envelope = Envelope::sign("t", &vec![7; bytes], &[ed25519(3)]).to_json();
        match Envelope::parse(&envelope) {
            Ok(_) => assert!(good, "{bytes}"),
            Err(error) => {
                assert_eq!(error.pointer, "/payload");
                assert!(
                    !good
                        && matches!(error.what, Fault::TooLarge { limit, bytes } if limit == max && bytes > max)
                );
            }
        }
    }
    let long = "t".repeat(limits::PAYLOAD_TYPE_BYTES_MAX + 1);
    let error = Envelope::parse(&Envelope::sign(&long, b"", &[ed25519(3)]).to_json()).unwrap_err();
    assert_eq!(error.pointer, "/payloadType");
}
