//! Places for connections. Who comes when all are taken gets the place of the client that has kept the service waiting longest:
//! one that opened a connection and said nothing, sends its request by the drop, or holds an idle connection open. Who waits for
//! an answer, or takes one, is never cut for another.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::late::Late;

/// A client that was asked to go has this long before another is asked.
const PATIENCE: Duration = Duration::from_millis(100);

/// The places of one listener.
pub struct Places {
    free: Arc<Semaphore>,
    /// Those whom the service waits for.
    late: Late,
}

/// One connection's place. Whoever holds it: the service waits for its client, until told otherwise.
pub struct Place {
    places: Arc<Places>,
    turn: Mutex<Option<u64>>,
    cut: Arc<Notify>,
    _permit: OwnedSemaphorePermit,
}

impl Places {
    /// So many.
    #[must_use]
    pub fn new(count: usize) -> Arc<Places> {
        Arc::new(Places {
            free: Arc::new(Semaphore::new(count)),
            late: Late::default(),
        })
    }

    /// A place for a new connection, if need be that of the client waited for longest; waits only while every one is being answered.
    pub async fn take(self: &Arc<Places>) -> Place {
        loop {
            let free = self.free.clone();
            let permit = match free.clone().try_acquire_owned() {
                Ok(permit) => permit,
                Err(_) => {
                    self.late.ask_longest();
                    match tokio::time::timeout(PATIENCE, free.acquire_owned()).await {
                        // OK because the semaphore is never closed.
                        Ok(permit) => permit.expect("places::take"),
                        Err(_) => continue,
                    }
                }
            };
            let place = Place {
                places: self.clone(),
                turn: Mutex::new(None),
                cut: Arc::default(),
                _permit: permit,
            };
            place.waits();
            return place;
        }
    }
}

impl Place {
    /// Ends when the place is wanted by another.
    pub async fn wanted(&self) {
        self.cut.notified().await;
    }

    /// From now the client is the one that is waited for.
    fn waits(&self) {
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if turn.is_none() {
            *turn = Some(self.places.late.add(self.cut.clone()));
        }
    }

    /// From now the client waits for the service.
    fn works(&self) {
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mine) = turn.take() {
            self.places.late.remove(mine);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.works();
    }
}

/// A request's body: once its end was read, the client waits for the service.
pub struct Asking<B> {
    body: B,
    place: Arc<Place>,
}

impl<B: Body> Asking<B> {
    /// Of a request on the connection that holds `place`.
    pub fn new(body: B, place: Arc<Place>) -> Asking<B> {
        if body.is_end_stream() {
            place.works();
        }
        Asking { body, place }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Asking<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if matches!(polled, Poll::Ready(None)) || self.body.is_end_stream() {
            self.place.works();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// An answer's body: once it is gone, the service waits for the client's next request.
pub struct Answering<B> {
    body: B,
    place: Arc<Place>,
}

impl<B> Answering<B> {
    /// Of an answer on the connection that holds `place`.
    pub fn new(body: B, place: Arc<Place>) -> Answering<B> {
        place.works();
        Answering { body, place }
    }
}

impl<B> Drop for Answering<B> {
    fn drop(&mut self) {
        self.place.waits();
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Answering<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
