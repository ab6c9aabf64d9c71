//! Following the support leaves: each is checked before what it says is taken.

use alloc::format;

use serde_json::Value;

use super::{Bound, Chain, ChainFault, How, Identity, Span};
use crate::base64;
use crate::checkpoint::Checkpoint;
use crate::evidence::Support;
use crate::hash::leaf_hash;
use crate::json;
use crate::key::{IdentityId, PublicKey};
use crate::leaf::{Class, Decision, Leaf, Millis, OperationLeaf, SystemLeaf};
use crate::operation::{self, Operation, binding_message, possession_message};
use crate::predecessor::Predecessor;
use crate::tree;

impl Chain {
    pub(super) fn follow(
        &mut self,
        support: &Support,
        checkpoint: &Checkpoint,
    ) -> Result<(), ChainFault> {
        let hash = leaf_hash(&support.leaf);
        tree::verify_inclusion(
            &hash,
            support.index,
            checkpoint.size,
            &support.path,
            &checkpoint.root,
        )?;
        match (Leaf::parse(&support.leaf)?, support.index) {
            (Leaf::System(leaf), 0) => self.open(&leaf, checkpoint),
            (_, 0) => Err(ChainFault::Opening),
            (Leaf::System(leaf), _) if leaf.event_type == "opened" => Err(ChainFault::Opening),
            (Leaf::Operation(leaf), index) => self.operation(&leaf, index, checkpoint),
            _ => Ok(()),
        }
    }

    fn open(&mut self, leaf: &SystemLeaf<'_>, checkpoint: &Checkpoint) -> Result<(), ChainFault> {
        if leaf.event_type != "opened" {
            return Err(ChainFault::Opening);
        }
        let event = json::parse(leaf.event.as_bytes())?;
        let origin = text(&event, "origin")?;
        if origin != checkpoint.origin {
            return Err(ChainFault::Log(origin.into()));
        }
        let predecessor = event.get("predecessor").map(Predecessor::parse);
        self.predecessor = predecessor.transpose()?;
        // A successor is one epoch later than the log before it, and nothing else is.
        let epoch = event.get("epoch").and_then(Value::as_u64);
        if epoch.is_none_or(|epoch| (epoch > 0) != self.predecessor.is_some()) {
            return Err(ChainFault::Member("epoch"));
        }
        for (name, class, how) in [
            ("owner", Class::AgentKey, How::Owner),
            ("service", Class::ServiceKey, How::Service),
        ] {
            let key = public_key(event.get(name).ok_or(ChainFault::Member(name))?)?;
            let (id, spans) = (
                key.identity(),
                [Span {
                    from: 0,
                    key,
                    proved: true,
                }]
                .into(),
            );
            let identity = Identity {
                name: name.into(),
                class,
                how,
                revoked: None,
                spans,
            };
            if self.identities.insert(id, identity).is_some() {
                return Err(ChainFault::Again(id));
            }
        }
        Ok(())
    }

    fn operation(
        &mut self,
        leaf: &OperationLeaf<'_>,
        index: u64,
        checkpoint: &Checkpoint,
    ) -> Result<(), ChainFault> {
        let Decision::Applied { effect } = leaf.decision else {
            return Ok(());
        };
        if leaf.envelope.payload_type != operation::PAYLOAD_TYPE {
            return Err(ChainFault::Member("payloadType"));
        }
        let operation = Operation::parse(&leaf.envelope.payload)?;
        if operation.tool == "ars_session_checkin" {
            return self.bind(leaf, &operation, index, checkpoint);
        }
        if !["identity_enroll", "identity_rotate", "identity_revoke"].contains(&&*operation.tool) {
            return Ok(());
        }
        if operation.log != checkpoint.origin {
            return Err(ChainFault::Log(operation.log));
        }
        let effect = json::parse(effect.as_bytes())?;
        let (id, by) = (text(&effect, "identity")?.parse()?, leaf.by.identity);
        let enrolls = operation.tool == "identity_enroll";
        if self.identities.is_empty() {
            // Without leaf 0 nobody is shown, and who may do what is not known.
            if enrolls {
                self.loose.insert(id, (index, by));
            }
            return Ok(());
        }
        if !enrolls && text(&operation.arguments, "identity")?.parse() != Ok(id) {
            return Err(ChainFault::Identity(id));
        }
        self.may(&operation.tool, by, id)?;
        self.signed(leaf, index)?;
        match &*operation.tool {
            "identity_enroll" => self.enroll(id, &operation, &effect, index, by),
            "identity_rotate" => self.rotate(id, &operation, &effect, index),
            _ => {
                // Of one whom no leaf here shows there is nothing to take back.
                if let Some(identity) = self.identities.get_mut(&id) {
                    identity.revoked = identity.revoked.or(Some(index));
                }
                Ok(())
            }
        }
    }

    /// The key that an identity lets sign in a session of its own. Of an identity that no leaf here shows nothing is bound.
    fn bind(
        &mut self,
        leaf: &OperationLeaf<'_>,
        operation: &Operation,
        index: u64,
        checkpoint: &Checkpoint,
    ) -> Result<(), ChainFault> {
        let (by, arguments) = (leaf.by.identity, &operation.arguments);
        let held = self.identities.get(&by).and_then(|i| i.key_at(index));
        let (Some(held), Some(binding)) = (held, arguments.get("binding")) else {
            return Ok(());
        };
        if operation.log != checkpoint.origin {
            return Err(ChainFault::Log(operation.log.clone()));
        }
        let spki = text(arguments, "session_public_key")?;
        let member = |name| move |_| ChainFault::Member(name);
        let der = base64::decode(spki).map_err(member("session_public_key"))?;
        let key = PublicKey::from_spki(&der)?;
        let until: Millis = text(binding, "expires_at")?
            .parse()
            .map_err(|_| ChainFault::Member("expires_at"))?;
        let signature = base64::decode(text(binding, "signature")?).map_err(member("signature"))?;
        let message = binding_message(&operation.log, spki, text(arguments, "role")?, until);
        if !held.key.verify(&message, &signature) {
            return Err(ChainFault::Binding(by));
        }
        self.signed(leaf, index)?;
        let bound = Bound {
            identity: by,
            key,
            until,
        };
        self.sessions.insert(index, bound);
        Ok(())
    }

