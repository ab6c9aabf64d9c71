//! Work that is an agent's for now: leases, and what became of items.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Agent, CheckIn};
use crate::client::{
    call::{Entry, ToolAnswer},
    error::ClientError,
};

const START: &str = "ars_start";

/// A lease that was had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Which: `l_` and a number.
    pub id: String,
    /// What: `item:<id>`, `path:<repo>:<glob>`, ….
    pub resource: String,
    /// To be given with every write that touches the resource.
    pub fence: u64,
    /// It ends after this time unless it is renewed; heartbeats of the session renew it too.
    pub expires_in: Duration,
    /// The leaf that says so.
    pub entry: Option<Entry>,
}

/// An item of the board that is this agent's for now.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// The item, as `board_get` shows it.
    pub item: Value,
    /// The lease of `item:<id>`.
    pub lease: Lease,
}

/// What became of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done; where a review is required and this agent may not review, it awaits one.
    Done,
    /// It will not be done.
    Dropped,
    /// A reviewer wants more.
    ChangesRequested,
}

impl Outcome {
    /// As the service spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Done => "done",
            Outcome::Dropped => "dropped",
            Outcome::ChangesRequested => "changes_requested",
        }
    }
}

#[derive(Deserialize)]
struct Granted {
    lease_id: String,
    resource: String,
    fence: u64,
    expires_in_ms: u64,
}

#[derive(Deserialize)]
struct Started {
    item: Option<Value>,
    lease: Option<Granted>,
}

impl Granted {
    fn by(self, entry: Option<Entry>) -> Lease {
        Lease {
            id: self.lease_id,
            resource: self.resource,
            fence: self.fence,
            expires_in: Duration::from_millis(self.expires_in_ms),
            entry,
        }
    }
}

impl Agent {
    /// Takes a resource, exclusively, for `ttl` from now or from the session's last heartbeat.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with code `LEASE_CONFLICT`, whose detail has the holder, while somebody else has it.
    pub async fn acquire(&self, resource: &str, ttl: Duration) -> Result<Lease, ClientError> {
        let asked = json!({"resource": resource, "ttl_s": ttl.as_secs()});
        let answer = self.call("ars_lease_acquire", asked).await?;
        let granted: Granted = self.decoded("ars_lease_acquire", &answer)?;
        Ok(granted.by(answer.entry))
    }

    /// Takes a lease of the first item that can be begun now and fits, in one step that nobody comes between; `None`: there is none.
    /// `filter` has members of `ars_start`'s (`id`, `tag`, `owner`, `workstream`).
    ///
    /// # Errors
    /// [`ClientError::Refused`]: `MALFORMED` without a session, `SESSION_EXPIRED`.
    pub async fn claim(&self, filter: Value, ttl: Duration) -> Result<Option<Claim>, ClientError> {
        let asked = json!({"filter": filter, "ttl_s": ttl.as_secs()});
        let answer = self.call(START, asked).await?;
        self.claimed(answer)
    }

    /// Checks in and claims, as one leaf.
    ///
    /// # Errors
    /// As [`Agent::check_in`].
    pub async fn start(
        &mut self,
        checkin: &CheckIn,
        filter: Value,
        ttl: Duration,
    ) -> Result<Option<Claim>, ClientError> {
        let more = json!({"filter": filter, "ttl_s": ttl.as_secs()});
        let answer = self.begin(checkin, Some((START, more))).await?;
        self.claimed(answer)
    }

    fn claimed(&self, answer: ToolAnswer) -> Result<Option<Claim>, ClientError> {
        let Started { item, lease } = self.decoded(START, &answer)?;
        let claim = |(item, lease): (Value, Granted)| Claim {
            item,
            lease: lease.by(answer.entry),
        };
        Ok(item.zip(lease).map(claim))
    }

    /// Says what became of a claimed item. Its lease stays until it is released, or the session ends.
    ///
    /// # Errors
    /// [`ClientError::Refused`]: `STALE_FENCE` where somebody else has had the item since.
    pub async fn resolve(
        &self,
        claim: &Claim,
        outcome: Outcome,
        note: Option<&str>,
    ) -> Result<ToolAnswer, ClientError> {
        let mut asked = json!({
            "id": claim.item["id"], "outcome": outcome.name(), "fence": claim.lease.fence,
        });
        if let Some(note) = note {
            asked["note"] = note.into();
        }
        self.call("board_resolve", asked).await
    }

    /// Gives a lease back.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with code `LEASE_EXPIRED` where it had ended.
    pub async fn release(&self, lease: &Lease) -> Result<ToolAnswer, ClientError> {
        let asked = json!({"lease_id": lease.id, "fence": lease.fence});
        self.call("ars_lease_release", asked).await
    }
}
