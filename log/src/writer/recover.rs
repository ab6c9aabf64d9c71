//! After a failure, and at the end.

use std::{
    sync::{Arc, mpsc},
    time::Duration,
};

use super::{Job, Stop, Writer, load, refuse};
use crate::{
    guard,
    judge::Judge,
    shared::{Committed, StartError},
    store::StoreError,
};

/// How long a store that does not open again is left alone at first; twice as long after each further try.
const RELOAD_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause: a disk that has room again is written to again within this time.
const RELOAD_PAUSE_MAX: Duration = Duration::from_secs(8);

impl<J: Judge> Writer<J> {
    /// After an unknown outcome: everything in memory is dropped, and what is durable is read again.
    pub(super) fn recover(&mut self, queue: &mpsc::Receiver<Job<J>>, error: StoreError) {
        let mut stop = Stop::Store(error);
        self.clean = false;
        let mut pause = RELOAD_PAUSE;
        tracing::error!(%stop, "writing stops; reading again what is durable");
        loop {
            self.shared.stop.store(Some(Arc::new(stop.clone())));
            match self.reload() {
                Ok(()) => break,
                Err(again) => {
                    // Said once a kind: a disk can stay full for days.
                    if again != stop {
                        tracing::error!(stop = %again, "writing cannot go on yet");
                    }
                    stop = again;
                }
            }
            // Whoever comes meanwhile is answered, not kept; a queue that is closed for good ends the wait.
            let until = std::time::Instant::now() + pause;
            while let Some(left) = until.checked_duration_since(std::time::Instant::now()) {
                match queue.recv_timeout(left) {
                    Ok(job) => refuse(Some(job), &stop),
                    Err(mpsc::RecvTimeoutError::Timeout) => break,
                    Err(mpsc::RecvTimeoutError::Disconnected) => return,
                }
            }
            pause = (2 * pause).min(RELOAD_PAUSE_MAX);
        }
        self.clean = true;
        self.shared.stop.store(None);
        self.tell(None, Vec::new());
        tracing::info!(size = self.edge.size(), "writing goes on");
    }

    fn reload(&mut self) -> Result<(), Stop> {
        self.snapshots.finish();
        self.shared.store.reload().map_err(Stop::Store)?;
        let loaded = load(&*self.shared.store, &mut self.judge).map_err(|error| match error {
            StartError::Store(error) => Stop::Store(error),
            other => Stop::Guard(other.to_string()),
        })?;
        guard::check(&*self.shared.store, &loaded.edge).map_err(|e| Stop::Guard(e.to_string()))?;
        self.snapshots.loaded(loaded.snapshot_at);
        self.edge = loaded.edge;
        let committed = Committed::new(self.edge.clone(), self.judge.version());
        self.shared.show_committed(committed);
        Ok(())
    }

    /// At a clean end, so that the next start replays nothing.
    pub(super) fn keep_snapshot(&mut self) {
        if !self.clean {
            return;
        }
        match self.shared.store.head() {
            Ok((head, _)) => self.snapshots.end(head.size, self.judge.snapshot()),
            Err(error) => tracing::warn!(%error, "no snapshot was kept; the next start replays"),
        }
    }
}
