//! A small log in memory, as a service would write it, with the published keys of the cases:
//! log 0x01, witness 0x02, agent 0x03; and owner 0x04, service 0x05, further ones by their seed.

use countersign_verifier::base64;
use countersign_verifier::dsse::pae;
use countersign_verifier::evidence::{Evidence, EvidenceSet, Support};
use countersign_verifier::hash::{Hash, leaf_hash};
use countersign_verifier::json::canonical;
use countersign_verifier::key::{IdentityId, PrivateKey, PublicKey};
use countersign_verifier::leaf::{
    By, Class, Decision, Millis, Signed, write_operation, write_receipt, write_system,
};
use countersign_verifier::operation::{self, Operation, possession_message};
use countersign_verifier::policy::{Eras, Policy};
use countersign_verifier::proof::TlogProof;
use countersign_verifier::verdict::{Options, Verdict, Verifier};
use serde_json::{Value, json};

use crate::keys::ed25519;
use crate::multi;
use crate::support::{self, Tree, V1_TIME};

pub const ORIGIN: &str = "log.example/a";
pub const TYPE: &str = "application/vnd.example.receipt+json";

pub fn spki(key: &PublicKey) -> String {
    base64::encode(&key.spki_der())
}

pub struct World {
    pub leaves: Vec<Vec<u8>>,
    pub origin: String,
    pub clock_ms: u64,
}

impl World {
    /// Leaf 0: opened by the owner (seed 4) and the service (seed 5).
    pub fn open() -> Self {
        let mut world = Self {
            leaves: vec![],
            origin: ORIGIN.into(),
            clock_ms: V1_TIME * 1000 - 60_000,
        };
        let event = world.opened(&ed25519(4).public());
        world.system(&event);
        world
    }

    pub fn opened(&self, owner: &PublicKey) -> String {
        let (owner, service) = (spki(owner), spki(&ed25519(5).public()));
        format!(
            r#"{{"type":"opened","origin":"{}","log_vkey":"{}","owner":{{"public_key":"{owner}"}},"service":{{"public_key":"{service}"}},"rules":1,"epoch":0}}"#,
            self.origin,
            support::LOG_VKEY,
        )
    }

    /// As [`World::open`], then leaf 1: the owner enrols the agent (seed 3).
    pub fn with_agent() -> Self {
        let mut world = Self::open();
        world.enroll(&ed25519(4), "agent", &ed25519(3), Class::AgentKey, true);
        world
    }

    fn push(&mut self, write: impl FnOnce(&mut Vec<u8>, Millis)) -> u64 {
        let mut leaf = vec![];
        write(&mut leaf, Millis(self.clock_ms));
        self.clock_ms += 1_234;
        self.leaves.push(leaf);
        self.leaves.len() as u64 - 1
    }

    pub fn system(&mut self, event: &str) -> u64 {
        self.push(|out, at| write_system(out, at, event).unwrap())
    }

    pub fn operation_payload(&self, tool: &str, arguments: Value) -> Operation {
        Operation {
            tool: tool.into(),
            arguments,
            log: self.origin.clone(),
            session: None,
            nonce: format!("nonce-{:010}", self.leaves.len()),
            issued_at: Millis(self.clock_ms - 500),
            prev: vec![],
            observed: None,
        }
    }

    pub fn operate(
        &mut self,
        by: (IdentityId, Class, &PrivateKey),
        payload: &[u8],
        decision: Decision<'_>,
    ) -> u64 {
        let (identity, class, key) = by;
        let sig = key.sign(&pae(operation::PAYLOAD_TYPE, payload));
        let by = By {
            identity,
            class,
            session: None,
        };
        let signatures = [(identity, &sig[..])];
        let signed = Signed {
            payload_type: operation::PAYLOAD_TYPE,
            payload,
            signatures: &signatures,
        };
        self.push(|out, at| write_operation(out, at, &by, signed, decision).unwrap())
    }

    fn change(&mut self, by: &PrivateKey, tool: &str, arguments: Value, effect: &Value) -> u64 {
        self.change_as((by.public().identity(), by), tool, arguments, effect)
    }

    /// An applied operation by an identity with the key it has now.
    pub fn change_as(
        &mut self,
        (by, key): (IdentityId, &PrivateKey),
        tool: &str,
        arguments: Value,
        effect: &Value,
    ) -> u64 {
        let payload = self.operation_payload(tool, arguments).to_json();
        self.operate(
            (by, Class::AgentKey, key),
            &payload,
            Decision::Applied {
                effect: &canonical(effect),
            },
        )
    }

    pub fn enroll(
        &mut self,
        by: &PrivateKey,
        name: &str,
        key: &PrivateKey,
        class: Class,
        proved: bool,
    ) -> u64 {
        let (public, id) = (key.public(), key.public().identity());
        let mut arguments =
            json!({"name": name, "public_key": spki(&public), "class": class.name()});
        if proved {
            let signature = key.sign(&possession_message(&self.origin, id, class));
            arguments["possession"] = base64::encode(&signature).into();
        }
        let possession = if proved { "proved" } else { "stated" };
        let effect =
            json!({"identity": id.to_string(), "class": class.name(), "possession": possession});
        self.change(by, "identity_enroll", arguments, &effect)
    }

