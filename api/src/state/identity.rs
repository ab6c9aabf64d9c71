//! Identities: who may sign. A key is who it is; a name is a label.

use std::sync::Arc;

use countersign_verifier::{
    base64,
    hash::Hash,
    key::{IdentityId, PublicKey},
    leaf::Class,
    operation::{Operation, possession_message},
};
use imbl::OrdMap;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    At, Caller, Decided, Opened, State, opened,
    verb::{Verb, arguments},
};
use crate::error::Code;

/// Names are 1 to 64 of these: nothing that looks like something else, nothing that changes direction.
const NAME_BYTES_MAX: usize = 64;
const REASON_BYTES_MAX: usize = 256;
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

    fn from_name(name: &str) -> Option<Possession> {
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

    /// Every identity, in order of id, if they are few enough to try all their keys.
    #[must_use]
    pub fn all_if_few(&self) -> Option<impl Iterator<Item = &Identity>> {
        (self.by_id.len() <= TRIED_MAX).then(|| self.iter())
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
        for (name, key, class) in [
            ("owner", &opened.owner, Class::AgentKey),
            ("service", &opened.service, Class::ServiceKey),
        ] {
            self.insert(Identity {
                id: key.identity(),
                name: name.into(),
                class,
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

/// Arguments of `identity_enroll`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enroll {
    /// A label, unique in the account: 1 to 64 of `A-Z a-z 0-9 . _ - @`.
    pub name: String,
    /// Base64 of the new key's SPKI.
    pub public_key: String,
    /// Where the key lives; `agent_key` if absent.
    pub class: Option<String>,
    /// Base64 of the new key's signature over (origin, identity, class).
    pub possession: Option<String>,
}

/// Arguments of `identity_rotate`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rotate {
    /// Whose key changes.
    pub identity: String,
    /// Base64 of the new key's SPKI.
    pub public_key: String,
    /// Base64 of the new key's signature over (origin, identity, class).
    pub possession: Option<String>,
}

/// Arguments of `identity_revoke`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revoke {
    /// Whose signatures count no more.
    pub identity: String,
    /// Why, at most 256 bytes.
    pub reason: Option<String>,
}

/// `identity_enroll`.
pub const ENROLL: Verb = Verb {
    tool: "identity_enroll",
    decide: |state, caller, operation, at| settle(decide_enroll(state, caller, operation, at)),
    apply: apply_enroll,
    resource: |arguments| member(arguments, "name"),
};

/// `identity_rotate`.
pub const ROTATE: Verb = Verb {
    tool: "identity_rotate",
    decide: |state, caller, operation, at| settle(decide_rotate(state, caller, operation, at)),
    apply: apply_rotate,
    resource: |arguments| member(arguments, "identity"),
};

/// `identity_revoke`.
pub const REVOKE: Verb = Verb {
    tool: "identity_revoke",
    decide: |state, caller, operation, at| settle(decide_revoke(state, caller, operation, at)),
    apply: apply_revoke,
    resource: |arguments| member(arguments, "identity"),
};

fn member(arguments: &Value, name: &str) -> String {
    arguments
        .get(name)
        .and_then(Value::as_str)
        .unwrap_or("")
        .into()
}

/// `Err` is a refusal on the way out of a judgement; in the end both are decisions.
fn settle(result: Result<Decided, Decided>) -> Decided {
    result.unwrap_or_else(|refused| refused)
}

pub(super) fn malformed(why: String) -> Decided {
    Decided::refuse(Code::Malformed, why)
}

fn decide_enroll(
    state: &State,
    caller: &Caller<'_>,
    operation: &Operation,
    _at: At,
) -> Result<Decided, Decided> {
    let asked: Enroll = arguments(&operation.arguments).map_err(malformed)?;
    owner_only(state, caller)?;
    check_name(&asked.name)?;
    let class = match asked.class.as_deref() {
        None | Some("agent_key") => Class::AgentKey,
        Some(other) => {
            let why = format!("class `{other}`: a key is enrolled as agent_key");
            return Err(Decided::refuse(Code::ClassNotAllowed, why));
        }
    };
    let key = opened::spki(&asked.public_key).map_err(malformed)?;
    if let Some(taken) = state.identities.of_key(&key) {
        let refused = Decided::refuse(Code::KeyEnrolled, "one key is one identity, for ever");
        return Err(refused
            .with("identity", taken.id.to_string())
            .with("name", taken.name.as_str()));
    }
    if let Some(taken) = state.identities.named(&asked.name) {
        let refused = Decided::refuse(
            Code::NameTaken,
            format!("`{}` is another identity's name", taken.name),
        );
        return Err(refused.with("identity", taken.id.to_string()));
    }
    let id = key.identity();
    let possession = prove(state, &key, id, class, asked.possession.as_deref())?;
    Ok(Decided::Applied(map(json!({
        "identity": id.to_string(),
        "class": class.name(),
        "possession": possession.name(),
    }))))
}

fn decide_rotate(
    state: &State,
    caller: &Caller<'_>,
    operation: &Operation,
    _at: At,
) -> Result<Decided, Decided> {
    let asked: Rotate = arguments(&operation.arguments).map_err(malformed)?;
    let target = target(state, caller, &asked.identity)?;
    if target.class == Class::ServiceKey {
        return Err(Decided::refuse(
            Code::NotAllowed,
            "the service identity keeps its key; a successor log has a new one",
        ));
    }
    let key = opened::spki(&asked.public_key).map_err(malformed)?;
    if let Some(taken) = state.identities.of_key(&key) {
        let refused = Decided::refuse(Code::KeyEnrolled, "one key is one identity, for ever");
        return Err(refused
            .with("identity", taken.id.to_string())
            .with("name", taken.name.as_str()));
    }
    let possession = prove(
        state,
        &key,
        target.id,
        target.class,
        asked.possession.as_deref(),
    )?;
    if Some(target.id) == state.owner() && possession == Possession::Stated {
        let why = "the owner's new key must prove itself: one that cannot sign would lock the account for good";
        return Err(Decided::refuse(Code::PossessionRequired, why));
    }
    Ok(Decided::Applied(map(
        json!({"identity": target.id.to_string(), "possession": possession.name()}),
    )))
}

fn decide_revoke(
    state: &State,
    caller: &Caller<'_>,
    operation: &Operation,
    _at: At,
) -> Result<Decided, Decided> {
    let asked: Revoke = arguments(&operation.arguments).map_err(malformed)?;
    if asked
        .reason
        .as_ref()
        .is_some_and(|r| r.len() > REASON_BYTES_MAX)
    {
        return Err(malformed(format!(
            "reason: more than {REASON_BYTES_MAX} bytes"
        )));
    }
    let target = target(state, caller, &asked.identity)?;
    if target.enrolled.is_none() {
        let why = format!(
            "the {} stands in leaf 0 and cannot be revoked; a successor log has another one",
            target.name
        );
        return Err(Decided::refuse(Code::NotAllowed, why));
    }
    Ok(Decided::Applied(map(
        json!({"identity": target.id.to_string()}),
    )))
}

/// The identity to change: there, not revoked, the caller's own or the caller is the owner.
fn target<'a>(state: &'a State, caller: &Caller<'_>, id: &str) -> Result<&'a Identity, Decided> {
    let id: IdentityId = id
        .parse()
        .map_err(|e| malformed(format!("identity: {e}")))?;
    if id != caller.identity.id {
        owner_only(state, caller)?;
    }
    let target = state
        .identities
        .get(&id)
        .ok_or_else(|| Decided::refuse(Code::NotFound, "no such identity in this account"))?;
    match target.revoked {
        None => Ok(target),
        Some(index) => Err(
            Decided::refuse(Code::IdentityRevoked, "the identity is revoked")
                .with("revoked_index", index),
        ),
    }
}

fn owner_only(state: &State, caller: &Caller<'_>) -> Result<(), Decided> {
    if state.owner() == Some(caller.identity.id) {
        return Ok(());
    }
    Err(Decided::refuse(
        Code::NotAllowed,
        "only the account's owner may do this",
    ))
}

fn check_name(name: &str) -> Result<(), Decided> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b".-_@".contains(&b);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(fits) {
        return Err(malformed(format!(
            "name: 1 to {NAME_BYTES_MAX} of A-Z a-z 0-9 . _ - @"
        )));
    }
    Ok(())
}

fn prove(
    state: &State,
    key: &PublicKey,
    id: IdentityId,
    class: Class,
    proof: Option<&str>,
) -> Result<Possession, Decided> {
    let Some(proof) = proof else {
        return Ok(Possession::Stated);
    };
    let signature = base64::decode(proof).map_err(|e| malformed(format!("possession: {e}")))?;
    if key.verify(&possession_message(state.origin(), id, class), &signature) {
        return Ok(Possession::Proved);
    }
    let why = "the proof of possession is not this key's signature over this log's origin, this identity and this class";
    Err(Decided::refuse(Code::PossessionInvalid, why))
}

fn apply_enroll(
    state: &mut State,
    by: IdentityId,
    operation: &Operation,
    effect: &Map<String, Value>,
    index: u64,
) -> Result<(), String> {
    let asked: Enroll = arguments(&operation.arguments)?;
    let (id, possession) = recorded(effect)?;
    let class = effect
        .get("class")
        .and_then(Value::as_str)
        .and_then(Class::from_name)
        .ok_or("effect without a class")?;
    let key = opened::spki(&asked.public_key)?;
    if key.identity() != id {
        return Err(format!(
            "the effect names {id}, the key is {}",
            key.identity()
        ));
    }
    state.identities.insert(Identity {
        id,
        name: asked.name,
        class,
        key: key.into(),
        retired: Vec::new(),
        possession,
        enrolled: Some(Change { index, by }),
        rotations: Vec::new(),
        revoked: None,
    });
    Ok(())
}

fn apply_rotate(
    state: &mut State,
    by: IdentityId,
    operation: &Operation,
    effect: &Map<String, Value>,
    index: u64,
) -> Result<(), String> {
    let asked: Rotate = arguments(&operation.arguments)?;
    let (id, possession) = recorded(effect)?;
    let mut identity = state
        .identities
        .get(&id)
        .ok_or("the effect names nobody")?
        .clone();
    let new = opened::spki(&asked.public_key)?.into();
    let old = std::mem::replace(&mut identity.key, new);
    identity.retired.push(old);
    identity.possession = possession;
    identity.rotations.push(Change { index, by });
    state.identities.insert(identity);
    Ok(())
}

fn apply_revoke(
    state: &mut State,
    _by: IdentityId,
    _operation: &Operation,
    effect: &Map<String, Value>,
    index: u64,
) -> Result<(), String> {
    let id = recorded_id(effect)?;
    let mut identity = state
        .identities
        .get(&id)
        .ok_or("the effect names nobody")?
        .clone();
    identity.revoked = Some(index);
    state.identities.insert(identity);
    Ok(())
}

fn recorded(effect: &Map<String, Value>) -> Result<(IdentityId, Possession), String> {
    let possession = effect
        .get("possession")
        .and_then(Value::as_str)
        .and_then(Possession::from_name);
    Ok((
        recorded_id(effect)?,
        possession.ok_or("effect without possession")?,
    ))
}

fn recorded_id(effect: &Map<String, Value>) -> Result<IdentityId, String> {
    let id = effect
        .get("identity")
        .and_then(Value::as_str)
        .ok_or("effect without an identity")?;
    id.parse().map_err(|e| format!("effect: {e}"))
}

fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        // OK because every caller passes an object literal.
        _ => unreachable!("identity::map"),
    }
}
