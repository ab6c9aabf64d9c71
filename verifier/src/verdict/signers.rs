//! Whose signatures a stored envelope carries.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use super::head::Shown;
use super::{Found, Status, found};
use crate::dsse::{Envelope, Signature};
use crate::evidence::{Held, Identity};
use crate::key::{IdentityId, PublicKey};
use crate::leaf::{By, Class, Millis};

/// What is known of the signers of one leaf.
pub(super) struct Known<'a> {
    pub(super) index: u64,
    pub(super) at: Millis,
    pub(super) by: &'a By,
    /// Whether the leaf records an operation.
    pub(super) operation: bool,
    pub(super) shown: &'a Shown,
    pub(super) pins: Option<&'a [PublicKey]>,
}

/// The envelope's check and the signers'.
pub(super) fn judge(envelope: &Envelope, known: &Known<'_>) -> (Found, Found) {
    let pae = envelope.pae();
    let judged: Vec<_> = envelope
        .signatures
        .iter()
        .map(|s| known.signature(&pae, s))
        .collect();
    let (envelopes, signers): (Vec<Found>, Vec<Found>) = judged.into_iter().unzip();
    let bytes = envelope.payload.len();
    let what = format!(" over {bytes} bytes of {}", envelope.payload_type);
    let (status, mut detail) = worst(envelopes);
    detail.push_str(&what);
    ((status, detail), worst(signers))
}

/// The heaviest status, and the reasons of that status.
pub(super) fn worst(mut all: Vec<Found>) -> Found {
    if all.len() == 1 {
        return all.remove(0);
    }
    let weight = all
        .iter()
        .map(|(status, _)| status.weight())
        .max()
        .unwrap_or(0);
    let heaviest = all
        .into_iter()
        .filter(|(status, _)| status.weight() == weight);
    heaviest
        .reduce(|(status, all), (_, one)| (status, all + "; " + &one))
        .unwrap_or_else(|| found(Status::Skipped, ""))
}