    pub fn rotate(
        &mut self,
        by: &PrivateKey,
        id: IdentityId,
        key: &PrivateKey,
        class: Class,
    ) -> u64 {
        let signature = key.sign(&possession_message(&self.origin, id, class));
        let arguments = json!({"identity": id.to_string(), "public_key": spki(&key.public()),
            "possession": base64::encode(&signature)});
        let effect = json!({"identity": id.to_string(), "possession": "proved"});
        self.change(by, "identity_rotate", arguments, &effect)
    }

    /// As [`World::rotate`], by the word of the one who asks alone.
    pub fn rotate_stated(&mut self, by: &PrivateKey, id: IdentityId, key: &PublicKey) -> u64 {
        let arguments = json!({"identity": id.to_string(), "public_key": spki(key)});
        let effect = json!({"identity": id.to_string(), "possession": "stated"});
        self.change(by, "identity_rotate", arguments, &effect)
    }

    pub fn revoke(&mut self, by: &PrivateKey, id: IdentityId) -> u64 {
        let (arguments, effect) = (
            json!({"identity": id.to_string()}),
            json!({"identity": id.to_string()}),
        );
        self.change(by, "identity_revoke", arguments, &effect)
    }

    /// A receipt by identities with the keys they have now.
    pub fn receipt(
        &mut self,
        payload_type: &str,
        payload: &[u8],
        signers: &[(IdentityId, &PrivateKey)],
    ) -> u64 {
        self.receipt_of(payload_type, payload, signers, Class::AgentKey)
    }

    pub fn receipt_of(
        &mut self,
        payload_type: &str,
        payload: &[u8],
        signers: &[(IdentityId, &PrivateKey)],
        class: Class,
    ) -> u64 {
        let pae = pae(payload_type, payload);
        let made: Vec<(IdentityId, Vec<u8>)> = signers
            .iter()
            .map(|(id, key)| (*id, key.sign(&pae)))
            .collect();
        let signatures: Vec<(IdentityId, &[u8])> =
            made.iter().map(|(id, sig)| (*id, &sig[..])).collect();
        let identity = signers.iter().map(|(id, _)| *id).min().unwrap();
        let by = By {
            identity,
            class,
            session: None,
        };
        let signed = Signed {
            payload_type,
            payload,
            signatures: &signatures,
        };
        self.push(|out, at| write_receipt(out, at, &by, signed).unwrap())
    }

    /// A receipt by the agent.
    pub fn agent_receipt(&mut self, payload: &[u8]) -> u64 {
        let agent = ed25519(3);
        self.receipt(TYPE, payload, &[(agent.public().identity(), &agent)])
    }

    pub fn tree(&self) -> Tree {
        Tree::of(&self.leaves)
    }

    pub fn head(&self) -> String {
        let size = self.leaves.len();
        format!(
            "{}\n{size}\n{}\n",
            self.origin,
            self.tree().root(size).to_base64()
        )
    }

    /// Signed by the log and cosigned by the witness at V1's time.
    pub fn checkpoint(&self) -> String {
        let text = self.head();
        let witness = support::witness_signer().sign(&text, V1_TIME);
        format!("{text}\n{}{witness}", support::log_signer().sign(&text))
    }

    pub fn support(&self, indexes: &[u64]) -> Vec<Support> {
        let tree = self.tree();
        let one = |index: u64| Support {
            index,
            leaf: self.leaves[index as usize].clone(),
            path: tree.inclusion(index as usize, self.leaves.len()),
        };
        indexes.iter().map(|&index| one(index)).collect()
    }

    pub fn evidence(&self, index: u64, support: &[u64]) -> Evidence {
        self.evidence_under(index, support, &self.checkpoint())
    }

    pub fn evidence_under(&self, index: u64, support: &[u64], checkpoint: &str) -> Evidence {
        let path = self.tree().inclusion(index as usize, self.leaves.len());
        let proof = TlogProof {
            extra: None,
            index,
            path,
            checkpoint: checkpoint.into(),
        };
        Evidence {
            leaf: self.leaves[index as usize].clone(),
            proof,
            support: self.support(support),
        }
    }

    pub fn set(&self, indexes: &[u64], support: &[u64]) -> EvidenceSet {
        let hashes: Vec<Hash> = self.leaves.iter().map(|leaf| leaf_hash(leaf)).collect();
        EvidenceSet {
            checkpoint: self.checkpoint(),
            leaves: indexes
                .iter()
                .map(|&index| (index, self.leaves[index as usize].clone()))
                .collect(),
            multi: multi::prove(&hashes, indexes),
            support: self.support(support),
        }
    }
}

pub fn eras(quorum: &str) -> Eras {
    Eras::one(Policy::parse(support::v1_policy(quorum)).unwrap())
}

/// A reader one hour after the witness.
pub fn options() -> Options {
    Options {
        now_s: Some(V1_TIME + 3600),
        ..Options::default()
    }
}

pub fn judge(evidence: &[u8], options: Options) -> Verdict {
    Verifier::new(eras("w"), options).evidence(evidence)
}

/// The same under a policy.
pub fn judge_under(evidence: &[u8], policy: Policy) -> Verdict {
    Verifier::new(Eras::one(policy), options()).evidence(evidence)
}

/// The envelope of a leaf with one thing changed, as a service that lies would store it.
pub fn relabel(leaf: &[u8], from: &str, to: &str) -> Vec<u8> {
    let text = std::str::from_utf8(leaf).unwrap();
    assert!(text.contains(from), "{from} in {text}");
    text.replacen(from, to, 1).into()
}
