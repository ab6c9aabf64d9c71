//! Tests of a witness from outside, one binary.

mod doors;
mod faults;
mod gossip;
mod mldsa;
mod model;
mod network;
mod partitions;
mod races;
mod robust;
mod support;
mod traps;
mod vectors;