impl Known<'_> {
    /// Whether the signature verifies, and who made it.
    fn signature(&self, pae: &[u8], signature: &Signature) -> (Found, Found) {
        let Ok(signer) = signature.keyid.parse::<IdentityId>() else {
            let none = || {
                found(
                    Status::Fail,
                    format!("keyid {:?} is no identity", signature.keyid),
                )
            };
            return (none(), none());
        };
        match self.shown {
            Ok(chain) => match chain.get(signer) {
                Some(identity) => match identity.key_at(self.index) {
                    Some(held) => self.enrolled(pae, signature, signer, identity, held),
                    None => {
                        let detail = format!(
                            "{signer} is enrolled at {}, not before this leaf",
                            identity.enrolled()
                        );
                        (self.unknown_key(signer), found(Status::Fail, detail))
                    }
                },
                None => self.pinned(pae, signature, signer, &chain.story(signer)),
            },
            Err(error) => {
                let status = if error.is_newer() {
                    Status::Unknown
                } else {
                    Status::Fail
                };
                let (envelope, _) = self.pinned(pae, signature, signer, "");
                (envelope, found(status, error.to_string()))
            }
        }
    }

    fn unknown_key(&self, signer: IdentityId) -> Found {
        found(
            Status::Unknown,
            format!("unknown key of {signer}, so its signature is not checked"),
        )
    }

    /// A signer whose key the support leaves show.
    fn enrolled(
        &self,
        pae: &[u8],
        signature: &Signature,
        signer: IdentityId,
        identity: &Identity,
        held: Held<'_>,
    ) -> (Found, Found) {
        if self.by.class == Class::SessionKey && self.by.identity == signer {
            return self.in_session(pae, signature, signer, identity, held);
        }
        let verifies = held.key.verify(pae, &signature.sig);
        let algorithm = held.key.algorithm().name();
        let envelope = if verifies {
            found(
                Status::Pass,
                ["signature by ", &signature.keyid, " (", algorithm, ")"].concat(),
            )
        } else {
            found(
                Status::Fail,
                format!(
                    "bad signature: not by the key that {signer} had since leaf {}",
                    held.from
                ),
            )
        };
        (envelope, self.standing(signature, signer, identity, held))
    }

    /// A signer who let the key of a session sign for him.
    fn in_session(
        &self,
        pae: &[u8],
        signature: &Signature,
        signer: IdentityId,
        identity: &Identity,
        held: Held<'_>,
    ) -> (Found, Found) {
        let session = self.by.session.as_deref().unwrap_or_default();
        let bound = self.shown.as_ref().ok();
        let bound = bound.and_then(|chain| chain.session_key(session));
        let Some(bound) = bound.filter(|bound| bound.identity == signer) else {
            let detail = format!("no leaf here binds a key of session {session:?} by {signer}");
            return (self.unknown_key(signer), found(Status::Unknown, detail));
        };
        if !bound.key.verify(pae, &signature.sig) {
            let detail = format!("bad signature: not by the key of session {session}");
            let standing = self.standing(signature, signer, identity, held);
            return (found(Status::Fail, detail), standing);
        }
        let algorithm = bound.key.algorithm().name();
        let envelope = found(
            Status::Pass,
            format!("signature by {signer} ({algorithm}), in session {session}"),
        );
        if self.at >= bound.until {
            let until = bound.until;
            let detail = format!("{signer}: the binding of its session's key ended at {until}");
            return (envelope, found(Status::Fail, detail));
        }
        let (status, detail) = self.standing(signature, signer, identity, held);
        let bound = format!("{detail}; by the key that it bound to session {session}");
        (envelope, (status, bound))
    }

    fn standing(
        &self,
        signature: &Signature,
        signer: IdentityId,
        identity: &Identity,
        held: Held<'_>,
    ) -> Found {
        let story = self
            .shown
            .as_ref()
            .map(|chain| chain.story(signer))
            .unwrap_or_default();
        let mut detail = String::with_capacity(512);
        detail.push_str(&signature.keyid);
        detail.push_str(&format!(
            " {:?}, {}, {story}",
            identity.name,
            identity.class.name()
        ));
        let index = self.index;
        if let Some(revoked) = identity.revoked.filter(|revoked| *revoked < index) {
            return (
                Status::Fail,
                detail + &format!("; revoked at {revoked}, before this leaf"),
            );
        }
        // Only an agent_key binds another key, and the leaf that does so was checked.
        let bound = self.by.class == Class::SessionKey && identity.class == Class::AgentKey;
        let claims = self.by.identity == signer && self.by.class != identity.class && !bound;
        if claims {
            return (
                Status::Fail,
                detail + "; the leaf says " + self.by.class.name(),
            );
        }
        if self.operation && !held.proved {
            return (
                Status::Fail,
                detail + "; with a key that has not proved itself, and so signs no operation",
            );
        }
        match (held.from == identity.enrolled(), held.until) {
            (_, Some(until)) => detail += &format!("; with a key that was retired at leaf {until}"),
            (false, None) => detail += &format!("; with its key since leaf {}", held.from),
            (true, None) => {}
        }
        detail += match identity.class {
            Class::SeatKey => "; the service holds this key and could have signed itself",
            Class::ServiceKey => "; the operator's own key: this is the operator's word",
            Class::AgentKey | Class::SessionKey => "",
        };
        if !held.proved {
            detail += "; that the signer held this key at enrolment was stated, not proved";
        }
        let revoked = "; that it was not revoked since is the operator's word until an audit";
        match self.pins {
            None => (
                Status::Pass,
                detail + "; enrolled by the log, not pinned by you" + revoked,
            ),
            Some(pins) if pins.contains(held.key) => {
                (Status::Pass, detail + "; pinned by you" + revoked)
            }
            Some(_) => (
                Status::Unknown,
                detail + "; unknown key: not among the keys that you gave",
            ),
        }
    }

    /// A signer whom no support leaf shows: only the reader's own keys can say more.
    fn pinned(
        &self,
        pae: &[u8],
        signature: &Signature,
        signer: IdentityId,
        story: &str,
    ) -> (Found, Found) {
        let pins = self.pins.unwrap_or_default();
        let verifies = |key: &&PublicKey| key.verify(pae, &signature.sig);
        // An identity is the hash of its first key; that a key is a later one of it only leaves can show.
        let own = |key: &&PublicKey| key.identity() == signer;
        if let Some(key) = pins.iter().filter(own).find(verifies) {
            let envelope = format!("signature by {signer} ({})", key.algorithm().name());
            let detail = format!("{signer}: by {key}, pinned by you; {story}");
            return (found(Status::Pass, envelope), found(Status::Pass, detail));
        }
        if let Some(key) = pins.iter().find(verifies) {
            let envelope = format!("signature by {key}, named as of {signer}");
            let detail = format!(
                "{signer}: verified by pinned key {key}, which no leaf shows to be of {signer}; {story}"
            );
            return (
                found(Status::Pass, envelope),
                found(Status::Unknown, detail),
            );
        }
        let given = if self.pins.is_some() {
            ", and no key that you gave verifies it"
        } else {
            ""
        };
        let detail = format!("unknown key: {story}{given}");
        (
            self.unknown_key(signer),
            found(Status::Unknown, format!("{signer}: {detail}")),
        )
    }
}
