//! Tests of the verifier from outside, one binary.

// Trees in memory are counted in both.
#![allow(clippy::cast_possible_truncation)]

mod add_checkpoint;
mod any;
mod bodies;
mod cases_note;
mod cases_tree;
mod chains;
#[cfg(feature = "cli")]
mod cli;
mod dsse;
mod evidence;
mod examples;
#[cfg(feature = "cli")]
mod fork_cli;
mod forks;
mod json;
mod keys;
mod leaf;
mod log_lists;
mod meanings;
mod mldsa;
mod multi;
mod operations;
mod oracle;
mod policies;
mod predecessors;
mod round_trips;
mod statement;
mod subtrees;
mod support;
mod traps_note;
mod traps_tree;
mod vectors_note;
mod vectors_proof;
mod vectors_tile;
mod vectors_tree;
mod verdicts;
mod world;
