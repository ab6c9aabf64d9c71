//! Operations: who asks, whether he asked before, and what was decided.

use countersign_log::{Context, Entry, Key, Ruling, StoreError};
use countersign_verifier::{
    hash::sha256,
    key::IdentityId,
    leaf::{By, Class, Decision, Leaf, Millis, Signed, write_operation},
    operation::{Observed, Operation, PAYLOAD_TYPE},
};

use super::{
    Ledger, OperationRequest,
    caller::caller,
    decision::{DECISION_BYTES_MAX, decision_text},
    space,
};
use crate::{
    error::{Code, Problem},
    policy::Family,
    state::{At, Caller, Closed, Decided, Identity, State, about, head, refusal, request_hash},
};

/// How far an operation's own time may be from log time, in milliseconds: ten minutes.
const SKEW_MS: u64 = 600_000;

impl Ledger {
    pub(super) fn judge_operation(
        &mut self,
        request: &OperationRequest,
        context: &Context<'_>,
    ) -> Result<Ruling<Problem>, StoreError> {
        let operation = &request.operation;
        let (identity, class) = match caller(&self.state, &request.signer, operation, context.at) {
            Ok(caller) => (caller.identity.clone(), caller.class),
            Err(problem) => return Ok(Ruling::Refuse(problem)),
        };
        let caller = Caller {
            identity: &identity,
            class,
        };
        let nonce_key = nonce_key(&identity.id, &operation.nonce);
        if let Some((index, first)) =
            find_operation(context, &nonce_key, &identity.id, &operation.nonce)?
        {
            if request_hash(&first) == request_hash(operation) {
                return Ok(Ruling::Existing(index));
            }
            let problem = Problem::new(
                Code::IdempotencyMismatch,
                format!("the nonce was first used at index {index} for another request"),
            );
            return Ok(Ruling::Refuse(problem.with("first_index", index)));
        }
        if let Err(problem) = takes(&self.state, operation, context.at) {
            return Ok(Ruling::Refuse(problem));
        }
        let (at, index) = (context.at, context.index);
        let at = At { at, index };
        let decided = match precondition(context, &identity, operation)? {
            Some(refused) => refused,
            None => self.state.decide(&caller, operation, at),
        };
        if let Decided::Refused(code, message, detail) = &decided {
            if is_no_leaf(*code, &identity, operation) {
                let mut problem = Problem::new(*code, message.clone());
                problem.detail = detail.clone();
                return Ok(Ruling::Refuse(problem));
            }
            let kind = refusal::Kind::new(
                identity.id,
                &operation.tool,
                code.name(),
                &about(operation, detail),
            );
            if let Some((index, ends)) = self.state.refusals.folds_into(&kind, context.at) {
                self.folds.entry(index).or_insert((0, ends)).0 += 1;
                return Ok(Ruling::Existing(index));
            }
        }
        let entry = self.write(
            &caller,
            operation,
            &request.payload,
            &request.signer.signature,
            &decided,
            context,
        );
        Ok(match entry {
            Ok(leaf) => Ruling::Append(Entry {
                leaf,
                unique: vec![nonce_key],
                postings: Vec::new(),
            }),
            Err(problem) => Ruling::Refuse(problem),
        })
    }

    /// Writes the leaf of a decided operation and takes it into the state.
    pub(super) fn write(
        &mut self,
        caller: &Caller<'_>,
        operation: &Operation,
        payload: &[u8],
        signature: &[u8],
        decided: &Decided,
        context: &Context<'_>,
    ) -> Result<Vec<u8>, Problem> {
        let by = By {
            identity: caller.identity.id,
            class: caller.class,
            session: operation.session.clone(),
        };
        let text = decision_text(decided);
        if text.len() > DECISION_BYTES_MAX {
            let why = format!("a decision of {} bytes by `{}`", text.len(), operation.tool);
            return Err(Problem::internal(&why));
        }
        let decision = match decided {
            Decided::Applied(_) => Decision::Applied { effect: &text },
            Decided::Refused(code, ..) => Decision::Refused {
                code: code.name(),
                detail: &text,
            },
        };
        let signed = Signed {
            payload_type: PAYLOAD_TYPE,
            payload,
            signatures: &[(caller.identity.id, signature)],
        };
        let mut leaf = Vec::new();
        write_operation(&mut leaf, Millis(context.at), &by, signed, decision).map_err(|error| {
            Problem::new(
                Code::TooLarge,
                format!("the operation does not fit a leaf: {error}"),
            )
        })?;
        // A refusal, and never a panic: the writer must outlive whatever it is asked.
        self.take(&leaf).map_err(|why| Problem::internal(&why))?;
        Ok(leaf)
    }
}

/// What cannot be read is no request that a gate denied; and a head that somebody posted is refused to him, not to the service
/// that asks in its name.
fn is_no_leaf(code: Code, caller: &Identity, operation: &Operation) -> bool {
    let posted = caller.class == Class::ServiceKey && operation.tool == head::SUBMIT.tool;
    posted || code.is_unread()
}

