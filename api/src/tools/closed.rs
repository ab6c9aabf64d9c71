//! The end of a log: the tool.

use serde_json::Value;

use super::{
    Handler, Hints, Tool,
    define::{any_object, schema},
};
use crate::state::closed::Close;

/// `log_close`.
pub const CLOSE: Tool = Tool {
    name: "log_close",
    summary: "Closes the log for ever, naming the one that goes on. Signed by the owner. This is the last leaf: what was written is still served and proved, every later write is refused as `LOG_CLOSED`.",
    arguments: schema::<Close>,
    result: any_object,
    example: r#"{"successor":"log.example.com/next"}"#,
    hints: Hints::ENDS,
    handler: Handler::Write(|done| Value::Object(done.effect.clone())),
};
