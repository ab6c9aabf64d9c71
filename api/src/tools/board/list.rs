//! One item, and pages of them.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    json,
    row::{Changed, ItemRow, row},
};
use crate::{
    error::{Code, Problem},
    state::{
        State,
        board::{By, Item, Status, holder, names, turn},
        verb::arguments,
    },
    tools::{View, page::limit},
};

/// A page looks at so many items at most, so that a filter that fits none of 100,000 still answers at once: it is then short, and
/// `next` goes on.
const SCAN_MAX: usize = 20_000;
/// The beginning of an id is taken for it from so many bytes on.
const PREFIX_MIN: usize = 3;
/// Ids that an answer lists where several may be meant.
const AMBIGUOUS_MAX: usize = 10;

/// Arguments of `board_get`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetArgs {
    /// Its id, or at least 3 bytes of its beginning where no other item has that; a number is never cut short.
    id: String,
}

/// Arguments of `board_list`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListArgs {
    /// Only items that stand so.
    status: Option<Status>,
    /// Only items with this tag.
    tag: Option<String>,
    /// Only this owner's.
    owner: Option<String>,
    /// Only those of this strand of work.
    workstream: Option<String>,
    /// True: only those that can be begun now, the most urgent first; false: only the others.
    ready: Option<bool>,
    /// Only those whose id, title or description has this text, whatever the case.
    text: Option<String>,
    /// 1 to 200; 100 if absent. A page may have fewer, and more may follow it: `next` says so.
    limit: Option<usize>,
    /// `next` of the page before. Pages of one list show one version of the board; it is kept for ten minutes.
    #[expect(dead_code, reason = "it was opened before the tool is asked")]
    cursor: Option<String>,
}

/// Result of `board_list`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Listed {
    /// A page of items.
    items: Vec<ItemRow>,
    /// The cursor of the next page; null: there is none.
    next: Option<String>,
}

pub(super) fn get(view: &View<'_>, asked: &Value) -> Result<Value, Problem> {
    let malformed = |why| Problem::new(Code::Malformed, why);
    let GetArgs { id } = arguments(asked).map_err(malformed)?;
    let id = names::nfc(&id);
    names::check(&id, names::ID_BYTES_MAX).map_err(|why| malformed(format!("id: {why}")))?;
    let item = find(view.state, &id)?;
    Ok(json(&Changed {
        item: row(view.state, item),
    }))
}

/// The item that a reader means by this id.
fn find<'s>(state: &'s State, id: &'s str) -> Result<&'s Item, Problem> {
    let board = &state.board;
    if let Some(item) = board.get(id) {
        return Ok(item);
    }
    let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    let cuts_number =
        |item: &Item| digit(id.chars().next_back()) && digit(item.id[id.len()..].chars().next());
    let mut meant: Vec<&Item> = Vec::new();
    if id.len() >= PREFIX_MIN {
        let found = board.beginning(id).filter(|item| !cuts_number(item));
        meant.extend(found.take(AMBIGUOUS_MAX));
    }
    if let Some(twin) = board.twin(id)
        && meant.iter().all(|item| item.id != twin.id)
    {
        meant.push(twin);
    }
    match meant.as_slice() {
        [item] => Ok(item),
        [] => Err(Problem::new(Code::NotFound, "no item of this id").with("id", id)),
        several => {
            let ids: Vec<&str> = several.iter().map(|item| &*item.id).collect();
            let why = format!("several items may be meant: {}", ids.join(", "));
            Err(Problem::new(Code::AmbiguousId, why).with("ids", ids))
        }
    }
}

pub(super) fn list(view: &View<'_>, asked: &Value) -> Result<Value, Problem> {
    let malformed = |why| Problem::new(Code::Malformed, why);
    let asked: ListArgs = arguments(asked).map_err(malformed)?;
    let limit = limit(asked.limit)?;
    let filter = Filter::of(&asked);
    let mut items = Vec::new();
    let mut last = None;
    for (at, item) in candidates(view, &filter).enumerate() {
        if items.len() == limit || at == SCAN_MAX {
            let next = view.next(last);
            return Ok(json(&Listed { items, next }));
        }
        if filter.fits(view.state, item) {
            items.push(row(view.state, item));
        }
        last = Some(item.id.to_string());
    }
    Ok(json(&Listed { items, next: None }))
}

struct Filter {
    status: Option<Status>,
    tag: Option<Arc<str>>,
    owner: Option<Arc<str>>,
    workstream: Option<Arc<str>>,
    ready: Option<bool>,
    text: Option<String>,
}

impl Filter {
    fn of(asked: &ListArgs) -> Filter {
        let name = |name: &Option<String>| name.as_deref().map(|n| Arc::from(names::nfc(n)));
        Filter {
            status: asked.status,
            tag: name(&asked.tag),
            owner: name(&asked.owner),
            workstream: name(&asked.workstream),
            ready: asked.ready,
            text: asked.text.as_deref().map(str::to_lowercase),
        }
    }

    /// The index that holds everything that fits, and probably little else.
    fn narrowest(&self) -> Option<By> {
        let names = [
            self.owner.clone().map(By::Owner),
            self.tag.clone().map(By::Tag),
            self.workstream.clone().map(By::Workstream),
            self.status.map(By::Status),
        ];
        names.into_iter().flatten().next()
    }

    fn fits(&self, state: &State, item: &Item) -> bool {
        let is = |asked: &Option<Arc<str>>, has: &Option<Arc<str>>| {
            asked.as_ref().is_none_or(|name| has.as_ref() == Some(name))
        };
        let ready = || state.board.is_ready(item) && holder(state, &item.id).is_none();
        self.status.is_none_or(|status| item.status == status)
            && self.tag.as_ref().is_none_or(|tag| item.tags.contains(tag))
            && is(&self.owner, &item.owner)
            && is(&self.workstream, &item.workstream)
            && self.ready.is_none_or(|asked| ready() == asked)
            && self
                .text
                .as_deref()
                .is_none_or(|text| speaks_of(item, text))
    }
}

fn speaks_of(item: &Item, text: &str) -> bool {
    let read = item.read();
    [&read.id, &read.title, &read.description]
        .iter()
        .any(|member| member.to_lowercase().contains(text))
}

/// The items among which those that fit are, in the order of the list, behind the page before.
fn candidates<'s>(view: &'s View<'_>, filter: &Filter) -> Box<dyn Iterator<Item = &'s Item> + 's> {
    let (board, after) = (&view.state.board, view.pages.after.as_deref());
    if filter.ready == Some(true) {
        let after = after.and_then(|id| board.get(id)).map(turn);
        return Box::new(board.ready(after));
    }
    match filter.narrowest() {
        Some(by) => board.of(&by, after),
        None => Box::new(board.after(after)),
    }
}
