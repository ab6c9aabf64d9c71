//! Accepting connections: how many, how slowly they may speak, and how they end.

use std::{pin::Pin, sync::Arc, time::Duration};

use axum::Router;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    sync::{Semaphore, watch},
};

use tokio_io_timeout::TimeoutStream;

use super::tls::Certificate;
use crate::config::Limits;

/// A client that does not finish a TLS handshake by then is dropped.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// After an error of accept (no file descriptors, most likely) this long is waited before the next.
const PAUSE: Duration = Duration::from_millis(50);

/// Something that accepts connections.
pub trait Accept {
    /// A connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    /// The next one.
    fn next(&self) -> impl Future<Output = std::io::Result<Self::Stream>> + Send;
}

impl Accept for TcpListener {
    type Stream = TcpStream;
    async fn next(&self) -> std::io::Result<TcpStream> {
        let (stream, _) = self.accept().await?;
        // Answers are small and complete: waiting to fill a packet only delays them. A refusal of the option harms nothing.
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }
}

impl Accept for UnixListener {
    type Stream = UnixStream;
    async fn next(&self) -> std::io::Result<UnixStream> {
        Ok(self.accept().await?.0)
    }
}

/// Serves `router` on `listener` until `stop` turns true, then lets connections finish what they are answering.
pub async fn serve<L: Accept>(
    listener: L,
    certificate: Option<Arc<Certificate>>,
    router: Router,
    limits: Limits,
    mut stop: watch::Receiver<bool>,
) {
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(limits.connections));
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(limits.header_timeout_s))
        .max_buf_size(limits.header_bytes)
        .keep_alive(true);
    let idle = Duration::from_secs(limits.write_timeout_s);
    loop {
        let place = tokio::select! {
            // OK because the semaphore is never closed.
            place = places.clone().acquire_owned() => place.expect("listen::serve: places"),
            () = stopped(&mut stop) => break,
        };
        let stream = tokio::select! {
            accepted = listener.next() => match accepted {
                Ok(stream) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            },
            () = stopped(&mut stop) => break,
        };
        let service = TowerToHyperService::new(router.clone());
        let watcher = graceful.watcher();
        let http = http.clone();
        let acceptor = certificate.as_ref().map(|c| c.acceptor());
        tokio::spawn(async move {
            let _place = place;
            // A client's broken connection is the client's business: nothing is traced above debug.
            let ended = match acceptor {
                None => {
                    watcher
                        .watch(http.serve_connection(io(stream, idle), service))
                        .await
                }
                Some(acceptor) => {
                    match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
                        Ok(Ok(stream)) => {
                            watcher
                                .watch(http.serve_connection(io(stream, idle), service))
                                .await
                        }
                        Ok(Err(error)) => return tracing::debug!(%error, "a TLS handshake failed"),
                        Err(_) => return tracing::debug!("a TLS handshake took too long"),
                    }
                }
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended");
            }
        });
    }
    drop(listener);
    let time = Duration::from_secs(limits.shutdown_timeout_s);
    if tokio::time::timeout(time, graceful.shutdown())
        .await
        .is_err()
    {
        tracing::warn!(
            "connections were still open after {} s and are cut",
            time.as_secs()
        );
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that nobody can say "stop" any more, which is as good as having said it.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// A client that does not take what it asked for is cut off after `idle`: its connection is somebody else's place.
fn io<S: AsyncRead + AsyncWrite>(stream: S, idle: Duration) -> TokioIo<Pin<Box<TimeoutStream<S>>>> {
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(idle));
    TokioIo::new(Box::pin(stream))
}
