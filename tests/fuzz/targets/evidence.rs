//! Evidence files: printed and read again they are the same.
#![no_main]
use countersign_fuzz::{FIXTURE, seed};
use countersign_verifier::evidence::File;
use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: seed(FIXTURE.evidence()),
    |data: &[u8]| {
        if let Ok(file) = File::parse(data) {
            let text = match &file {
                File::One(one) => one.to_json(),
                File::Set(set) => set.to_json(),
            };
            assert_eq!(File::parse(&text).as_ref(), Ok(&file));
        }
    }
);
