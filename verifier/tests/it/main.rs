//! Tests of the verifier from outside, one binary.

mod add_checkpoint;
mod cases_note;
mod cases_tree;
mod dsse;
mod json;
mod keys;
mod leaf;
mod multi;
mod oracle;
mod policies;
mod round_trips;
mod statement;
mod support;
mod traps_note;
mod traps_tree;
mod vectors_note;
mod vectors_proof;
mod vectors_tile;
mod vectors_tree;
mod world;
