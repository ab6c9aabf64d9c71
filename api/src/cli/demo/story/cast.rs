//! Who plays, and on which board.

use anyhow::ensure;
use countersign_verifier::{base64, leaf::Class, operation::possession_message};
use serde_json::json;

use super::{
    super::{
        board::{self, ITEMS},
        show::{Show, Step},
    },
    Player,
};
use crate::{
    client::{Agent, new_key},
    state::board::{Mode, file},
};

/// Brings the board in; what its ids begin with.
pub async fn import(human: &Agent, show: &mut Show) -> anyhow::Result<String> {
    let before = human.call("board_export", json!({"format": file::FORMAT}));
    let before = before.await?.result;
    // Ids are for ever: another run at the same log has others.
    let tag = format!("demo-{}", before["size"]);
    let text = board::file(&tag);
    let read = file::read(&text).map_err(|e| anyhow::anyhow!("the board of the demo: {e:?}"))?;
    let items = read.items.into_iter().map(|(_, item)| item).collect();
    let parts = file::cut(&read.sha256, Mode::Merge, items, Vec::new());
    let (count, mut made) = (parts.len(), 0);
    for (at, part) in parts.into_iter().enumerate() {
        let answer = human.call("board_import", part).await?;
        let new = answer.result["plan"]["create"]
            .as_array()
            .map_or(0, Vec::len);
        made += new;
        show.leaf(
            Step {
                who: "human",
                name: "import",
                words: format!(
                    "brings in part {} of {count} of a board: {new} items",
                    at + 1
                ),
                more: json!({"items": new}),
            },
            answer.entry.as_ref(),
        )?;
    }
    ensure!(made == ITEMS, "{made} items were made, not {ITEMS}");
    if before["items"] == 0 {
        let after = human.call("board_export", json!({"format": file::FORMAT}));
        let after = after.await?.result;
        ensure!(
            after["content"] == text.as_str(),
            "the export is not what was brought in"
        );
        show.look(Step {
            who: "human",
            name: "export",
            words: format!("takes it out again: the same {} bytes", text.len()),
            more: json!({"sha256": after["sha256"]}),
        })?;
    }
    Ok(tag)
}

/// An agent makes a key that nobody else has, and the human enrols its public half.
pub async fn enrol(
    human: &Agent,
    name: &'static str,
    tag: &str,
    show: &mut Show,
) -> anyhow::Result<Player> {
    let key = new_key()?;
    let public = key.public();
    let message = possession_message(human.origin(), public.identity(), Class::AgentKey);
    let asked = json!({
        "name": format!("{name}-{tag}"),
        "public_key": base64::encode(&public.spki_der()),
        "possession": base64::encode(&key.sign(&message)),
        "roles": ["agent"],
    });
    let answer = human.call("identity_enroll", asked).await?;
    let identity = public.identity().to_string();
    show.leaf(
        Step {
            who: "human",
            name: "enrol",
            words: format!("enrols {name}, whose private key only {name} has: {identity}"),
            more: json!({"identity": identity, "name": name}),
        },
        answer.entry.as_ref(),
    )?;
    let agent = Agent::new(human.client().clone(), human.origin(), key);
    Ok(Player {
        name,
        agent,
        identity,
    })
}

/// Their keys are gone with this process.
pub async fn revoke(
    human: &Agent,
    (name, identity): (&str, &str),
    show: &mut Show,
) -> anyhow::Result<()> {
    let asked = json!({"identity": identity, "reason": "the demonstration is over"});
    let answer = human.call("identity_revoke", asked).await?;
    let step = Step {
        who: "human",
        name: "revoke",
        words: format!("revokes {name}, whose key goes with this process"),
        more: json!({"identity": identity}),
    };
    show.leaf(step, answer.entry.as_ref())
}
