//! DSSE envelopes: printed and read again they are the same, and a signature holds over one message only.
#![no_main]
use countersign_fuzz::{FIXTURE, RECEIPT, seed};
use countersign_verifier::dsse::{Envelope, count};
use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: seed([FIXTURE.envelope.to_json(), br#"{ "payload":"-_-_", "x":[{}], "payloadType":"t", "signatures":[{"sig":"AA==","keyid":null}] }"#.to_vec()]),
    |data: &[u8]| {
        let Ok(envelope) = Envelope::parse(data) else { return };
        assert_eq!(Envelope::parse(&envelope.to_json()).as_ref(), Ok(&envelope));
        if !count(&envelope.pae(), &envelope.signatures, &[FIXTURE.owner.public()]).is_empty() {
            assert_eq!((envelope.payload_type.as_str(), envelope.payload.as_slice()), RECEIPT);
        }
    }
);
