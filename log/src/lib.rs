//! A Merkle log of bytes.
//!
//! It sequences leaves, keeps their tree as C2SP tiles, signs heads and publishes them. What a leaf means is for the
//! [`Judge`] above it to say; where the bytes lie is for the [`Store`] below it.
//!
//! | module | what it holds |
//! |---|---|
//! | [`judge`] | the trait that the writer asks about each request, in order |
//! | [`clock`] | log time: never back, deaf to steps of the wall clock |
//! | [`grow`] | pure: the right edge of the tree, and the tiles that leaves complete |
//! | [`prove`] | proofs and roots of any published size, out of tiles |
//! | [`store`] | the storage contract, RocksDB, a memory store with faults, and the suite that both pass |
//! | [`writer`] | one thread an account: drain, judge, grow, commit, answer |
//! | [`publish`] | one thread an account: sign the newest head, store it, show it |
//! | [`import`] | leaves that were lost and come back |
//! | [`guard`] | what must agree before anything may be signed again |
//! | [`witnesses`] | the log as the client of its witnesses: rounds, quorum, and what they say at a start |
//! | [`reader`] | what was published, read at one size |
//! | [`stored`] | what was published, read where no log is started |
//! | [`check`] | a store at rest, recomputed from its leaves |
//! | [`serve`] | checkpoint, tiles, bundles and consistency over HTTP |
//!
//! Not here: who may write, what is decided, HTTP routing of accounts.

pub mod check;
pub mod clock;
pub mod grow;
pub mod guard;
pub mod import;
pub mod judge;
pub mod prove;
pub mod publish;
pub mod reader;
pub mod serve;
pub mod store;
pub mod stored;
pub mod witnesses;
pub mod writer;

mod log;
mod shared;

pub use clock::{Clocks, LogClock, SystemClocks};
pub use judge::{Context, Entry, Judge, Key, Ruling};
pub use log::{Log, Options, Pending, Status, Turned};
pub use publish::Published;
pub use reader::Reader;
pub use shared::{Progress, StartError};
pub use store::{Head, Store, StoreError};
pub use witnesses::{Pace, Reply, Transport, Witnesses, WitnessesStatus};
pub use writer::{Outcome, Sequenced, Stop, Until};
