//! Judging a leaf again that is there already: would this ledger have written it?

use countersign_verifier::{
    hash::Hash,
    leaf::{Class, Decision, Leaf, OperationLeaf, ReceiptLeaf},
    operation::Operation,
};
use serde_json::{Map, Value};

use super::{
    ReceiptRequest, Verified, caller::caller, decision::decision_text, operation::fresh,
    receipt::admit,
};
use crate::{
    code::Code,
    state::{At, Decided, State, about, due, object, refusal, session},
};

/// What a leaf was compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replayed {
    /// All that its decision rests on.
    Whole,
    /// All but what stands in the log itself (`prev`, `observed`), which was taken as it is recorded.
    ButPreconditions,
}

/// Whether leaf `index` is what the rules make of what was asked, in this state of the leaves before it. Signatures are not looked
/// at; nor is whether the same request was answered before.
///
/// # Errors
/// What the rules say instead.
pub fn follows_rules(state: &State, index: u64, leaf: &Leaf<'_>) -> Result<Replayed, String> {
    due_first(state, leaf)?;
    match leaf {
        // Derived ones were compared with what is due; stated ones replay takes as given.
        Leaf::System(_) => Ok(Replayed::Whole),
        Leaf::Receipt(receipt) => receipt_follows(state, receipt),
        Leaf::Operation(operation) => operation_follows(state, index, operation),
    }
}

/// What falls due by itself stands in the log before whatever came at that time or later, and no sooner.
fn due_first(state: &State, leaf: &Leaf<'_>) -> Result<(), String> {
    let due = state.due_event(leaf.at().0);
    match leaf {
        Leaf::System(system) if due::is_derived(system.event_type) => match due {
            Some(event) if event == system.event => Ok(()),
            Some(event) => Err(format!("another event is due first: {event}")),
            None => Err("an event that is not due yet".into()),
        },
        // It puts off what runs, so it comes before what would have ended.
        Leaf::System(system) if system.event_type == "clock_adjusted" => Ok(()),
        _ => match due {
            Some(event) => Err(format!("an event is missing before it: {event}")),
            None => Ok(()),
        },
    }
}

/// The signer of a leaf, with the key that he has now.
pub(super) fn current(
    state: &State,
    id: &countersign_verifier::key::IdentityId,
) -> Result<Verified, String> {
    let identity = state.identities.get(id);
    let identity = identity.ok_or_else(|| format!("{id} is not enrolled"))?;
    Ok(Verified {
        identity: *id,
        key: identity.key.sha256,
        signature: Vec::new(),
    })
}

fn receipt_follows(state: &State, leaf: &ReceiptLeaf) -> Result<Replayed, String> {
    let signers: Result<Vec<Verified>, String> =
        leaf.signers.iter().map(|id| current(state, id)).collect();
    let request = ReceiptRequest {
        payload_type: leaf.envelope.payload_type.clone(),
        payload: Vec::new(),
        pae_sha256: Hash([0; 32]),
        verified: signers?,
        postings: Vec::new(),
    };
    match admit(state, &request) {
        Ok(counted) if counted.len() == leaf.signers.len() => Ok(Replayed::Whole),
        Ok(_) => Err("a receipt with a signature that does not count".into()),
        Err(problem) => Err(format!(
            "a receipt that the rules refuse: {}",
            problem.message
        )),
    }
}

fn operation_follows(
    state: &State,
    index: u64,
    leaf: &OperationLeaf<'_>,
) -> Result<Replayed, String> {
    let operation = Operation::parse(&leaf.envelope.payload).map_err(|e| e.to_string())?;
    let refused = |problem: crate::error::Problem| {
        format!(
            "an operation that the rules do not take: {}",
            problem.message
        )
    };
    let mut signer = current(state, &leaf.by.identity)?;
    if leaf.by.class == Class::SessionKey {
        signer.key = session_key(state, &operation)?;
    }
    let caller = caller(state, &signer, &operation, leaf.at.0).map_err(refused)?;
    if caller.class != leaf.by.class {
        return Err(format!("signed by a key of class {}", caller.class.name()));
    }
    fresh(&operation, leaf.at.0).map_err(refused)?;
    let rests = !operation.prev.is_empty() || operation.observed.is_some();
    let replayed = if rests {
        Replayed::ButPreconditions
    } else {
        Replayed::Whole
    };
    if let Decision::Refused { code, detail } = leaf.decision {
        let about = about(&operation, &object(detail)?);
        let kind = refusal::Kind::new(caller.identity.id, &operation.tool, code, &about);
        if let Some((first, _)) = state.refusals.folds_into(&kind, leaf.at.0) {
            return Err(format!("a refusal that folds into that of leaf {first}"));
        }
        let precondition = [Code::PrevUnknown, Code::ObservedMismatch];
        if rests && precondition.iter().any(|p| p.name() == code) {
            return Ok(replayed);
        }
    }
    let at = At {
        at: leaf.at.0,
        index,
    };
    let decided = state.decide(&caller, &operation, at);
    let due = decision_text(&decided);
    let (name, agrees) = match (&decided, leaf.decision) {
        (Decided::Applied(_), Decision::Applied { effect }) => ("applied", effect == due),
        (Decided::Refused(code, ..), Decision::Refused { code: was, detail }) => {
            // What cannot be read is refused without a leaf.
            let same = !code.is_unread()
                && code.name() == was
                && without_message(detail) == without_message(&due);
            (code.name(), same)
        }
        (Decided::Applied(_), _) => ("applied", false),
        (Decided::Refused(code, ..), _) => (code.name(), false),
    };
    if agrees {
        return Ok(replayed);
    }
    let due: String = due.chars().take(200).collect();
    Err(format!("the rules decide otherwise: {name} {due}"))
}

/// The key of the session that an operation names.
fn session_key(state: &State, operation: &Operation) -> Result<Hash, String> {
    let session = operation.session.as_deref().and_then(session::parse_id);
    let session = session.and_then(|index| state.sessions.get(index));
    let key = session.and_then(|session| session.key.as_ref());
    Ok(key
        .ok_or("signed with the key of a session that has none")?
        .named
        .sha256)
}

/// A refusal's detail but for the sentence in it, which is for people: another release may word it in another way.
fn without_message(detail: &str) -> Option<Map<String, Value>> {
    let mut detail = object(detail).ok()?;
    detail.remove("message")?;
    Some(detail)
}
