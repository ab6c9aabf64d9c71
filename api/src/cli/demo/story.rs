//! The story: what happens, and that it happens as it must.

mod cast;
mod lost;

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use self::{
    cast::{enrol, import, revoke},
    lost::{comes_back, killed},
};
use super::show::{Show, Step};
use crate::client::{Agent, CheckIn, Claim, ClientError, Lease, Outcome, Problem, ToolAnswer};

/// Longer than the story.
const LONG: Duration = Duration::from_secs(900);

/// An agent of the story.
pub struct Player {
    name: &'static str,
    agent: Agent,
    identity: String,
}

/// From an empty board to the last check-out.
pub async fn tell(human: &Agent, show: &mut Show) -> anyhow::Result<()> {
    let tag = import(human, show).await?;
    let mut planner = enrol(human, "planner", &tag, show).await?;
    let mut builder = enrol(human, "builder", &tag, show).await?;
    for player in [&mut planner, &mut builder] {
        check_in(player, show).await?;
    }
    let identities = [&planner, &builder].map(|p| (p.name, p.identity.clone()));
    let (fast, slow, claim) = race(planner, builder, &tag, show).await?;
    beat(&fast, show).await?;
    let done = fast
        .agent
        .resolve(&claim, Outcome::Done, Some("the page is written"))
        .await?;
    resolved(&fast, &claim, (&done, "done"), show)?;
    unlocked(&fast, (&tag, &claim), show).await?;
    released(&fast, &claim.lease, show).await?;
    review(human, &slow, &tag, show).await?;
    let (slow, left) = killed(slow, &tag, show).await?;
    comes_back(&fast, &slow, left, show).await?;
    check_out(fast, show).await?;
    for (name, identity) in identities {
        revoke(human, (name, &identity), show).await?;
    }
    Ok(())
}

/// The board as a replay of the leaves makes it, and as it is.
pub async fn end(human: &Agent, show: &mut Show) -> anyhow::Result<()> {
    let drift = human
        .call("parity_check", json!({"against": "replay"}))
        .await?
        .result;
    let items = &drift["ours"]["items"];
    ensure!(
        drift["drift"] == 0,
        "the board and a replay of the log differ: {drift}"
    );
    show.look(Step {
        who: "service",
        name: "parity",
        words: format!("all leaves replayed make this very board of {items} items: drift 0"),
        more: json!({"drift": 0, "items": items, "sha256": drift["ours"]["sha256"]}),
    })
}

async fn check_in(player: &mut Player, show: &mut Show) -> anyhow::Result<()> {
    let asked = CheckIn::new("agent", "countersign-demo").ttl(LONG);
    let session = player.agent.check_in(&asked).await?;
    let words = format!(
        "checks in as {}: session {}, signed by an {}",
        session.role, session.id, session.class
    );
    ensure!(
        session.class == "agent_key",
        "class {}, not agent_key",
        session.class
    );
    let step = Step {
        who: player.name,
        name: "check_in",
        words,
        more: json!({"session": session.id, "class": session.class}),
    };
    show.leaf(step, session.entry.as_ref())
}

/// What is ready of this board, the most urgent first.
async fn ready(agent: &Agent, tag: &str) -> anyhow::Result<Vec<Value>> {
    let asked = json!({"ready": true, "tag": tag, "limit": 200});
    let listed = agent.call("board_list", asked).await?.result;
    let items = listed["items"].as_array().cloned();
    items.context("board_list: no items")
}

/// Both want the first item that is ready, at the same moment. Who had it, who had not, and the claim.
async fn race(
    planner: Player,
    builder: Player,
    tag: &str,
    show: &mut Show,
) -> anyhow::Result<(Player, Player, Claim)> {
    let items = ready(&planner.agent, tag).await?;
    let first = items.first().context("nothing is ready")?.clone();
    let id = text(&first, "id");
    for player in [&planner, &builder] {
        show.look(Step {
            who: player.name,
            name: "ready",
            words: format!(
                "sees {} items ready, and wants {id}: {:?}",
                items.len(),
                text(&first, "title")
            ),
            more: json!({"ready": items.len(), "wants": id}),
        })?;
    }
    let resource = format!("item:{id}");
    let (a, b) = tokio::join!(
        planner.agent.acquire(&resource, LONG),
        builder.agent.acquire(&resource, LONG)
    );
    let (fast, slow, lease, refused) = match (a, b) {
        (Ok(lease), Err(refused)) => (planner, builder, lease, refused),
        (Err(refused), Ok(lease)) => (builder, planner, lease, refused),
        (Ok(_), Ok(_)) => bail!("both have the lease of {id}"),
        (Err(error), Err(_)) => return Err(error.into()),
    };
    leased(&fast, &lease, show)?;
    let problem = refusal(refused, "LEASE_CONFLICT")?;
    let holder = text(&problem.detail["holder"], "identity");
    ensure!(
        holder == fast.identity,
        "the refusal names {holder}, and {} has it",
        fast.identity
    );
    show.leaf(
        Step {
            who: slow.name,
            name: "conflict",
            words: format!(
                "wants it too and is told who has it: {} in session {}",
                fast.name,
                text(&problem.detail["holder"], "session_id")
            ),
            more: json!({"code": problem.code, "holder": problem.detail["holder"]}),
        },
        problem.entry.as_ref(),
    )?;
    let claim = Claim { item: first, lease };
    Ok((fast, slow, claim))
}

