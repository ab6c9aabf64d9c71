//! How an account fares.

use countersign_log::Status;
use countersign_verifier::key::IdentityId;

use super::Account;
use crate::{error::Problem, quota::Rate, state::closed::Closed, submit};

/// A quorum lost for longer is waited for by nobody.
const QUORUM_PATIENCE_MS: u64 = 5_000;

impl Account {
    /// Whether the quorum of witnesses has been lost for so long that nobody should wait for it.
    #[must_use]
    pub fn quorum_is_lost(&self) -> bool {
        let status = self.log.status();
        let since = status.witnesses.quorum_lost_since;
        since.is_some_and(|since| status.wall_ms.saturating_sub(since) > QUORUM_PATIENCE_MS)
    }

    /// The end of its log, if its owner closed it.
    #[must_use]
    pub fn closed(&self) -> Option<Closed> {
        self.reader().version().closed.clone()
    }

    /// Why it takes no writes, for clients; `None` where it takes them.
    #[must_use]
    pub fn takes_nothing(&self, status: &Status) -> Option<String> {
        match (self.closed(), &status.stop) {
            (Some(closed), _) => Some(closed.to_string()),
            (None, Some(stop)) => Some(submit::stopped(stop).message),
            (None, None) => None,
        }
    }

    /// Log time by the writer's last look at the clocks, in milliseconds since 1970: to tell how long something still runs.
    #[must_use]
    pub fn log_now_ms(&self) -> u64 {
        let status = self.log.status();
        status
            .wall_ms
            .saturating_add_signed(-status.clock_offset_ms)
    }

    /// Takes one receipt of a signer who has so many a minute.
    ///
    /// # Errors
    /// `RateLimited`, with the time after which there is one again.
    pub fn take_receipt(&self, signer: IdentityId, per_minute: u64) -> Result<(), Problem> {
        let (quotas, since) = &self.receipts;
        let now_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        quotas.take((&self.origin, signer), Rate::receipts(per_minute), now_ms)
    }

    /// Gives back one that became no leaf.
    pub fn give_back_receipt(&self, signer: IdentityId) {
        self.receipts.0.give_back((&self.origin, signer));
    }
}
