//! An alert: what is said of a leaf that somebody watches for, or of a log that is not what it was.

use countersign_verifier::{
    checkpoint::Checkpoint,
    hash::leaf_hash,
    leaf::{Decision, Leaf},
};
use serde_json::{Value, json};

use super::{
    Broken,
    watched::{Found, Read},
};

const FORMAT: &str = "countersign.alert/1";

/// An alert, in each of its forms.
#[derive(Clone, Debug, PartialEq)]
pub struct Alert {
    /// The same for the same leaf of the same log, whenever and however often it is told: `<origin>#<index>`.
    pub id: String,
    /// For programs.
    pub json: Value,
    /// For people.
    pub line: String,
}

/// The log that leaves are of.
pub(super) struct Of<'a> {
    /// The head that they are proved to be in.
    pub(super) head: &'a Checkpoint,
    /// Where their evidence is, without the index; none where no service gives it.
    pub(super) evidence: Option<&'a str>,
}

impl Alert {
    /// Of a leaf, if it is what is watched for, or cannot be read.
    pub(super) fn of_leaf(
        of: &Of<'_>,
        index: u64,
        (entry, read): (&[u8], &Read<'_>),
        found: &Found,
    ) -> Option<Alert> {
        if found.matched.is_empty() && found.odd.is_none() {
            return None;
        }
        let origin = &of.head.origin;
        let id = format!("{origin}#{index}");
        let facts = Facts::of(read);
        let kind = if found.odd.is_some() {
            "unreadable"
        } else {
            facts.kind
        };
        let json = json!({
            "format": FORMAT,
            "id": id,
            "kind": kind,
            "origin": origin,
            "index": index,
            "leaf_hash": leaf_hash(entry).to_hex(),
            "at": facts.at,
            "matched": found.matched,
            "by": facts.by,
            "type": facts.of_type,
            "outcome": facts.outcome,
            "what": found.odd,
            "evidence_url": of.evidence.map(|url| format!("{url}{index}")),
            "checkpoint": head(of.head),
        });
        let mut line = format!("alert {id}: {kind}");
        for (word, text) in [
            ("", &facts.of_type),
            ("by ", &facts.signer),
            ("at ", &facts.at),
            ("", &facts.outcome),
            ("", &found.odd),
        ] {
            if let Some(text) = text {
                line += &format!(", {word}{}", plain(text));
            }
        }
        for row in &found.matched {
            for (how, what) in row.as_object().into_iter().flatten() {
                let what = what.as_str().unwrap_or_default();
                line += &format!("\n  {} {}", how.replace('_', " "), plain(what));
            }
        }
        Some(Alert { id, json, line })
    }

    /// Of a log that is not what it was. `fork`: evidence for strangers, where there is some.
    #[must_use]
    pub fn of_log(broken: &Broken) -> Alert {
        let (now, before) = (&broken.now, &broken.against.checkpoint);
        let kind = broken.kind.name();
        let origin = &now.origin;
        let id = format!(
            "{origin}#{kind}-{}-{}.{}",
            before.size,
            now.size,
            &now.root.to_hex()[..16]
        );
        let fork = broken.fork.as_ref().map(|fork| fork.to_json());
        let json = json!({
            "format": FORMAT,
            "id": id,
            "kind": kind,
            "origin": origin,
            "index": null,
            "leaf_hash": null,
            "at": null,
            "matched": [],
            "by": null,
            "type": null,
            "outcome": null,
            "what": broken.what,
            "evidence_url": null,
            "checkpoint": head(now),
            "against": head(before),
            "checkpoints": [broken.against.note, broken.note],
            "fork": fork.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
        });
        let line = format!("alert {id}: {kind}: {}", broken.what);
        Alert { id, json, line }
    }
}

fn head(of: &Checkpoint) -> Value {
    json!({"size": of.size, "root": of.root.to_base64()})
}

/// What a leaf says, as far as it can be read.
struct Facts {
    kind: &'static str,
    at: Option<String>,
    by: Option<Value>,
    signer: Option<String>,
    of_type: Option<String>,
    outcome: Option<String>,
}

impl Facts {
    fn of(read: &Read<'_>) -> Facts {
        let Read::Leaf(leaf, operation) = read else {
            return Facts {
                kind: "unreadable",
                at: None,
                by: None,
                signer: None,
                of_type: None,
                outcome: None,
            };
        };
        let (of_type, outcome) = match &**leaf {
            Leaf::System(system) => (system.event_type, None),
            Leaf::Receipt(receipt) => (receipt.envelope.payload_type.as_str(), None),
            Leaf::Operation(leaf) => {
                let tool = operation.as_ref().map(|operation| operation.tool.as_str());
                let outcome = match leaf.decision {
                    Decision::Applied { .. } => "applied".to_owned(),
                    Decision::Refused { code, .. } => format!("refused {code}"),
                };
                (
                    tool.unwrap_or(leaf.envelope.payload_type.as_str()),
                    Some(outcome),
                )
            }
        };
        let by = leaf.by();
        Facts {
            kind: leaf.kind(),
            at: Some(leaf.at().to_string()),
            by: by.map(|by| {
                json!({
                    "identity": by.identity.to_string(),
                    "class": by.class.name(),
                    "session": by.session,
                })
            }),
            signer: by.map(|by| format!("{} ({})", by.identity, by.class.name())),
            of_type: Some(of_type.to_owned()),
            outcome,
        }
    }
}

/// Text of somebody else's on a terminal: whatever moves its cursor or changes its colours is shown as what it is.
fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\'' => shown.push(c),
            c => shown.extend(c.escape_debug()),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_log_s_moves_the_cursor() {
        let text = "a\u{1b}[2J\"b\"\u{202e}c é";
        assert_eq!(plain(text), "a\\u{1b}[2J\"b\"\\u{202e}c é");
    }
}
