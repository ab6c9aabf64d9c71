//! The two arguments of every tool that lists, and what they ask for.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    error::{Code, Problem},
    state::verb::arguments,
};

const PAGE_MAX: usize = 200;
const PAGE: usize = 100;

/// Arguments of a tool that only lists.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    /// 1 to 200; 100 if absent.
    limit: Option<usize>,
    /// `next` of the page before.
    cursor: Option<String>,
}

/// How many rows, and behind which.
///
/// # Errors
/// `Malformed`.
pub(super) fn page(asked: &Value) -> Result<(usize, Option<String>), Problem> {
    let malformed = |why: String| Problem::new(Code::Malformed, why);
    let asked: Page = arguments(asked).map_err(malformed)?;
    Ok((limit(asked.limit)?, asked.cursor))
}

/// How many rows.
///
/// # Errors
/// `Malformed`.
pub(super) fn limit(asked: Option<usize>) -> Result<usize, Problem> {
    let limit = asked.unwrap_or(PAGE);
    if (1..=PAGE_MAX).contains(&limit) {
        return Ok(limit);
    }
    let why = format!("limit: 1 to {PAGE_MAX}");
    Err(Problem::new(Code::Malformed, why).with("pointer", "/limit"))
}

/// Rows that stand in the order of the leaves which made them: those behind the cursor that are wanted, and the next cursor.
///
/// # Errors
/// `Malformed` for a cursor that is none of ours.
pub(super) fn rows<T>(
    asked: (Option<usize>, Option<&str>),
    after: impl FnOnce(Option<u64>) -> Vec<T>,
    index: impl Fn(&T) -> u64,
) -> Result<(Vec<T>, Option<String>), Problem> {
    let limit = limit(asked.0)?;
    let cursor = asked.1.map(str::parse).transpose().map_err(|_| {
        Problem::new(Code::Malformed, "cursor: not one of ours").with("pointer", "/cursor")
    })?;
    let mut found = after(cursor);
    let more = found.len() > limit;
    found.truncate(limit);
    let next = found
        .last()
        .filter(|_| more)
        .map(|row| index(row).to_string());
    Ok((found, next))
}
