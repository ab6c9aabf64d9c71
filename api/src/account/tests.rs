//! What tests of accounts at rest share.

pub(crate) mod rig;
