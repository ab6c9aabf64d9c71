//! Accepting connections: how many, how slowly they may speak, and how they end.

use std::{sync::Arc, time::Duration};

use axum::{Router, serve::Listener};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::sync::{Semaphore, watch};
use tokio_io_timeout::TimeoutStream;

use super::crowd::Guest;

/// Connections at once; each costs a few kilobytes, and its body while there is one.
const PLACES: usize = 1_024;
/// Headers, the next request of an open connection included, come within this time.
const HEADER_TIME: Duration = Duration::from_secs(30);
/// The same for connections that come while half of the places are taken: those who hold them and say nothing lose them soon.
const HEADER_TIME_FULL: Duration = Duration::from_secs(3);
/// An answer is taken within this time.
const WRITE_TIME: Duration = Duration::from_secs(10);
/// How long answers may take once the witness stops.
const END_TIME: Duration = Duration::from_secs(5);
/// Most bytes of a request's head.
const HEAD_BYTES: usize = 16 * 1024;

/// Serves `router` on `listener` until `stop` turns true, then lets connections finish what they are answering. `enter` says of
/// each connection whether its address may have one more.
pub async fn serve<L: Listener>(
    mut listener: L,
    router: Router,
    mut stop: watch::Receiver<bool>,
    enter: impl Fn(&L::Addr) -> Option<Guest>,
) {
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(PLACES));
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .max_buf_size(HEAD_BYTES)
        .keep_alive(true);
    loop {
        let next = async {
            // OK because the semaphore is never closed.
            let place = places.clone().acquire_owned().await;
            (place.expect("listen::serve"), listener.accept().await)
        };
        let (place, (stream, address)) = tokio::select! {
            next = next => next,
            // An error means that nobody can say "stop" any more, which is as good as having said it.
            _ = stop.wait_for(|stop| *stop) => break,
        };
        // Closed without a word: an answer would be one more thing to wait for.
        let Some(guest) = enter(&address) else {
            continue;
        };
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(WRITE_TIME));
        http.header_read_timeout(if places.available_permits() > PLACES / 2 {
            HEADER_TIME
        } else {
            HEADER_TIME_FULL
        });
        let service = TowerToHyperService::new(router.clone());
        let connection = http.serve_connection(TokioIo::new(Box::pin(stream)), service);
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            let _held = (place, guest);
            // A client's broken connection is the client's business.
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended");
            }
        });
    }
    drop(listener);
    if tokio::time::timeout(END_TIME, graceful.shutdown())
        .await
        .is_err()
    {
        tracing::warn!("connections were still open and are cut");
    }
}
