//! Bodies beside the log: which of them were erased. That one is there is nothing that a leaf says; that it may not be there, is.

use countersign_verifier::{
    hash::{Hash, HashError},
    key::IdentityId,
    operation::Operation,
};
use imbl::OrdMap;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    At, Decided, State,
    verb::{Verb, arguments, malformed, member, settle},
};
use crate::{code::Code, policy::Family};

/// What a policy calls the keeping of a body: no tool, because a body is no argument, and no leaf.
pub const PUT: (&str, Family) = ("blob_put", Family::Coordinate);
/// What a policy calls the reading of one.
pub const READ: (&str, Family) = ("blob_get", Family::Read);

const REASON_BYTES_MAX: usize = 256;
/// An account erases at most so many: each is a row of the state for ever.
const ERASED_MAX: usize = 1_000_000;

/// The bodies that were erased, each with the leaf that says so.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Erased {
    by_commitment: OrdMap<Hash, u64>,
    by_index: OrdMap<u64, Hash>,
}

impl Erased {
    /// The leaf that erased this one.
    #[must_use]
    pub fn get(&self, commitment: &Hash) -> Option<u64> {
        self.by_commitment.get(commitment).copied()
    }

    /// Those erased by the leaf at `first` and by later ones, in order.
    pub fn from(&self, first: u64) -> impl Iterator<Item = (u64, Hash)> {
        let all = self.by_index.range(first..);
        all.map(|(index, commitment)| (*index, *commitment))
    }

    /// The newest leaf that erased one.
    #[must_use]
    pub fn newest(&self) -> Option<u64> {
        self.by_index.get_max().map(|(index, _)| *index)
    }

    fn insert(&mut self, commitment: Hash, index: u64) {
        self.by_commitment.insert(commitment, index);
        self.by_index.insert(index, commitment);
    }

    /// As snapshots keep them.
    pub(super) fn to_rows(&self) -> Vec<(String, u64)> {
        let rows = self.by_commitment.iter();
        rows.map(|(commitment, index)| (commitment.to_hex(), *index))
            .collect()
    }

    pub(super) fn from_rows(rows: Vec<(String, u64)>) -> Result<Erased, HashError> {
        let mut erased = Erased::default();
        for (commitment, index) in rows {
            erased.insert(Hash::from_hex(&commitment)?, index);
        }
        Ok(erased)
    }
}

/// Arguments of `blob_erase`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Erase {
    /// The commitment of the body, 64 lowercase hexadecimal digits. It need not be here: one that was erased is never taken again.
    pub commitment: String,
    /// Why, at most 256 bytes. It stands in the leaf for ever: nothing of the body belongs here.
    pub reason: Option<String>,
}

/// `blob_erase`.
pub const ERASE: Verb = Verb {
    tool: "blob_erase",
    decide: |state, _, operation, _: At| settle(decide(state, operation)),
    apply,
    resource: |arguments| member(arguments, "commitment"),
};

/// What is said of a body that is gone.
#[must_use]
pub fn is_erased(index: u64) -> (Code, String) {
    let why = format!("the body was erased by the leaf at index {index}, and its salt with it");
    (Code::BlobErased, why)
}

fn commitment(text: &str) -> Result<Hash, String> {
    Hash::from_hex(text).map_err(|_| "commitment: 64 lowercase hexadecimal digits".into())
}

fn decide(state: &State, operation: &Operation) -> Result<Decided, Decided> {
    let asked: Erase = arguments(&operation.arguments).map_err(malformed)?;
    let erases = commitment(&asked.commitment).map_err(malformed)?;
    let reason = asked.reason.as_ref();
    if reason.is_some_and(|reason| reason.len() > REASON_BYTES_MAX) {
        let why = format!("reason: more than {REASON_BYTES_MAX} bytes");
        return Err(malformed(why));
    }
    if let Some(index) = state.erased.get(&erases) {
        let (code, why) = is_erased(index);
        return Err(Decided::refuse(code, why).with("erased_index", index));
    }
    if state.erased.by_index.len() >= ERASED_MAX {
        let why = format!("an account erases at most {ERASED_MAX} bodies");
        return Err(Decided::refuse(Code::LimitReached, why).with("limit", ERASED_MAX));
    }
    Ok(Decided::Applied(Map::new()).with("commitment", asked.commitment))
}

