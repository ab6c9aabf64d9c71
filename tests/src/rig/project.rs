//! A second, small reading of what the leaves say about identities, made from the design and not from the service's code.

use std::collections::BTreeMap;

use countersign_verifier::{
    base64,
    key::PublicKey,
    leaf::{Decision, Leaf},
    operation::Operation,
};
use serde_json::{Value, json};

/// Identities by id, as rows of `/keys`.
#[derive(Default)]
pub struct Identities(BTreeMap<String, Value>);

impl Identities {
    /// Takes in a leaf.
    pub fn apply(&mut self, index: u64, leaf: &Leaf<'_>) {
        match leaf {
            Leaf::System(system) if system.event_type == "opened" => {
                assert_eq!(index, 0);
                let event: Value = serde_json::from_str(system.event).expect("an event");
                self.add(
                    &event["owner"]["public_key"],
                    "owner",
                    "agent_key",
                    "proved",
                    0,
                );
                self.add(
                    &event["service"]["public_key"],
                    "service",
                    "service_key",
                    "proved",
                    0,
                );
            }
            Leaf::Operation(leaf) => {
                let Decision::Applied { effect } = leaf.decision else {
                    return;
                };
                let asked = Operation::parse(&leaf.envelope.payload).expect("an operation");
                let effect: Value = serde_json::from_str(effect).expect("an effect");
                self.operation(index, &asked, &effect);
            }
            _ => {}
        }
    }

    fn operation(&mut self, index: u64, asked: &Operation, effect: &Value) {
        let text = |value: &Value| value.as_str().expect("a string").to_owned();
        let arguments = &asked.arguments;
        match asked.tool.as_str() {
            "identity_enroll" => {
                let (class, possession) = (text(&effect["class"]), text(&effect["possession"]));
                let name = text(&arguments["name"]);
                let id = self.add(&arguments["public_key"], &name, &class, &possession, index);
                assert_eq!(effect["identity"], id);
                if let Some(roles) = effect.get("roles") {
                    self.0.get_mut(&id).expect("a row")["roles"] = roles.clone();
                }
            }
            "identity_rotate" => {
                let row = self.0.get_mut(&text(&effect["identity"])).expect("a row");
                row["public_key"] = arguments["public_key"].clone();
                row["algorithm"] = read(&arguments["public_key"]).algorithm().name().into();
                row["possession"] = effect["possession"].clone();
                row["rotated_index"] = index.into();
            }
            "identity_revoke" => {
                let row = self.0.get_mut(&text(&effect["identity"])).expect("a row");
                row["revoked_index"] = index.into();
            }
            _ => {}
        }
    }

    fn add(&mut self, spki: &Value, name: &str, class: &str, possession: &str, at: u64) -> String {
        let key = read(spki);
        let id = key.identity().to_string();
        // The owner and the service are what they are called; whoever is enrolled without roles is an agent.
        let role = if at == 0 { name } else { "agent" };
        let row = json!({
            "roles": [role],
            "identity": id,
            "name": name,
            "class": class,
            "algorithm": key.algorithm().name(),
            "public_key": spki,
            "possession": possession,
            "enrolled_index": at,
        });
        assert!(self.0.insert(id.clone(), row).is_none(), "{id} twice");
        id
    }

    /// In order of id, as `/keys` lists them.
    pub fn rows(&self) -> Value {
        self.0.values().cloned().collect()
    }
}

fn read(spki: &Value) -> PublicKey {
    let der = base64::decode(spki.as_str().expect("a string")).expect("base64");
    PublicKey::from_spki(&der).expect("a key")
}
