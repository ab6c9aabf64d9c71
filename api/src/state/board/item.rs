//! One item: its line, as exports write it, and what decisions read of it.
//!
//! The line is the truth, so that an export is the lines as they are and an import keeps what this release does not know.

use std::sync::Arc;

use countersign_verifier::{json::canonical, key::IdentityId, leaf::Millis};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::names;
use crate::state::verb::map;

mod listed;

use listed::Listed;

/// An item's line has at most so many bytes, so that it and what asks for it fit a signed payload of 40,000.
pub const ITEM_BYTES_MAX: usize = 32 << 10;
/// A title is a line in a list.
const TITLE_BYTES_MAX: usize = 1_024;
/// Elements of each list of an item; each is judged at every change.
const LIST_MAX: usize = 256;
/// Brackets that may be open within an item: an import has four around it, and a payload 32 in all.
pub const DEPTH_MAX: usize = 28;
/// The least urgent priority.
const PRIORITY_MAX: u8 = 4;
/// An item's priority unless it says so.
const PRIORITY: u8 = 2;

/// Where an item stands.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Nobody has begun.
    Pending,
    /// Somebody is at it.
    Active,
    /// Delivered, and not yet accepted.
    AwaitingReview,
    /// Done, and accepted where that was asked for.
    Done,
    /// Will not be done.
    Dropped,
}

impl Status {
    /// All, in the order of an item's life.
    pub const ALL: [Status; 5] = [
        Status::Pending,
        Status::Active,
        Status::AwaitingReview,
        Status::Done,
        Status::Dropped,
    ];

    /// As lines write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Status::Pending => "pending",
            Status::Active => "active",
            Status::AwaitingReview => "awaiting_review",
            Status::Done => "done",
            Status::Dropped => "dropped",
        }
    }

    /// The status of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Status> {
        Status::ALL.into_iter().find(|status| status.name() == name)
    }
}

/// A remark on an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Comment {
    /// `c_` and the index of its leaf.
    pub id: String,
    /// The identity that made it.
    pub author: String,
    /// Log time, RFC 3339.
    pub at: String,
    /// As it was given, byte for byte.
    pub text: String,
}

/// How an item stands to something else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Link {
    /// `blocks`, `relates`, `duplicates`, `supersedes`, `evidence`, or a word of one's own.
    pub rel: String,
    /// An item's id, a URL, or `sha256:` and a digest.
    pub target: String,
}

/// The members of an item as they are read, with what stands for those that are absent.
#[derive(Clone, Debug, Deserialize)]
pub struct Members {
    /// Its id.
    pub id: String,
    /// A line that says what it is.
    pub title: String,
    /// More about it.
    #[serde(default)]
    pub description: String,
    /// Where it stands.
    #[serde(default = "pending")]
    pub status: Status,
    /// 0 (first) to 4 (last).
    #[serde(default = "usual")]
    pub priority: u8,
    /// Names that it is found by.
    #[serde(default)]
    pub tags: Vec<String>,
    /// The strand of work that it belongs to.
    pub workstream: Option<String>,
    /// Whose it is.
    pub owner: Option<String>,
    /// Ids of the items that must be done before.
    #[serde(default)]
    pub depends_on: Vec<String>,
    /// What must hold for it to be done.
    #[serde(default)]
    pub acceptance_criteria: Vec<String>,
    /// Whether a reviewer must accept it.
    #[serde(default)]
    pub review_required: bool,
    /// How it stands to other things.
    #[serde(default)]
    pub links: Vec<Link>,
    /// Remarks, oldest first.
    #[serde(default)]
    pub comments: Vec<Comment>,
    /// The run that works on it.
    pub run: Option<String>,
    /// Rises by one with every change.
    pub version: u64,
    /// When it was made.
    pub created_at: String,
    /// When it was last changed.
    pub updated_at: String,
    /// When it was done.
    pub done_at: Option<String>,
    /// Members of an import that have no meaning here.
    #[serde(default)]
    pub extra: Map<String, Value>,
    /// Others, beside those in `extra`.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

fn pending() -> Status {
    Status::Pending
}

fn usual() -> u8 {
    PRIORITY
}

/// The leaf that last changed an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// Who asked.
    pub by: IdentityId,
    /// In which session.
    pub session: Option<String>,
    /// The leaf's index.
    pub index: u64,
}

/// An item of the board.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Its id, in NFC.
    pub id: Arc<str>,
    /// All of it but `provenance`, in RFC 8785 form.
    pub line: Box<str>,
    /// Where it stands.
    pub status: Status,
    /// 0 (first) to 4 (last).
    pub priority: u8,
    /// Names that it is found by.
    pub tags: Vec<Arc<str>>,
    /// The strand of work that it belongs to.
    pub workstream: Option<Arc<str>>,
    /// Whose it is.
    pub owner: Option<Arc<str>>,
    /// What must be done before.
    pub depends_on: Vec<Arc<str>>,
    /// Whether a reviewer must accept it.
    pub review_required: bool,
    /// Rises with every change.
    pub version: u64,
    /// When it was made, in milliseconds since 1970: older ones are offered first.
    pub created: u64,
    /// The leaf that last changed it.
    pub provenance: Provenance,
}

/// Why members are no item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemError {
    /// A member is not what it must be: which, and why.
    Member(String),
    /// Its line is too long, in bytes.
    TooLarge(usize),
}

