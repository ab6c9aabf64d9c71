//! An item as answers show it.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{both, texts};
use crate::state::{
    State,
    board::{
        Item, Status, holder,
        item::{Comment, Link},
    },
};

/// The leaf that last changed an item.
#[derive(Serialize, JsonSchema)]
pub struct ProvenanceRow {
    /// The identity that asked.
    pub identity: String,
    /// The session that it asked in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The leaf's index.
    pub index: u64,
}

/// An item of the board.
#[derive(Serialize, JsonSchema)]
pub struct ItemRow {
    /// Its id.
    pub id: String,
    /// A line that says what it is.
    pub title: String,
    /// More about it, byte for byte as it was given.
    pub description: String,
    /// Where it stands.
    pub status: Status,
    /// 0 (first) to 4 (last).
    pub priority: u8,
    /// Names that it is found by.
    pub tags: Vec<String>,
    /// The strand of work that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workstream: Option<String>,
    /// Whose it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Ids of the items that must be done before.
    pub depends_on: Vec<String>,
    /// Those of them that are not done, or not there.
    pub waits_for: Vec<String>,
    /// Whether it can be begun now: pending, held by nobody, everything that it depends on done.
    pub ready: bool,
    /// What must hold for it to be done.
    pub acceptance_criteria: Vec<String>,
    /// Whether somebody with the role reviewer or owner must accept it.
    pub review_required: bool,
    /// How it stands to other things.
    pub links: Vec<Link>,
    /// Remarks, oldest first.
    pub comments: Vec<Comment>,
    /// The run that works on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Rises with every change.
    pub version: u64,
    /// RFC 3339, UTC.
    pub created_at: String,
    /// RFC 3339, UTC.
    pub updated_at: String,
    /// RFC 3339, UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done_at: Option<String>,
    /// Members without a meaning here, kept.
    pub extra: Map<String, Value>,
    /// The leaf that last changed it.
    pub provenance: ProvenanceRow,
}

/// Result of what shows or changes one item.
#[derive(Serialize, JsonSchema)]
pub struct Changed {
    /// The item.
    pub item: ItemRow,
}

/// Result of `board_upsert`.
#[derive(Serialize, JsonSchema)]
pub struct Upserted {
    /// The item.
    pub item: ItemRow,
    /// Whether it is new.
    pub created: bool,
}

/// An item of this state.
#[must_use]
pub fn row(state: &State, item: &Item) -> ItemRow {
    let read = item.read();
    let waits_for: Vec<_> = state.board.waits_for(item).cloned().collect();
    ItemRow {
        ready: state.board.is_ready(item) && holder(state, &item.id).is_none(),
        waits_for: texts(&waits_for),
        id: read.id,
        title: read.title,
        description: read.description,
        status: read.status,
        priority: read.priority,
        tags: read.tags,
        workstream: read.workstream,
        owner: read.owner,
        depends_on: read.depends_on,
        acceptance_criteria: read.acceptance_criteria,
        review_required: read.review_required,
        links: read.links,
        comments: read.comments,
        run: read.run,
        version: read.version,
        created_at: read.created_at,
        updated_at: read.updated_at,
        done_at: read.done_at,
        extra: both(read.extra, read.unknown),
        provenance: ProvenanceRow {
            identity: item.provenance.by.to_string(),
            session: item.provenance.session.clone(),
            index: item.provenance.index,
        },
    }
}
