//! Heads of other logs: the tools.

use countersign_verifier::leaf::Millis;
use serde_json::{Value, json};

use super::{
    Handler, Hints, Tool, View,
    define::{any_object, schema},
    page::{Page, page},
};
use crate::{
    error::Problem,
    state::head::{KEPT_MAX, Seen, Submit, Track, Tracked},
};

/// `head_track`.
pub const TRACK: Tool = Tool {
    name: "head_track",
    summary: "Tracks another log: from then on its signed heads are taken by `head_submit`, whoever brings them. Signed by the owner.",
    arguments: schema::<Track>,
    result: any_object,
    example: r#"{"vkey":"sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8","origin":"go.sum database tree"}"#,
    hints: Hints::WRITES,
    handler: Handler::Write(|done| Value::Object(done.effect.clone())),
};

/// `head_submit`.
pub const SUBMIT: Tool = Tool {
    name: "head_submit",
    summary: "Records a signed head of a tracked log, and what it is beside those before it: `consistent` (the first, or proved), `unproven`, `stale` (older, no fault) or `fork`. Signed by any identity; the head counts by its log's signature. In the place of a head, evidence of a fork that somebody else has found is taken, judged by the log's key alone. `forgets` in the answer is the leaf of the head that is no longer compared: the newest 64 and the last proved one are.",
    arguments: schema::<Submit>,
    result: any_object,
    example: r#"{"checkpoint":"go.sum database tree\n6476701\nmb8QLQIs0Z0yP5Cstq6guj87oXWeC9gEM8oVikmm9Wk=\n\n— sum.golang.org Az3g…\n"}"#,
    hints: Hints::WRITES,
    handler: Handler::Write(|done| Value::Object(done.effect.clone())),
};

/// `head_list`.
pub const LIST: Tool = Tool {
    name: "head_list",
    summary: "Lists the tracked logs in order of origin, each with its last proved head, since when heads come unproven, and the leaves of a fork.",
    arguments: schema::<Page>,
    result: any_object,
    example: r#"{"limit":50}"#,
    hints: Hints::READS,
    handler: Handler::Read(list),
};

fn list(view: &View<'_>, asked: &Value) -> Result<Value, Problem> {
    let limit = page(asked)?;
    let after = view.pages.after.as_deref();
    let rows: Vec<&Tracked> = view.state.heads.page(after, limit).collect();
    let full = (rows.len() == limit).then(|| rows.last()).flatten();
    let next = view.next(full.map(|tracked| tracked.origin.clone()));
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
        "kept": tracked.kept(),
        "kept_max": KEPT_MAX,
    });
    if let Some(since) = tracked.unproven_since {
        row["unproven_since"] = spell(since).into();
    }
    if let Some((first, second)) = tracked.fork {
        row["fork"] = json!([first, second]);
    }
    row
}
