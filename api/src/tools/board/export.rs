//! The board as a file.

use std::fmt::Write as _;

use countersign_verifier::hash::sha256;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::json;
use crate::{
    error::{Code, Problem},
    state::{
        board::{Board, Status, file},
        verb::arguments,
    },
    tools::View,
};

/// What an export is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum Format {
    /// For machines, and for other accounts.
    #[default]
    #[serde(rename = "countersign.board/1")]
    Board1,
    /// For people.
    #[serde(rename = "markdown")]
    Markdown,
}

/// Arguments of `board_export`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportArgs {
    /// `countersign.board/1` (the default) or `markdown`.
    format: Option<Format>,
}

/// Result of `board_export`.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Exported {
    /// The file.
    pub content: String,
    /// SHA-256 of its bytes, in lowercase hexadecimal.
    pub sha256: String,
    /// Leaves of the log that it reflects.
    pub size: u64,
    /// Root of the log at that size, in lowercase hexadecimal.
    pub root: String,
    /// How many items.
    pub items: usize,
}

pub(super) fn read(view: &View<'_>, asked: &Value) -> Result<Value, Problem> {
    let asked: ExportArgs = arguments(asked).map_err(|why| Problem::new(Code::Malformed, why))?;
    let board = &view.state.board;
    let content = export(board, asked.format.unwrap_or_default());
    Ok(json(&Exported {
        sha256: sha256(content.as_bytes()).to_hex(),
        size: view.head.size,
        root: view.head.root.to_hex(),
        items: board.len(),
        content,
    }))
}

/// The board in a format.
#[must_use]
pub fn export(board: &Board, format: Format) -> String {
    match format {
        Format::Board1 => file::write(board),
        Format::Markdown => markdown(board),
    }
}

/// The board for people: a heading for each status, a line for each item.
#[must_use]
pub fn markdown(board: &Board) -> String {
    let mut text = String::from("# Board\n");
    for status in Status::ALL {
        let mut items = board.iter().filter(|item| item.status == status).peekable();
        if items.peek().is_none() {
            continue;
        }
        // OK because writing to a String cannot fail.
        let _ = writeln!(text, "\n## {}\n", status.name().replace('_', " "));
        for item in items {
            let done = if status == Status::Done { "x" } else { " " };
            let read = item.read();
            let title = one_line(&read.title);
            let _ = write!(
                text,
                "- [{done}] `{}` {title} (priority {}",
                item.id, item.priority
            );
            for (word, name) in [("owner", &read.owner), ("in", &read.workstream)] {
                if let Some(name) = name {
                    let _ = write!(text, ", {word} {}", one_line(name));
                }
            }
            if !read.tags.is_empty() {
                let _ = write!(text, ", tags {}", one_line(&read.tags.join(" ")));
            }
            let waits: Vec<String> = board.waits_for(item).map(|id| format!("`{id}`")).collect();
            if !waits.is_empty() {
                let _ = write!(text, ", waits for {}", waits.join(" "));
            }
            text.push_str(")\n");
        }
    }
    text
}

/// A text in one line that Markdown leaves as it is.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => line.push(' '),
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '&' | '#' | '|' => {
                line.push('\\');
                line.push(c);
            }
            c => line.push(c),
        }
    }
    line
}
