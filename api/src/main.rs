//! `countersign`: everything in one binary.

fn main() {}
