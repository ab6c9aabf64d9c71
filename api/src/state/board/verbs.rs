//! What can be done to items: judged, and taken in.

use countersign_verifier::{hash::Hash, key::IdentityId, operation::Operation};
use serde_json::{Map, Value, json};

use super::{
    Board, Item, Status,
    asked::{Comment, Outcome, Resolve, Upsert},
    cycle::acyclic,
    fence,
    item::{ITEM_BYTES_MAX, ItemError, normalise},
    names,
    patch::{Moment, commented, patched, resolved},
};
use crate::{
    code::Code,
    state::{
        At, Caller, Decided, Identity, State,
        verb::{Verb, arguments, malformed, map, member, settle},
    },
};

/// Evidence that one resolution names.
const EVIDENCE_MAX: usize = 32;
/// Who may accept work.
const REVIEWERS: [&str; 2] = ["owner", "reviewer"];

/// `board_upsert`.
pub const UPSERT: Verb = Verb {
    tool: "board_upsert",
    decide: |state, caller, operation, at| settle(decide_upsert(state, caller, operation, at)),
    apply: apply_upsert,
    resource: |arguments| member(arguments.get("item").unwrap_or(&Value::Null), "id"),
};

/// `board_resolve`.
pub const RESOLVE: Verb = Verb {
    tool: "board_resolve",
    decide: |state, caller, operation, at| settle(decide_resolve(state, caller, operation, at)),
    apply: apply_resolve,
    resource: |arguments| member(arguments, "id"),
};

/// `board_comment`.
pub const COMMENT: Verb = Verb {
    tool: "board_comment",
    decide: |state, caller, operation, at| settle(decide_comment(state, caller, operation, at)),
    apply: apply_comment,
    resource: |arguments| member(arguments, "id"),
};

/// Whether this identity may accept work.
#[must_use]
pub fn may_review(identity: &Identity) -> bool {
    let roles = &identity.roles;
    roles.iter().any(|role| REVIEWERS.contains(&role.as_str()))
}

fn moment<'a>(caller: &Caller<'_>, operation: &'a Operation, at: At) -> Moment<'a> {
    Moment {
        at: at.at,
        by: caller.identity.id,
        session: operation.session.as_deref(),
        index: at.index,
    }
}

fn taken_at<'a>(state: &State, by: IdentityId, operation: &'a Operation, index: u64) -> Moment<'a> {
    Moment {
        at: state.at,
        by,
        session: operation.session.as_deref(),
        index,
    }
}

/// The patch with its names as they are kept.
fn patch(operation: &Operation) -> Map<String, Value> {
    let item = operation.arguments.get("item").and_then(Value::as_object);
    let mut patch = item.cloned().unwrap_or_default();
    normalise(&mut patch);
    patch
}

/// The id of a new item: `i_<index>`, with another number behind it where an import has brought that one.
fn mint(board: &Board, index: u64) -> String {
    let first = format!("i_{index}");
    let others = (1_u64..).map(|n| format!("i_{index}_{n}"));
    let mut ids = std::iter::once(first).chain(others);
    let free = ids.find(|id| board.twin(id).is_none());
    // OK because a board is finite, and the numbers are not.
    free.expect("board::mint")
}

fn decide_upsert(
    state: &State,
    caller: &Caller<'_>,
    operation: &Operation,
    at: At,
) -> Result<Decided, Decided> {
    let asked: Upsert = arguments(&operation.arguments).map_err(malformed)?;
    let patch = patch(operation);
    let id = match patch.get("id").and_then(Value::as_str) {
        Some(id) => id.to_owned(),
        None => mint(&state.board, at.index),
    };
    names::check(&id, names::ID_BYTES_MAX).map_err(|why| malformed(format!("item.id: {why}")))?;
    let before = state.board.get(&id);
    versioned(&id, before, asked.if_version)?;
    if before.is_none() {
        may_be_new(state, &id)?;
        if asked.item.title.is_none() {
            return Err(malformed("item.title: a new item needs one".into()));
        }
    }
    fence::check(
        state,
        caller,
        operation.session.as_deref(),
        &id,
        asked.fence,
    )?;
    let item = patched(before, &id, &patch, &moment(caller, operation, at)).map_err(unfit)?;
    review_holds(caller, before, &item)?;
    if asked.item.depends_on.is_some() {
        acyclic(&state.board, &item)?;
    }
    Ok(Decided::Applied(map(json!({
        "id": id, "version": item.version, "created": before.is_none(),
    }))))
}

