//! What a board looks at of an item, whatever else its line says.

use std::sync::Arc;

use serde::Deserialize;

use super::{Item, Provenance, Status, pending, time, usual};

/// The members that an item is listed by.
#[derive(Deserialize)]
pub(super) struct Listed {
    pub(super) id: Box<str>,
    #[serde(default = "pending")]
    pub(super) status: Status,
    #[serde(default = "usual")]
    pub(super) priority: u8,
    #[serde(default)]
    pub(super) tags: Vec<String>,
    pub(super) workstream: Option<String>,
    pub(super) owner: Option<String>,
    #[serde(default)]
    pub(super) depends_on: Vec<String>,
    #[serde(default)]
    pub(super) review_required: bool,
    pub(super) version: u64,
    pub(super) created_at: String,
}

impl Listed {
    pub(super) fn with(self, line: String, provenance: Provenance) -> Item {
        let shared = |names: Vec<String>| names.into_iter().map(Arc::from).collect();
        Item {
            id: self.id.into(),
            line: line.into(),
            status: self.status,
            priority: self.priority,
            tags: shared(self.tags),
            workstream: self.workstream.map(Arc::from),
            owner: self.owner.map(Arc::from),
            depends_on: shared(self.depends_on),
            review_required: self.review_required,
            version: self.version,
            created: time(&self.created_at).unwrap_or(0),
            provenance,
        }
    }
}
