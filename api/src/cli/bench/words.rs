//! The words and numbers that benches are told.

use clap::ValueEnum;

use crate::bench::{
    answers::Wait,
    coordinate::{agents::Door, work::Kind},
};

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum WaitArg {
    Sequenced,
    Included,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum WorkArg {
    /// A lease is acquired and released
    Leases,
    /// A session is begun and ended
    Checkins,
    /// An item is changed, over HTTP
    Upserts,
    /// The same over MCP
    UpsertsMcp,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum HowFarArg {
    Sequenced,
    Included,
    Witnessed,
}

impl From<WaitArg> for Wait {
    fn from(wait: WaitArg) -> Wait {
        match wait {
            WaitArg::Sequenced => Wait::Sequenced,
            WaitArg::Included => Wait::Included,
        }
    }
}

impl From<HowFarArg> for Wait {
    fn from(wait: HowFarArg) -> Wait {
        match wait {
            HowFarArg::Sequenced => Wait::Sequenced,
            HowFarArg::Included => Wait::Included,
            HowFarArg::Witnessed => Wait::Witnessed,
        }
    }
}

impl From<WorkArg> for Kind {
    fn from(work: WorkArg) -> Kind {
        match work {
            WorkArg::Leases => Kind::Leases,
            WorkArg::Checkins => Kind::Checkins,
            WorkArg::Upserts => Kind::Upserts(Door::Http),
            WorkArg::UpsertsMcp => Kind::Upserts(Door::Mcp),
        }
    }
}

pub(super) fn positive(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|n| *n > 0)
        .ok_or_else(|| "a number above 0".into())
}

pub(super) fn at_least_two(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|n| *n > 1)
        .ok_or_else(|| "a number above 1".into())
}

pub(super) fn seconds(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|s| (0.1..=600.0).contains(s))
        .ok_or_else(|| "0.1 to 600 seconds".into())
}
