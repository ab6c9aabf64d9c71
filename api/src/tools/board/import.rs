//! Bringing a board file in: what it would do, and its parts.

use countersign_verifier::{hash::Hash, key::IdentityId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{json, unreadable};
use crate::{
    error::{Code, Problem},
    state::{
        Caller,
        board::{
            Board, FileError, Import, Item, Merged, Mode, Moment, Provenance, Rests, Status, Work,
            drop, file, held_by_other, holder, item::ItemError, may_review, merge,
        },
        verb::arguments,
    },
    tools::{Done, View, define::Kind},
};

/// One part of a file has about so many items.
const PART_ITEMS: usize = 100;

/// An item of a plan, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Why {
    /// Its id.
    pub id: String,
    /// Why.
    pub why: String,
}

/// What becomes of the items of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// Ids of the new ones.
    pub create: Vec<String>,
    /// Those that change.
    pub update: Vec<Why>,
    /// Those that are passed over.
    pub skip: Vec<Why>,
}

/// Result of `board_import`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Imported {
    /// What becomes of each item, or became.
    pub plan: Plan,
    /// How many items were changed; 0 in a dry run.
    pub applied: u64,
    /// In how many operations.
    pub parts: u64,
}

impl Imported {
    /// Adds what became of another part.
    pub fn add(&mut self, other: Imported) {
        self.plan.create.extend(other.plan.create);
        self.plan.update.extend(other.plan.update);
        self.plan.skip.extend(other.plan.skip);
        self.applied += other.applied;
        self.parts += other.parts;
    }
}

impl Plan {
    fn push(&mut self, id: &str, merged: Merged) {
        let why = || Why {
            id: id.to_owned(),
            why: merged.why().to_owned(),
        };
        match merged {
            Merged::Created => self.create.push(id.to_owned()),
            merged if merged.changes() => self.update.push(why()),
            _ => self.skip.push(why()),
        }
    }
}

/// What a file would do to a board, and the parts of it that would do something.
///
/// # Errors
/// [`FileError`], naming the line.
pub fn plan(
    board: &Board,
    file: &file::File,
    mode: Mode,
    moment: &Moment<'_>,
    rests: &Rests<'_>,
) -> Result<(Plan, Vec<Value>), FileError> {
    let mut board = board.clone();
    let mut plan = Plan::default();
    let (mut items, mut drops): (Vec<Map<String, Value>>, Vec<String>) = Default::default();
    let mut work = Work::default();
    for (at, (line, members)) in file.items.iter().enumerate() {
        // A part of usual items has as many, and each is an operation of its own.
        if at % PART_ITEMS == 0 {
            work = Work::default();
        }
        let rests = &rests.within(&work);
        let merged = merge(&mut board, members, mode, moment, rests)
            .map_err(|error: ItemError| FileError::Line(*line, error.to_string()))?;
        plan.push(file::id_of(members), merged);
        if merged.changes() {
            items.push(members.clone());
        }
    }
    if mode == Mode::Replace {
        let named: std::collections::BTreeSet<&str> =
            file.items.iter().map(|(_, m)| file::id_of(m)).collect();
        let others = board.iter().filter(|item| item.status != Status::Dropped);
        let others: Vec<String> = others
            .map(|item| item.id.to_string())
            .filter(|id| !named.contains(id.as_str()))
            .collect();
        for id in others {
            let merged = drop(&mut board, &id, moment, rests);
            plan.push(&id, merged);
            if merged.changes() {
                drops.push(id);
            }
        }
    }
    Ok((plan, file::cut(&file.sha256, mode, items, drops)))
}

/// What a call with these arguments is: a chunk, a dry run, or a file to be cut.
pub(super) fn kind(asked: &Value) -> Kind {
    let is = |name| asked.get(name).is_some();
    match asked.get("dry_run").and_then(Value::as_bool) {
        _ if is("items") || is("drop") || is("part") => Kind::Writes,
        Some(false) => Kind::IsCut,
        _ => Kind::Reads,
    }
}

