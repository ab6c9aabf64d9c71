//! What agents do over and over: one unit of each kind of work.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::agents::{self, Agent, Door};
use crate::bench::{answers::Wait, material, wire::Connection};

/// Kinds of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Takes a lease that nobody else asks for, and gives it back.
    Leases,
    /// Begins a session, and ends it.
    Checkins,
    /// Changes an item of the board.
    Upserts(Door),
    /// Puts a new item on the board: number `n` of the run.
    Fill,
    /// Begins a session that goes on.
    Sit,
    /// Takes a lease that lasts: number `n` of the run.
    Hold,
}

/// A kind of work on a board of so many items, by so many agents, each write answered when it is so far.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// What.
    pub kind: Kind,
    /// Items on the board.
    pub items: usize,
    /// Agents that do it at the same time.
    pub agents: usize,
    /// The state in which a write is answered.
    pub wait: Wait,
}

/// Bytes of an item's description.
const DESCRIPTION: usize = 200;

/// The id of item number `n`.
#[must_use]
pub fn id(n: usize) -> String {
    format!("item-{n:06}")
}

impl Work {
    /// Does it once: unit number `n` of the run. How long its answers took.
    ///
    /// # Errors
    /// An answer that is not 200.
    pub async fn once(
        self,
        agent: &Agent,
        connection: &mut Connection,
        n: usize,
    ) -> anyhow::Result<Duration> {
        let how = (Door::Http, self.wait);
        // Which item is as good as chance, and the same in every run.
        let chance = usize::try_from(material::mixed(n as u64) >> 16).unwrap_or_default();
        match self.kind {
            Kind::Leases => {
                // Of its own share, so that nobody is in its way.
                let own = chance % (self.items / self.agents).max(1) * self.agents + agent.place;
                let asked = json!({"resource": format!("item:{}", id(own)), "ttl_s": 600});
                let had = agent
                    .done(connection, how, ("ars_lease_acquire", asked))
                    .await?;
                let lease = lease(&had.body)?;
                let given = agent
                    .done(connection, how, ("ars_lease_release", lease))
                    .await?;
                Ok(had.latency + given.latency)
            }
            Kind::Checkins => {
                let began = agent
                    .done(connection, how, ("ars_session_checkin", agents::checkin()))
                    .await?;
                let begun = agents::session(&began.body)?;
                let before = agent.session.replace(Some(begun));
                let outcome = json!({"outcome": "no_action"});
                let ended = agent
                    .done(connection, how, ("ars_session_checkout", outcome))
                    .await;
                agent.session.replace(before);
                Ok(began.latency + ended?.latency)
            }
            Kind::Upserts(door) => {
                let item = json!({
                    "id": id(chance % self.items.max(1)),
                    "description": material::letters(n as u64, DESCRIPTION),
                    "priority": n % 5,
                });
                let call = ("board_upsert", json!({"item": item}));
                Ok(agent
                    .done(connection, (door, self.wait), call)
                    .await?
                    .latency)
            }
            Kind::Fill => {
                let call = ("board_upsert", json!({"item": item(n)}));
                Ok(agent.done(connection, how, call).await?.latency)
            }
            Kind::Sit => {
                let own = agent.session.take();
                let began = agent
                    .done(connection, how, ("ars_session_checkin", agents::checkin()))
                    .await;
                agent.session.replace(own);
                Ok(began?.latency)
            }
            Kind::Hold => {
                let asked = json!({"resource": format!("path:site:src/{n}/**"), "ttl_s": 86_400});
                let call = ("ars_lease_acquire", asked);
                Ok(agent.done(connection, how, call).await?.latency)
            }
        }
    }
}

/// The lease that was had, as it is given back.
///
/// # Errors
/// An answer without one.
pub fn lease(body: &Value) -> anyhow::Result<Value> {
    let result = body.get("result").context("no result")?;
    let lease = json!({"lease_id": result["lease_id"], "fence": result["fence"]});
    ensure!(lease["fence"].is_u64(), "a lease without a fence: {body}");
    Ok(lease)
}

/// A new item as people write them: some 400 bytes.
fn item(n: usize) -> Value {
    json!({
        "id": id(n),
        "title": format!("Item {n} of the bench, with a title of some length"),
        "description": material::letters(n as u64, DESCRIPTION),
        "priority": n % 5,
        "tags": [format!("area-{}", n % 50), format!("size-{}", n % 3)],
        "workstream": format!("stream-{}", n % 20),
    })
}
