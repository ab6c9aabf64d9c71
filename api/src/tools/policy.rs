//! The account's policy: the tools.

use countersign_verifier::hash::sha256;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Handler, Hints, TOOLS, Tool, View,
    define::{any_object, schema},
    is_offered,
};
use crate::{error::Problem, state::policy::Set};

/// `policy_get` has no arguments.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Get {}

/// The policy in force.
#[derive(Serialize, JsonSchema)]
struct InForce {
    /// Cedar text.
    text: String,
    /// Of the text.
    sha256: String,
    /// The leaf that set it; null while the starter policy is in force.
    set_index: Option<u64>,
    /// The tools that whoever asks is shown: what else it would be refused, whatever it asks for.
    offered: Vec<&'static str>,
}

/// `policy_get`.
pub const GET: Tool = Tool {
    name: "policy_get",
    summary: "The account's policy: what each identity may do, as Cedar text; and the tools that it leaves the caller.",
    arguments: schema::<Get>,
    result: schema::<InForce>,
    example: "{}",
    hints: Hints::READS,
    handler: Handler::Read(get),
};

/// `policy_set`.
pub const SET: Tool = Tool {
    name: "policy_set",
    summary: "Replaces the account's policy. Signed with an agent_key that the policy lets do it; the owner always may.",
    arguments: schema::<Set>,
    result: any_object,
    example: r#"{"text":"permit (principal, action, resource) when { principal.roles.contains(\"owner\") };"}"#,
    hints: Hints::WRITES,
    handler: Handler::Write(|done| Value::Object(done.effect.clone())),
};

fn get(view: &View<'_>, _: &Value) -> Result<Value, Problem> {
    let rules = &view.state.rules;
    let text = rules.policy.text().to_owned();
    let caller = view.caller.map(|identity| (view.state, identity));
    let offered = TOOLS.iter().filter(|tool| is_offered(tool, caller));
    let shown = InForce {
        offered: offered.map(|tool| tool.name).collect(),
        sha256: sha256(text.as_bytes()).to_hex(),
        set_index: rules.set,
        text,
    };
    serde_json::to_value(shown).map_err(|e| Problem::internal(&e))
}
