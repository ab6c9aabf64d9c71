//! Leaves: what is read is exactly what the writer writes.
#![no_main]
use countersign_fuzz::{FIXTURE, seed};
use countersign_verifier::dsse::Envelope;
use countersign_verifier::key::IdentityId;
use countersign_verifier::leaf::{
    By, Class, Decision, Leaf, Millis, Signed, write_operation, write_receipt, write_system,
};
use libfuzzer_sys::fuzz_target;

/// Signatures by signer; the keyid of a stored signature is an identity.
fn signatures(envelope: &Envelope) -> Vec<(IdentityId, &[u8])> {
    let signature = |s: &'_ countersign_verifier::dsse::Signature| {
        s.keyid.parse().expect("a stored keyid is an identity")
    };
    envelope
        .signatures
        .iter()
        .map(|s| (signature(s), s.sig.as_slice()))
        .collect()
}

fn write(leaf: &Leaf<'_>) -> Vec<u8> {
    let mut out = vec![];
    let done = match leaf {
        Leaf::System(leaf) => write_system(&mut out, leaf.at, leaf.event),
        Leaf::Receipt(leaf) => {
            let signatures = signatures(&leaf.envelope);
            write_receipt(
                &mut out,
                leaf.at,
                &leaf.by,
                signed(&leaf.envelope, &signatures),
            )
        }
        Leaf::Operation(leaf) => {
            let signatures = signatures(&leaf.envelope);
            write_operation(
                &mut out,
                leaf.at,
                &leaf.by,
                signed(&leaf.envelope, &signatures),
                leaf.decision,
            )
        }
    };
    done.expect("a leaf that was read is not too large");
    out
}

fn signed<'a>(envelope: &'a Envelope, signatures: &'a [(IdentityId, &'a [u8])]) -> Signed<'a> {
    Signed {
        payload_type: &envelope.payload_type,
        payload: &envelope.payload,
        signatures,
    }
}

fn operations() -> [Vec<u8>; 2] {
    let by = By {
        identity: FIXTURE.owner.public().identity(),
        class: Class::SessionKey,
        session: Some("s\u{e9} \"1\"".into()),
    };
    let signatures: [(IdentityId, &[u8]); 1] = [(by.identity, &[9; 64])];
    let decisions = [
        Decision::Applied {
            effect: r#"{"identity":"x","list":[1,2]}"#,
        },
        Decision::Refused {
            code: "LEASE_CONFLICT",
            detail: "{}",
        },
    ];
    decisions.map(|decision| {
        let mut out = vec![];
        write_operation(
            &mut out,
            Millis(1),
            &by,
            signed(&FIXTURE.envelope, &signatures),
            decision,
        )
        .expect("a small leaf");
        out
    })
}

fuzz_target!(
    init: seed(FIXTURE.leaves.iter().cloned().chain(operations())),
    |data: &[u8]| {
        if let Ok(leaf) = Leaf::parse(data) {
            assert_eq!(write(&leaf), data);
        }
    }
);
