//! What an export did.

use countersign_verifier::{checkpoint::Checkpoint, hash::Hash};
use serde_json::{Value, json};

use super::dest::Dest;

/// What an export did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The folder.
    pub dest: String,
    /// The log.
    pub origin: String,
    /// Leaves that the copy publishes now.
    pub size: u64,
    /// Their root.
    pub root: Hash,
    /// Leaves that it published before.
    pub from: u64,
    /// Files of the tree that were written, the checkpoint among them.
    pub written: u64,
    /// Files that were looked at, and were what they must be.
    pub kept: u64,
    /// Folders of partial tiles and bundles that were removed, because the full ones are there.
    pub removed: u64,
}

impl Report {
    pub(super) fn new(dest: &Dest, head: &Checkpoint, from: u64) -> Report {
        Report {
            dest: dest.at("").trim_end_matches('/').to_owned(),
            origin: head.origin.clone(),
            size: head.size,
            root: head.root,
            from,
            written: 0,
            kept: 0,
            removed: 0,
        }
    }

    /// One JSON object.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "dest": self.dest,
            "origin": self.origin,
            "size": self.size,
            "root": self.root.to_base64(),
            "from": self.from,
            "written": self.written,
            "kept": self.kept,
            "removed": self.removed,
        })
    }

    /// Lines for people.
    #[must_use]
    pub fn to_lines(&self) -> String {
        let Report {
            dest,
            origin,
            size,
            root,
            from,
            written,
            kept,
            removed,
        } = self;
        let mut line = format!("{dest}: {origin}, {size} leaves, root {root}\n");
        line += &match (written, size - from) {
            (0, 0) => "  nothing new".to_owned(),
            (_, new) => format!("  {new} leaves more, {written} files written"),
        };
        if *kept > 0 {
            line += &format!(", {kept} were there");
        }
        if *removed > 0 {
            line += &format!(", {removed} folders of partial tiles removed");
        }
        line + "\n"
    }
}