/// Checks an operation that only reads: who asks, and when he signed. A read is no leaf, so its nonce is not used up.
///
/// # Errors
/// As for a write that is not even refused in the log.
pub fn may_read(state: &State, request: &OperationRequest, now_ms: u64) -> Result<(), Problem> {
    may_run(state, request, (Family::Read, ""), now_ms)
}

/// The same for whatever else becomes no leaf, by the family that the policy knows it by and what it is about.
///
/// # Errors
/// As [`may_read`].
pub fn may_run(
    state: &State,
    request: &OperationRequest,
    (family, resource): (Family, &str),
    now_ms: u64,
) -> Result<(), Problem> {
    let operation = &request.operation;
    let caller = caller(state, &request.signer, operation, now_ms)?;
    fresh(operation, now_ms)?;
    let tool = (operation.tool.as_str(), family);
    may(state, &caller, tool, resource, operation.session.as_deref())
}

/// Whether the account's policy lets this caller read by this tool.
///
/// # Errors
/// `NotAllowed`.
pub fn may_see(
    state: &State,
    caller: &Caller<'_>,
    tool: &str,
    session: Option<&str>,
) -> Result<(), Problem> {
    may(state, caller, (tool, Family::Read), "", session)
}

/// Whether the account's policy lets this caller do this, where it becomes no leaf.
///
/// # Errors
/// `NotAllowed`.
pub fn may(
    state: &State,
    caller: &Caller<'_>,
    (tool, family): (&str, Family),
    resource: &str,
    session: Option<&str>,
) -> Result<(), Problem> {
    if state.allows(caller, (tool, family), resource, session) {
        return Ok(());
    }
    let why = format!(
        "the account's policy does not let `{}` run {tool}",
        caller.identity.name
    );
    Err(Problem::new(Code::NotAllowed, why))
}

/// Whether anything new is judged at all: the log is open, and the operation was signed just now.
fn takes(state: &State, operation: &Operation, at: u64) -> Result<(), Problem> {
    match &state.closed {
        Some(closed) => Err(is_closed(closed)),
        None => fresh(operation, at),
    }
}

/// What every write is told once the log is closed; what was written before is answered as ever.
pub(super) fn is_closed(closed: &Closed) -> Problem {
    Problem::new(Code::LogClosed, closed.to_string())
        .with("closed_index", closed.index)
        .with("successor", closed.successor.as_str())
}

pub(super) fn fresh(operation: &Operation, at: u64) -> Result<(), Problem> {
    let issued = operation.issued_at.0;
    if issued.abs_diff(at) <= SKEW_MS {
        return Ok(());
    }
    let spell = |ms| Millis(ms).to_string();
    let why = format!(
        "issued_at is {} s away from log time; 600 s are allowed",
        issued.abs_diff(at) / 1_000
    );
    Err(Problem::new(Code::ClockSkew, why)
        .with("issued_at", spell(issued))
        .with("server_time", spell(at)))
}

/// What the caller says that it has seen must be so.
fn precondition(
    context: &Context<'_>,
    caller: &Identity,
    operation: &Operation,
) -> Result<Option<Decided>, StoreError> {
    for hash in &operation.prev {
        let below = match context.find(&Key::new(Key::LEAF_HASH, hash))? {
            Some(index) => context.leaf(index)?,
            None => None,
        };
        let same = below.is_some_and(|leaf| {
            countersign_verifier::hash::leaf_hash(&leaf) == *hash
                && matches!(Leaf::parse(&leaf), Ok(Leaf::Operation(op)) if op.by.identity == caller.id)
        });
        if !same {
            let refused = Decided::refuse(
                Code::PrevUnknown,
                "no operation of this identity below this one has that leaf hash",
            );
            return Ok(Some(refused.with("prev", hash.to_hex())));
        }
    }
    if let Some(Observed { size, root }) = operation.observed {
        let ours = context.root_at(size)?;
        if ours != Some(root) {
            let refused = Decided::refuse(
                Code::ObservedMismatch,
                "this log has another root at the size observed, or never had that size",
            );
            let ours = ours.map(|h| h.to_hex());
            return Ok(Some(
                refused
                    .with("size", size)
                    .with("observed", root.to_hex())
                    .with("ours", ours),
            ));
        }
    }
    Ok(None)
}

pub(super) fn nonce_key(identity: &IdentityId, nonce: &str) -> Key {
    let mut text = identity.0.0.to_vec();
    text.extend(nonce.as_bytes());
    Key::new(space::NONCE, &sha256(&text))
}

/// The first operation of this identity under this nonce.
fn find_operation(
    context: &Context<'_>,
    key: &Key,
    identity: &IdentityId,
    nonce: &str,
) -> Result<Option<(u64, Operation)>, StoreError> {
    let Some(index) = context.find(key)? else {
        return Ok(None);
    };
    let Some(leaf) = context.leaf(index)? else {
        return Ok(None);
    };
    let Ok(Leaf::Operation(found)) = Leaf::parse(&leaf) else {
        return Ok(None);
    };
    let operation = Operation::parse(&found.envelope.payload).ok();
    Ok(operation
        .filter(|o| found.by.identity == *identity && o.nonce == nonce)
        .map(|o| (index, o)))
}
