//! A log of ours: what each leaf says, by the keys that the leaves before it enrol.

use countersign_verifier::{
    dsse::{Envelope, Signature},
    key::{IdentityId, PublicKey},
    leaf::{By, Class as KeyClass, Leaf, LeafError},
    operation::{self, Operation},
};

use super::report::{Class, Faults};
use crate::{
    ledger::{Replayed, follows_rules},
    state::{
        Identity, State,
        identity::{Named as NamedKey, Possession},
        session,
    },
};

/// What was found of the leaves so far.
#[derive(Debug, Default)]
pub(super) struct Own {
    pub(super) state: State,
    /// The leaf from which on nothing can be said, because the state could not take it in; and whether it is only too new.
    pub(super) stopped: Option<(u64, bool)>,
    /// Decisions that were judged again, and preconditions among them that were taken as recorded.
    pub(super) decisions: u64,
    pub(super) taken: u64,
    pub(super) signatures: u64,
}

/// A signature to be checked, and the key that the leaves name for it.
pub(super) struct Due<'a> {
    pub(super) index: u64,
    envelope: &'a Envelope,
    signature: &'a Signature,
    key: PublicKey,
}

impl Due<'_> {
    /// Why it does not hold.
    pub(super) fn check(&self) -> Option<String> {
        let good = self.key.verify(&self.envelope.pae(), &self.signature.sig);
        (!good).then(|| {
            let signer = &self.signature.keyid;
            format!("the signature of {signer} does not verify under the key that it had then")
        })
    }
}

/// What the log itself is called and signs with.
pub(super) struct Named<'a> {
    pub(super) origin: &'a str,
    /// The verifier keys of the policy that may sign for it.
    pub(super) vkeys: &'a [String],
}

impl Own {
    /// Takes in leaf `index`; gives the signatures that it must have to `due`.
    pub(super) fn step<'a>(
        &mut self,
        index: u64,
        leaf: &'a Result<Leaf<'a>, LeafError>,
        (named, replay): (&Named<'_>, bool),
        faults: &mut Faults,
        due: &mut dyn FnMut(Due<'a>),
    ) {
        let leaf = match leaf {
            Ok(leaf) => leaf,
            Err(LeafError::Newer) => {
                self.stopped.get_or_insert((index, true));
                return;
            }
            Err(error) => {
                faults.add(Class::Entry, Some(index), format!("not a leaf: {error}"));
                self.stopped.get_or_insert((index, false));
                return;
            }
        };
        if self.stopped.is_some() {
            return;
        }
        if let Some(envelope) = leaf.envelope() {
            self.signers(index, leaf, envelope, faults, due);
            self.payload(index, leaf, envelope, named.origin, faults);
        }
        if replay {
            match follows_rules(&self.state, index, leaf) {
                Ok(Replayed::Whole) => self.decisions += 1,
                Ok(Replayed::ButPreconditions) => {
                    self.decisions += 1;
                    self.taken += 1;
                }
                Err(why) => faults.add(Class::State, Some(index), why),
            }
        }
        if let Err(why) = self.state.apply(leaf) {
            faults.add(Class::State, Some(index), why);
            self.stopped = Some((index, false));
            return;
        }
        if index == 0 {
            self.opened(named, faults);
        }
    }

    /// Leaf 0 must be of this log.
    fn opened(&self, named: &Named<'_>, faults: &mut Faults) {
        let Some(opened) = &self.state.opened else {
            return;
        };
        if opened.origin != named.origin {
            let what = format!(
                "it opens log {:?}, and stands in {:?}",
                opened.origin, named.origin
            );
            faults.add(Class::State, Some(0), what);
        }
        if !named.vkeys.contains(&opened.log_vkey) {
            let what = format!(
                "it names the log's key {:?}, which your policy does not list",
                opened.log_vkey
            );
            faults.add(Class::Key, Some(0), what);
        }
    }

    /// Who signed, and whether they might.
    fn signers<'a>(
        &mut self,
        index: u64,
        leaf: &Leaf<'_>,
        envelope: &'a Envelope,
        faults: &mut Faults,
        due: &mut dyn FnMut(Due<'a>),
    ) {
        let by = leaf.by();
        for signature in &envelope.signatures {
            let id = signature.keyid.parse::<IdentityId>().ok();
            let Some(identity) = id.and_then(|id| self.state.identities.get(&id)) else {
                let what = format!("signed by {:?}, who is not enrolled", signature.keyid);
                faults.add(Class::Key, Some(index), what);
                continue;
            };
            let is_by = by.filter(|by| by.identity == identity.id);
            if let Some(why) = may_not(identity, matches!(leaf, Leaf::Operation(_))) {
                faults.add(Class::Key, Some(index), why);
            }
            let bound = is_by
                .filter(|by| by.class == KeyClass::SessionKey)
                .and_then(|by| session_key(&self.state, by));
            if let Some(by) = is_by
                && by.class != identity.class
                && bound.is_none()
            {
                let what = format!(
                    "it says that {} is of class {}, enrolled as {}",
                    identity.id,
                    by.class.name(),
                    identity.class.name()
                );
                faults.add(Class::Key, Some(index), what);
            }
            self.signatures += 1;
            due(Due {
                index,
                envelope,
                signature,
                key: bound.unwrap_or(&identity.key).public.clone(),
            });
        }
    }

    /// Whether the payload is one of such a leaf, for this log.
    fn payload(
        &self,
        index: u64,
        leaf: &Leaf<'_>,
        envelope: &Envelope,
        origin: &str,
        faults: &mut Faults,
    ) {
        let is_operation = matches!(leaf, Leaf::Operation(_));
        if (envelope.payload_type == operation::PAYLOAD_TYPE) != is_operation {
            let (kind, payload) = (leaf.kind(), &envelope.payload_type);
            let what = format!("a payload of type {payload:?} in a leaf of kind {kind}");
            faults.add(Class::Entry, Some(index), what);
            return;
        }
        if !is_operation {
            return;
        }
        match Operation::parse(&envelope.payload) {
            Ok(operation) if operation.log == origin => {}
            Ok(operation) => {
                let what = format!("an operation that was signed for log {:?}", operation.log);
                faults.add(Class::Key, Some(index), what);
            }
            Err(error) => faults.add(
                Class::Entry,
                Some(index),
                format!("not an operation: {error}"),
            ),
        }
    }
}

/// The key of the session that a leaf says it was signed in, where that is the signer's own. Whether it still counted is replay's
/// to say.
fn session_key<'s>(state: &'s State, by: &By) -> Option<&'s NamedKey> {
    let session = state
        .sessions
        .get(session::parse_id(by.session.as_deref()?)?)?;
    let own = session.identity == by.identity;
    session.key.as_ref().filter(|_| own).map(|key| &key.named)
}

/// Why this identity might not sign.
fn may_not(identity: &Identity, operation: bool) -> Option<String> {
    if let Some(revoked) = identity.revoked {
        return Some(format!("signed by {}, revoked at {revoked}", identity.id));
    }
    (operation && identity.possession == Possession::Stated).then(|| {
        format!(
            "an operation by {}, whose key had not proved itself",
            identity.id
        )
    })
}
