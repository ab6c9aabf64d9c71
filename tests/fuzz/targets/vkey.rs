//! Verifier keys: one spelling each.
#![no_main]
use countersign_fuzz::{FIXTURE, seed};
use countersign_verifier::vkey::VerifierKey;
use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: seed([&FIXTURE.log, &FIXTURE.witness, FIXTURE.second.vkey()].map(ToString::to_string)),
    |text: &str| {
        if let Ok(key) = VerifierKey::parse(text) {
            assert_eq!(key.to_string(), text);
            let _ = key.verify(&FIXTURE.text, &[0; 64]);
            if let Some(cosigner) = key.as_cosigner() {
                assert_eq!(VerifierKey::parse(&cosigner.to_string()), Ok(cosigner));
            }
        }
    }
);
