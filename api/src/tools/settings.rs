//! What an account's owner has set: the tools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Handler, Hints, Tool, View, define::schema};
use crate::{
    error::{Code, Problem},
    state::{
        settings::{Set, Settings},
        verb::arguments,
    },
};

/// Arguments of `settings_get`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Get {}

/// What is in force.
#[derive(Serialize, JsonSchema)]
struct InForce {
    /// All settings of the account.
    settings: Settings,
}

/// `settings_get`.
pub const GET: Tool = Tool {
    name: "settings_get",
    summary: "The bounds that this account keeps to: how long sessions and leases last, how many there may be, how often one may ask.",
    arguments: schema::<Get>,
    result: schema::<InForce>,
    example: "{}",
    hints: Hints::READS,
    handler: Handler::Read(get),
};

/// `settings_set`.
pub const SET: Tool = Tool {
    name: "settings_set",
    summary: "Changes bounds that this account keeps to; what is absent stays. Signed by the owner. What runs already keeps the time that it has.",
    arguments: schema::<Set>,
    result: schema::<InForce>,
    example: r#"{"lease_ttl_s_max":3600,"requests_per_minute":600}"#,
    hints: Hints::WRITES,
    handler: Handler::Write(|done| Value::Object(done.effect.clone())),
};

fn get(view: &View<'_>, asked: &Value) -> Result<Value, Problem> {
    let Get {} = arguments(asked).map_err(|why| Problem::new(Code::Malformed, why))?;
    Ok(json!({"settings": view.state.settings}))
}
