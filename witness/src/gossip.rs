//! Gossip: what other witnesses were shown of the same logs, so that a log that shows two histories is found out.
//!
//! Nobody is believed. A head counts by the log's signature, a node by its path to a signed root; so that a peer, a stranger or
//! the log's own server can keep an answer back, and that is all.
//!
//! - [`compare`]: two signed heads, pure
//! - [`settle`]: heads of two sizes, settled by a proof or by nodes
//! - [`weigh`]: a shown head, from its bytes to what follows from it
//! - [`board`]: what is not settled, and how the peers fare
//! - [`page`]: the heads that everybody may ask for
//! - [`client`], [`pull`]: asking peers, each by itself
//! - [`config`]: the peers, kept in the directory
//! - [`doubt`]: heads whose proof failed at the witness's own door
//! - [`webhook`]: telling somebody of evidence

pub mod board;
pub mod client;
pub mod compare;
pub mod config;
pub mod doubt;
pub mod page;
pub mod pull;
pub mod settle;
pub mod webhook;
pub mod weigh;
