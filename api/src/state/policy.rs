//! What identities may do: the account's policy, as the owner set it.

use countersign_verifier::{hash::sha256, key::IdentityId, operation::Operation};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    At, Caller, Decided, State,
    board::names::nfc,
    refusal, session,
    verb::{Verb, arguments, malformed, map, settle},
};
use crate::{
    code::Code,
    policy::{Family, Policy, Question},
};

/// A policy's text has at most so many bytes: it stands in one operation, of which 40,000 bytes are signed.
const TEXT_BYTES_MAX: usize = 32_000;

/// The policy in force.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// The policy; the starter policy until one is set.
    pub policy: Policy,
    /// The leaf that set it.
    pub set: Option<u64>,
}

impl Rules {
    /// Out of what a snapshot keeps: the text, and the leaf that set it.
    pub(super) fn from_row(row: Option<(String, u64)>) -> Option<Rules> {
        let Some((text, index)) = row else {
            return Some(Rules::default());
        };
        Some(Rules {
            policy: Policy::parse(&text).ok()?,
            set: Some(index),
        })
    }
}

/// Arguments of `policy_set`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Set {
    /// The whole policy as Cedar text, at most 32,000 bytes; replaces the one before.
    pub text: String,
    /// Only if the policy in force has this SHA-256, as `policy_get` shows it: so that two changes at once do not undo each other.
    pub if_sha256: Option<String>,
}

/// `policy_set`.
pub const SET: Verb = Verb {
    tool: "policy_set",
    decide: |state, _, operation, _: At| settle(decide_set(state, operation)),
    apply: apply_set,
    resource: |_| String::new(),
};

impl State {
    /// Whether the account's policy lets this caller run this tool about this resource. The owner may always set the policy: nobody
    /// could undo one that kept him from it.
    #[must_use]
    pub fn allows(
        &self,
        caller: &Caller<'_>,
        (tool, family): (&str, Family),
        resource: &str,
        session: Option<&str>,
    ) -> bool {
        let identity = caller.identity;
        let sets = tool == SET.tool || tool == "policy_get";
        if sets && self.owner() == Some(identity.id) {
            return true;
        }
        // The one in which the verbs would let the caller act, named or not: leaving it out hides no role.
        let session = match session {
            Some(named) => session::parse_id(named).and_then(|index| self.sessions.get(index)),
            None => self.sessions.only_live_of(&identity.id),
        };
        self.rules.policy.allows(&Question {
            identity: &identity.id.to_string(),
            name: &identity.name,
            class: caller.class.name(),
            roles: &identity.roles,
            tool,
            family,
            resource,
            account: self.origin(),
            role: session.map_or("", |s| &s.role),
        })
    }
}

/// The family of a tool that writes.
#[must_use]
pub fn family(tool: &str) -> Family {
    const OWN: &[&str] = &[
        "identity_revoke",
        "identity_rotate",
        "receipt_submit",
        "token_new",
        "token_revoke",
    ];
    if OWN.contains(&tool) {
        Family::Own
    } else if tool.starts_with("ars_") || tool.starts_with("board_") {
        Family::Coordinate
    } else {
        Family::Govern
    }
}

impl State {
    /// An operation as the policy and its verb's own rule judge it, in this order; a part of a larger one too, so that nobody does by
    /// that what he may not do by itself.
    pub(super) fn judged(
        &self,
        caller: &Caller<'_>,
        verb: &Verb,
        operation: &Operation,
        at: At,
    ) -> Decided {
        // An item has one id, however it is spelled.
        let resource = nfc(&(verb.resource)(&operation.arguments));
        let tool = (verb.tool, family(verb.tool));
        // What the service counts is no request of anybody's: no policy may keep it from being said.
        let is_asked = verb.tool != refusal::FOLDED.tool;
        if is_asked && !self.allows(caller, tool, &resource, operation.session.as_deref()) {
            return not_allowed(caller, verb.tool);
        }
        (verb.decide)(self, caller, operation, at)
    }
}

/// What a caller is told whom the policy does not let. Without detail: who may not, learns nothing more.
fn not_allowed(caller: &Caller<'_>, tool: &str) -> Decided {
    let roles = caller.identity.roles.join(", ");
    let why = format!(
        "the account's policy does not let `{}` ({roles}; {}) run {tool}",
        caller.identity.name,
        caller.class.name()
    );
    Decided::refuse(Code::NotAllowed, why)
}

fn decide_set(state: &State, operation: &Operation) -> Result<Decided, Decided> {
    let asked: Set = arguments(&operation.arguments).map_err(malformed)?;
    if asked.text.len() > TEXT_BYTES_MAX {
        return Err(malformed(format!("text: more than {TEXT_BYTES_MAX} bytes")));
    }
    let now = sha256(state.rules.policy.text().as_bytes()).to_hex();
    if asked.if_sha256.as_ref().is_some_and(|asked| *asked != now) {
        let why = "the policy in force is another one by now";
        return Err(Decided::refuse(Code::VersionMismatch, why).with("sha256", now));
    }
    if let Err(why) = Policy::parse(&asked.text) {
        // As malformed as arguments that are no JSON: it says nothing that a gate could have denied.
        return Err(malformed(format!("text: {why}")));
    }
    let sha256 = sha256(asked.text.as_bytes()).to_hex();
    let effect = json!({"sha256": sha256, "bytes": asked.text.len()});
    Ok(Decided::Applied(map(effect)))
}

fn apply_set(
    state: &mut State,
    _by: IdentityId,
    operation: &Operation,
    _effect: &Map<String, Value>,
    index: u64,
) -> Result<(), String> {
    let asked: Set = arguments(&operation.arguments)?;
    state.rules = Rules {
        policy: Policy::parse(&asked.text)?,
        set: Some(index),
    };
    Ok(())
}
