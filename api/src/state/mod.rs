//! What the leaves of an account say, all together: pure projections of the log.
//!
//! A field a noun, a file a noun. `decide` judges what is asked, `apply` takes in what a leaf records; neither knows a clock, a
//! store or a door. Maps are persistent: a version for a reader is a clone.

use countersign_verifier::{
    hash::{Hash, sha256},
    json::canonical,
    key::IdentityId,
    leaf::{Class, Decision, Leaf, Millis, OperationLeaf},
    operation::Operation,
};
use serde_json::{Map, Value};

use crate::code::Code;

pub mod blob;
pub mod board;
pub mod closed;
pub mod due;
pub mod head;
pub mod identity;
pub mod lease;
pub mod opened;
pub mod policy;
pub mod receipt;
pub mod refusal;
mod rows;
pub mod session;
pub mod settings;
mod snapshot;
pub mod start;
pub mod token;
pub mod verb;

pub use blob::Erased;
pub use board::Board;
pub use closed::Closed;
pub use head::Heads;
pub use identity::{Identities, Identity};
pub use lease::Leases;
pub use opened::Opened;
pub use policy::Rules;
pub use receipt::ReceiptPolicy;
pub use refusal::Refusals;
pub use session::Sessions;
pub use settings::Settings;
pub use token::Tokens;

/// The state of one account.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// How many leaves it reflects.
    pub size: u64,
    /// Log time of the newest leaf, in milliseconds since 1970.
    pub at: u64,
    /// What leaf 0 says; `None` before it.
    pub opened: Option<Opened>,
    /// Who may sign, and who could once.
    pub identities: Identities,
    /// Who may ask without signing, by the hashes of their tokens.
    pub tokens: Tokens,
    /// What identities may do.
    pub rules: Rules,
    /// What is taken as a receipt.
    pub receipts: ReceiptPolicy,
    /// The logs that are tracked, and the heads that were seen of them.
    pub heads: Heads,
    /// Who is at work.
    pub sessions: Sessions,
    /// Who may touch what.
    pub leases: Leases,
    /// Items of work.
    pub board: Board,
    /// Bodies beside the log that were erased.
    pub erased: Erased,
    /// The bounds that decisions keep to.
    pub settings: Settings,
    /// That nothing more is written, once the owner has said so.
    pub closed: Option<Closed>,
    /// Recent refusals, of which a repeat is not logged again.
    pub refusals: Refusals,
}

/// What a decision reads besides the state. `index` is the leaf's own, were it to become one.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// Log time, in milliseconds since 1970.
    pub at: u64,
    /// The index that the leaf would get.
    pub index: u64,
}

/// A decision about an operation, as its leaf records it.
#[derive(Clone, Debug, PartialEq)]
pub enum Decided {
    /// Done: the effect.
    Applied(Map<String, Value>),
    /// Said no: why, for the leaf and for the answer.
    Refused(Code, String, Map<String, Value>),
}

impl Decided {
    /// A refusal without detail.
    #[must_use]
    pub fn refuse(code: Code, message: impl Into<String>) -> Decided {
        Decided::Refused(code, message.into(), Map::new())
    }

    /// The same with a member of detail.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Decided {
        let (Decided::Refused(_, _, members) | Decided::Applied(members)) = &mut self;
        members.insert(name.into(), value.into());
        self
    }
}

/// Who asks, as the log knows him at this point.
#[derive(Clone, Debug)]
pub struct Caller<'a> {
    /// In whose name.
    pub identity: &'a Identity,
    /// Where the key lives that signed: the identity's own class, or `session_key` for the key of a session of his.
    pub class: Class,
}

impl<'a> From<&'a Identity> for Caller<'a> {
    /// Signed with the identity's own key.
    fn from(identity: &'a Identity) -> Caller<'a> {
        let class = identity.class;
        Caller { identity, class }
    }
}

impl State {
    /// Judges an operation whose caller is known. Pure; writes nothing.
    #[must_use]
    pub fn decide(&self, caller: &Caller<'_>, operation: &Operation, at: At) -> Decided {
        if let Some(refused) = session::check(self, caller, operation) {
            return refused;
        }
        if caller.class != Class::AgentKey && verb::needs_own_key(&operation.tool) {
            let why = "this needs a signature by the identity's own key (agent_key): not by a session's, nor by one that the service holds";
            return Decided::refuse(Code::AttributionTooLow, why);
        }
        match verb::find(&operation.tool) {
            Some(verb) => self.judged(caller, verb, operation, at),
            // A door refuses it before; an auditor's replay must not panic on it.
            None => Decided::refuse(Code::ToolUnknown, "there is no tool of this name"),
        }
    }

    /// Takes in the leaf at index `self.size`. Uses what the leaf records, judges nothing.
    ///
    /// # Errors
    /// Why it cannot be a leaf of this account at this place.
    pub fn apply(&mut self, leaf: &Leaf<'_>) -> Result<(), String> {
        let index = self.size;
        if (index == 0) != self.opened.is_none() {
            return Err("the account was opened at another place than leaf 0".into());
        }
        if let Some(closed) = &self.closed {
            return Err(format!("the log was closed at index {}", closed.index));
        }
        let at = leaf.at().0;
        if at < self.at {
            return Err(format!(
                "its time ({at} ms) is before the leaf before it ({} ms)",
                self.at
            ));
        }
        // Of the leaf, before it is taken in: what it changes may keep when that was.
        self.at = at;
        match leaf {
            Leaf::System(system) => self.apply_system(system.event_type, system.event)?,
            _ if index == 0 => return Err("the first leaf is not `opened`".into()),
            Leaf::Receipt(_) => {}
            Leaf::Operation(operation) => self.apply_operation(operation, index)?,
        }
        self.taken(at);
        Ok(())
    }

