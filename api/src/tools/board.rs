//! The board: the tools.

use std::sync::Arc;

use serde_json::{Map, Value};

mod export;
mod import;
mod list;
mod parity;
mod row;

pub use export::{Exported, Format, export, markdown};
pub use import::{Imported, Plan, Why, file_of, plan, plan_afar};
pub use parity::{Drift, compare};
pub use row::{ItemRow, ProvenanceRow, row};

use self::{
    export::ExportArgs,
    import::{cut, kind, sum},
    list::{GetArgs, ListArgs, Listed},
    parity::ParityArgs,
    row::{Changed, Upserted},
};
use super::{Done, Handler, Hints, Tool, define::schema};
use crate::{
    error::{Code, Problem},
    state::board::{Comment, FileError, Import, Resolve, Upsert},
};

/// `board_upsert`.
pub const UPSERT: Tool = Tool {
    name: "board_upsert",
    summary: "Makes an item of work, or changes the members that are named; the others stay. With `if_version` only where the item is still at that version.",
    arguments: schema::<Upsert>,
    result: schema::<Upserted>,
    example: r#"{"item":{"id":"T-1","title":"Write the release notes","priority":1,"tags":["docs"],"depends_on":["T-0"]},"if_version":0}"#,
    hints: Hints::WRITES,
    handler: Handler::Write(|done| {
        let created = done.effect.get("created").and_then(Value::as_bool);
        json(&Upserted {
            item: changed(done),
            created: created.unwrap_or(false),
        })
    }),
};

/// `board_get`.
pub const GET: Tool = Tool {
    name: "board_get",
    summary: "Shows one item of the board by its id, or by the beginning of an id that only one item has.",
    arguments: schema::<GetArgs>,
    result: schema::<Changed>,
    example: r#"{"id":"T-1"}"#,
    hints: Hints::READS,
    handler: Handler::Read(list::get),
};

/// `board_list`.
pub const LIST: Tool = Tool {
    name: "board_list",
    summary: "Lists items of the board in order of id; with `ready` those that can be begun now (pending, held by nobody, everything that they depend on is done), the most urgent first.",
    arguments: schema::<ListArgs>,
    result: schema::<Listed>,
    example: r#"{"ready":true,"limit":10}"#,
    hints: Hints::READS,
    handler: Handler::Read(list::list),
};

/// `board_resolve`.
pub const RESOLVE: Tool = Tool {
    name: "board_resolve",
    summary: "Says what became of an item. Where it needs a review and you may not review, `done` makes it await one.",
    arguments: schema::<Resolve>,
    result: schema::<Changed>,
    example: r#"{"id":"T-1","outcome":"done","note":"Notes are in docs/notes.md","evidence":[{"name":"notes.md","sha256":"0000000000000000000000000000000000000000000000000000000000000000"}]}"#,
    hints: Hints::WRITES,
    handler: Handler::Write(|done| {
        json(&Changed {
            item: changed(done),
        })
    }),
};

/// `board_comment`.
pub const COMMENT: Tool = Tool {
    name: "board_comment",
    summary: "Leaves a comment with an item. The service says who and when; no lease is needed.",
    arguments: schema::<Comment>,
    result: schema::<Changed>,
    example: r#"{"id":"T-1","text":"Waiting for the figures."}"#,
    hints: Hints::WRITES,
    handler: Handler::Write(|done| {
        json(&Changed {
            item: changed(done),
        })
    }),
};

/// `board_import`.
pub const IMPORT: Tool = Tool {
    name: "board_import",
    summary: "Brings in a board file (`countersign.board/1`). A dry run, the default, shows the plan. Importing a file twice adds nothing, and an older version of an item never overwrites a newer one.",
    arguments: schema::<Import>,
    result: schema::<Imported>,
    example: r#"{"format":"countersign.board/1","content":"{\"count\":0,\"format\":\"countersign.board/1\"}\n{\"sha256\":\"…\"}\n","dry_run":true}"#,
    hints: Hints::WRITES,
    handler: Handler::Parts {
        kind,
        write: import::written,
        read: import::dry_run,
        cut,
        sum,
    },
};

/// `board_export`.
pub const EXPORT: Tool = Tool {
    name: "board_export",
    summary: "The whole board as a file: `countersign.board/1` for machines and other accounts, `markdown` for people.",
    arguments: schema::<ExportArgs>,
    result: schema::<Exported>,
    example: r#"{"format":"countersign.board/1"}"#,
    hints: Hints::READS,
    handler: Handler::Read(export::read),
};

/// `parity_check`.
pub const PARITY: Tool = Tool {
    name: "parity_check",
    summary: "Compares the board item by item: with what a replay of the log's leaves gives, or with an export.",
    arguments: schema::<ParityArgs>,
    result: schema::<Drift>,
    example: r#"{"against":"replay"}"#,
    hints: Hints::READS,
    handler: Handler::Read(parity::read),
};

/// A result as JSON.
fn json<T: serde::Serialize>(result: &T) -> Value {
    // OK because results are structs of texts, numbers and lists.
    serde_json::to_value(result).expect("tools::board: a result")
}

/// The item that a write changed, as it is by now.
fn changed(done: &Done<'_>) -> ItemRow {
    let id = done.effect.get("id").and_then(Value::as_str);
    let item = id.and_then(|id| done.view.state.board.get(id));
    // OK because an effect names an item, and none is ever taken away.
    row(
        done.view.state,
        item.expect("tools::board: the item of an effect"),
    )
}

/// A file that cannot be taken, for clients.
/// What is wrong with a file, as it is told.
#[must_use]
pub fn unreadable(error: FileError) -> Problem {
    match error {
        FileError::Line(line, why) => {
            Problem::new(Code::ParseError, format!("line {line}: {why}")).with("line", line as u64)
        }
        FileError::Digest { stated, found } => {
            let why = "the trailer's digest is not that of the lines before it: the file was changed or cut";
            let shown: String = stated.chars().take(64).collect();
            Problem::new(Code::DigestMismatch, why)
                .with("stated", shown)
                .with("found", found.to_hex())
        }
        FileError::Duplicate { ids, lines } => {
            let why = format!(
                "lines {} and {} have one id, or two that look alike",
                lines[0], lines[1]
            );
            Problem::new(Code::DuplicateId, why)
                .with("ids", ids.to_vec())
                .with("lines", lines.map(|line| line as u64).to_vec())
        }
    }
}

/// Names shared with the state, as texts.
fn texts(names: &[Arc<str>]) -> Vec<String> {
    names.iter().map(|name| name.to_string()).collect()
}

/// The members of two maps; of a name in both, those of the second.
fn both(mut first: Map<String, Value>, second: Map<String, Value>) -> Map<String, Value> {
    first.extend(second);
    first
}
