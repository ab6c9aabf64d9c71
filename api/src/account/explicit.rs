//! What an operator says for one start.

/// What an operator says on the command line, for one start: each is a leaf, where it makes a difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Explicit {
    /// Take the wall clock as it is, if it is what keeps the log from writing.
    pub accept_clock: bool,
    /// Write without the witnesses' word that nothing is missing here.
    pub unguarded: bool,
}

impl From<bool> for Explicit {
    /// Whether the clock is accepted, and nothing else.
    fn from(accept_clock: bool) -> Explicit {
        Explicit {
            accept_clock,
            unguarded: false,
        }
    }
}
