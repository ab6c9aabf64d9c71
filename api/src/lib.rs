//! Countersign's service, its command line and its client.
//!
//! Inside, doors know tools, tools know submission and queries, those know the state, and the state knows the verifier's
//! types and nothing else. Only [`submit`] appends; only [`config`] reads the environment; only the log's clock reads the
//! time; only [`app`] puts real parts together.

pub mod account;
pub mod app;
pub mod audit;
pub mod bench;
pub mod cli;
pub mod client;
pub mod code;
pub mod config;
pub mod data_dir;
pub mod doors;
pub mod error;
mod files;
pub mod foreign;
pub mod init;
pub mod ledger;
pub mod limits;
pub mod local_witnesses;
pub mod metrics;
pub mod pins;
pub mod policy;
pub mod query;
pub mod quorum;
pub mod recover;
#[cfg(test)]
mod reference;
pub mod seat;
pub mod service;
pub mod state;
pub mod submit;
pub mod succeed;
pub mod tools;
pub mod trace;
pub mod versions;
mod witnessing;
