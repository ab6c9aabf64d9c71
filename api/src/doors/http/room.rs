//! The memory for bodies, those of requests and those of answers. When it is short, the large body that has been under way for longest
//! gives way: who announces megabytes and then sends by the drop, or asks for them and takes them by the drop, would otherwise keep
//! everybody out.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use hyper::body::{Body as _, Frame, SizeHint};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::doors::late::Late;

/// A body that holds more may have to give way while it arrives; one envelope fits below.
const LARGE: usize = crate::limits::BODY_BYTES_MAX;
/// Permits are so many bytes.
const UNIT: usize = 1_024;
/// What a body that has to give way may take to do so.
const PATIENCE: Duration = Duration::from_millis(500);

/// Memory for bodies.
pub struct Room {
    free: Arc<Semaphore>,
    /// Large bodies that are under way.
    large: Late,
}

/// What one body holds.
pub struct Held {
    room: Arc<Room>,
    permit: OwnedSemaphorePermit,
    arriving: Option<u64>,
    wanted: Arc<Notify>,
    turn: Option<OwnedSemaphorePermit>,
}

/// The body of a large answer, with the memory that it takes until it is sent.
struct Leaving {
    body: Body,
    wanted: Pin<Box<dyn Future<Output = ()> + Send>>,
    _held: Held,
}

/// An answer that was cut off for others.
#[derive(Debug, thiserror::Error)]
#[error("an answer that was being taken for longest gave way to others")]
struct GaveWay;

/// There is no room, and nobody has to give way.
#[derive(Debug)]
pub struct Full;

impl Room {
    /// For so many bytes in all.
    #[must_use]
    pub fn new(bytes: usize) -> Arc<Room> {
        Arc::new(Room {
            free: Arc::new(Semaphore::new(bytes / UNIT)),
            large: Late::default(),
        })
    }

    /// For a body of which nothing came yet.
    ///
    /// # Errors
    /// [`Full`].
    pub async fn enter(self: &Arc<Room>) -> Result<Held, Full> {
        Ok(Held {
            room: self.clone(),
            permit: self.take(1).await?,
            arriving: None,
            wanted: Arc::default(),
            turn: None,
        })
    }

    async fn take(&self, units: usize) -> Result<OwnedSemaphorePermit, Full> {
        let units = u32::try_from(units).map_err(|_| Full)?;
        if let Ok(permit) = self.free.clone().try_acquire_many_owned(units) {
            return Ok(permit);
        }
        if !self.large.ask_longest() {
            return Err(Full);
        }
        let freed = tokio::time::timeout(PATIENCE, self.free.clone().acquire_many_owned(units));
        freed.await.map_err(|_| Full)?.map_err(|_| Full)
    }
}

/// Takes room for an answer that is large and whole in memory, until it is sent or gives way.
///
/// # Errors
/// [`Full`].
pub async fn leave(room: &Arc<Room>, answer: Response) -> Result<Response, Full> {
    let size = answer.body().size_hint().exact();
    let size = size.and_then(|size| usize::try_from(size).ok());
    let Some(size) = size.filter(|size| *size > LARGE) else {
        return Ok(answer);
    };
    let mut held = room.enter().await?;
    held.grow(size).await?;
    let wanted = held.wanted.clone();
    Ok(answer.map(|body| {
        Body::new(Leaving {
            body,
            wanted: Box::pin(async move { wanted.notified().await }),
            _held: held,
        })
    }))
}

impl hyper::body::Body for Leaving {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        if self.wanted.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(GaveWay.into())));
        }
        let polled = Pin::new(&mut self.body).poll_frame(context);
        polled.map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Held {
    /// The body has grown to so many bytes.
    ///
    /// # Errors
    /// [`Full`].
    pub async fn grow(&mut self, bytes: usize) -> Result<(), Full> {
        let more = bytes
            .div_ceil(UNIT)
            .saturating_sub(self.permit.num_permits());
        if more > 0 {
            let permit = self.room.take(more).await?;
            self.permit.merge(permit);
        }
        if bytes > LARGE && self.arriving.is_none() {
            self.arriving = Some(self.room.large.add(self.wanted.clone()));
        }
        Ok(())
    }

    /// Ends when the body has to give way.
    pub async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// The body is there, and need not give way any more; `turn` is kept as long as its memory.
    pub fn complete(&mut self, turn: OwnedSemaphorePermit) {
        self.turn = Some(turn);
        self.arrived();
    }

    fn arrived(&mut self) {
        if let Some(mine) = self.arriving.take() {
            self.room.large.remove(mine);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.arrived();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_large_body_gives_way_and_no_small_or_complete_one() {
        let room = Room::new(2 << 20);
        let mut small = room.enter().await.expect("room");
        small.grow(LARGE).await.expect("room");
        let mut done = room.enter().await.expect("room");
        done.grow(512 << 10).await.expect("room");
        let turns = Arc::new(Semaphore::new(1));
        done.complete(turns.try_acquire_owned().expect("one"));
        let mut old = room.enter().await.expect("room");
        old.grow(600 << 10).await.expect("room");
        let mut young = room.enter().await.expect("room");
        young.grow(600 << 10).await.expect("room");
        let leaving = tokio::spawn(async move {
            old.wanted().await;
            drop(old);
        });
        let mut another = room.enter().await.expect("room");
        another.grow(400 << 10).await.expect("the old one goes");
        leaving.await.expect("it was told");
        // Only the young one is left to be told, and it does not listen.
        assert!(another.grow(2 << 20).await.is_err());
        assert!(another.grow(2 << 20).await.is_err());
    }

    #[tokio::test]
    async fn a_large_answer_takes_its_room_until_it_is_sent_or_gives_way() {
        let room = Room::new(1 << 20);
        let answer = |bytes: usize| Response::new(Body::from(vec![b'x'; bytes]));
        let sent = |answer: Response| axum::body::to_bytes(answer.into_body(), usize::MAX);
        let small = leave(&room, answer(LARGE)).await.expect("room");
        let first = leave(&room, answer(700 << 10)).await.expect("room");
        let second = tokio::spawn({
            let room = room.clone();
            async move {
                leave(&room, Response::new(Body::from(vec![b'y'; 700 << 10])))
                    .await
                    .is_ok()
            }
        });
        // Whoever takes the first finds that it was cut off, once the second needs its room.
        tokio::task::yield_now().await;
        assert!(sent(first).await.is_err());
        assert!(second.await.expect("no panic"));
        assert_eq!(sent(small).await.expect("all of it").len(), LARGE);
    }

    #[tokio::test]
    async fn where_nobody_can_give_way_it_is_full_at_once() {
        let room = Room::new(100 << 10);
        let mut one = room.enter().await.expect("room");
        one.grow(100 << 10).await.expect("room");
        assert!(room.enter().await.is_err());
        drop(one);
        assert!(room.enter().await.is_ok());
    }
}
