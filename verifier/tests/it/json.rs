//! Strict JSON and the canonical form.

use countersign_verifier::json::{Fault, canonical, parse};
use serde_json::json;

fn what(text: &str) -> Fault {
    parse(text.as_bytes()).unwrap_err().what
}

#[test]
fn b079_no_two_readers_see_two_things() {
    let error = parse(br#"{"amount":1,"amount":82000}"#).unwrap_err();
    assert_eq!(
        (error.pointer.as_str(), error.what),
        ("/amount", Fault::Duplicate)
    );
    assert_eq!(what(r#"{"a":{"x":1,"\u0078":2}}"#), Fault::Duplicate);
    assert_eq!(parse(br#"{"a":{"x":1},"b":{"x":2}}"#).unwrap()["b"]["x"], 2);
}

#[test]
fn b081_integers_are_exact_or_refused() {
    for good in [
        "0",
        "-0",
        "7",
        "-7",
        "9007199254740991",
        "-9007199254740991",
    ] {
        assert!(parse(good.as_bytes()).is_ok(), "{good}");
    }
    for bad in [
        "9007199254740992",
        "-9007199254740992",
        "9007199254740993",
        "1.0",
        "1e3",
        "1E0",
        "0.5",
        "1e20",
        "99999999999999999999999999",
    ] {
        let error = parse(format!("{{\"n\":[0,{bad}]}}").as_bytes()).unwrap_err();
        assert_eq!(
            (error.pointer.as_str(), error.what),
            ("/n/1", Fault::Integer),
            "{bad}"
        );
    }
    for bad in [
        "01", "+1", "-", ".5", "1.", "1e", "0x1", "NaN", "Infinity", "--1",
    ] {
        assert!(parse(bad.as_bytes()).is_err(), "{bad}");
    }
}

#[test]
fn b084_strings_are_unicode() {
    let text = "<>&\u{2028}\u{1}\u{1f600}\u{e9}";
    let spelled = "\"<>&\u{2028}\\u0001\\ud83d\\ude00\\u00E9\"";
    assert_eq!(parse(spelled.as_bytes()).unwrap(), text);
    for lone in [
        r#""\ud800""#,
        r#""\udc00""#,
        r#""\ud800\ud800""#,
        r#""\ud800x""#,
        r#""\udc00\ud800""#,
    ] {
        assert_eq!(what(lone), Fault::Surrogate, "{lone}");
    }
    for bad in [
        r#""\u12""#,
        r#""\u12g4""#,
        r#""\u+123""#,
        r#""\a""#,
        r#""\"#,
    ] {
        assert!(parse(bad.as_bytes()).is_err(), "{bad}");
    }
    assert_eq!(parse(b"\"\xed\xa0\x80\"").unwrap_err().what, Fault::Utf8);
    assert_eq!(
        parse(b"\xef\xbb\xbf{}").unwrap_err().what,
        Fault::Unexpected { due: "a value" }
    );
}

#[test]
fn nesting_is_bounded() {
    let nested = |n: usize| "[".repeat(n) + &"]".repeat(n);
    assert!(parse(nested(32).as_bytes()).is_ok());
    assert_eq!(what(&nested(33)), Fault::Depth);
    assert_eq!(what(&"[".repeat(1_000_000)), Fault::Depth);
    assert_eq!(what(&r#"{"a":"#.repeat(33)), Fault::Depth);
    // Width is not depth.
    let wide = format!("[{}]", vec!["[]"; 1000].join(","));
    assert!(parse(wide.as_bytes()).is_ok());
}

#[test]
fn what_is_not_json_is_refused() {
    for bad in [
        "",
        " ",
        "{",
        "[",
        "[1,]",
        "{\"a\":1,}",
        "{a:1}",
        "{\"a\" 1}",
        "[1 2]",
        "tru",
        "nul",
        "'a'",
        "1 1",
        "{\"a\":1}}",
        "/**/1",
        "\u{a0}1",
        "\u{c}1",
    ] {
        assert!(parse(bad.as_bytes()).is_err(), "{bad:?}");
    }
    let error = parse(b"{\n \"a\": [true,\n  nope]}").unwrap_err();
    assert_eq!(
        (error.pointer.as_str(), error.line, error.offset),
        ("/a/1", 3, 17)
    );
    assert_eq!(parse(b" \t\r\n{ } ").unwrap(), json!({}));
}

#[test]
fn b085_the_canonical_form_is_rfc_8785() {
    // Names in UTF-16 order: U+1F600 (surrogates D83D DE00) before U+FF5E.
    let value = json!({"\u{ff5e}": 1, "\u{1f600}": 2, "a": 3, "": 4, "A": 5});
    assert_eq!(
        canonical(&value),
        "{\"\":4,\"A\":5,\"a\":3,\"\u{1f600}\":2,\"\u{ff5e}\":1}"
    );
    // RFC 8785 section 3.2.2, its example.
    let value = json!({
        "numbers": [333_333_333.333_333_3, 1e30, 4.50, 2e-3, 0.000_000_000_000_000_000_000_000_001],
        "string": "\u{20ac}$\u{f}\nA'B\"\\\\\"/",
        "literals": [null, true, false],
    });
    let want = "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],\"string\":\"\u{20ac}$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}";
    assert_eq!(canonical(&value), want);
    // RFC 8785 appendix B, the finite ones.
    for (bits, want) in [
        (0x0000_0000_0000_0000_u64, "0"),
        (0x8000_0000_0000_0000, "0"),
        (0x0000_0000_0000_0001, "5e-324"),
        (0x8000_0000_0000_0001, "-5e-324"),
        (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
        (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
        (0x4340_0000_0000_0000, "9007199254740992"),
        (0xc340_0000_0000_0000, "-9007199254740992"),
        (0x4430_0000_0000_0000, "295147905179352830000"),
        (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
        (0x44b5_2d02_c7e1_4af6, "1e+23"),
        (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
        (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
        (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
        (0x444b_1ae4_d6e2_ef50, "1e+21"),
        (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
        (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
        (0x41b3_de43_5555_5553, "333333333.3333332"),
        (0x41b3_de43_5555_5554, "333333333.33333325"),
        (0x41b3_de43_5555_5555, "333333333.3333333"),
        (0x41b3_de43_5555_5556, "333333333.3333334"),
        (0x41b3_de43_5555_5557, "333333333.33333343"),
        (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
        (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
    ] {
        assert_eq!(canonical(&json!(f64::from_bits(bits))), want, "{bits:016x}");
    }
    assert_eq!(
        canonical(&json!([1.0, -0.0, 1e20, -7, 9_007_199_254_740_993_u64])),
        "[1,0,100000000000000000000,-7,9007199254740992]"
    );
    assert_eq!(canonical(&parse(b"[-0]").unwrap()), "[0]");
}
