//! How many files this process may have open: each connection is one.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Files beside connections: an account's database has up to 256 open, and there are sockets and the process's own.
const BESIDE: u64 = 512;

/// Raises the limit as far as this process may, and says so where that is too little for what it is configured to take: a
/// connection that finds no file waits to be accepted, and a database that finds none fails.
pub fn raise_limit(connections: usize) {
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = connections as u64 + BESIDE;
    if limit.current != limit.maximum {
        let raised = rustix::process::Rlimit {
            current: limit.maximum,
            ..limit
        };
        match setrlimit(Resource::Nofile, raised) {
            Ok(()) => limit = raised,
            Err(error) => tracing::warn!(%error, "the limit of open files could not be raised"),
        }
    }
    // `None` is no limit.
    if let Some(current) = limit.current.filter(|current| *current < wanted) {
        tracing::warn!(
            limit = current,
            wanted,
            "too few files may be open for limits.connections: raise it (ulimit -n, LimitNOFILE=) or lower that"
        );
    }
}
