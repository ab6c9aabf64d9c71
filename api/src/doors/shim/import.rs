//! A board file is more than one operation can carry: it is cut here, and each part is signed.

use countersign_verifier::{hash::sha256, json::canonical};
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use super::{Failed, read};
use crate::{
    client::{Agent, Wait},
    error::Problem,
    state::board::file,
    tools::{
        Tool,
        board::{Exported, Imported, file_of, plan_afar, unreadable},
    },
};

/// Whether a call brings in a whole file, and not only one part or a look at what it would do.
pub(super) fn is_whole(tool: &Tool, arguments: &Value) -> bool {
    let is = |name| arguments.get(name).is_some();
    tool.name == "board_import"
        && arguments["dry_run"] == false
        && !(is("items") || is("drop") || is("part"))
}

/// Brings it in, part after part; the answer is that of the last, of all. What was written stays, and the same call goes on from there.
pub(super) async fn run(
    agent: &Agent,
    (tool, arguments): (&str, &Value),
    nonce: &str,
    beside: &Map<String, Value>,
) -> Result<Value, Failed> {
    let (theirs, mode) = file_of(arguments).map_err(Failed::Here)?;
    let asked = json!({"format": file::FORMAT});
    let answer = agent.call("board_export", asked).await;
    let answer = answer.map_err(Failed::There)?;
    let ours = Exported::deserialize(&answer.result).map_err(internal)?;
    let (plan, parts) =
        plan_afar(&ours.content, &theirs, mode).map_err(|error| Failed::Here(unreadable(error)))?;
    // What is passed over is not sent.
    let mut all = Imported::default();
    all.plan.skip = plan.skip;
    let mut body = read(&answer)?;
    let count = parts.len();
    for (at, part) in parts.into_iter().enumerate() {
        // The key is of the part and not of its place: a repeat that finds less to do than the first time is no other request.
        let key = sha256(format!("{nonce} {}", canonical(&part)).as_bytes()).to_hex();
        let mut beside = beside.clone();
        if at + 1 < count {
            // The last one waits for all: what is before it in the log is under every head that it is under.
            beside.insert("wait".into(), Wait::Sequenced.name().into());
            beside.remove("include");
        }
        let answer = agent.call_beside(&key, (tool, part), &beside).await;
        let answer = answer.map_err(Failed::There)?;
        all.add(Imported::deserialize(&answer.result).map_err(internal)?);
        body = read(&answer)?;
    }
    body["result"] = serde_json::to_value(all).map_err(internal)?;
    Ok(body)
}

fn internal(error: serde_json::Error) -> Failed {
    Failed::Here(Problem::internal(&error))
}
