//! An import: each chunk is one operation, judged and taken in item by item.

use countersign_verifier::{hash::Hash, key::IdentityId, operation::Operation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    Board, Work, fence, file,
    item::ItemError,
    merge::{Merged, Rests, drop, merge},
    patch::Moment,
    verbs::may_review,
};
use crate::state::{
    At, Caller, Decided, State,
    verb::{Verb, arguments, malformed, map, member, settle},
};

/// A chunk has at most so many items: what became of each is a letter of the effect, which has 4,096 bytes.
pub const CHUNK_ITEMS_MAX: usize = 1_000;

/// What wins where both sides have an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The newer version; comments of both are kept.
    #[default]
    Merge,
    /// The file; items that it does not have are dropped, none is deleted.
    Replace,
}

/// Arguments of `board_import`: a whole file, or one chunk of it as it is signed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Import {
    /// `countersign.board/1`.
    pub format: String,
    /// The file: a dry run shows what would be done; with `dry_run` false and a token the service cuts it into chunks and signs
    /// each with the seat's key.
    pub content: Option<String>,
    /// `merge` (the default): newer versions win. `replace`: the file wins, and what it does not have is dropped.
    pub mode: Option<Mode>,
    /// Only show the plan: true unless you say false.
    pub dry_run: Option<bool>,
    /// Of a chunk: SHA-256 of the whole file, in lowercase hexadecimal.
    pub sha256: Option<String>,
    /// Of a chunk: which of the parts, from 1.
    pub part: Option<u64>,
    /// Of a chunk: how many parts there are.
    pub parts: Option<u64>,
    /// Of a chunk: items as the file has them, up to 1,000.
    pub items: Option<Vec<Map<String, Value>>>,
    /// Of a chunk in mode `replace`: ids that the file does not have.
    pub drop: Option<Vec<String>>,
}

/// `board_import`.
pub const IMPORT: Verb = Verb {
    tool: "board_import",
    decide: |state, caller, operation, at| settle(decide(state, caller, operation, at)),
    apply,
    resource: |arguments| {
        let part = arguments.get("part").and_then(Value::as_u64).unwrap_or(0);
        format!("{} {part}", member(arguments, "sha256"))
    },
};

/// The items and the ids to drop of a chunk.
fn chunk(operation: &Operation) -> Result<Import, Decided> {
    let asked: Import = arguments(&operation.arguments).map_err(malformed)?;
    let whole = "a signed import is a chunk {format, sha256, part, parts, items}: `countersign board import` cuts a file";
    if asked.format != file::FORMAT {
        return Err(malformed(format!("format: {}", file::FORMAT)));
    }
    if asked.content.is_some() || asked.dry_run.is_some() {
        return Err(malformed(whole.into()));
    }
    let (Some(sha256), Some(part), Some(parts), Some(items)) =
        (&asked.sha256, asked.part, asked.parts, &asked.items)
    else {
        return Err(malformed(whole.into()));
    };
    Hash::from_hex(sha256)
        .map_err(|_| malformed("sha256: 64 hexadecimal digits in lower case".into()))?;
    if part == 0 || part > parts {
        return Err(malformed("part: from 1 to parts".into()));
    }
    let drops = asked.drop.as_ref().map_or(0, Vec::len);
    if drops > 0 && asked.mode != Some(Mode::Replace) {
        return Err(malformed("drop: in mode replace only".into()));
    }
    if !(1..=CHUNK_ITEMS_MAX).contains(&(items.len() + drops)) {
        return Err(malformed(format!("items: 1 to {CHUNK_ITEMS_MAX}")));
    }
    Ok(asked)
}

/// Takes a chunk in; what became of each item, then of each id to drop. The first that is no item, by its place.
fn take(
    board: &mut Board,
    asked: &Import,
    moment: &Moment<'_>,
    rests: &Rests<'_>,
) -> Result<Vec<Merged>, (usize, ItemError)> {
    let mode = asked.mode.unwrap_or_default();
    let mut became = Vec::new();
    for (at, members) in asked.items.iter().flatten().enumerate() {
        became.push(merge(board, members, mode, moment, rests).map_err(|e| (at, e))?);
    }
    for id in asked.drop.iter().flatten() {
        became.push(drop(board, &super::names::nfc(id), moment, rests));
    }
    Ok(became)
}

fn decide(
    state: &State,
    caller: &Caller<'_>,
    operation: &Operation,
    at: At,
) -> Result<Decided, Decided> {
    let asked = chunk(operation)?;
    let moment = Moment {
        at: at.at,
        by: caller.identity.id,
        session: operation.session.as_deref(),
        index: at.index,
    };
    let rests = Rests {
        held: &|id| fence::held_by_other(state, caller, moment.session, id),
        reviews: may_review(caller.identity),
        items_max: state.settings.board_items_max,
        work: Some(&Work::default()),
    };
    let mut board = state.board.clone();
    let became = take(&mut board, &asked, &moment, &rests)
        .map_err(|(at, error)| malformed(format!("items: {at}: {error}")))?;
    let letters: String = became.iter().map(|merged| merged.letter()).collect();
    let applied = became.iter().filter(|merged| merged.changes()).count();
    Ok(Decided::Applied(map(
        json!({"applied": applied, "became": letters}),
    )))
}

fn apply(
    state: &mut State,
    by: IdentityId,
    operation: &Operation,
    effect: &Map<String, Value>,
    index: u64,
) -> Result<(), String> {
    let asked: Import = arguments(&operation.arguments)?;
    let letters = effect.get("became").and_then(Value::as_str);
    let letters: Vec<char> = letters.ok_or("effect without `became`")?.chars().collect();
    let moment = Moment {
        at: state.at,
        by,
        session: operation.session.as_deref(),
        index,
    };
    // What became of each is recorded, and only what changed is taken in: it is merged as it was when that was decided, with nothing
    // in its way.
    let rests = Rests {
        held: &|_| false,
        reviews: true,
        items_max: u64::MAX,
        work: None,
    };
    let mut letters = letters.into_iter();
    let mut changes = || {
        let merged = letters.next().and_then(Merged::from_letter);
        merged
            .map(Merged::changes)
            .ok_or("effect: `became` is not of these items")
    };
    for members in asked.items.iter().flatten() {
        if changes()? {
            let mode = asked.mode.unwrap_or_default();
            let merged = merge(&mut state.board, members, mode, &moment, &rests);
            merged.map_err(|e| e.to_string())?;
        }
    }
    for id in asked.drop.iter().flatten() {
        if changes()? {
            drop(&mut state.board, &super::names::nfc(id), &moment, &rests);
        }
    }
    Ok(())
}
