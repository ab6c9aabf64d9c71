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
    let limit = asked.limit.unwrap_or(PAGE);
    if !(1..=PAGE_MAX).contains(&limit) {
        return Err(malformed(format!("limit: 1 to {PAGE_MAX}")).with("pointer", "/limit"));
    }
    Ok((limit, asked.cursor))
}
