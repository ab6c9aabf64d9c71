//! What log and witness say to each other: one spelling each.
#![no_main]
use countersign_fuzz::{FIXTURE, seed};
use countersign_verifier::add_checkpoint::{
    AddCheckpoint, CONFLICT_TYPE, conflict, parse_conflict, request,
};
use countersign_verifier::hash::leaf_hash;
use countersign_verifier::note;
use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: seed([
        request(0, &[], &FIXTURE.note),
        request(1, &[leaf_hash(&FIXTURE.leaves[1])], &FIXTURE.note),
        conflict(7),
    ]),
    |data: &[u8]| {
        if let Some(size) = parse_conflict(CONFLICT_TYPE, data) {
            assert_eq!(conflict(size).as_bytes(), data);
        }
        if let Ok(read) = AddCheckpoint::parse(data) {
            let lines: Vec<String> = read.note.signatures.iter().map(ToString::to_string).collect();
            let note = note::join(read.note.text, lines.iter().map(String::as_str));
            assert_eq!(request(read.old, &read.proof, &note).as_bytes(), data);
        }
    }
);