impl std::fmt::Display for ItemError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ItemError::Member(why) => f.write_str(why),
            ItemError::TooLarge(bytes) => {
                write!(f, "an item of {bytes} bytes; {ITEM_BYTES_MAX} are allowed")
            }
        }
    }
}

impl Item {
    /// The item of these members, which are complete and whose names are in NFC.
    ///
    /// # Errors
    /// [`ItemError`], naming the member.
    pub fn new(members: Map<String, Value>, provenance: Provenance) -> Result<Item, ItemError> {
        let value = Value::Object(members);
        let read = Members::deserialize(&value).map_err(|e| ItemError::Member(e.to_string()))?;
        check(&read).map_err(ItemError::Member)?;
        if depth(&value) > DEPTH_MAX {
            let why = format!("brackets are nested deeper than {DEPTH_MAX}");
            return Err(ItemError::Member(why));
        }
        let line = canonical(&value);
        if line.len() > ITEM_BYTES_MAX {
            return Err(ItemError::TooLarge(line.len()));
        }
        let listed = Listed {
            id: read.id.into(),
            status: read.status,
            priority: read.priority,
            tags: read.tags,
            workstream: read.workstream,
            owner: read.owner,
            depends_on: read.depends_on,
            review_required: read.review_required,
            version: read.version,
            created_at: read.created_at,
        };
        Ok(listed.with(line, provenance))
    }

    /// The item of a line that was an item's before, which is neither checked nor written anew: a start reads all of a board.
    ///
    /// # Errors
    /// [`ItemError`] of a line that was none.
    pub(super) fn again(line: String, provenance: Provenance) -> Result<Item, ItemError> {
        let listed: Result<Listed, _> = serde_json::from_str(&line);
        let listed = listed.map_err(|e| ItemError::Member(e.to_string()))?;
        Ok(listed.with(line, provenance))
    }

    /// The members of its line.
    ///
    /// # Panics
    /// Never: a line is what was made of an object.
    #[must_use]
    pub fn members(&self) -> Map<String, Value> {
        map(serde_json::from_str(&self.line).expect("Item::members: OK because it was made here"))
    }

    /// The members, read.
    ///
    /// # Panics
    /// Never: it was read when it was made.
    #[must_use]
    pub fn read(&self) -> Members {
        serde_json::from_str(&self.line).expect("Item::read: OK because it was read before")
    }
}

/// The members of a new item that says nothing but its id.
pub(super) fn blank(id: &str, at: u64) -> Map<String, Value> {
    let at = Millis(at).to_string();
    map(json!({
        "acceptance_criteria": [], "comments": [], "created_at": at, "depends_on": [], "description": "", "extra": {}, "id": id,
        "links": [], "priority": PRIORITY, "review_required": false, "status": Status::Pending.name(), "tags": [],
        "updated_at": at, "version": 0,
    }))
}

/// Puts the names among some members of an item into the spelling in which they are kept.
pub fn normalise(members: &mut Map<String, Value>) {
    let spell = |value: &mut Value| {
        if let Value::String(text) = value {
            let kept = names::nfc(text);
            *text = kept;
        }
    };
    for name in ["id", "owner", "workstream"] {
        members.get_mut(name).map(spell);
    }
    for name in ["depends_on", "tags"] {
        if let Some(Value::Array(elements)) = members.get_mut(name) {
            elements.iter_mut().for_each(spell);
        }
    }
}

fn time(text: &str) -> Option<u64> {
    text.parse::<Millis>().ok().map(|ms| ms.0)
}

fn check(read: &Members) -> Result<(), String> {
    let named = |member: &str, text: &str, max| {
        names::check(text, max).map_err(|why| format!("{member}: {why}"))
    };
    named("id", &read.id, names::ID_BYTES_MAX)?;
    if read.title.is_empty() || read.title.len() > TITLE_BYTES_MAX {
        return Err(format!("title: 1 to {TITLE_BYTES_MAX} bytes"));
    }
    if read.priority > PRIORITY_MAX {
        return Err(format!("priority: 0 to {PRIORITY_MAX}"));
    }
    if !(1..=(1 << 53) - 1).contains(&read.version) {
        return Err("version: a whole number from 1".into());
    }
    for (member, text) in [
        ("created_at", &read.created_at),
        ("updated_at", &read.updated_at),
    ]
    .into_iter()
    .chain(read.done_at.iter().map(|text| ("done_at", text)))
    .chain(read.comments.iter().map(|c| ("comments: at", &c.at)))
    {
        if time(text).is_none() {
            return Err(format!("{member}: a time like 2026-11-29T13:00:00.123Z"));
        }
    }
    for (member, text) in [
        ("owner", &read.owner),
        ("workstream", &read.workstream),
        ("run", &read.run),
    ] {
        if let Some(text) = text {
            named(member, text, names::NAME_BYTES_MAX)?;
        }
    }
    for (member, texts) in [("tags", &read.tags), ("depends_on", &read.depends_on)] {
        for text in texts {
            named(member, text, names::NAME_BYTES_MAX)?;
        }
    }
    for link in &read.links {
        named("links: rel", &link.rel, names::NAME_BYTES_MAX)?;
    }
    for (member, count) in [
        ("tags", read.tags.len()),
        ("depends_on", read.depends_on.len()),
        ("acceptance_criteria", read.acceptance_criteria.len()),
        ("links", read.links.len()),
    ] {
        if count > LIST_MAX {
            return Err(format!("{member}: at most {LIST_MAX}"));
        }
    }
    Ok(())
}

/// How many brackets are open at the deepest place.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(elements) => 1 + elements.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}
