//! Suites over the built executables, as clients, operators and auditors meet them.
//!
//! - [`rig`]: a service on a directory of its own, and [`rig::Rig::check`], which re-verifies the whole tree after every action
//! - `e2e`: a file a noun
//! - `witness`: a witness alone, killed between what it stores and what it answers
//! - `kill`, `faults`: what must survive, and what must be refused; `rig::injector` makes disks fail and clocks go wrong
//! - `frozen`: directories of earlier releases
//! - `scripts`: readable sessions with the command line
//! - `real`: published envelopes and statements of others
//! - `peers`: foreign readers and writers of logs, in Go
//! - `house`: the rules that the sources follow
//! - `operate`: completions, manual pages, units, as shells, groff and systemd read them
//! - `cases`: each case that has gone wrong for others has its test
//! - `docs`: what the documents print, hold and link to
//!
//! `TEST_SEED=n` repeats a random run; each prints its seed. `SOAK=n` makes loops of rounds n times as long (`make soak`).

mod cases;
mod docs;
#[path = "../e2e/mod.rs"]
mod e2e;
mod faults;
mod frozen;
mod house;
mod kill;
mod operate;
mod peers;
mod real;
mod rig;
mod scripts;
mod witness;
