//! Payloads of operations, and the times in them and in leaves.

use countersign_verifier::dsse::pae;
use countersign_verifier::hash::leaf_hash;
use countersign_verifier::json::Fault;
use countersign_verifier::leaf::{Class, Millis};
use countersign_verifier::limits;
use countersign_verifier::operation::{Observed, Operation, possession_message};
use serde_json::{Value, json};

use crate::keys::ed25519;
use crate::world::{ORIGIN, World};

#[test]
fn operations_are_read_strictly() {
    let world = World::open();
    let mut operation =
        world.operation_payload("task_add", json!({"b": 1, "a": ["x", null, true]}));
    operation.session = Some("s".into());
    operation.prev = vec![leaf_hash(b"x"); 8];
    operation.observed = Some(Observed {
        size: 3,
        root: leaf_hash(b"r"),
    });
    let json = operation.to_json();
    assert_eq!(Operation::parse(&json).unwrap(), operation);
    let text = String::from_utf8(json).unwrap();
    assert!(
        text.contains(r#""arguments":{"a":["x",null,true],"b":1}"#),
        "{text}"
    );
    let bad = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        Operation::parse(text.replacen(from, to, 1).as_bytes()).unwrap_err()
    };
    for (from, to) in [
        (r#""tool":"task_add""#, r#""tool":"Task""#),
        (r#""tool":"task_add""#, r#""tool":"""#),
        (r#"{"a":["x",null,true],"b":1}"#, "[]"),
        (r#""b":1}"#, r#""b":1,"b":2}"#),
        (r#""b":1}"#, r#""b":1.0}"#),
        (r#""b":1}"#, r#""b":9007199254740993}"#),
        ("nonce-0000000001", "short"),
        ("nonce-0000000001", "nonce-000000001\\n"),
        (r#""log":"log.example/a""#, r#""log":"""#),
        (r#""size":3"#, r#""size":-3"#),
        (r#""size":3"#, r#""size":3,"x":1"#),
        (r#""prev":["#, r#""prev":["","#),
        ("},\"log\"", "},\"log\":\"x\",\"log\""),
        ("Z\",\"prev\"", "\",\"prev\""),
    ] {
        bad(from, to);
    }
    assert_eq!(
        bad("{\"tool\"", "{\"later\":1,\"tool\"").what,
        Fault::Unknown
    );
    let nine = format!("\"prev\":[\"{}\",", leaf_hash(b"y"));
    assert_eq!(
        bad("\"prev\":[", &nine).what,
        Fault::TooMany {
            limit: limits::PREV_MAX
        }
    );
    for name in ["tool", "arguments", "log", "nonce", "issued_at"] {
        let mut value: Value = serde_json::from_str(&text).unwrap();
        value.as_object_mut().unwrap().remove(name);
        assert!(
            matches!(Operation::parse(value.to_string().as_bytes()).unwrap_err().what, Fault::Missing(n) if n == name)
        );
    }
    let id = ed25519(3).public().identity();
    let want = format!(r#"{{"origin":"log.example/a","identity":"{id}","class":"agent_key"}}"#);
    let message = possession_message(ORIGIN, id, Class::AgentKey);
    assert_eq!(
        message,
        pae(
            "application/vnd.countersign.possession+json",
            want.as_bytes()
        )
    );
}

#[test]
fn times_agree_with_a_calendar() {
    let calendar = |ms: u64| {
        let time = jiff::Timestamp::from_millisecond(i64::try_from(ms).unwrap()).unwrap();
        time.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
    };
    let day = 86_400_000;
    // Every day of 430 years at a moving time of the day, then each 97 days to the end.
    let days = (0..157_000).chain((157_000..2_932_890).step_by(97));
    for ms in days
        .map(|n| n * day + n * 7_919_113 % day)
        .chain([0, 1, 951_782_400_000, 1_234])
    {
        let text = Millis(ms).to_string();
        assert_eq!(text, calendar(ms), "{ms}");
        assert_eq!(text.parse::<Millis>(), Ok(Millis(ms)));
    }
    assert_eq!(Millis(u64::MAX).to_string(), "9999-12-31T23:59:59.999Z");
    for bad in [
        "2026-02-29T00:00:00.000Z",
        "2026-13-01T00:00:00.000Z",
        "2026-00-01T00:00:00.000Z",
        "2026-01-00T00:00:00.000Z",
        "2026-01-32T00:00:00.000Z",
        "2026-01-01T24:00:00.000Z",
        "2026-01-01T00:60:00.000Z",
        "2026-01-01T00:00:60.000Z",
        "2026-01-01 00:00:00.000Z",
        "2026-01-01T00:00:00.000z",
        "2026-01-01T00:00:00.000+",
        "2026-01-01T00:00:00Z",
        "1969-12-31T23:59:59.999Z",
        "+026-01-01T00:00:00.000Z",
        "2026-01-01T00:00:00.00\u{660}Z",
        "",
        "2100-02-29T00:00:00.000Z",
    ] {
        assert!(bad.parse::<Millis>().is_err(), "{bad}");
    }
    assert!("2000-02-29T00:00:00.000Z".parse::<Millis>().is_ok());
}
