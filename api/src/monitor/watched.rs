//! What is watched for, and whether a leaf is it.
//!
//! Signers stand in leaves by their ids. A name or a key that somebody watches is turned into an id by the leaves themselves, which
//! enrol it: so only a watch that has read them all can take one.

use std::collections::BTreeSet;

use countersign_verifier::{
    hash::{Hash, sha256},
    key::IdentityId,
    leaf::{Leaf, LeafError},
    operation::{self, Operation},
    statement::{self, Statement},
};
use serde_json::{Value, json};

use super::learned::{Learned, Said, spki};

/// What somebody wants to hear of: any of it is enough.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Watched {
    /// Identities, by id.
    pub ids: BTreeSet<IdentityId>,
    /// Identities by name, in lower case.
    pub names: BTreeSet<String>,
    /// Identities by any key that they ever had: SHA-256 of its SPKI.
    pub keys: BTreeSet<Hash>,
    /// Payload types, predicate types of in-toto statements, tools, and types of system events.
    pub types: BTreeSet<String>,
    /// SHA-256 of a statement's subject, or of the payload itself.
    pub subjects: BTreeSet<Hash>,
}

/// An entry, read as far as watching needs.
pub(super) enum Read<'a> {
    Leaf(Box<Leaf<'a>>, Option<Box<Operation>>),
    /// Not to be read, and why.
    Odd(String),
}

/// What a leaf has of what is watched for, and what in it could not be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Found {
    /// One object each: `signed_by`, `about`, `type` or `subject`.
    pub(super) matched: Vec<Value>,
    pub(super) odd: Option<String>,
}

