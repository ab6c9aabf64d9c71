//! Lists: the two arguments of every tool that has one, and where a page goes on.

use countersign_log::store::Head;
use countersign_verifier::{
    hash::{Hash, sha256},
    json::canonical,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::View;
use crate::{
    error::{Code, Problem},
    seat::Seats,
    state::{State, verb::arguments},
    versions::{Place, Versions},
};

const PAGE_MAX: usize = 200;
const PAGE: usize = 100;

/// Where a list goes on, and how it is gone on with.
#[derive(Clone)]
pub struct Pages<'a> {
    /// The versions that are kept for cursors.
    pub versions: &'a Versions,
    /// Which list this is: the tool and its filters.
    pub of: Hash,
    /// What the page before ended with, where there was one.
    pub after: Option<String>,
}

/// What a cursor among these arguments names; `None` without one, or where the tool does not list.
///
/// # Errors
/// See [`Versions::open`].
pub fn open(
    versions: &Versions,
    seats: &Seats,
    (tool, asked): (&str, &Value),
    now_ms: u64,
) -> Result<(Hash, Option<Place>), Problem> {
    let of = list_of(tool, asked);
    let cursor = match asked.get("cursor") {
        Some(Value::String(cursor)) => cursor,
        _ => return Ok((of, None)),
    };
    let place = versions.open(seats, cursor, &of, now_ms)?;
    Ok((of, Some(place)))
}

/// The list that arguments ask a tool for, whatever the page.
fn list_of(tool: &str, asked: &Value) -> Hash {
    let mut filters = asked.clone();
    if let Some(members) = filters.as_object_mut() {
        members.retain(|name, _| name != "cursor" && name != "limit");
    }
    sha256(format!("{tool}\n{}", canonical(&filters)).as_bytes())
}

/// Arguments of a tool that only lists.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    /// 1 to 200; 100 if absent.
    limit: Option<usize>,
    /// `next` of the page before. Pages of one list show one version of the state; it is kept for ten minutes.
    #[expect(dead_code, reason = "it was opened before the tool is asked")]
    cursor: Option<String>,
}

/// How many rows.
///
/// # Errors
/// `Malformed`.
pub(super) fn page(asked: &Value) -> Result<usize, Problem> {
    let asked: Page = arguments(asked).map_err(|why| Problem::new(Code::Malformed, why))?;
    limit(asked.limit)
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

/// Rows that stand in the order of the leaves which made them: those of this page, and the next cursor. `after` gives one more
/// than `limit` where there are so many.
///
/// # Errors
/// `Malformed`.
pub(super) fn rows<T>(
    view: &View<'_>,
    limit: usize,
    after: impl FnOnce(Option<u64>) -> Vec<T>,
    index: impl Fn(&T) -> u64,
) -> Result<(Vec<T>, Option<String>), Problem> {
    let mut found = after(view.after(|after| after.parse().ok())?);
    let more = found.len() > limit;
    found.truncate(limit);
    let last = found.last().filter(|_| more);
    let next = view.next(last.map(|row| index(row).to_string()));
    Ok((found, next))
}

impl View<'_> {
    /// What the page before ended with, read.
    ///
    /// # Errors
    /// `Malformed`.
    pub(super) fn after<T>(&self, read: impl Fn(&str) -> Option<T>) -> Result<Option<T>, Problem> {
        let Some(after) = &self.pages.after else {
            return Ok(None);
        };
        let read = read(after).ok_or_else(|| {
            Problem::new(Code::Malformed, "cursor: not one of ours").with("pointer", "/cursor")
        })?;
        Ok(Some(read))
    }

    /// The cursor behind `last` where the page is full.
    pub(super) fn next(&self, last: Option<String>) -> Option<String> {
        let last = last?;
        let version: (Head, &State) = (self.head, self.state);
        let list = (&self.pages.of, last.as_str());
        let versions = self.pages.versions;
        Some(versions.keep(self.seats, version, list, self.now_ms))
    }
}
