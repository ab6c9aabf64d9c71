//! Which key each identity had at which leaf, shown by the leaves that enrolled it.
//!
//! Every link is a leaf under the same checkpoint: leaf 0 names the owner and the service; each
//! `identity_enroll` and `identity_rotate` is signed by an identity that an earlier link shows. That no
//! link is missing (a later rotation, a revocation) a single file cannot show: it is the operator's word
//! until `audit` has read the whole log.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::Value;

use super::Support;
use crate::base64;
use crate::checkpoint::Checkpoint;
use crate::hash::leaf_hash;
use crate::json::{self, Fault, JsonError};
use crate::key::{IdentityId, KeyError, PublicKey};
use crate::leaf::{Class, Decision, Leaf, LeafError, OperationLeaf, SystemLeaf};
use crate::operation::{self, Operation, possession_message};
use crate::tree::{self, ProofError};

/// Why support leaves show nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("support leaf {index}: {what}")]
pub struct ChainError {
    /// Index of the leaf at fault.
    pub index: u64,
    /// What is wrong with it.
    pub what: ChainFault,
}

/// What is wrong with a support leaf.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainFault {
    /// It stands twice with different content.
    #[error("two leaves at this index")]
    Twice,
    /// It is not in the tree.
    #[error("{0}")]
    Inclusion(#[from] ProofError),
    /// It is no leaf.
    #[error("{0}")]
    Leaf(#[from] LeafError),
    /// It stands at 0 and opens no log, or opens one elsewhere.
    #[error("not the opening of a log, which stands at 0 and nowhere else")]
    Opening,
    /// Its event, arguments or effect lack something or are of another form.
    #[error("{0} is missing or malformed")]
    Member(&'static str),
    /// Its payload is not an operation's.
    #[error("payload: {0}")]
    Payload(#[from] JsonError),
    /// It holds a key that cannot be used.
    #[error("{0}")]
    Key(#[from] KeyError),
    /// It is for another log.
    #[error("it is for log {0:?}")]
    Log(String),
    /// Its signature fails under the key that earlier leaves show.
    #[error("the signature of {0} does not verify")]
    Signature(IdentityId),
    /// The signer, or the class, may not do this.
    #[error("{0} may not: {1}")]
    Reach(IdentityId, &'static str),
    /// The effect names another identity than the key's.
    #[error("the effect names {0}, which is not this key's identity")]
    Identity(IdentityId),
    /// The new key's own signature is said to be there and fails.
    #[error("the possession of the new key is not proved")]
    Possession,
    /// It enrols an identity that has been enrolled.
    #[error("{0} had been enrolled before")]
    Again(IdentityId),
}

/// How an identity came into the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Named in leaf 0 as the owner.
    Owner,
    /// Named in leaf 0 as the service.
    Service,
    /// Enrolled by this identity.
    By(IdentityId),
}

/// A key of an identity, from one leaf on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Span {
    /// The leaf that brought it; it signs later ones.
    from: u64,
    key: PublicKey,
    proved: bool,
}

/// An identity, as the support leaves show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its label.
    pub name: String,
    /// Where its key lives.
    pub class: Class,
    /// How it came in.
    pub how: How,
    /// The leaf that revoked it.
    pub revoked: Option<u64>,
    spans: Vec<Span>,
}

/// The key with which an identity signed a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held<'c> {
    /// The key.
    pub key: &'c PublicKey,
    /// The leaf that brought it.
    pub from: u64,
    /// Whether it signed for itself when it came.
    pub proved: bool,
    /// The leaf that replaced it later, where the evidence shows one.
    pub until: Option<u64>,
}

impl Identity {
    /// The key it had at the leaf of this index: of the last leaf before it.
    #[must_use]
    pub fn key_at(&self, index: u64) -> Option<Held<'_>> {
        let after = self.spans.partition_point(|span| span.from < index);
        let span = &self.spans[after.checked_sub(1)?];
        let until = self.spans.get(after).map(|next| next.from);
        Some(Held {
            key: &span.key,
            from: span.from,
            proved: span.proved,
            until,
        })
    }

    /// The leaf that enrolled it.
    #[must_use]
    pub fn enrolled(&self) -> u64 {
        self.spans[0].from
    }
}

/// All identities that the support leaves show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    identities: BTreeMap<IdentityId, Identity>,
    /// Signers of support leaves that no support leaf shows, by what they enrolled.
    loose: BTreeMap<IdentityId, (u64, IdentityId)>,
}

