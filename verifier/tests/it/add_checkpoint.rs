//! Requests to witnesses and their conflict answers, with traps T37, T40 and T52.

use countersign_verifier::add_checkpoint::{
    AddCheckpoint, AddCheckpointError, CONFLICT_TYPE, conflict, parse_conflict, request,
};
use countersign_verifier::hash::leaf_hash;
use countersign_verifier::note::join;

use crate::support::{V1, log_signer};

#[test]
fn t37_the_first_empty_line_ends_the_proof_and_the_last_one_the_text() {
    let text = "log.example/a\n\nnot a checkpoint, but a note\n";
    let note = join(text, [&*log_signer().sign(text)]);
    let hashes = [leaf_hash(b"x"), leaf_hash(b"y")];
    let body = request(7, &hashes, &note);
    let parsed = AddCheckpoint::parse(body.as_bytes()).unwrap();
    assert_eq!(
        (parsed.old, &parsed.proof[..], parsed.note.text),
        (7, &hashes[..], text)
    );
    assert_eq!(
        request(parsed.old, &parsed.proof, &parsed.note.to_string()),
        body
    );
}

#[test]
fn add_checkpoint_requests_say_what_is_wrong_and_where() {
    let hash = leaf_hash(b"x");
    let line = hash.to_base64();
    assert!(AddCheckpoint::parse(request(0, &[hash; 63], V1).as_bytes()).is_ok());
    let many = AddCheckpoint::parse(request(0, &[hash; 64], V1).as_bytes())
        .unwrap_err()
        .to_string();
    assert_eq!(many, "more than 63 proof lines");
    for first in [
        "old", "old ", "old 04", "old +4", "old 4 ", "old  4", "old\t4", "Old 4", "10 stuff",
        "old 4\r", "",
    ] {
        let body = format!("{first}\n\n{V1}");
        assert_eq!(
            AddCheckpoint::parse(body.as_bytes()),
            Err(AddCheckpointError::Old),
            "{first:?}"
        );
    }
    for bad in [
        "abc=",
        &line[1..],
        &line.replace('=', ""),
        &format!("{line} "),
        &hash.to_hex(),
        "*",
    ] {
        let error =
            AddCheckpoint::parse(format!("old 4\n{line}\n{bad}\n\n{V1}").as_bytes()).unwrap_err();
        assert!(
            matches!(error, AddCheckpointError::Hash { line: 3, .. }),
            "{bad}: {error}"
        );
    }
    let short = format!("old 4\n{line}\n");
    assert_eq!(
        AddCheckpoint::parse(short.as_bytes()),
        Err(AddCheckpointError::Separator)
    );
    let error = AddCheckpoint::parse(b"old 0\n\nhello\n")
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "checkpoint from line 3 on: no empty line between text and signatures"
    );
    let bytes = 128 * 1024 + 1;
    assert_eq!(
        AddCheckpoint::parse(&vec![b'\n'; bytes]),
        Err(AddCheckpointError::TooLarge { bytes })
    );
}

#[test]
fn t40_t52_a_conflict_is_read_from_its_exact_type_and_body() {
    assert_eq!(conflict(120), "120\n");
    for size in [0, 50, i64::MAX as u64, u64::MAX] {
        assert_eq!(
            parse_conflict(CONFLICT_TYPE, conflict(size).as_bytes()),
            Some(size)
        );
    }
    for body in [
        "",
        "50",
        "050\n",
        "5\n6\n",
        " 5\n",
        "5\r\n",
        "-1\n",
        "18446744073709551616\n",
        "\n",
    ] {
        assert_eq!(
            parse_conflict(CONFLICT_TYPE, body.as_bytes()),
            None,
            "{body:?}"
        );
    }
    for kind in ["text/plain", "text/x.tlog.size; charset=utf-8", ""] {
        assert_eq!(parse_conflict(kind, b"50\n"), None, "{kind}");
    }
}
