//! What leaves say of names and keys: whose they are.

use std::collections::BTreeMap;

use countersign_verifier::{
    base64,
    hash::Hash,
    key::{IdentityId, PublicKey},
    leaf::{Decision, Leaf},
    operation::Operation,
};
use serde_json::Value;

/// Whose the watched names and keys are, by the leaves so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Learned {
    pub(super) names: BTreeMap<String, Option<IdentityId>>,
    pub(super) keys: BTreeMap<Hash, Option<IdentityId>>,
}

/// The JSON of a leaf that may name somebody.
pub(super) struct Said {
    /// The arguments, or the event.
    asked: Value,
    /// Effect or detail of the decision.
    decided: Value,
    applied: bool,
    opens: bool,
    pub(super) enrols: bool,
    rotates: bool,
}

impl Said {
    pub(super) fn of(leaf: &Leaf<'_>, operation: Option<&Operation>) -> Said {
        let json = |text: &str| serde_json::from_str(text).unwrap_or(Value::Null);
        let (mut asked, mut decided, mut applied) = (Value::Null, Value::Null, false);
        let mut opens = false;
        match leaf {
            Leaf::System(system) => {
                asked = json(system.event);
                opens = system.event_type == "opened";
            }
            Leaf::Operation(leaf) => {
                (decided, applied) = match leaf.decision {
                    Decision::Applied { effect } => (json(effect), true),
                    Decision::Refused { detail, .. } => (json(detail), false),
                };
                asked = operation.map_or(Value::Null, |o| o.arguments.clone());
            }
            Leaf::Receipt(_) => {}
        }
        let tool = operation.map(|o| o.tool.as_str());
        Said {
            asked,
            decided,
            applied,
            opens,
            enrols: tool == Some("identity_enroll"),
            rotates: tool == Some("identity_rotate"),
        }
    }

    /// Every text in it, with the name of the member that it stands in.
    pub(super) fn each(&self, tell: &mut dyn FnMut(&str, &str)) {
        for value in [&self.asked, &self.decided] {
            texts("", value, tell);
        }
    }
}

fn texts(member: &str, value: &Value, tell: &mut dyn FnMut(&str, &str)) {
    match value {
        Value::String(text) => tell(member, text),
        Value::Array(all) => all.iter().for_each(|value| texts(member, value, tell)),
        // OK because leaves nest at most 32 deep.
        Value::Object(all) => all
            .iter()
            .for_each(|(name, value)| texts(name, value, tell)),
        _ => {}
    }
}

impl Learned {
    /// Whose names and keys a leaf says these are. The first that says so counts: a second one would break the log's rules, which an
    /// audit finds, and is told as a leaf about the name.
    pub(super) fn take(&mut self, said: &Said) {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        if said.opens {
            for name in ["owner", "service"] {
                let key = text(&said.asked[name]["public_key"]).and_then(|key| spki(&key));
                if let Some(key) = key {
                    self.name(name, key);
                }
            }
        }
        let id: Option<IdentityId> = text(&said.decided["identity"]).and_then(|id| id.parse().ok());
        let Some(id) = id.filter(|_| said.applied) else {
            return;
        };
        if said.enrols
            && let Some(name) = text(&said.asked["name"])
        {
            self.name(&name, id);
        }
        if said.rotates
            && let Some(key) = text(&said.asked["public_key"]).and_then(|key| spki(&key))
            && let Some(known) = self.keys.get_mut(&key.0)
        {
            known.get_or_insert(id);
        }
    }

    fn name(&mut self, name: &str, id: IdentityId) {
        if let Some(known) = self.names.get_mut(&name.to_ascii_lowercase()) {
            known.get_or_insert(id);
        }
    }

    pub(super) fn to_texts(
        &self,
    ) -> (
        BTreeMap<String, Option<String>>,
        BTreeMap<String, Option<String>>,
    ) {
        let id = |id: &Option<IdentityId>| id.map(|id| id.to_string());
        let names = self.names.iter().map(|(name, of)| (name.clone(), id(of)));
        let keys = self.keys.iter().map(|(key, of)| (key.to_hex(), id(of)));
        (names.collect(), keys.collect())
    }

    pub(super) fn from_texts(
        names: &BTreeMap<String, Option<String>>,
        keys: &BTreeMap<String, Option<String>>,
    ) -> Option<Learned> {
        let id = |id: &Option<String>| -> Option<Option<IdentityId>> {
            match id {
                None => Some(None),
                Some(text) => text.parse().ok().map(Some),
            }
        };
        let names = names.iter().map(|(name, of)| Some((name.clone(), id(of)?)));
        let keys = keys
            .iter()
            .map(|(key, of)| Some((Hash::from_hex(key).ok()?, id(of)?)));
        Some(Learned {
            names: names.collect::<Option<_>>()?,
            keys: keys.collect::<Option<_>>()?,
        })
    }
}

/// The id that a key begins.
pub(super) fn spki(text: &str) -> Option<IdentityId> {
    let der = base64::decode(text).ok()?;
    Some(PublicKey::from_spki(&der).ok()?.identity())
}