impl Chain {
    /// Checks each support leaf, in the order of the log, and follows what it says.
    ///
    /// # Errors
    /// [`ChainError`] for a leaf that is not in the tree of `checkpoint` or says what it cannot. An
    /// enrolment by somebody whom no leaf shows is no error; it shows nothing.
    pub fn build(support: &[Support], checkpoint: &Checkpoint) -> Result<Self, ChainError> {
        let mut order: Vec<&Support> = support.iter().collect();
        order.sort_by_key(|support| support.index);
        let mut chain = Self::default();
        let mut last: Option<&Support> = None;
        for support in order {
            if last.is_some_and(|last| last.index == support.index) {
                if last == Some(support) {
                    continue;
                }
                return Err(ChainError {
                    index: support.index,
                    what: ChainFault::Twice,
                });
            }
            last = Some(support);
            chain
                .follow(support, checkpoint)
                .map_err(|what| ChainError {
                    index: support.index,
                    what,
                })?;
        }
        Ok(chain)
    }

    /// The identity of this id.
    #[must_use]
    pub fn get(&self, id: IdentityId) -> Option<&Identity> {
        self.identities.get(&id)
    }

    /// `enrolled at 5 by id_… ("build"), enrolled at 2 by the owner in leaf 0`, for people.
    #[must_use]
    pub fn story(&self, id: IdentityId) -> String {
        let mut out = String::new();
        let mut next = id;
        while let Some(identity) = self.identities.get(&next) {
            match identity.how {
                How::Owner => return out + "the owner in leaf 0",
                How::Service => return out + "the service in leaf 0",
                How::By(by) => {
                    out += &format!("enrolled at {} by ", identity.enrolled());
                    // An enroller's own enrolment lies before, so this ends.
                    match self.identities.get(&by) {
                        Some(enroller) if matches!(enroller.how, How::By(_)) => {
                            out += &format!("{by} {:?}, ", enroller.name);
                        }
                        _ => {}
                    }
                    next = by;
                }
            }
        }
        match self.loose.get(&id) {
            Some((index, by)) => format!("enrolled at {index} by {by}, whom no leaf here shows"),
            None => String::from("no leaf here enrols it"),
        }
    }

    fn follow(&mut self, support: &Support, checkpoint: &Checkpoint) -> Result<(), ChainFault> {
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
        if !["identity_enroll", "identity_rotate", "identity_revoke"].contains(&&*operation.tool) {
            return Ok(());
        }
        if operation.log != checkpoint.origin {
            return Err(ChainFault::Log(operation.log));
        }
        let effect = json::parse(effect.as_bytes())?;
        let id = text(&effect, "identity")?.parse()?;
        let Some(reach) = self.signer(leaf, index)? else {
            self.loose.insert(id, (index, leaf.by.identity));
            return Ok(());
        };
        match &*operation.tool {
            "identity_enroll" => {
                self.enroll(id, &operation, &effect, index, (leaf.by.identity, reach))
            }
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

    /// The class of the one who asked, if earlier leaves show it; its signature must then verify.
    fn signer(&self, leaf: &OperationLeaf<'_>, index: u64) -> Result<Option<Class>, ChainFault> {
        let by = leaf.by.identity;
        let Some(identity) = self.identities.get(&by) else {
            return Ok(None);
        };
        let Some(held) = identity.key_at(index) else {
            return Ok(None);
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
                "identities are changed under an agent_key only",
            ));
        }
        Ok(Some(identity.class))
    }

    fn enroll(
        &mut self,
        id: IdentityId,
        operation: &Operation,
        effect: &Value,
        index: u64,
        (by, reach): (IdentityId, Class),
    ) -> Result<(), ChainFault> {
        let key = public_key(&operation.arguments)?;
        if key.identity() != id {
            return Err(ChainFault::Identity(id));
        }
        let class = Class::from_name(text(effect, "class")?).ok_or(ChainFault::Member("class"))?;
        let asked = operation.arguments.get("class").and_then(Value::as_str);
        if class.reach() > reach.reach() || asked.is_some_and(|asked| asked != class.name()) {
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
            how: How::By(by),
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
        if text(&operation.arguments, "identity")?.parse() != Ok(id) {
            return Err(ChainFault::Identity(id));
        }
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

impl ChainError {
    /// Whether the leaf may be sound and is only unknown to this release.
    #[must_use]
    pub const fn is_newer(&self) -> bool {
        matches!(
            self.what,
            ChainFault::Leaf(LeafError::Newer)
                | ChainFault::Payload(JsonError {
                    what: Fault::Unknown,
                    ..
                })
                | ChainFault::Key(KeyError::Algorithm)
        )
    }
}
