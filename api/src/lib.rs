//! Countersign's service, its command line and its client.
//!
//! With `default-features = false` there is the client alone ([`client`]), which links neither RocksDB nor anything else of the service.
//!
//! Inside, doors know tools, tools know submission and queries, those know the state, and the state knows the verifier's
//! types and nothing else. Only `submit` appends; only `config` reads the environment; only the log's clock reads the
//! time; only `app` puts real parts together.

#[cfg(feature = "service")]
pub mod account;
#[cfg(feature = "service")]
pub mod accounts;
#[cfg(feature = "service")]
pub mod app;
#[cfg(feature = "service")]
pub mod audit;
#[cfg(feature = "service")]
pub mod backup;
#[cfg(feature = "service")]
pub mod bench;
#[cfg(feature = "service")]
pub mod blobs;
#[cfg(feature = "service")]
pub mod cli;
pub mod client;
#[cfg(feature = "service")]
pub mod code;
#[cfg(feature = "service")]
pub mod config;
#[cfg(feature = "service")]
pub mod data_dir;
#[cfg(feature = "service")]
pub mod doors;
#[cfg(feature = "service")]
pub mod error;
#[cfg(feature = "service")]
pub mod export;
#[cfg(feature = "service")]
mod files;
#[cfg(feature = "service")]
pub mod foreign;
#[cfg(feature = "service")]
pub mod init;
#[cfg(feature = "service")]
pub mod issuer;
#[cfg(feature = "service")]
pub mod ledger;
#[cfg(feature = "service")]
pub mod limits;
#[cfg(feature = "service")]
pub mod local_witnesses;
#[cfg(feature = "service")]
pub mod metrics;
#[cfg(feature = "service")]
pub mod monitor;
#[cfg(feature = "service")]
pub mod pins;
#[cfg(feature = "service")]
pub mod policy;
#[cfg(feature = "service")]
pub mod query;
#[cfg(feature = "service")]
pub mod quorum;
#[cfg(feature = "service")]
mod quota;
#[cfg(feature = "service")]
pub mod recover;
#[cfg(all(test, feature = "service"))]
mod reference;
#[cfg(feature = "service")]
mod sealed;
#[cfg(feature = "service")]
pub mod seat;
#[cfg(feature = "service")]
pub mod service;
#[cfg(feature = "service")]
pub mod state;
#[cfg(feature = "service")]
pub mod submit;
#[cfg(feature = "service")]
pub mod succeed;
#[cfg(feature = "service")]
pub mod tools;
#[cfg(feature = "service")]
pub mod trace;
#[cfg(feature = "service")]
pub mod versions;
#[cfg(feature = "service")]
mod watchers;
#[cfg(feature = "service")]
mod witnessing;
