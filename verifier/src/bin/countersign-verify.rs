//! `countersign-verify`: files in, verdict out. No sockets.
fn main() {}
