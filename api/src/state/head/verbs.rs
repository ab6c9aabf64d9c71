//! What can be done about other logs: judged, and taken in.

use countersign_verifier::{
    checkpoint::Checkpoint,
    hash::{Hash, sha256},
    key::IdentityId,
    limits::{CONSISTENCY_HASHES_MAX, NOTE_BYTES_MAX},
    operation::Operation,
    signed::{self, SignedError},
    tree::verify_consistency,
    vkey::VerifierKey,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Outcome, Seen, TRACKED_MAX, Tracked, forked};
use crate::{
    code::Code,
    state::{
        Caller, Decided, State,
        verb::{Verb, arguments, malformed, member},
    },
};

/// An origin is a line of a checkpoint; nobody's is longer.
const ORIGIN_BYTES_MAX: usize = 255;

/// `head_track`.
pub const TRACK: Verb = Verb {
    tool: "head_track",
    decide: |state, caller, operation, _| {
        decide_track(state, caller, operation).unwrap_or_else(|refused| refused)
    },
    apply: apply_track,
    resource: |arguments| member(arguments, "vkey"),
};

/// `head_submit`.
pub const SUBMIT: Verb = Verb {
    tool: "head_submit",
    decide: |state, _, operation, _| {
        decide_submit(state, operation).unwrap_or_else(|refused| refused)
    },
    apply: apply_submit,
    resource: |arguments| {
        let submitted = [
            member(arguments, "checkpoint"),
            member(arguments, "evidence"),
        ];
        sha256(submitted.concat().as_bytes()).to_hex()
    },
};

/// Arguments of `head_track`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Track {
    /// The log's verifier key: Ed25519 (0x01), ECDSA P-256 (0x02) or of RFC 6962 tree heads (0x05).
    pub vkey: String,
    /// The origin in its checkpoints; the key's name if absent.
    pub origin: Option<String>,
}

/// Arguments of `head_submit`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Submit {
    /// The checkpoint's note, as the log gave it.
    pub checkpoint: Option<String>,
    /// The consistency proof from the last proved head, base64 a hash; a proof that fails is refused and changes nothing.
    pub proof: Option<Vec<String>>,
    /// In the place of a checkpoint, evidence of a fork: the text of a `countersign.fork/1` file, two checkpoints of one size, or two
    /// and a node in which their trees differ. What proves nothing is refused and changes nothing.
    pub evidence: Option<String>,
}

/// What is submitted: one of two.
enum Asked<'a> {
    Head(&'a str, Option<&'a [String]>),
    Fork(&'a str),
}

impl Submit {
    fn read(&self) -> Result<Asked<'_>, String> {
        match (&self.checkpoint, &self.evidence) {
            (Some(note), None) => Ok(Asked::Head(note, self.proof.as_deref())),
            (None, Some(evidence)) if self.proof.is_none() => Ok(Asked::Fork(evidence)),
            _ => Err("either a checkpoint, with or without its proof, or evidence alone".into()),
        }
    }
}

fn decide_track(
    state: &State,
    caller: &Caller<'_>,
    operation: &Operation,
) -> Result<Decided, Decided> {
    let asked: Track = arguments(&operation.arguments).map_err(malformed)?;
    if state.owner() != Some(caller.identity.id) {
        let why = "only the account's owner may do this";
        return Err(Decided::refuse(Code::NotAllowed, why));
    }
    let key = VerifierKey::parse(&asked.vkey).map_err(|e| malformed(format!("vkey: {e}")))?;
    signed::check_kind(&key).map_err(|e| kind(&e))?;
    let origin = asked.origin.as_deref().unwrap_or(&key.name);
    if origin.is_empty() || origin.len() > ORIGIN_BYTES_MAX || origin.contains(char::is_control) {
        let why = format!("origin: one line of 1 to {ORIGIN_BYTES_MAX} bytes");
        return Err(malformed(why));
    }
    if let Some(tracked) = state.heads.get(origin) {
        let why = "this log is tracked already; its key is for good";
        let refused = Decided::refuse(Code::HeadTracked, why);
        return Err(refused
            .with("index", tracked.index)
            .with("vkey", tracked.key.to_string()));
    }
    if state.heads.iter().count() >= TRACKED_MAX {
        let why = format!("an account tracks at most {TRACKED_MAX} logs");
        return Err(Decided::refuse(Code::NotAllowed, why).with("limit", TRACKED_MAX));
    }
    Ok(Decided::Applied(Map::new()).with("origin", origin))
}

fn kind(error: &signed::KindError) -> Decided {
    Decided::refuse(Code::KeyTypeNotTaken, error.to_string())
        .with("kind", format!("0x{:02x}", error.kind))
}

fn apply_track(
    state: &mut State,
    _by: IdentityId,
    operation: &Operation,
    effect: &Map<String, Value>,
    index: u64,
) -> Result<(), String> {
    let asked: Track = arguments(&operation.arguments)?;
    let origin = effect.get("origin").and_then(Value::as_str);
    state.heads.insert(Tracked {
        origin: origin.ok_or("effect without an origin")?.into(),
        key: VerifierKey::parse(&asked.vkey).map_err(|e| e.to_string())?,
        index,
        proved: None,
        unproven_since: None,
        fork: None,
        kept: imbl::OrdMap::new(),
    });
    Ok(())
}

