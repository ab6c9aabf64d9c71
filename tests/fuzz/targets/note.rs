//! Signed notes: what is read prints as it stood, and opens only as it was signed.
#![no_main]
use countersign_fuzz::{FIXTURE, seed};
use countersign_verifier::cosign;
use countersign_verifier::note::{self, Note};
use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: seed([FIXTURE.note.clone(), FIXTURE.second_note()]),
    |data: &[u8]| {
        let _ = note::parse_signatures(data);
        let Ok(read) = Note::parse(data) else { return };
        let lines: Vec<String> = read.signatures.iter().map(ToString::to_string).collect();
        assert_eq!(note::join(read.text, lines.iter().map(String::as_str)).as_bytes(), data);
        for line in &read.signatures {
            if let Ok((time, signature)) = cosign::parse_body(&line.signature) {
                assert_eq!(cosign::body(time, &signature), line.signature);
            }
        }
        if note::open(&read, [&FIXTURE.log, &FIXTURE.witness]).is_ok() {
            assert_eq!(read.text, FIXTURE.text);
        }
        // It covers the head, and no extension line.
        if note::open(&read, [FIXTURE.second.vkey()]).is_ok() {
            assert!(read.text.starts_with(&FIXTURE.text));
        }
    }
);
