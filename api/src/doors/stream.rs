//! Server-Sent Events: an answer that is written while something goes on.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    body::{Body, HttpBody},
    http::{HeaderValue, header},
    response::Response,
};
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Frame;
use serde_json::Value;
use tokio::sync::mpsc;

/// So many events may wait for a client that reads slowly; whoever makes them then waits with it.
const EVENTS_MAX: usize = 16;

/// Where the events of one answer are put in. Closed once the client is gone.
pub type Events = mpsc::Sender<Bytes>;

struct Stream(mpsc::Receiver<Bytes>);

impl HttpBody for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.0.poll_recv(context);
        next.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// An answer of events, and where to put them in.
pub fn open() -> (Events, Response) {
    let (events, waiting) = mpsc::channel(EVENTS_MAX);
    let mut answer = Response::new(Body::new(UnsyncBoxBody::new(Stream(waiting))));
    for (name, value) in [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // Proxies that collect an answer before they pass it on make events late; nginx asks for this word.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ] {
        answer
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    (events, answer)
}

/// One event with an id, which a client may resume after. JSON holds no line break, so its text is one line of data.
#[must_use]
pub fn event(id: u64, data: &Value) -> Bytes {
    format!("id: {id}\ndata: {data}\n\n").into()
}

/// An event that only carries a message.
#[must_use]
pub fn message(text: &str) -> Bytes {
    format!("event: message\ndata: {text}\n\n").into()
}

/// A line that clients pass over: it keeps proxies from ending a connection on which nothing happens.
#[must_use]
pub fn heartbeat() -> Bytes {
    Bytes::from_static(b": \n\n")
}