/// A new id must be told from every other by whoever reads it.
fn may_be_new(state: &State, id: &str) -> Result<(), Decided> {
    let (board, most) = (&state.board, state.settings.board_items_max);
    if let Some(twin) = board.twin(id) {
        let why = format!("item `{}` has an id that looks like this one", twin.id);
        return Err(Decided::refuse(Code::IdTaken, why).with("id", &*twin.id));
    }
    if board.len() as u64 >= most {
        let why = format!("a board has at most {most} items");
        return Err(Decided::refuse(Code::LimitReached, why).with("limit", most));
    }
    Ok(())
}

fn versioned(id: &str, before: Option<&Item>, if_version: Option<u64>) -> Result<(), Decided> {
    let have = before.map_or(0, |item| item.version);
    match if_version {
        Some(want) if want != have => {
            let why = format!("item `{id}` is at version {have}, not {want}");
            let refused = Decided::refuse(Code::VersionMismatch, why);
            Err(refused.with("id", id).with("version", have))
        }
        _ => Ok(()),
    }
}

/// A member-wise patch is no way around a review.
fn review_holds(caller: &Caller<'_>, before: Option<&Item>, after: &Item) -> Result<(), Decided> {
    let was_done = before.is_some_and(|item| item.status == Status::Done);
    let asks = before.map_or(after.review_required, |item| item.review_required);
    let accepts = after.status == Status::Done && !was_done;
    // What was accepted stays as it was accepted.
    if was_done && asks && !may_review(caller.identity) {
        return Err(review_required(&after.id));
    }
    if may_review(caller.identity) || !asks || (!accepts && after.review_required) {
        return Ok(());
    }
    Err(review_required(&after.id))
}

fn review_required(id: &str) -> Decided {
    let why = "this item needs a review, by an identity with the role reviewer or owner";
    Decided::refuse(Code::ReviewRequired, why).with("id", id)
}

pub(super) fn unfit(error: ItemError) -> Decided {
    let why = error.to_string();
    match error {
        ItemError::Member(_) => malformed(format!("item: {why}")),
        ItemError::TooLarge(bytes) => Decided::refuse(Code::TooLarge, why)
            .with("limit", ITEM_BYTES_MAX)
            .with("bytes", bytes),
    }
}

fn apply_upsert(
    state: &mut State,
    by: IdentityId,
    operation: &Operation,
    effect: &Map<String, Value>,
    index: u64,
) -> Result<(), String> {
    let id = effect.get("id").and_then(Value::as_str);
    let id = id.ok_or("effect without an id")?;
    let moment = taken_at(state, by, operation, index);
    let item = patched(state.board.get(id), id, &patch(operation), &moment);
    state.board.insert(item.map_err(|e| e.to_string())?);
    Ok(())
}

/// The item that a change names exactly.
fn named<'s>(state: &'s State, id: &str) -> Result<&'s Item, Decided> {
    let id = names::nfc(id);
    names::check(&id, names::ID_BYTES_MAX).map_err(|why| malformed(format!("id: {why}")))?;
    let unknown = || Decided::refuse(Code::NotFound, "no item of this id").with("id", id.as_str());
    state.board.get(&id).ok_or_else(unknown)
}

