//! Work that waits for a disk, off the threads that serve connections; and panics, which are never passed over.

use std::panic::resume_unwind;

use tokio::task::{JoinError, spawn_blocking};

use crate::Witness;

/// Runs `work` where it may block. A panic in it is its caller's.
pub async fn block<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match spawn_blocking(work)
        .await
        .map_err(JoinError::try_into_panic)
    {
        Ok(done) => done,
        Err(Ok(panic)) => resume_unwind(panic),
        // The runtime ends, and with it whoever waits.
        Err(Err(_)) => std::future::pending().await,
    }
}

/// Says and counts that a task ended in a panic; whether it did.
pub fn panicked(witness: &Witness, what: &str, ended: Result<(), JoinError>) -> bool {
    match ended {
        Err(error) if error.is_panic() => {
            tracing::error!(%error, "{what} ended in a panic");
            witness.metrics().panicked();
            true
        }
        _ => false,
    }
}
