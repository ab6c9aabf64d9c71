//! Receipts: what is taken as one. The state keeps the policy, never the receipts.

use std::collections::{BTreeMap, BTreeSet};

use countersign_verifier::{
    hash::sha256,
    json::canonical,
    key::IdentityId,
    limits::SIGNATURES_MAX,
    operation::{BINDING_TYPE, Operation, PAYLOAD_TYPE, POSSESSION_TYPE},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    At, Caller, Decided, State,
    verb::{Verb, arguments, malformed},
};
use crate::code::Code;

/// A policy names at most so many types: it is read for every receipt, and stands whole in one operation.
const TYPES_MAX: usize = 64;

/// What a receipt needs in order to become a leaf. The account's default: any type, one signature by an enrolled key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReceiptPolicy {
    /// How many distinct enrolled keys must have signed, 1 to 16; 1 if absent.
    #[serde(default = "one")]
    pub threshold: usize,
    /// The payload types that are taken; absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub types: Option<BTreeSet<String>>,
    /// Payload type → another threshold; with `types` at most 64 names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub thresholds: BTreeMap<String, usize>,
}

fn one() -> usize {
    1
}

impl Default for ReceiptPolicy {
    fn default() -> ReceiptPolicy {
        ReceiptPolicy {
            threshold: one(),
            types: None,
            thresholds: BTreeMap::new(),
        }
    }
}

impl ReceiptPolicy {
    /// How many signatures a receipt of this type needs.
    #[must_use]
    pub fn threshold_for(&self, payload_type: &str) -> usize {
        self.thresholds
            .get(payload_type)
            .copied()
            .unwrap_or(self.threshold)
    }

    /// Why receipts of this type are not taken.
    ///
    /// # Errors
    /// A sentence for the client.
    pub fn check_type(&self, payload_type: &str) -> Result<(), String> {
        if payload_type.is_empty() {
            return Err("the payloadType is empty: nobody could say what the payload means".into());
        }
        // Types of the service's own: a signature that was given for one of its purposes is good for no other.
        if payload_type == PAYLOAD_TYPE {
            return Err("an operation is no receipt: post it to /v1/<tool> as `signed`".into());
        }
        if [BINDING_TYPE, POSSESSION_TYPE].contains(&payload_type) {
            return Err("a proof of a key is no receipt: it is part of an operation".into());
        }
        if payload_type.trim() != payload_type || payload_type.chars().any(char::is_control) {
            return Err("the payloadType has white space at an end, or a control character".into());
        }
        match &self.types {
            Some(types) if !types.contains(payload_type) => {
                Err("the account's receipt policy does not list this payloadType".into())
            }
            _ => Ok(()),
        }
    }

    fn check(&self) -> Result<(), String> {
        let counts = self.thresholds.values().chain([&self.threshold]);
        if counts
            .into_iter()
            .any(|n| !(1..=SIGNATURES_MAX).contains(n))
        {
            return Err(format!("a threshold is 1 to {SIGNATURES_MAX}"));
        }
        let named = self.types.iter().flatten().chain(self.thresholds.keys());
        if self.types.as_ref().map_or(0, BTreeSet::len) + self.thresholds.len() > TYPES_MAX {
            return Err(format!("more than {TYPES_MAX} payload types"));
        }
        for name in named {
            ReceiptPolicy::default()
                .check_type(name)
                .map_err(|why| format!("type {name:?}: {why}"))?;
        }
        Ok(())
    }
}

/// `receipt_policy`.
pub const POLICY: Verb = Verb {
    tool: "receipt_policy",
    decide,
    apply,
    resource: |_| String::new(),
};

fn decide(state: &State, caller: &Caller<'_>, operation: &Operation, _at: At) -> Decided {
    let asked: ReceiptPolicy = match arguments(&operation.arguments) {
        Ok(asked) => asked,
        Err(why) => return malformed(why),
    };
    if state.owner() != Some(caller.identity.id) {
        return Decided::refuse(Code::NotAllowed, "only the account's owner may do this");
    }
    if let Err(why) = asked.check() {
        return malformed(why);
    }
    let digest = sha256(canonical(&operation.arguments).as_bytes()).to_hex();
    Decided::Applied(Map::new()).with("policy_sha256", digest)
}

fn apply(
    state: &mut State,
    _by: IdentityId,
    operation: &Operation,
    _effect: &Map<String, Value>,
    _index: u64,
) -> Result<(), String> {
    state.receipts = arguments(&operation.arguments)?;
    Ok(())
}
