//! What is asked of the board: the arguments of its tools that write.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use super::item::{Link, Status};
use serde_json::{Map, Value};

/// Arguments of `board_upsert`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Upsert {
    /// The members to set; those that are not named stay as they are.
    pub item: Patch,
    /// The version that the item must have; 0: it must not be there yet.
    pub if_version: Option<u64>,
    /// The fence of your lease of `item:<id>`, where you hold one.
    pub fence: Option<u64>,
}

/// A member-wise patch of an item: lists are replaced whole, `null` takes an optional member away.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Patch {
    /// Its id, at most 128 bytes; `i_` and the index of the leaf for a new item without one.
    pub id: Option<String>,
    /// A line that says what it is, at most 1,024 bytes; a new item needs it.
    pub title: Option<String>,
    /// More about it; kept byte for byte.
    pub description: Option<String>,
    /// Where it stands; `pending` for a new item.
    pub status: Option<Status>,
    /// 0 (first) to 4 (last); 2 for a new item.
    pub priority: Option<u8>,
    /// Names that it is found by, up to 256.
    pub tags: Option<Vec<String>>,
    /// The strand of work that it belongs to; null: none.
    #[serde(default, deserialize_with = "present")]
    pub workstream: Option<Option<String>>,
    /// Whose it is; null: nobody's.
    #[serde(default, deserialize_with = "present")]
    pub owner: Option<Option<String>>,
    /// Ids of the items that must be done before, up to 256; they need not be there yet.
    pub depends_on: Option<Vec<String>>,
    /// What must hold for it to be done, up to 256.
    pub acceptance_criteria: Option<Vec<String>>,
    /// Whether somebody with the role reviewer or owner must accept it.
    pub review_required: Option<bool>,
    /// How it stands to other things, up to 256.
    pub links: Option<Vec<Link>>,
    /// The run that works on it; null: none.
    #[serde(default, deserialize_with = "present")]
    pub run: Option<Option<String>>,
    /// Members without a meaning here; replaces all that were kept.
    pub extra: Option<Map<String, Value>>,
}

/// Tells `null` from a member that is not there.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(from).map(Some)
}

/// What became of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It is done; where a review is required and the caller may not review: it awaits review.
    Done,
    /// It will not be done.
    Dropped,
    /// A reviewer wants more: it is pending again.
    ChangesRequested,
}

/// Something that shows what was done.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// What it is called.
    pub name: String,
    /// SHA-256 of its bytes, in lowercase hexadecimal.
    pub sha256: String,
}

/// Arguments of `board_resolve`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Resolve {
    /// Which item.
    pub id: String,
    /// What became of it.
    pub outcome: Outcome,
    /// A comment to leave with it.
    pub note: Option<String>,
    /// What shows it, up to 32; kept as links `evidence` to `sha256:<digest>:<name>`.
    pub evidence: Option<Vec<Evidence>>,
    /// The version that the item must have.
    pub if_version: Option<u64>,
    /// The fence of your lease of `item:<id>`, where you hold one.
    pub fence: Option<u64>,
}

/// Arguments of `board_comment`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Comment {
    /// Which item.
    pub id: String,
    /// What to say; kept byte for byte.
    pub text: String,
}
