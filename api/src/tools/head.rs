//! Heads of other logs: the tools.

use countersign_verifier::leaf::Millis;
use serde_json::{Value, json};

use super::{
    Argument, Handler, Tool,
    page::{PAGING, page},
};
use crate::{
    error::Problem,
    state::{
        State,
        head::{Seen, Tracked},
    },
};

/// `head_track`.
pub const TRACK: Tool = Tool {
    name: "head_track",
    summary: "Tracks another log: from then on its signed heads are taken by `head_submit`, whoever brings them. Signed by the owner.",
    arguments: &[
        Argument {
            name: "vkey",
            kind: "string",
            required: true,
            about: "the log's verifier key: Ed25519 (0x01), ECDSA P-256 (0x02) or of RFC 6962 tree heads (0x05)",
        },
        Argument {
            name: "origin",
            kind: "string",
            required: false,
            about: "the origin in its checkpoints; the key's name if absent",
        },
    ],
    example: r#"{"vkey":"sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8","origin":"go.sum database tree"}"#,
    handler: Handler::Write(|_, effect| Value::Object(effect.clone())),
};

/// `head_submit`.
pub const SUBMIT: Tool = Tool {
    name: "head_submit",
    summary: "Records a signed head of a tracked log, and what it is beside those before it: `consistent` (the first, or proved), `unproven`, `stale` (older, no fault) or `fork`. Signed by any identity; the head counts by its log's signature.",
    arguments: &[
        Argument {
            name: "checkpoint",
            kind: "string",
            required: true,
            about: "the checkpoint's note, as the log gave it",
        },
        Argument {
            name: "proof",
            kind: "array of strings",
            required: false,
            about: "the consistency proof from the last proved head, base64 a hash; a proof that fails is refused and changes nothing",
        },
    ],
    example: r#"{"checkpoint":"go.sum database tree\n6476701\nmb8QLQIs0Z0yP5Cstq6guj87oXWeC9gEM8oVikmm9Wk=\n\n— sum.golang.org Az3g…\n"}"#,
    handler: Handler::Write(|_, effect| Value::Object(effect.clone())),
};

/// `head_list`.
pub const LIST: Tool = Tool {
    name: "head_list",
    summary: "Lists the tracked logs in order of origin, each with its last proved head, since when heads come unproven, and the leaves of a fork.",
    arguments: &PAGING,
    example: r#"{"limit":50}"#,
    handler: Handler::Read(list),
};

fn list(state: &State, asked: &Value) -> Result<Value, Problem> {
    let (limit, cursor) = page(asked)?;
    let rows: Vec<&Tracked> = state.heads.page(cursor.as_deref(), limit).collect();
    let next = (rows.len() == limit)
        .then(|| rows.last().map(|tracked| tracked.origin.clone()))
        .flatten();
    Ok(json!({"logs": rows.into_iter().map(row).collect::<Vec<_>>(), "next": next}))
}

/// A tracked log as answers show it.
#[must_use]
pub fn row(tracked: &Tracked) -> Value {
    let spell = |ms: u64| Millis(ms).to_string();
    let head = |seen: &Seen| json!({"size": seen.size, "root": seen.root.to_base64(), "index": seen.index, "at": spell(seen.at)});
    let mut row = json!({
        "origin": tracked.origin,
        "vkey": tracked.key.to_string(),
        "tracked_index": tracked.index,
        "proved": tracked.proved.as_ref().map(head),
    });
    if let Some(since) = tracked.unproven_since {
        row["unproven_since"] = spell(since).into();
    }
    if let Some((first, second)) = tracked.fork {
        row["fork"] = json!([first, second]);
    }
    row
}
