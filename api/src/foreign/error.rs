//! What can go wrong when somebody else's log is read, and whose fault it is.

/// Why something of a log could not be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForeignError {
    /// The address cannot be used. The caller's fault.
    #[error("{place:?} is no address of a log: {why}")]
    Address {
        /// As given.
        place: String,
        /// What is wrong with it.
        why: String,
    },
    /// This machine cannot make secure connections, or has no threads.
    #[error("cannot set up reading: {0}")]
    Setup(String),
    /// Nobody answers, or not to the end. Nobody's fault that could be told from here.
    #[error("{place}: cannot be reached: {why}")]
    Unreachable {
        /// Where.
        place: String,
        /// What the system said.
        why: String,
    },
    /// It is not there. The log's fault where a signed checkpoint needs it.
    #[error("{place}: is not there ({why})")]
    Missing {
        /// Where.
        place: String,
        /// How that was said.
        why: String,
    },
    /// Reading it is not allowed.
    #[error("{place}: may not be read ({why})")]
    Denied {
        /// Where.
        place: String,
        /// How that was said.
        why: String,
    },
    /// The answer is none that such a log gives. The fault of whoever serves it.
    #[error("{place}: the log's server is at fault: {what}")]
    Server {
        /// Where.
        place: String,
        /// What is wrong with the answer.
        what: String,
    },
    /// What is there is not of its form. The log's fault.
    #[error("{place}: the log's fault: {what}")]
    Malformed {
        /// Where.
        place: String,
        /// What is wrong with it.
        what: String,
    },
    /// The tiles do not lead to the root that the log has signed. The log's fault.
    #[error("{place}: the log's fault: its tiles do not lead to the root that it signed: {what}")]
    Tiles {
        /// The log.
        place: String,
        /// What does not agree.
        what: String,
    },
}

impl ForeignError {
    /// Whether the log is to blame, and not the way to it or the caller.
    #[must_use]
    pub const fn is_the_logs(&self) -> bool {
        matches!(
            self,
            ForeignError::Missing { .. }
                | ForeignError::Server { .. }
                | ForeignError::Malformed { .. }
                | ForeignError::Tiles { .. }
        )
    }
}
