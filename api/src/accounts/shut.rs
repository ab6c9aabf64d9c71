//! Why an account is not open, and what whoever asks for it is told.

use crate::{
    account::OpenError,
    error::{Code, Problem},
};

/// What is asked of an account that does not open had better come again after this long, in milliseconds.
const AGAIN_MS: u64 = 5_000;

/// Why an account is not open.
#[derive(Debug)]
pub(super) enum Shut {
    /// As many are open as may be, and all of them are at work.
    Full,
    /// It was tried a moment ago, to no avail.
    Failing,
    /// It does not open.
    Failed(OpenError),
}

impl Shut {
    pub(super) fn problem(&self) -> Problem {
        let why = match self {
            Shut::Full => "as many accounts are open here as may be, and all of them are at work",
            Shut::Failing | Shut::Failed(_) => {
                "this account does not open just now; its operator sees why"
            }
        };
        Problem::new(Code::Busy, why).retry_after(match self {
            Shut::Full => 1_000,
            Shut::Failing | Shut::Failed(_) => AGAIN_MS,
        })
    }
}

/// It may be that of an account that has not been opened yet, or does not open.
pub(super) fn untold() -> Problem {
    let why = "whose token this is cannot be told yet: not every account here has been opened";
    Problem::new(Code::Busy, why).retry_after(AGAIN_MS)
}
