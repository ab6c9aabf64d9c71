//! Lists of logs that ask to be witnessed.

use countersign_verifier::log_list::{HEADER, LogListFault, parse};
use countersign_verifier::vkey::{Algorithm, VerifierKey};

use crate::mldsa::signer;
use crate::support::{LOG_VKEY, WITNESS_VKEY, text, vectors};

#[test]
fn log_list() {
    let all = vectors("log_list");
    assert_eq!(all.len(), 14);
    let mut valid = 0;
    for v in all {
        let (id, list) = (text(&v, "id"), parse(text(&v, "list").as_bytes()));
        assert_eq!(list.is_ok(), v["valid"].as_bool().unwrap(), "{id}");
        let Ok(logs) = list else { continue };
        valid += 1;
        if let Some(count) = v["log_count"].as_u64() {
            assert_eq!(logs.len() as u64, count, "{id}");
        }
        for log in &logs {
            assert!(matches!(log.key.algorithm, Algorithm::Ed25519(_)), "{id}");
            assert!((1..1 << 31).contains(&log.requests_per_day), "{id}");
        }
        if id == "valid-with-logs-and-comments" {
            let [first, second] = &logs[..] else { panic!() };
            assert_eq!(first.origin, "some legacy origin line");
            assert_eq!(second.origin, second.key.name);
            assert_eq!(
                (first.requests_per_day, second.requests_per_day),
                (86_400, 8_640)
            );
            assert!(
                second
                    .contact
                    .ends_with(" | https://some.url.example.se/with/a#fragment")
            );
        }
    }
    assert_eq!(valid, 3);
}

#[test]
fn an_error_names_the_line() {
    let good = format!("vkey {LOG_VKEY}\nqpd 7\ncontact a b\n");
    let ecdsa = "pixel_transparency_log+72c878db+AjBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABFPN7lzVIk2BOd3Nk33VpqqVttGwV8uChH+RX/HVfBiypVQFyh8o8Ny6fSdxNMgkSf9/VynrgADBeys0r4Q9uPA=";
    assert_eq!(VerifierKey::parse(ecdsa).unwrap().algorithm.kind(), 2);
    let pq = signer("w", 6).vkey().to_string();
    let origin = |text: &str| good.replace("\nqpd", &format!("\norigin {text}\nqpd"));
    for (list, line, what) in [
        (String::new(), 1, "`logs/v0` is due here"),
        ("# only a comment\n\n".into(), 3, "`logs/v0` is due here"),
        ("logs/v1\n".into(), 1, "`logs/v0` is due here"),
        (good.clone(), 1, "`logs/v0` is due here"),
        (
            format!("{HEADER}\n{good}\n#\nqpd 7\n"),
            7,
            "`vkey <vkey>` is due here",
        ),
        (
            format!("{HEADER}\nvkey x\n"),
            2,
            "not a verifier key: <name>+<key ID>+<base64>",
        ),
        (
            format!("{HEADER}\nvkey {WITNESS_VKEY}\n"),
            2,
            "a key of type 0x04, where logs are listed with keys of type 0x01",
        ),
        (
            format!("{HEADER}\nvkey {ecdsa}\n"),
            2,
            "a key of type 0x02, where logs are listed with keys of type 0x01",
        ),
        (
            format!("{HEADER}\nvkey {pq}\n"),
            2,
            "a key of type 0x06, where logs are listed with keys of type 0x01",
        ),
        (
            format!("{HEADER}\nvkey {LOG_VKEY}\n"),
            3,
            "`origin <text>` or `qpd <number>` is due here",
        ),
        (
            format!("{HEADER}\n{}", origin("a\tb")),
            3,
            "an origin with a control character",
        ),
        (
            format!("{HEADER}\n{}", origin("a\norigin b")),
            4,
            "`qpd <number>` is due here",
        ),
        (
            format!("{HEADER}\n{}", good.replace("qpd 7", "qpd 07")),
            3,
            "requests per day are not a number from 1 to 2147483647",
        ),
        (
            format!("{HEADER}\n{}", good.replace("qpd 7", "qpd +7")),
            3,
            "requests per day are not a number from 1 to 2147483647",
        ),
        (
            format!("{HEADER}\n{}", good.replace("contact a b", "")),
            5,
            "`contact <text>` is due here",
        ),
    ] {
        let error = parse(list.as_bytes()).unwrap_err();
        assert_eq!(
            (error.line, error.what.to_string().as_str()),
            (line, what),
            "{list:?}"
        );
    }
    let error = parse(b"logs/v0\n\xff").unwrap_err();
    assert_eq!((error.line, error.what), (2, LogListFault::Utf8));
    assert_eq!(
        parse(&vec![b'#'; (64 << 20) + 1]).unwrap_err().what,
        LogListFault::TooLarge
    );
    let logs = parse(format!("{HEADER}\n{}", origin("go.sum database tree")).as_bytes()).unwrap();
    assert_eq!(
        (logs[0].origin.as_str(), logs[0].contact.as_str()),
        ("go.sum database tree", "a b")
    );
}
