//! Accepting connections: how many, how slowly they may speak, and how they end.

use std::{convert::Infallible, pin::Pin, sync::Arc, time::Duration};

use axum::{Router, body::Body, response::Response};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    sync::watch,
};
use tokio_io_timeout::TimeoutStream;
use tower::ServiceExt;

use super::{
    places::{Answering, Asking, Place, Places},
    tls::Certificate,
};
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
    let places = Places::new(limits.connections);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(limits.header_timeout_s))
        .max_buf_size(limits.header_bytes)
        .keep_alive(true);
    let idle = Duration::from_secs(limits.write_timeout_s);
    loop {
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
        let place = tokio::select! {
            place = places.take() => Arc::new(place),
            () = stopped(&mut stop) => break,
        };
        let door = Door {
            http: http.clone(),
            router: router.clone(),
            place: place.clone(),
            watcher: graceful.watcher(),
            idle,
        };
        let acceptor = certificate.as_ref().map(|c| c.acceptor());
        tokio::spawn(async move {
            let connection = async {
                match acceptor {
                    None => door.speak(stream).await,
                    Some(acceptor) => {
                        match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
                            Ok(Ok(stream)) => door.speak(stream).await,
                            Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
                            Err(_) => tracing::debug!("a TLS handshake took too long"),
                        }
                    }
                }
            };
            tokio::select! {
                () = connection => {}
                () = place.wanted() => tracing::debug!("a connection that was waited for gave way to another"),
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

/// What serves one connection.
struct Door {
    http: http1::Builder,
    router: Router,
    place: Arc<Place>,
    watcher: Watcher,
    idle: Duration,
}

impl Door {
    async fn speak<S: AsyncRead + AsyncWrite + Send + 'static>(self, stream: S) {
        let (router, place) = (self.router, self.place);
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let (router, place) = (router.clone(), place.clone());
            async move {
                let request = request.map(|body| Body::new(Asking::new(body, place.clone())));
                let answer: Response = router.oneshot(request).await?;
                Ok::<_, Infallible>(answer.map(|body| Answering::new(body, place)))
            }
        });
        let connection = self.http.serve_connection(io(stream, self.idle), service);
        // A client's broken connection is the client's business: nothing is traced above debug.
        if let Err(error) = self.watcher.watch(connection).await {
            tracing::debug!(%error, "a connection ended");
        }
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

#[cfg(test)]
mod tests {
    use axum::{
        http::StatusCode,
        routing::{get, post},
    };
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        sync::Notify,
    };

    use super::*;

    /// A service with so many places and no patience of its own: without giving way, a held place is held for an hour.
    struct Served {
        address: std::net::SocketAddr,
        finish: Arc<Notify>,
        asked: Arc<Notify>,
        _stop: watch::Sender<bool>,
    }

    async fn served(connections: usize) -> Served {
        let limits = Limits {
            connections,
            header_timeout_s: 3_600,
            ..Limits::default()
        };
        let (finish, asked) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (done, began) = (finish.clone(), asked.clone());
        let slow = move || async move {
            began.notify_one();
            done.notified().await;
            "slow"
        };
        let router = Router::new()
            .route("/", get(|| async { "here" }))
            .route("/slow", get(slow))
            .route("/body", post(|_: bytes::Bytes| async { StatusCode::OK }));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let (stop, told) = watch::channel(false);
        tokio::spawn(serve(listener, None, router, limits, told));
        Served {
            address,
            finish,
            asked,
            _stop: stop,
        }
    }

    impl Served {
        async fn says(&self, bytes: &str) -> TcpStream {
            let mut stream = TcpStream::connect(self.address).await.expect("connects");
            stream.write_all(bytes.as_bytes()).await.expect("sends");
            stream
        }
    }

    /// All that comes until the other side closes.
    async fn rest(stream: &mut TcpStream) -> String {
        let mut all = Vec::new();
        let read =
            tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut all)).await;
        // A reset is a close, too.
        let _ = read.expect("the connection is closed");
        String::from_utf8(all).expect("text")
    }

    const ASKS: &str = "GET / HTTP/1.1\r\nhost: log.example.com\r\nconnection: close\r\n\r\n";

    #[tokio::test]
    async fn who_says_nothing_gives_way_and_the_oldest_first() {
        let served = served(3).await;
        let mut silent = served.says("").await;
        let mut half = served.says("GET / HTTP/1.1\r\nho").await;
        let head = "POST /body HTTP/1.1\r\nhost: log.example.com\r\ncontent-length: 9\r\n\r\nhalf";
        let mut body = served.says(head).await;
        let mut held = Vec::new();
        for late in [&mut silent, &mut half, &mut body] {
            let mut asks = served.says(ASKS).await;
            assert!(rest(&mut asks).await.ends_with("here"));
            // Its place went to nobody else: the next one who asks finds it taken by one who says nothing.
            assert_eq!(rest(late).await, "");
            held.push(served.says("").await);
        }
    }

    #[tokio::test]
    async fn who_waits_for_an_answer_keeps_the_place() {
        let served = served(2).await;
        let mut waits = served
            .says("GET /slow HTTP/1.1\r\nhost: log.example.com\r\nconnection: close\r\n\r\n")
            .await;
        served.asked.notified().await;
        for _ in 0..5 {
            let idle = served.says("").await;
            let mut asks = served.says(ASKS).await;
            assert!(rest(&mut asks).await.ends_with("here"));
            drop(idle);
        }
        served.finish.notify_one();
        assert!(rest(&mut waits).await.ends_with("slow"));
    }
}
