//! A witness (c2sp.org/tlog-witness): cosigns the heads of logs that it has proved consistent with all it cosigned before.
//!
//! One promise: of each log it cosigns one branch only, whatever is thrown at it, and whatever it answers was durable first.
//!
//! - [`decide`]: what to say to a request, pure
//! - [`record`]: what is remembered of a log
//! - [`store`]: where it is remembered; RocksDB, or memory with faults
//! - [`keys`]: the witness's own keys
//! - [`roster`]: the logs that it knows; additions only
//! - [`gossip`]: what other witnesses were shown, compared
//! - [`forks`]: evidence of logs that showed two histories
//! - [`writer`]: the one thread that compares, signs and commits, many logs in one synced write
//! - [`witness`]: all of it behind one call
//! - [`http`]: its doors: the public one, and the operator's socket
//! - [`metrics`], [`tally`]: what it counts, of itself and of each log
//! - [`serve`]: a running witness from its lock to its last answer
//! - [`cli`]: its commands
#![warn(missing_docs)]

mod blocking;
pub mod cli;
pub mod clock;
pub mod decide;
pub mod dir;
pub mod forks;
pub mod gossip;
pub mod http;
pub mod keys;
pub mod metrics;
pub mod record;
pub mod roster;
pub mod serve;
pub mod store;
pub mod tally;
pub mod witness;
pub mod writer;

pub use witness::{Answer, Witness};
