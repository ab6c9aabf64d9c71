//! The only write path: bytes in, signatures checked, handed to the writer, answered.
//!
//! The check of signatures runs here, on whatever core has the request, against the newest committed state. It shows only that
//! a key signed; whether that key counts is judged by the writer, at the request's place in the order.

mod check;
mod line;
mod receipt;
mod seat;

use std::time::Duration;

use countersign_log::{Outcome, Pending, Sequenced, Stop, Turned, Until};

pub use check::{
    Budget, Dropped, PreparedReceipt, Signatures, malformed, prepare_operation, prepare_receipt,
};
pub use line::{Line, in_line};
pub use receipt::{admit, receipt, settle};
pub use seat::{owner_seat, sign_for_seat};

use crate::{
    account::Account,
    error::{Code, Problem},
    ledger::Request,
};

/// How long a write may take to be committed before its outcome is called unknown.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(30);

/// How far a write is to have come before it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wait {
    /// It has an index.
    Sequenced,
    /// It is under a head that the log has signed; without witnesses that is the published one.
    Included,
    /// It is under the published head, which the policy's quorum of witnesses has cosigned.
    Witnessed,
}

impl Wait {
    /// As answers write the state reached.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Wait::Sequenced => "sequenced",
            Wait::Included => "included",
            Wait::Witnessed => "witnessed",
        }
    }

    const fn until(self) -> Until {
        match self {
            Wait::Sequenced => Until::Sequenced,
            Wait::Included => Until::Included,
            Wait::Witnessed => Until::Witnessed,
        }
    }
}

/// What a client asks of the answer; none of it is signed.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// How far it is to have come.
    pub wait: Wait,
    /// How long to wait for that.
    pub deadline: Duration,
    /// Whether the answer carries a proof.
    pub proof: bool,
}

/// How far a write came.
#[derive(Clone, Debug)]
pub struct Written {
    /// The leaf.
    pub leaf: Sequenced,
    /// Whether it is as far as was asked for.
    pub reached: bool,
    /// How far it is.
    pub state: Wait,
}

/// Hands requests to the writer and waits as far as asked. One answer a request, in order.
///
/// # Errors
/// `Busy` if the queue is full or the service stops.
pub async fn write(
    account: &Account,
    requests: Vec<Request>,
    wanted: Wanted,
) -> Result<Vec<Result<Written, Problem>>, Problem> {
    write_after(account, requests, wanted, || {}).await
}

/// The same; `decided` is called as soon as it is known what was decided, and before any further wait.
///
/// # Errors
/// As [`write()`].
pub async fn write_after(
    account: &Account,
    requests: Vec<Request>,
    wanted: Wanted,
    decided: impl FnOnce(),
) -> Result<Vec<Result<Written, Problem>>, Problem> {
    let pending = hand_over(account, requests, wanted.wait)?;
    wait_after(account, pending, wanted, decided).await
}

/// Puts requests into the writer's queue, in order.
///
/// # Errors
/// `Busy`; nothing was or will be done with them.
pub fn hand_over(
    account: &Account,
    requests: Vec<Request>,
    wait: Wait,
) -> Result<Pending<Problem>, Problem> {
    let submitted = account.log.submit(requests, wait.until());
    submitted.map_err(|turned| match turned {
        Turned::Busy => {
            Problem::new(Code::Busy, "too many writes are waiting for the disk").retry_after(1_000)
        }
        Turned::Closed => closing(),
        Turned::Died => stopped(&Stop::Died),
    })
}

/// Waits as far as asked.
///
/// # Errors
/// `Busy` where the outcome is unknown.
pub async fn wait(
    account: &Account,
    pending: Pending<Problem>,
    wanted: Wanted,
) -> Result<Vec<Result<Written, Problem>>, Problem> {
    wait_after(account, pending, wanted, || {}).await
}

async fn wait_after(
    account: &Account,
    pending: Pending<Problem>,
    wanted: Wanted,
    decided: impl FnOnce(),
) -> Result<Vec<Result<Written, Problem>>, Problem> {
    // A quorum that has been lost for a while is not back within a request's time: nobody is held up for it.
    let deadline = if wanted.wait == Wait::Witnessed && account.quorum_is_lost() {
        Duration::ZERO
    } else {
        wanted.deadline
    };
    let work = pending.reached_after(deadline, decided);
    let answered = tokio::time::timeout(COMMIT_TIMEOUT.max(wanted.deadline), work).await;
    let (outcomes, reached) = match answered {
        Ok(Ok(answered)) => answered,
        Ok(Err(_)) => return Err(unknown("the writer ended")),
        Err(_) => return Err(unknown("the disk did not answer in time")),
    };
    let state = |leaf: &Sequenced| {
        if reached {
            wanted.wait
        } else {
            account.state_of(leaf.index)
        }
    };
    Ok(outcomes
        .into_iter()
        .map(|outcome| match outcome {
            Outcome::Sequenced(leaf) => {
                let state = state(&leaf);
                let reached = state >= wanted.wait;
                Ok(Written {
                    leaf,
                    reached,
                    state,
                })
            }
            Outcome::Refused(problem) => Err(problem),
            Outcome::Stopped(stop) => Err(stopped(&stop)),
        })
        .collect())
}

/// Why nothing is written just now, for clients.
#[must_use]
pub fn stopped(stop: &Stop) -> Problem {
    match stop {
        Stop::Clock(fault) => {
            let why = format!(
                "the log is not writing: {fault}; its operator must accept the clock (serve --accept-clock)"
            );
            Problem::new(Code::ReadOnly, why).retry_after(60_000)
        }
        Stop::Store(_) => unknown("the store failed"),
        Stop::Guard(_) => Problem::new(
            Code::ReadOnly,
            "the log is not writing, and will not write again as it is: what is here is not what was published or cosigned, as after an older copy was put back or while a copy runs beside it; its operator sees more in `countersign status`, and the ways out are `countersign recover` and `countersign succeed`",
        )
        .until_a_person_acts(),
        Stop::Unguarded(_) => Problem::new(
            Code::ReadOnly,
            "the log is not writing yet: since its start too few witnesses have shown that nothing is missing here",
        )
        .retry_after(5_000),
        Stop::Died => Problem::new(
            Code::Internal,
            "the log's writer ended in a fault; its operator must start the service again",
        )
        .until_a_person_acts(),
        Stop::Closed => closing(),
    }
}

fn unknown(what: &str) -> Problem {
    let why = format!(
        "{what}; whether this was written is not known. Sending the very same again is safe: what is there is answered, not added"
    );
    Problem::new(Code::Busy, why).retry_after(2_000)
}

fn closing() -> Problem {
    let why = "the log is being closed: the service stops, or opens it again with another quorum";
    Problem::new(Code::Busy, why).retry_after(2_000)
}