/// The file that a call of `board_import` carries, and what wins where both sides have an item.
///
/// # Errors
/// What is wrong with the arguments, or with the file, by the line.
pub fn file_of(asked: &Value) -> Result<(file::File, Mode), Problem> {
    let malformed = |why: String| Problem::new(Code::Malformed, why);
    let asked: Import = arguments(asked).map_err(malformed)?;
    if asked.format != file::FORMAT {
        let why = format!("format: {}", file::FORMAT);
        return Err(malformed(why).with("pointer", "/format"));
    }
    let content = asked.content.as_deref();
    let content = content.ok_or_else(|| malformed("content: the file".into()))?;
    let read = file::read(content).map_err(unreadable)?;
    if let Some(sha256) = &asked.sha256
        && *sha256 != read.sha256.to_hex()
        && *sha256 != read.lines_sha256.to_hex()
    {
        let why = "sha256 is not the digest of the content";
        let problem = Problem::new(Code::DigestMismatch, why);
        return Err(problem.with("found", read.sha256.to_hex()));
    }
    Ok((read, asked.mode.unwrap_or_default()))
}

/// What a file would do to a board that was exported; who holds what, and who may review, is not known here: the service says it.
///
/// # Errors
/// [`FileError`], naming the line, of either file.
pub fn plan_afar(
    ours: &str,
    theirs: &file::File,
    mode: Mode,
) -> Result<(Plan, Vec<Value>), FileError> {
    let nobody = IdentityId(Hash([0; 32]));
    let mut board = Board::default();
    for (line, members) in file::read(ours)?.items {
        let provenance = Provenance {
            by: nobody,
            session: None,
            index: 0,
        };
        let item = Item::new(members, provenance)
            .map_err(|error| FileError::Line(line, error.to_string()))?;
        board.insert(item);
    }
    let moment = Moment {
        at: 0,
        by: nobody,
        session: None,
        index: 0,
    };
    let rests = Rests {
        held: &|_| false,
        reviews: true,
        items_max: u64::MAX,
        work: None,
    };
    plan(&board, theirs, mode, &moment, &rests)
}

fn of_file(view: &View<'_>, asked: &Value) -> Result<(Plan, Vec<Value>), Problem> {
    let (read, mode) = file_of(asked)?;
    let owner = view.state.owner().unwrap_or(IdentityId(Hash([0; 32])));
    let caller = view.caller.map_or(owner, |caller| caller.id);
    let moment = Moment {
        at: view.state.at,
        by: caller,
        session: None,
        index: view.head.size,
    };
    let rests = Rests {
        held: &|id| match view.caller {
            Some(identity) => held_by_other(view.state, &Caller::from(identity), view.session, id),
            None => holder(view.state, id).is_some(),
        },
        // Whoever has the owner's token asks for the owner.
        reviews: view.caller.is_none_or(may_review),
        items_max: view.state.settings.board_items_max,
        work: None,
    };
    plan(&view.state.board, &read, mode, &moment, &rests).map_err(unreadable)
}

pub(super) fn dry_run(view: &View<'_>, asked: &Value) -> Result<Value, Problem> {
    let (plan, parts) = of_file(view, asked)?;
    let parts = parts.len() as u64;
    Ok(json(&Imported {
        plan,
        applied: 0,
        parts,
    }))
}

pub(super) fn cut(view: &View<'_>, asked: &Value) -> Result<Vec<Value>, Problem> {
    Ok(of_file(view, asked)?.1)
}

/// The answer to one part, from what its leaf records.
pub(super) fn written(done: &Done<'_>) -> Value {
    let asked: Result<Import, String> = arguments(&done.operation.arguments);
    let letters = done.effect.get("became").and_then(Value::as_str);
    let mut plan = Plan::default();
    if let (Ok(asked), Some(letters)) = (asked, letters) {
        let items = asked.items.iter().flatten();
        let ids = items.map(|members| file::id_of(members).to_owned());
        let ids = ids.chain(asked.drop.into_iter().flatten());
        for (id, merged) in ids.zip(letters.chars().filter_map(Merged::from_letter)) {
            plan.push(&id, merged);
        }
    }
    let applied = done.effect.get("applied").and_then(Value::as_u64);
    json(&Imported {
        plan,
        applied: applied.unwrap_or(0),
        parts: 1,
    })
}

/// The result of all parts.
pub(super) fn sum(results: &[Value]) -> Value {
    let mut all = Imported::default();
    for result in results {
        // OK because it is what `written` gave.
        all.add(Imported::deserialize(result).expect("board::sum"));
    }
    json(&all)
}
