//! How an item's members change: the same for the judgement and for taking it in.

use countersign_verifier::{key::IdentityId, leaf::Millis};
use serde_json::{Map, Value, json};

use super::{
    Item, Provenance, Status,
    asked::{Comment, Evidence, Resolve},
    item::{ItemError, blank},
};

/// The leaf in which something is done: when, by whom, in which session, at which index.
#[derive(Clone, Debug)]
pub struct Moment<'a> {
    /// Log time, in milliseconds since 1970.
    pub at: u64,
    /// Who asked.
    pub by: IdentityId,
    /// In which session.
    pub session: Option<&'a str>,
    /// The leaf's index.
    pub index: u64,
}

impl Moment<'_> {
    pub(super) fn provenance(&self) -> Provenance {
        Provenance {
            by: self.by,
            session: self.session.map(str::to_owned),
            index: self.index,
        }
    }
}

/// The item after a patch whose names are in NFC: `before`, or a new one of this id.
pub(super) fn patched(
    before: Option<&Item>,
    id: &str,
    patch: &Map<String, Value>,
    moment: &Moment<'_>,
) -> Result<Item, ItemError> {
    let mut members = before.map_or_else(|| blank(id, moment.at), Item::members);
    for (name, value) in patch {
        match value {
            Value::Null => members.remove(name),
            value => members.insert(name.clone(), value.clone()),
        };
    }
    members.insert("id".into(), id.into());
    finish(members, before.map(|item| item.status), moment)
}

/// The item after a resolution to `status`.
pub(super) fn resolved(
    before: &Item,
    asked: &Resolve,
    status: Status,
    moment: &Moment<'_>,
) -> Result<Item, ItemError> {
    let mut members = before.members();
    members.insert("status".into(), status.name().into());
    if let Some(note) = &asked.note {
        comment(&mut members, note, moment);
    }
    for Evidence { name, sha256 } in asked.evidence.iter().flatten() {
        let target = format!("sha256:{sha256}:{name}");
        push(
            &mut members,
            "links",
            json!({"rel": "evidence", "target": target}),
        );
    }
    finish(members, Some(before.status), moment)
}

/// The item with one more comment.
pub(super) fn commented(
    before: &Item,
    asked: &Comment,
    moment: &Moment<'_>,
) -> Result<Item, ItemError> {
    let mut members = before.members();
    comment(&mut members, &asked.text, moment);
    finish(members, Some(before.status), moment)
}

fn comment(members: &mut Map<String, Value>, text: &str, moment: &Moment<'_>) {
    let taken = |id: &str| {
        let comments = members.get("comments").and_then(Value::as_array);
        let mut ids = comments.into_iter().flatten().map(|comment| &comment["id"]);
        ids.any(|other| other == id)
    };
    let comment = json!({
        "id": comment_id(moment.index, taken),
        "author": moment.by.to_string(),
        "at": Millis(moment.at).to_string(),
        "text": text,
    });
    push(members, "comments", comment);
}

/// `c_<index>`, with another number behind it where an import has brought that one.
pub(super) fn comment_id(index: u64, taken: impl Fn(&str) -> bool) -> String {
    let first = format!("c_{index}");
    let others = (1_u64..).map(|n| format!("c_{index}_{n}"));
    let mut ids = std::iter::once(first).chain(others);
    // OK because an item has fewer comments than there are numbers.
    ids.find(|id| !taken(id)).expect("board::comment_id")
}

fn push(members: &mut Map<String, Value>, list: &str, value: Value) {
    let elements = members.entry(list).or_insert_with(|| json!([]));
    // `null` is how another writer may spell an empty list.
    if !elements.is_array() {
        *elements = json!([]);
    }
    if let Value::Array(elements) = elements {
        elements.push(value);
    }
}

/// Stamps what the service itself says of every change.
pub(super) fn finish(
    mut members: Map<String, Value>,
    was: Option<Status>,
    moment: &Moment<'_>,
) -> Result<Item, ItemError> {
    let now = Millis(moment.at).to_string();
    let version = members.get("version").and_then(Value::as_u64).unwrap_or(0);
    members.insert("version".into(), (version + 1).into());
    members.insert("updated_at".into(), now.as_str().into());
    let status = members.get("status").and_then(Value::as_str);
    match status == Some(Status::Done.name()) {
        true if was == Some(Status::Done) => {}
        true => {
            members.insert("done_at".into(), now.into());
        }
        false => {
            members.remove("done_at");
        }
    }
    Item::new(members, moment.provenance())
}
