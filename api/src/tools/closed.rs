//! The end of a log: the tool.

use serde_json::Value;

use super::{Argument, Handler, Tool};

/// `log_close`.
pub const CLOSE: Tool = Tool {
    name: "log_close",
    summary: "Closes the log for ever, naming the one that goes on. Signed by the owner. This is the last leaf: what was written is still served and proved, every later write is refused as `LOG_CLOSED`.",
    arguments: &[Argument {
        name: "successor",
        kind: "string",
        required: true,
        about: "the verifier key of the log that goes on, or its origin",
    }],
    example: r#"{"successor":"log.example.com/next"}"#,
    handler: Handler::Write(|_, effect| Value::Object(effect.clone())),
};