    /// The service's own rule, so that whoever holds the log's key needs the owner's as well to speak in
    /// anybody's name: the owner enrols; one is rotated and revoked by oneself or the owner; the service
    /// keeps its key, and nobody whom leaf 0 names is revoked.
    fn may(&self, tool: &str, by: IdentityId, id: IdentityId) -> Result<(), ChainFault> {
        let how = |id| self.identities.get(&id).map(|identity| identity.how);
        let owner = how(by) == Some(How::Owner);
        let what = match (tool, how(id)) {
            ("identity_enroll", _) if !owner => "enrol: only the owner does",
            ("identity_enroll", _) => return Ok(()),
            _ if !owner && by != id => "change another identity: only the owner does",
            ("identity_rotate", Some(How::Service)) => "rotate the service, which keeps its key",
            ("identity_revoke", Some(How::Owner | How::Service)) => "revoke whom leaf 0 names",
            _ => return Ok(()),
        };
        Err(ChainFault::Reach(by, what))
    }

    /// Whether the one who asked signed it with a key that may sign operations. Of one whom no leaf shows
    /// nothing is known; what such a one changes, itself, is not shown either.
    fn signed(&self, leaf: &OperationLeaf<'_>, index: u64) -> Result<(), ChainFault> {
        let by = leaf.by.identity;
        let Some(identity) = self.identities.get(&by) else {
            return Ok(());
        };
        let Some(held) = identity.key_at(index) else {
            return Ok(());
        };
        let keyid = format!("{by}");
        let signature = leaf
            .envelope
            .signatures
            .iter()
            .find(|signature| signature.keyid == keyid);
        if !signature.is_some_and(|signature| held.key.verify(&leaf.envelope.pae(), &signature.sig))
        {
            return Err(ChainFault::Signature(by));
        }
        if identity.revoked.is_some() {
            return Err(ChainFault::Reach(by, "it had been revoked"));
        }
        if identity.class != Class::AgentKey || leaf.by.class != Class::AgentKey {
            return Err(ChainFault::Reach(
                by,
                "change identities or bind keys with another key than an agent_key",
            ));
        }
        if !held.proved {
            return Err(ChainFault::Reach(
                by,
                "sign operations with a key that has not proved itself",
            ));
        }
        Ok(())
    }

    fn enroll(
        &mut self,
        id: IdentityId,
        operation: &Operation,
        effect: &Value,
        index: u64,
        by: IdentityId,
    ) -> Result<(), ChainFault> {
        let key = public_key(&operation.arguments)?;
        if key.identity() != id {
            return Err(ChainFault::Identity(id));
        }
        let class = Class::from_name(text(effect, "class")?).ok_or(ChainFault::Member("class"))?;
        let asked = operation.arguments.get("class").and_then(Value::as_str);
        if asked.is_some_and(|asked| asked != class.name()) {
            return Err(ChainFault::Reach(by, "enrol a key of this class"));
        }
        let proved = possession(operation, effect, &key, id, class)?;
        let name = text(&operation.arguments, "name")?.into();
        let spans = [Span {
            from: index,
            key,
            proved,
        }]
        .into();
        let identity = Identity {
            name,
            class,
            how: How::Enrolled,
            revoked: None,
            spans,
        };
        match self.identities.insert(id, identity) {
            Some(_) => Err(ChainFault::Again(id)),
            None => Ok(()),
        }
    }

    fn rotate(
        &mut self,
        id: IdentityId,
        operation: &Operation,
        effect: &Value,
        index: u64,
    ) -> Result<(), ChainFault> {
        // Of one whom no leaf here shows there is no key to replace.
        let Some(identity) = self.identities.get_mut(&id) else {
            return Ok(());
        };
        let key = public_key(&operation.arguments)?;
        let proved = possession(operation, effect, &key, id, identity.class)?;
        identity.spans.push(Span {
            from: index,
            key,
            proved,
        });
        Ok(())
    }
}

fn text<'v>(value: &'v Value, name: &'static str) -> Result<&'v str, ChainFault> {
    value
        .get(name)
        .and_then(Value::as_str)
        .ok_or(ChainFault::Member(name))
}

fn public_key(value: &Value) -> Result<PublicKey, ChainFault> {
    let spki = base64::decode(text(value, "public_key")?);
    Ok(PublicKey::from_spki(
        &spki.map_err(|_| ChainFault::Member("public_key"))?,
    )?)
}

/// Whether the new key signed for itself. Said to be proved and not so is a fault.
fn possession(
    operation: &Operation,
    effect: &Value,
    key: &PublicKey,
    id: IdentityId,
    class: Class,
) -> Result<bool, ChainFault> {
    match text(effect, "possession")? {
        "stated" => Ok(false),
        "proved" => {
            let signature = text(&operation.arguments, "possession").ok();
            let signature = signature.and_then(|signature| base64::decode(signature).ok());
            let message = possession_message(&operation.log, id, class);
            match signature.is_some_and(|signature| key.verify(&message, &signature)) {
                true => Ok(true),
                false => Err(ChainFault::Possession),
            }
        }
        _ => Err(ChainFault::Member("possession")),
    }
}