    /// Takes in a receipt's leaf, of which the state keeps nothing but that it was there: the short way of [`State::apply`]
    /// for a leaf that was just written.
    pub fn receipt_taken(&mut self, at: u64) {
        self.taken(at);
    }

    fn taken(&mut self, at: u64) {
        self.at = at;
        self.size += 1;
    }

    fn apply_system(&mut self, event_type: &str, event: &str) -> Result<(), String> {
        match event_type {
            "opened" if self.opened.is_none() => {
                let opened = Opened::parse(event)?;
                self.identities.open(&opened)?;
                self.opened = Some(opened);
                Ok(())
            }
            "opened" => Err("the account is open already".into()),
            "clock_adjusted" => {
                self.extend(jump_ms(event)?);
                Ok(())
            }
            "unguarded" => Ok(()),
            other => {
                let index = self.size;
                let members = object(event)?;
                self.apply_due(other, &members, index).unwrap_or_else(|| {
                    Err(format!(
                        "an event of type `{other}`, which this release does not know"
                    ))
                })
            }
        }
    }

    fn apply_operation(&mut self, leaf: &OperationLeaf<'_>, index: u64) -> Result<(), String> {
        let operation = Operation::parse(&leaf.envelope.payload).map_err(|e| e.to_string())?;
        match leaf.decision {
            Decision::Applied { effect } => {
                let effect = object(effect)?;
                let Some(tool) = verb::find(&operation.tool) else {
                    return Err(format!(
                        "tool `{}`, which this release does not know",
                        operation.tool
                    ));
                };
                (tool.apply)(self, leaf.by.identity, &operation, &effect, index)
            }
            Decision::Refused { code, detail } => {
                let about = about(&operation, &object(detail)?);
                self.refusals.note(
                    refusal::Kind::new(leaf.by.identity, &operation.tool, code, &about),
                    index,
                    leaf.at.0,
                );
                Ok(())
            }
        }
    }

    /// Log time at which a lease ends by itself: with its session at the latest.
    #[must_use]
    pub fn lease_ends(&self, lease: &lease::Lease) -> u64 {
        let session = self.sessions.get(lease.session);
        let live = session.filter(|session| session.ended.is_none());
        live.map_or(lease.expires, |session| session.expires.min(lease.expires))
    }

    /// The origin; empty before leaf 0.
    #[must_use]
    pub fn origin(&self) -> &str {
        self.opened.as_ref().map_or("", |o| &o.origin)
    }

    /// The owner's identity; `None` before leaf 0.
    #[must_use]
    pub fn owner(&self) -> Option<IdentityId> {
        self.opened.as_ref().map(|o| o.owner.identity())
    }

    /// The indexes of the leaves that say who `signer` is at `index`, and who says so, down to leaf 0: ascending.
    #[must_use]
    pub fn enrolment_chain(&self, signers: &[IdentityId], index: u64) -> Vec<u64> {
        let mut found = std::collections::BTreeSet::from([0]);
        let mut open: Vec<(IdentityId, u64)> = signers.iter().map(|id| (*id, index)).collect();
        while let Some((id, before)) = open.pop() {
            let Some(identity) = self.identities.get(&id) else {
                continue;
            };
            let changes = identity.enrolled.iter().chain(&identity.rotations);
            for change in changes.filter(|change| change.index < before) {
                if found.insert(change.index) {
                    open.push((change.by, change.index));
                }
            }
        }
        found.into_iter().filter(|i| *i < index).collect()
    }
}

/// What a refusal is about, so that identical ones can be told. Of one that names who is in its way, that too: a refusal because of
/// another holder, or of another lease of his, is another refusal.
#[must_use]
pub fn about(operation: &Operation, detail: &Map<String, Value>) -> String {
    let mut about = match verb::find(&operation.tool) {
        Some(tool) => (tool.resource)(&operation.arguments),
        None => String::new(),
    };
    for name in ["holder", "fence"] {
        if let Some(value) = detail.get(name) {
            about.push('\n');
            about.push_str(&canonical(value));
        }
    }
    about
}

/// "The same request": equal tool and equal arguments, whatever the time and the nonce.
#[must_use]
pub fn request_hash(operation: &Operation) -> Hash {
    let mut text = operation.tool.clone();
    text.push('\n');
    text.push_str(&canonical(&operation.arguments));
    sha256(text.as_bytes())
}

/// How far log time jumped ahead by an accepted change of the clock, in milliseconds; 0 where it went back.
fn jump_ms(event: &str) -> Result<u64, String> {
    let members = object(event)?;
    let time = |name: &str| {
        let text = members.get(name).and_then(Value::as_str);
        let parsed = text.and_then(|text| text.parse::<Millis>().ok());
        parsed.ok_or_else(|| format!("clock_adjusted without `{name}`"))
    };
    Ok(time("to")?.0.saturating_sub(time("from")?.0))
}

pub(crate) fn object(text: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err("not an object".into()),
        Err(e) => Err(e.to_string()),
    }
}