impl Watched {
    /// Whether nothing is asked for: the log is then followed, and its entries are bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
            && self.names.is_empty()
            && self.keys.is_empty()
            && self.types.is_empty()
            && self.subjects.is_empty()
    }

    /// Each thing that is watched for, as the file of a monitor names it.
    pub(super) fn words(&self) -> BTreeSet<String> {
        let ids = self.ids.iter().map(|id| format!("identity {id}"));
        let names = self.names.iter().map(|name| format!("name {name}"));
        let keys = self.keys.iter().map(|key| format!("key {key}"));
        let types = self.types.iter().map(|of| format!("type {of}"));
        let subjects = self.subjects.iter().map(|of| format!("subject {of}"));
        let all = ids.chain(names).chain(keys).chain(types);
        all.chain(subjects).collect()
    }

    /// A name or a key that leaves before `from` may have said more about, which were not read for it.
    pub(super) fn unresolved(&self, learned: &Learned, from: u64) -> Option<String> {
        if from == 0 {
            return None;
        }
        let name = self
            .names
            .iter()
            .find(|name| !learned.names.contains_key(*name));
        let key = self.keys.iter().find(|key| !learned.keys.contains_key(key));
        name.cloned()
            .or_else(|| key.map(|key| format!("the key {key}")))
    }

    /// What is to be learned from leaf 0 on.
    pub(super) fn unlearned(&self, mut learned: Learned) -> Learned {
        for name in &self.names {
            learned.names.entry(name.clone()).or_insert(None);
        }
        for key in &self.keys {
            learned.keys.entry(*key).or_insert(None);
        }
        learned
    }

    fn has(&self, learned: &Learned, id: &IdentityId) -> bool {
        let of = |known: Option<&Option<IdentityId>>| known == Some(&Some(*id));
        self.ids.contains(id)
            || self.keys.contains(&id.0)
            || self.names.iter().any(|name| of(learned.names.get(name)))
            || self.keys.iter().any(|key| of(learned.keys.get(key)))
    }

    /// Whether a leaf is what is watched for. What it says of names and keys is learned first.
    pub(super) fn look(&self, learned: &mut Learned, read: &Read<'_>) -> Found {
        let (leaf, operation) = match read {
            Read::Leaf(leaf, operation) => (&**leaf, operation.as_deref()),
            Read::Odd(why) => {
                return Found {
                    odd: Some(why.clone()),
                    ..Found::default()
                };
            }
        };
        let mut found = Found::default();
        let said = Said::of(leaf, operation);
        learned.take(&said);
        self.signed(learned, leaf, &mut found);
        self.about(learned, &said, &mut found);
        if let Leaf::System(system) = leaf {
            self.kind(system.event_type, &mut found);
        }
        if let Some(operation) = operation {
            self.kind(&operation.tool, &mut found);
        }
        if let Some(envelope) = leaf.envelope() {
            self.kind(&envelope.payload_type, &mut found);
            self.payload(&envelope.payload_type, &envelope.payload, &mut found);
            if operation.is_none() && envelope.payload_type == operation::PAYLOAD_TYPE {
                found.odd = Some("its payload is no operation that this release reads".into());
            }
        }
        found
    }

    fn kind(&self, of: &str, found: &mut Found) {
        if self.types.contains(of) {
            found.matched.push(json!({"type": of}));
        }
    }

    fn signed(&self, learned: &Learned, leaf: &Leaf<'_>, found: &mut Found) {
        let by = leaf.by().map(|by| by.identity);
        let envelope = leaf.envelope().into_iter();
        let signers = envelope.flat_map(|e| &e.signatures);
        let signers = signers.filter_map(|signature| signature.keyid.parse().ok());
        let all: BTreeSet<IdentityId> = by.into_iter().chain(signers).collect();
        for id in all.iter().filter(|id| self.has(learned, id)) {
            found.matched.push(json!({"signed_by": id.to_string()}));
        }
    }

    /// Whose id, key or new name stands in what was asked, in what was decided, or in the event.
    fn about(&self, learned: &Learned, said: &Said, found: &mut Found) {
        let mut about = BTreeSet::new();
        said.each(&mut |member, text| {
            if let Ok(id) = text.parse::<IdentityId>() {
                if self.has(learned, &id) {
                    about.insert(text.to_owned());
                }
            } else if member == "public_key" {
                if let Some(id) = spki(text).filter(|id| self.has(learned, id)) {
                    about.insert(id.to_string());
                }
            } else if member == "name" && said.enrols {
                let name = text.to_ascii_lowercase();
                if self.names.contains(&name) {
                    about.insert(name);
                }
            }
        });
        let rows = about.into_iter().map(|who| json!({"about": who}));
        found.matched.extend(rows);
    }

    fn payload(&self, payload_type: &str, payload: &[u8], found: &mut Found) {
        if self.subjects.is_empty() && self.types.is_empty() {
            return;
        }
        if !self.subjects.is_empty() {
            let sum = sha256(payload);
            if self.subjects.contains(&sum) {
                found.matched.push(json!({"subject": sum.to_hex()}));
            }
        }
        if !statement::is_payload_type(payload_type) {
            return;
        }
        match Statement::parse(payload) {
            Ok(statement) => {
                self.kind(&statement.predicate_type, found);
                for subject in self.subjects.iter().filter(|s| statement.speaks_of(s)) {
                    found.matched.push(json!({"subject": subject.to_hex()}));
                }
            }
            // What reads it more kindly than we do may find in it what is watched for.
            Err(error) => found.odd = Some(format!("its statement cannot be read: {error}")),
        }
    }
}

impl<'a> Read<'a> {
    pub(super) fn of(entry: &'a [u8]) -> Read<'a> {
        match Leaf::parse(entry) {
            Ok(leaf) => {
                let payload = match &leaf {
                    Leaf::Operation(operation) => Some(&operation.envelope.payload),
                    _ => None,
                };
                let operation = payload.and_then(|payload| Operation::parse(payload).ok());
                Read::Leaf(Box::new(leaf), operation.map(Box::new))
            }
            Err(error @ LeafError::Newer) => Read::Odd(error.to_string()),
            Err(error) => Read::Odd(format!("not a leaf: {error}")),
        }
    }
}

#[cfg(test)]
mod tests;
