//! An agent that is killed, and what becomes of its work.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde_json::json;

use super::{
    super::show::{Show, Step},
    LONG, Player, claimed, leased, refusal, resolved, text,
};
use crate::client::{CheckIn, Claim, Outcome};

/// The shortest that a session can be without a word: so soon the work of an agent that was killed comes back.
const SHORT: Duration = Duration::from_secs(10);
/// How long its work may take to come back, on a machine that is busy.
const BACK: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(250);

/// An agent takes work and is heard of no more.
pub async fn killed(
    mut player: Player,
    tag: &str,
    show: &mut Show,
) -> anyhow::Result<(Player, Claim)> {
    let claim = claimed(&player, tag, show).await?;
    let session = player.agent.session().context("no session")?.id.clone();
    let mut asked = CheckIn::new("agent", "countersign-demo").ttl(SHORT);
    asked.resume = Some(session.clone());
    let renewed = player.agent.check_in(&asked).await?;
    ensure!(renewed.id == session, "another session, {}", renewed.id);
    let step = Step {
        who: player.name,
        name: "check_in",
        words: format!(
            "must be heard of every {} s from now on, and is killed",
            renewed.heartbeat_every.as_secs()
        ),
        more: json!({"session": session, "ttl_s": SHORT.as_secs()}),
    };
    show.leaf(step, renewed.entry.as_ref())?;
    Ok((player, claim))
}

/// What it had left comes back by itself, another one does it, and who returns late changes nothing.
pub async fn comes_back(
    fast: &Player,
    slow: &Player,
    left: Claim,
    show: &mut Show,
) -> anyhow::Result<()> {
    let id = text(&left.item, "id");
    show.say(&format!(
        "           …        nobody hears of {} for {} s",
        slow.name,
        SHORT.as_secs()
    ))?;
    let begun = Instant::now();
    loop {
        let item = fast.agent.call("board_get", json!({"id": id})).await?;
        if item.result["item"]["ready"] == true {
            break;
        }
        ensure!(begun.elapsed() < BACK, "{id} has not come back");
        tokio::time::sleep(LOOK).await;
    }
    let session = slow.agent.session().context("no session")?.id.clone();
    let ended = fast.agent.call("ars_session_get", json!({"id": session}));
    let ended = ended.await?.result;
    let index = ended["ended_index"].as_u64();
    let index = index.context("nothing says that the session ended")?;
    ensure!(ended["outcome"].is_null(), "it was checked out");
    show.leaf_at(
        Step {
            who: "service",
            name: "expired",
            words: format!("session {session} has ended by itself, and {id} is ready again"),
            more: json!({"session": session, "item": id}),
        },
        index,
    )?;
    let lease = fast.agent.acquire(&format!("item:{id}"), LONG).await?;
    ensure!(lease.fence > left.lease.fence, "a fence that does not rise");
    leased(fast, &lease, show)?;
    let late = slow.agent.resolve(&left, Outcome::Done, None).await;
    let Err(late) = late else {
        bail!("{} resolved what it had lost", slow.name);
    };
    let problem = refusal(late, "SESSION_EXPIRED")?;
    show.leaf(
        Step {
            who: slow.name,
            name: "late",
            words: format!("comes back late and is refused: {}", problem.code),
            more: json!({"code": problem.code}),
        },
        problem.entry.as_ref(),
    )?;
    let claim = Claim {
        item: left.item,
        lease,
    };
    let done = fast.agent.resolve(&claim, Outcome::Done, None).await?;
    let status = match claim.item["review_required"] == true {
        true => "awaiting_review",
        false => "done",
    };
    resolved(fast, &claim, (&done, status), show)
}