fn leased(player: &Player, lease: &Lease, show: &mut Show) -> anyhow::Result<()> {
    let step = Step {
        who: player.name,
        name: "lease",
        words: format!("leases {}, fence {}", lease.resource, lease.fence),
        more: json!({"resource": lease.resource, "fence": lease.fence, "lease": lease.id}),
    };
    show.leaf(step, lease.entry.as_ref())
}

async fn beat(player: &Player, show: &mut Show) -> anyhow::Result<()> {
    let said = player.agent.heartbeat(Some("half way"), Some(50)).await?;
    let step = Step {
        who: player.name,
        name: "heartbeat",
        words: "says that it is half way; session and lease go on".into(),
        more: json!({"progress": 50}),
    };
    show.leaf(step, said.entry.as_ref())
}

fn resolved(
    player: &Player,
    claim: &Claim,
    (answer, status): (&ToolAnswer, &str),
    show: &mut Show,
) -> anyhow::Result<()> {
    let id = text(&claim.item, "id");
    let is = text(&answer.result["item"], "status");
    ensure!(is == status, "{id} is {is}, not {status}");
    let step = Step {
        who: player.name,
        name: "resolve",
        words: format!("resolves {id}: {is}"),
        more: json!({"item": id, "status": is}),
    };
    show.leaf(step, answer.entry.as_ref())
}

async fn unlocked(
    player: &Player,
    (tag, claim): (&str, &Claim),
    show: &mut Show,
) -> anyhow::Result<()> {
    let done = &claim.item["id"];
    let items = ready(&player.agent, tag).await?;
    let waited = |item: &&Value| {
        let before = item["depends_on"].as_array();
        before.is_some_and(|before| before.contains(done))
    };
    let new = items.iter().filter(waited).count();
    ensure!(new > 0, "nothing has become ready by it");
    show.look(Step {
        who: player.name,
        name: "ready",
        words: format!("sees {new} items that waited for it ready now"),
        more: json!({"ready": items.len(), "new": new}),
    })
}

async fn released(player: &Player, lease: &Lease, show: &mut Show) -> anyhow::Result<()> {
    let answer = player.agent.release(lease).await?;
    let step = Step {
        who: player.name,
        name: "release",
        words: format!("gives {} back", lease.resource),
        more: json!({"resource": lease.resource}),
    };
    show.leaf(step, answer.entry.as_ref())
}

async fn claimed(player: &Player, tag: &str, show: &mut Show) -> anyhow::Result<Claim> {
    let claim = player.agent.claim(json!({"tag": tag}), LONG).await?;
    let claim = claim.context("nothing is ready")?;
    leased(player, &claim.lease, show)?;
    Ok(claim)
}

/// Work that somebody must look at before it is done.
async fn review(human: &Agent, player: &Player, tag: &str, show: &mut Show) -> anyhow::Result<()> {
    let claim = claimed(player, tag, show).await?;
    let id = text(&claim.item, "id");
    ensure!(
        claim.item["review_required"] == true,
        "{id} needs no review"
    );
    let note = Some("seven threats, each with an answer");
    let handed = player.agent.resolve(&claim, Outcome::Done, note).await?;
    resolved(player, &claim, (&handed, "awaiting_review"), show)?;
    released(player, &claim.lease, show).await?;
    let asked = json!({"id": id, "outcome": "done", "note": "read, and agreed"});
    let accepted = human.call("board_resolve", asked).await?;
    let status = text(&accepted.result["item"], "status");
    ensure!(status == "done", "{id} is {status}, not done");
    let step = Step {
        who: "human",
        name: "review",
        words: format!("has read it, and resolves {id}: done"),
        more: json!({"item": id, "status": status}),
    };
    show.leaf(step, accepted.entry.as_ref())
}

async fn check_out(mut player: Player, show: &mut Show) -> anyhow::Result<()> {
    let answer = player.agent.check_out("delivered", None).await?;
    let released = answer.result["leases_released"]
        .as_array()
        .map_or(0, Vec::len);
    let step = Step {
        who: player.name,
        name: "check_out",
        words: format!("checks out: delivered; {released} lease ends with the session"),
        more: json!({"outcome": "delivered", "leases_released": released}),
    };
    show.leaf(step, answer.entry.as_ref())
}

/// A refusal that is due.
fn refusal(error: ClientError, code: &str) -> anyhow::Result<Problem> {
    match error {
        ClientError::Refused(problem) if problem.code == code => Ok(*problem),
        error => Err(anyhow::Error::new(error).context(format!("{code} was due"))),
    }
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}