fn decide_resolve(
    state: &State,
    caller: &Caller<'_>,
    operation: &Operation,
    at: At,
) -> Result<Decided, Decided> {
    let asked: Resolve = arguments(&operation.arguments).map_err(malformed)?;
    evidence_is_named(&asked)?;
    let before = named(state, &asked.id)?;
    versioned(&before.id, Some(before), asked.if_version)?;
    let session = operation.session.as_deref();
    fence::check(state, caller, session, &before.id, asked.fence)?;
    // Whoever delivers does not accept, nor takes back what was accepted.
    let reviewed = before.review_required && !may_review(caller.identity);
    let theirs = matches!(before.status, Status::AwaitingReview | Status::Done)
        || asked.outcome == Outcome::ChangesRequested;
    if reviewed && theirs {
        return Err(review_required(&before.id));
    }
    let status = match asked.outcome {
        Outcome::Done if reviewed => Status::AwaitingReview,
        Outcome::Done => Status::Done,
        Outcome::Dropped => Status::Dropped,
        Outcome::ChangesRequested => Status::Pending,
    };
    let moment = moment(caller, operation, at);
    let item = resolved(before, &asked, status, &moment).map_err(unfit)?;
    Ok(Decided::Applied(map(json!({
        "id": &*item.id, "version": item.version, "status": status.name(),
    }))))
}

fn evidence_is_named(asked: &Resolve) -> Result<(), Decided> {
    let all = asked.evidence.as_deref().unwrap_or_default();
    if all.len() > EVIDENCE_MAX {
        return Err(malformed(format!("evidence: at most {EVIDENCE_MAX}")));
    }
    for evidence in all {
        names::check(&evidence.name, names::NAME_BYTES_MAX)
            .map_err(|why| malformed(format!("evidence: name: {why}")))?;
        Hash::from_hex(&evidence.sha256).map_err(|_| {
            malformed("evidence: sha256: 64 hexadecimal digits in lower case".into())
        })?;
    }
    Ok(())
}

fn apply_resolve(
    state: &mut State,
    by: IdentityId,
    operation: &Operation,
    effect: &Map<String, Value>,
    index: u64,
) -> Result<(), String> {
    let asked: Resolve = arguments(&operation.arguments)?;
    let text = |name| effect.get(name).and_then(Value::as_str);
    let before = text("id").and_then(|id| state.board.get(id));
    let status = text("status").and_then(Status::from_name);
    let item = resolved(
        before.ok_or("an item that is not there")?,
        &asked,
        status.ok_or("effect without a status")?,
        &taken_at(state, by, operation, index),
    );
    state.board.insert(item.map_err(|e| e.to_string())?);
    Ok(())
}

fn decide_comment(
    state: &State,
    caller: &Caller<'_>,
    operation: &Operation,
    at: At,
) -> Result<Decided, Decided> {
    let asked: Comment = arguments(&operation.arguments).map_err(malformed)?;
    if asked.text.is_empty() {
        return Err(malformed("text: something to say".into()));
    }
    // No lease is asked for: whoever watches the work may speak of it.
    let before = named(state, &asked.id)?;
    let moment = moment(caller, operation, at);
    let item = commented(before, &asked, &moment).map_err(unfit)?;
    Ok(Decided::Applied(map(json!({
        "id": &*item.id, "version": item.version, "comment": item.read().comments.last().map(|c| c.id.clone()),
    }))))
}

fn apply_comment(
    state: &mut State,
    by: IdentityId,
    operation: &Operation,
    effect: &Map<String, Value>,
    index: u64,
) -> Result<(), String> {
    let asked: Comment = arguments(&operation.arguments)?;
    let id = effect.get("id").and_then(Value::as_str);
    let before = id.and_then(|id| state.board.get(id));
    let item = commented(
        before.ok_or("an item that is not there")?,
        &asked,
        &taken_at(state, by, operation, index),
    );
    state.board.insert(item.map_err(|e| e.to_string())?);
    Ok(())
}
