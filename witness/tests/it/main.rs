//! Tests of a witness from outside, one binary.

mod doors;
mod faults;
mod mldsa;
mod model;
mod races;
mod support;
mod traps;
mod vectors;