fn apply(
    state: &mut State,
    _by: IdentityId,
    _operation: &Operation,
    effect: &Map<String, Value>,
    index: u64,
) -> Result<(), String> {
    let erases = effect.get("commitment").and_then(Value::as_str);
    let erases = commitment(erases.ok_or("effect without a commitment")?)?;
    state.erased.insert(erases, index);
    Ok(())
}

#[cfg(test)]
mod tests {
    use countersign_verifier::hash::sha256;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn asked(arguments: Value) -> Operation {
        Operation {
            tool: ERASE.tool.into(),
            arguments,
            log: "localhost/dev".into(),
            session: None,
            nonce: "0123456789abcdef".into(),
            issued_at: countersign_verifier::leaf::Millis(0),
            prev: Vec::new(),
            observed: None,
        }
    }

    fn erased(state: &mut State, commitment: &Hash, index: u64) -> Result<(), Decided> {
        let operation = asked(json!({"commitment": commitment.to_hex(), "reason": "asked to"}));
        let Decided::Applied(effect) = decide(state, &operation)? else {
            panic!("a judgement is a refusal or not");
        };
        assert_eq!(
            Value::Object(effect.clone()),
            json!({"commitment": commitment.to_hex()})
        );
        let by = format!("id_{}", "0".repeat(64)).parse().unwrap();
        apply(state, by, &operation, &effect, index).unwrap();
        Ok(())
    }

    #[test]
    fn a_body_is_erased_once_and_the_state_says_where() {
        let mut state = State::default();
        let (a, b) = (sha256(b"a"), sha256(b"b"));
        erased(&mut state, &a, 7).unwrap();
        assert_eq!(
            (state.erased.get(&a), state.erased.get(&b)),
            (Some(7), None)
        );
        let Err(Decided::Refused(code, _, detail)) = erased(&mut state, &a, 9) else {
            panic!("twice");
        };
        assert_eq!(
            (code, &detail["erased_index"]),
            (Code::BlobErased, &json!(7))
        );
        for bad in [
            json!({}),
            json!({"commitment": "x"}),
            json!({"commitment": a.to_hex().to_uppercase()}),
            json!({"commitment": b.to_hex(), "reason": "x".repeat(257)}),
            json!({"commitment": b.to_hex(), "more": 1}),
        ] {
            let refused = decide(&state, &asked(bad.clone())).unwrap_err();
            assert!(
                matches!(refused, Decided::Refused(Code::Malformed, ..)),
                "{bad}: {refused:?}"
            );
        }
    }

    proptest! {
        /// Whatever is erased, in whatever order: each is found by its commitment, at the first leaf that erased it, and in the order of
        /// these leaves; and a snapshot has them all.
        #[test]
        fn erasures_are_kept_in_order_and_survive_a_snapshot(wanted in prop::collection::vec(0u8..20, 0..40)) {
            let mut state = State::default();
            let mut expected: Vec<(u64, Hash)> = Vec::new();
            for (index, n) in wanted.iter().enumerate() {
                let (commitment, index) = (sha256(&[*n]), index as u64);
                let is_new = expected.iter().all(|(_, known)| *known != commitment);
                prop_assert_eq!(erased(&mut state, &commitment, index).is_ok(), is_new);
                if is_new {
                    expected.push((index, commitment));
                }
            }
            prop_assert_eq!(state.erased.from(0).collect::<Vec<_>>(), expected.clone());
            prop_assert_eq!(state.erased.newest(), expected.last().map(|(index, _)| *index));
            for (index, commitment) in &expected {
                prop_assert_eq!(state.erased.get(commitment), Some(*index));
            }
            let again = State::from_snapshot(&state.to_snapshot()).unwrap();
            prop_assert_eq!(again, state);
        }
    }
}
