//! Identities: who may sign. A key is who it is; a name is a label.

use std::sync::Arc;

use countersign_verifier::{
    hash::Hash,
    key::{IdentityId, PublicKey},
    leaf::Class,
};
use imbl::OrdMap;

mod asked;
mod verbs;

pub use asked::{Enroll, ROLE_BY_DEFAULT, Revoke, Rotate, is_name};
pub(super) use verbs::target;
pub use verbs::{ENROLL, REVOKE, ROTATE};

use super::Opened;

/// Identities of an account, the revoked ones included: all are in the memory of the process, and all are listed.
pub const IDENTITIES_MAX: usize = 10_000;
/// So often one identity can have another key: evidence of whatever it signs afterwards shows each of them, for ever.
pub const ROTATIONS_MAX: usize = 64;
/// Where an account has at most this many identities, a signature without a usable keyid is tried against all their keys.
const TRIED_MAX: usize = 64;

/// Whether a key has shown that its private half is at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Possession {
    /// It signed its own enrolment.
    Proved,
    /// The enroller's word: it may sign receipts, and no operation.
    Stated,
}

impl Possession {
    /// As effects and answers write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Possession::Proved => "proved",
            Possession::Stated => "stated",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Possession> {
        [Possession::Proved, Possession::Stated]
            .into_iter()
            .find(|p| p.name() == name)
    }
}

/// A leaf that changed an identity, and who asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The leaf's index.
    pub index: u64,
    /// Who signed it.
    pub by: IdentityId,
}

/// A public key and its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    /// The key.
    pub public: PublicKey,
    /// SHA-256 of its SPKI.
    pub sha256: Hash,
}

impl From<PublicKey> for Named {
    fn from(public: PublicKey) -> Named {
        let sha256 = public.identity().0;
        Named { public, sha256 }
    }
}

/// One identity.
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    /// SHA-256 of the SPKI of its first public key; never changes.
    pub id: IdentityId,
    /// A label, unique in the account.
    pub name: String,
    /// Where its key lives.
    pub class: Class,
    /// What it may be, by the account's policy: sorted, none twice.
    pub roles: Vec<String>,
    /// The key that it signs with now.
    pub key: Named,
    /// The keys that it had before, oldest first: known, and good for nothing new.
    pub retired: Vec<Named>,
    /// Whether that key has proved itself.
    pub possession: Possession,
    /// The leaf that enrolled it; `None` for the owner and the service, who stand in leaf 0.
    pub enrolled: Option<Change>,
    /// The leaves that gave it another key, oldest first.
    pub rotations: Vec<Change>,
    /// The leaf that revoked it.
    pub revoked: Option<u64>,
}

/// All identities of an account, the revoked ones included: a key is never free again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Identities {
    by_id: OrdMap<IdentityId, Arc<Identity>>,
    by_name: OrdMap<String, IdentityId>,
    /// Every key that any identity ever had, by the hash of its SPKI.
    by_key: OrdMap<Hash, IdentityId>,
    /// Other hashes by which a keyid may name a current key.
    by_hint: OrdMap<Hash, IdentityId>,
}

impl Identities {
    /// The identity of this id.
    #[must_use]
    pub fn get(&self, id: &IdentityId) -> Option<&Identity> {
        self.by_id.get(id).map(|identity| &**identity)
    }

    /// The identity of this name, whatever its case.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Identity> {
        self.get(self.by_name.get(&name.to_ascii_lowercase())?)
    }

    /// The identity that this key belongs or belonged to.
    #[must_use]
    pub fn of_key(&self, key: &PublicKey) -> Option<&Identity> {
        self.get(self.by_key.get(&key.identity().0)?)
    }

    /// The identity that a keyid points at. Only ever a hint about which key to try first.
    #[must_use]
    pub fn hinted(&self, keyid: &str) -> Option<&Identity> {
        let by_hash = |hash: Hash| {
            let id = self
                .by_key
                .get(&hash)
                .or_else(|| self.by_hint.get(&hash))
                .copied();
            id.or(Some(IdentityId(hash))).and_then(|id| self.get(&id))
        };
        if let Some(print) = keyid.strip_prefix("SHA256:") {
            // OpenSSH prints fingerprints without padding: 32 bytes are 43 characters and one `=`.
            let padded = format!("{}=", print.trim_end_matches('='));
            return by_hash(Hash::from_base64(&padded).ok()?);
        }
        if keyid.contains('+') {
            return self.of_key(&PublicKey::parse(keyid.as_bytes()).ok()?);
        }
        by_hash(Hash::from_hex(keyid.strip_prefix("id_").unwrap_or(keyid)).ok()?)
    }

    /// How many there are, the revoked ones included.
    #[must_use]
    pub fn count(&self) -> usize {
        self.by_id.len()
    }

    /// The keys that a signature may be by, in the order in which they are tried: of whom its keyid names, then, where they are few, of
    /// all others. Retired ones come after every current one, so that nobody's past keeps others from being found.
    pub fn tried<'s>(
        &'s self,
        hinted: Option<&'s Identity>,
    ) -> impl Iterator<Item = (&'s Identity, &'s Named)> {
        let few = self.by_id.len() <= TRIED_MAX;
        let is_other = move |i: &&Identity| few && hinted.is_none_or(|h| h.id != i.id);
        let all = move || hinted.into_iter().chain(self.iter().filter(is_other));
        let retired = all().flat_map(|i| i.retired.iter().map(move |key| (i, key)));
        all().map(|i| (i, &i.key)).chain(retired)
    }

    /// Every identity, in order of id.
    pub fn iter(&self) -> impl Iterator<Item = &Identity> {
        self.by_id.values().map(|identity| &**identity)
    }

    /// Up to `limit` identities after `after`, in order of id.
    pub fn page(&self, after: Option<IdentityId>, limit: usize) -> impl Iterator<Item = &Identity> {
        use std::ops::Bound;
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.by_id
            .range((start, Bound::Unbounded))
            .take(limit)
            .map(|(_, identity)| &**identity)
    }

    pub(super) fn open(&mut self, opened: &Opened) -> Result<(), String> {
        if opened.owner == opened.service {
            return Err("owner and service have one key".into());
        }
        // Each is called what it is.
        for (name, key, class) in [
            ("owner", &opened.owner, Class::AgentKey),
            ("service", &opened.service, Class::ServiceKey),
        ] {
            self.insert(Identity {
                id: key.identity(),
                name: name.into(),
                class,
                roles: vec![name.into()],
                key: key.clone().into(),
                retired: Vec::new(),
                possession: Possession::Proved,
                enrolled: None,
                rotations: Vec::new(),
                revoked: None,
            });
        }
        Ok(())
    }

    /// Puts an identity in, or in the place of what it was before.
    pub(super) fn insert(&mut self, identity: Identity) {
        if let Some(before) = self.by_id.get(&identity.id) {
            for hash in before.key.public.hint_hashes() {
                self.by_hint.remove(&hash);
            }
        }
        for key in identity.retired.iter().chain([&identity.key]) {
            self.by_key.insert(key.sha256, identity.id);
        }
        for hash in identity.key.public.hint_hashes() {
            self.by_hint.insert(hash, identity.id);
        }
        self.by_name
            .insert(identity.name.to_ascii_lowercase(), identity.id);
        self.by_id.insert(identity.id, Arc::new(identity));
    }
}

#[cfg(test)]
mod tests;
