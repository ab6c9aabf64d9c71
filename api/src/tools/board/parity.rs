//! Whether two boards are the same, item by item.

use std::collections::{BTreeMap, BTreeSet};

use countersign_verifier::{hash::sha256, json::canonical, leaf::Leaf};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{json, unreadable};
use crate::{
    error::{Code, Problem},
    query,
    state::{
        State,
        board::{Board, file},
        verb::arguments,
    },
    tools::View,
};

/// Ids of each kind that an answer lists; `drift` counts all.
const SHOWN_MAX: usize = 200;

/// What the board is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Against {
    /// What a replay of all leaves gives.
    Replay,
    /// An export.
    Snapshot,
}

/// Arguments of `parity_check`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ParityArgs {
    /// `replay`: the board that the log's leaves make; `snapshot`: an export, of which `content` or `sha256` is given.
    against: Against,
    /// The export.
    content: Option<String>,
    /// SHA-256 of the export, in lowercase hexadecimal: alone it tells only whether the board is the very same.
    sha256: Option<String>,
}

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Side {
    /// How many items it has.
    pub items: usize,
    /// SHA-256 of its export, in lowercase hexadecimal.
    pub sha256: String,
}

/// An item that both have, and that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Differs {
    /// Its id.
    pub id: String,
    /// Which members differ.
    pub fields: Vec<String>,
}

/// Result of `parity_check`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Drift {
    /// How many items only one side has, or differ.
    pub drift: usize,
    /// The board.
    pub ours: Side,
    /// What it is compared with.
    pub theirs: Side,
    /// Ids that only the board has, up to 200.
    pub only_ours: Vec<String>,
    /// Ids that only the other side has, up to 200.
    pub only_theirs: Vec<String>,
    /// Items that differ, up to 200.
    pub differ: Vec<Differs>,
}

type Lines = BTreeMap<String, String>;

pub(super) fn read(view: &View<'_>, asked: &Value) -> Result<Value, Problem> {
    let malformed = |why: String| Problem::new(Code::Malformed, why);
    let asked: ParityArgs = arguments(asked).map_err(malformed)?;
    let ours = &view.state.board;
    match (asked.against, asked.content, asked.sha256) {
        (Against::Replay, None, None) => {
            // It reads the whole log: one at a time, or a few who ask would keep all others from the disk.
            let Some(_turn) = view.pages.versions.replaying() else {
                let why = "the board is being compared with a replay for somebody else";
                return Err(Problem::new(Code::Busy, why).retry_after(1_000));
            };
            let theirs = replayed(view)?;
            Ok(json(&compare(
                ours,
                &lines(&theirs.board),
                &file::write(&theirs.board),
            )))
        }
        (Against::Snapshot, Some(content), sha256) => {
            let read = file::read(&content).map_err(unreadable)?;
            let digests = [read.sha256.to_hex(), read.lines_sha256.to_hex()];
            if sha256.is_some_and(|stated| !digests.contains(&stated)) {
                let why = "sha256 is not the digest of the content";
                let problem = Problem::new(Code::DigestMismatch, why);
                return Err(problem.with("found", read.sha256.to_hex()));
            }
            let line = |(_, members): &(usize, Map<String, Value>)| {
                (
                    file::id_of(members).to_owned(),
                    canonical(&Value::Object(members.clone())),
                )
            };
            let theirs = read.items.iter().map(line).collect();
            Ok(json(&compare(ours, &theirs, &content)))
        }
        (Against::Snapshot, None, Some(stated)) => {
            let written = file::write(ours);
            let digests = file::read(&written).map_err(unreadable)?;
            if stated != digests.sha256.to_hex() && stated != digests.lines_sha256.to_hex() {
                let why = "the board's export has another digest; with its content the items that differ are listed";
                let problem = Problem::new(Code::DigestMismatch, why);
                return Err(problem.with("ours", digests.sha256.to_hex()));
            }
            Ok(json(&compare(ours, &lines(ours), &written)))
        }
        (Against::Snapshot, None, None) => {
            Err(malformed("content or sha256: of the snapshot".into()))
        }
        (Against::Replay, ..) => Err(malformed(
            "content and sha256 are of a snapshot, not of a replay".into(),
        )),
    }
}

/// The state that the leaves up to this view's size make.
fn replayed(view: &View<'_>) -> Result<State, Problem> {
    let mut state = State::default();
    for index in 0..view.head.size {
        let bytes = view.reader.leaf(index).map_err(|e| query::unreadable(&e))?;
        let missing = || Problem::internal(&format!("leaf {index} is not there"));
        let bytes = bytes.ok_or_else(missing)?;
        let leaf = Leaf::parse(&bytes).map_err(|e| Problem::internal(&e))?;
        state.apply(&leaf).map_err(|e| Problem::internal(&e))?;
    }
    Ok(state)
}

fn lines(board: &Board) -> Lines {
    let line = |item: &crate::state::board::Item| (item.id.to_string(), item.line.to_string());
    board.iter().map(line).collect()
}

/// How a board differs from the lines of another, whose export is `content`.
#[must_use]
pub fn compare(board: &Board, theirs: &Lines, content: &str) -> Drift {
    let ours = lines(board);
    let mut only_ours: Vec<String> = Vec::new();
    let mut differ = Vec::new();
    for (id, line) in &ours {
        match theirs.get(id) {
            None => only_ours.push(id.clone()),
            Some(other) if other == line => {}
            Some(other) => differ.push(Differs {
                id: id.clone(),
                fields: fields(line, other),
            }),
        }
    }
    let only_theirs = theirs.keys().filter(|id| !ours.contains_key(*id));
    let mut only_theirs: Vec<String> = only_theirs.cloned().collect();
    let drift = only_ours.len() + only_theirs.len() + differ.len();
    only_ours.truncate(SHOWN_MAX);
    only_theirs.truncate(SHOWN_MAX);
    differ.truncate(SHOWN_MAX);
    let side = |items, content: &str| Side {
        items,
        sha256: sha256(content.as_bytes()).to_hex(),
    };
    Drift {
        drift,
        ours: side(ours.len(), &file::write(board)),
        theirs: side(theirs.len(), content),
        only_ours,
        only_theirs,
        differ,
    }
}

/// The members that two lines of one id do not share.
fn fields(ours: &str, theirs: &str) -> Vec<String> {
    let read = |line: &str| serde_json::from_str::<Map<String, Value>>(line).unwrap_or_default();
    let (ours, theirs) = (read(ours), read(theirs));
    let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    let differs = |name: &&String| ours.get(*name) != theirs.get(*name);
    names.into_iter().filter(differs).cloned().collect()
}
