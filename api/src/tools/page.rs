//! The two arguments of every tool that lists, and what they ask for.

use serde::Deserialize;
use serde_json::Value;

use super::Argument;
use crate::{
    error::{Code, Problem},
    state::verb::arguments,
};

const PAGE_MAX: usize = 200;
const PAGE: usize = 100;

/// `limit` and `cursor`.
pub(super) const PAGING: [Argument; 2] = [
    Argument {
        name: "limit",
        kind: "integer",
        required: false,
        about: "1 to 200; 100 if absent",
    },
    Argument {
        name: "cursor",
        kind: "string",
        required: false,
        about: "`next` of the page before",
    },
];

#[derive(Deserialize)]
struct Asked {
    limit: Option<usize>,
    cursor: Option<String>,
}

/// How many rows, and behind which.
///
/// # Errors
/// `Malformed`.
pub(super) fn page(asked: &Value) -> Result<(usize, Option<String>), Problem> {
    let malformed = |why: String| Problem::new(Code::Malformed, why);
    let asked: Asked = arguments(asked).map_err(malformed)?;
    let limit = asked.limit.unwrap_or(PAGE);
    if !(1..=PAGE_MAX).contains(&limit) {
        return Err(malformed(format!("limit: 1 to {PAGE_MAX}")).with("pointer", "/limit"));
    }
    Ok((limit, asked.cursor))
}