pub(super) fn untracked(origin: &str) -> Decided {
    let shown: String = origin.chars().take(ORIGIN_BYTES_MAX).collect();
    let why = "no log of this origin is tracked here: head_track names its key first";
    Decided::refuse(Code::NotFound, why).with("origin", shown)
}

/// The log that a note claims to be of, and its checkpoint under that log's key.
fn open<'s>(state: &'s State, note: &str) -> Result<(&'s Tracked, Checkpoint), Decided> {
    if note.len() > NOTE_BYTES_MAX {
        return Err(malformed(format!(
            "checkpoint: more than {NOTE_BYTES_MAX} bytes"
        )));
    }
    // Read before anything is verified, only to find the key to try.
    let origin = note.split('\n').next().unwrap_or_default();
    let tracked = state.heads.get(origin).ok_or_else(|| untracked(origin))?;
    let checkpoint = signed::open(note, origin, &tracked.key).map_err(|error| match error {
        SignedError::Kind(error) => kind(&error),
        error => Decided::refuse(Code::CheckpointInvalid, error.to_string()),
    })?;
    Ok((tracked, checkpoint))
}

fn decide_submit(state: &State, operation: &Operation) -> Result<Decided, Decided> {
    let asked: Submit = arguments(&operation.arguments).map_err(malformed)?;
    let (note, proof) = match asked.read().map_err(malformed)? {
        Asked::Head(note, proof) => (note, proof),
        Asked::Fork(evidence) => return forked::decide(state, evidence),
    };
    let (tracked, now) = open(state, note)?;
    let mut effect = Map::new();
    let mut outcome = Outcome::Consistent;
    if let Some(other) = tracked.contradicts(now.size, &now.root) {
        outcome = Outcome::Fork;
        let other =
            json!({"index": other.index, "size": other.size, "root": other.root.to_base64()});
        effect.insert("against".into(), other);
    } else if let Some(proved) = &tracked.proved {
        outcome = compare(proved, &now, proof)?;
        let before =
            json!({"index": proved.index, "size": proved.size, "root": proved.root.to_base64()});
        effect.insert("before".into(), before);
    }
    for (name, value) in [
        ("outcome", Value::from(outcome.name())),
        ("origin", now.origin.as_str().into()),
        ("size", now.size.into()),
        ("root", now.root.to_base64().into()),
    ] {
        effect.insert(name.into(), value);
    }
    tracked.forgets(&mut effect);
    Ok(Decided::Applied(effect))
}

/// What a head is beside the last proved one, none of the same size having another root.
fn compare(proved: &Seen, now: &Checkpoint, proof: Option<&[String]>) -> Result<Outcome, Decided> {
    if now.size < proved.size {
        return Ok(Outcome::Stale);
    }
    // Everything is consistent with the empty tree, and no proof could say more.
    if now.size == proved.size || proved.size == 0 {
        return Ok(Outcome::Consistent);
    }
    let Some(proof) = proof else {
        return Ok(Outcome::Unproven);
    };
    if proof.len() > CONSISTENCY_HASHES_MAX {
        return Err(malformed(format!(
            "proof: more than {CONSISTENCY_HASHES_MAX} hashes"
        )));
    }
    let hashes: Result<Vec<Hash>, _> = proof.iter().map(|text| Hash::from_base64(text)).collect();
    let hashes = hashes.map_err(|error| malformed(format!("proof: {error}")))?;
    match verify_consistency(proved.size, &proved.root, now.size, &now.root, &hashes) {
        Ok(()) => Ok(Outcome::Consistent),
        // A failed proof is no evidence of anything: nothing changes.
        Err(error) => Err(Decided::refuse(Code::ProofInvalid, error.to_string())
            .with("from", proved.size)
            .with("to", now.size)),
    }
}

fn apply_submit(
    state: &mut State,
    _by: IdentityId,
    operation: &Operation,
    effect: &Map<String, Value>,
    index: u64,
) -> Result<(), String> {
    let asked: Submit = arguments(&operation.arguments)?;
    let text = |name: &str| {
        let value = effect.get(name).and_then(Value::as_str);
        value.ok_or_else(|| format!("effect without {name}"))
    };
    let size = effect.get("size").and_then(Value::as_u64);
    let outcome = Outcome::from_name(text("outcome")?).ok_or("effect with another outcome")?;
    let seen = Seen {
        size: size.ok_or("effect without a size")?,
        root: Hash::from_base64(text("root")?).map_err(|e| e.to_string())?,
        note: match asked.read()? {
            Asked::Head(note, _) => sha256(note.as_bytes()),
            Asked::Fork(evidence) => forked::digest(evidence),
        },
        outcome,
        index,
        at: state.at,
    };
    let origin = text("origin")?;
    let mut tracked = state
        .heads
        .get(origin)
        .ok_or("the effect names no log that is tracked")?
        .clone();
    tracked.take(seen, forked::pair(effect.get("against"), index));
    state.heads.insert(tracked);
    Ok(())
}

impl State {
    /// The leaf that this very note was recorded in before, if nothing better can be said of it now: an unproven head that comes with
    /// a proof is a new one.
    #[must_use]
    pub fn head_recorded(&self, note: &str, has_proof: bool) -> Option<u64> {
        let origin = note.split('\n').next().unwrap_or_default();
        let seen = self.heads.get(origin)?.seen(&sha256(note.as_bytes()))?;
        let better = seen.outcome == Outcome::Unproven && has_proof;
        (!better).then_some(seen.index)
    }
}
