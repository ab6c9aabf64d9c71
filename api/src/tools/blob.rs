//! Bodies beside the log: the tool that erases one. They come and go over `/v1/blobs`.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{Done, Handler, Hints, Tool, define::schema};
use crate::state::blob::Erase;

/// A body that is gone.
#[derive(Serialize, JsonSchema)]
struct Gone {
    /// Its commitment.
    commitment: String,
    /// The leaf that erased it.
    erased_index: u64,
}

/// `blob_erase`.
pub const ERASE: Tool = Tool {
    name: "blob_erase",
    summary: "Erases a body beside the log, and its salt, for good. Signed with an identity's own key. No hash of the tree changes: the leaves that refer to it hold, and nobody can show any more what it was. It is never taken again.",
    arguments: schema::<Erase>,
    result: schema::<Gone>,
    example: r#"{"commitment":"2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae","reason":"personal data"}"#,
    hints: Hints::ENDS,
    handler: Handler::Write(gone),
};

fn gone(done: &Done<'_>) -> Value {
    let commitment = done.effect.get("commitment").and_then(Value::as_str);
    let gone = Gone {
        commitment: commitment.unwrap_or_default().into(),
        erased_index: done.index,
    };
    serde_json::to_value(gone).unwrap_or_default()
}
