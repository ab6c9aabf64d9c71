//! What holds for any leaf, envelope and text, and that no reader panics.

use countersign_verifier::base64;
use countersign_verifier::dsse::{Envelope, Signature};
use countersign_verifier::evidence;
use countersign_verifier::hash::Hash;
use countersign_verifier::json;
use countersign_verifier::key::{IdentityId, PublicKey};
use countersign_verifier::leaf::{By, Class, Leaf, Millis, Signed, write_receipt};
use countersign_verifier::operation::Operation;
use countersign_verifier::statement::Statement;
use proptest::prelude::*;

use crate::leaf::{examples, rewrite};

fn any_class() -> impl Strategy<Value = Class> {
    prop::sample::select(vec![
        Class::AgentKey,
        Class::SessionKey,
        Class::SeatKey,
        Class::ServiceKey,
    ])
}

proptest! {
    #[test]
    fn any_receipt_is_read_as_it_was_written(
        at in 0..=Millis::MAX.0,
        class in any_class(),
        session in prop::option::of(".{0,20}"),
        payload_type in ".{0,40}",
        payload in prop::collection::vec(any::<u8>(), 0..600),
        signers in prop::collection::btree_map(any::<[u8; 32]>(), prop::collection::vec(any::<u8>(), 0..110), 1..5),
    ) {
        let owned: Vec<_> = signers.into_iter()
            .map(|(id, sig)| (IdentityId(Hash(id)), sig)).collect();
        let by = By { identity: owned[0].0, class, session };
        let signatures: Vec<(IdentityId, &[u8])> = owned.iter().map(|(id, sig)| (*id, &sig[..])).collect();
        let signed = Signed { payload_type: &payload_type, payload: &payload, signatures: &signatures };
        let mut out = vec![];
        write_receipt(&mut out, Millis(at), &by, signed).unwrap();
        let leaf = Leaf::parse(&out).unwrap();
        prop_assert_eq!(leaf.at(), Millis(at));
        prop_assert_eq!(leaf.by(), Some(&by));
        let envelope = leaf.envelope().unwrap();
        prop_assert_eq!((&envelope.payload_type, &envelope.payload), (&payload_type, &payload));
        prop_assert_eq!(rewrite(&leaf), out);
    }

    #[test]
    fn nothing_makes_the_readers_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), text in r#"[\[\]{}",:\\0-9a-z. -]{0,80}"#) {
        for bytes in [&bytes[..], text.as_bytes()] {
            let _ = Leaf::parse(bytes);
            let _ = Envelope::parse(bytes);
            let _ = Operation::parse(bytes);
            let _ = Statement::parse(bytes);
            let _ = evidence::File::parse(bytes);
            let _ = PublicKey::parse_all(bytes);
            if let Ok(value) = json::parse(bytes) {
                let canonical = json::canonical(&value);
                prop_assert_eq!(json::parse(canonical.as_bytes()).unwrap(), value);
            }
        }
    }

    #[test]
    fn one_changed_byte_of_a_leaf_is_another_leaf_or_none(which in 0usize..12, at in any::<prop::sample::Index>(), to in any::<u8>()) {
        let (_, leaf) = examples().swap_remove(which);
        let mut changed = leaf.clone();
        changed[at.index(leaf.len())] = to;
        if let Ok(parsed) = Leaf::parse(&changed) {
            prop_assert_eq!(rewrite(&parsed), changed);
        }
    }

    #[test]
    fn any_text_keeps_its_bytes(text in ".{0,60}", bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let quoted = serde_json::to_string(&text).unwrap();
        let value = json::parse(quoted.as_bytes()).unwrap();
        prop_assert_eq!(value.as_str(), Some(text.as_str()));
        prop_assert_eq!(json::canonical(&value), quoted.replace("\\u007f", "\u{7f}"));
        let envelope = Envelope {
            payload_type: text.chars().take(100).collect(),
            payload: bytes.clone(),
            signatures: vec![Signature { keyid: text, sig: bytes.clone() }],
        };
        prop_assert_eq!(Envelope::parse(&envelope.to_json()).unwrap(), envelope);
        prop_assert_eq!(base64::decode(&base64::encode(&bytes)).unwrap(), bytes);
    }
}
