//! A body on its way out.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    body::{Body, HttpBody},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::Response,
};
use bytes::Bytes;
use countersign_verifier::hash::Hash;
use hyper::body::{Frame, SizeHint};
use tokio::sync::mpsc;

use super::asked::SALT;
use crate::{account::Account, blobs::Download, doors::http::AsItIs};

/// Read and handed on so many bytes at a time.
const PIECE: usize = 64 << 10;

/// Nothing in a body runs, asks for anything or is framed, whatever it says that it is: it is somebody's bytes, under this service's name.
const POLICY: &str = "sandbox; default-src 'none'; frame-ancestors 'none'";

type Piece = io::Result<Bytes>;

struct Stream {
    pieces: mpsc::Receiver<Piece>,
    left: u64,
}

impl HttpBody for Stream {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.pieces.poll_recv(context).map(|piece| {
            let piece = piece?;
            if let Ok(bytes) = &piece {
                self.left = self.left.saturating_sub(bytes.len() as u64);
            }
            Some(piece.map(Frame::data))
        })
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// The answer; its body follows as it is read.
pub(super) fn answer(
    account: Arc<Account>,
    (commitment, found): (Hash, Download),
    (method, request): (&Method, &HeaderMap),
) -> Response {
    let tag = format!("\"{commitment}\"");
    let mut answer = Response::new(Body::empty());
    let bytes = found.bytes();
    let known = knows(request, &tag);
    let headers = answer.headers_mut();
    let mut say = |name, value: &str| {
        // OK because it is ours, hexadecimal, a number, or a media type that was checked when it came.
        let value = HeaderValue::from_str(value).expect("blobs::answer: a header");
        headers.insert(name, value);
    };
    say(header::ETAG, &tag);
    // An erased body must not be had from a cache.
    say(header::CACHE_CONTROL, "private, no-store");
    say(header::HeaderName::from_static(SALT), found.about.salt());
    say(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    say(header::CONTENT_SECURITY_POLICY, POLICY);
    let download = format!("attachment; filename=\"{commitment}\"");
    say(header::CONTENT_DISPOSITION, &download);
    let same_origin = header::HeaderName::from_static("cross-origin-resource-policy");
    say(same_origin, "same-origin");
    if !known {
        say(header::CONTENT_TYPE, &found.about.media_type);
        say(header::CONTENT_LENGTH, &bytes.to_string());
    }
    answer.extensions_mut().insert(AsItIs);
    if known {
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
    } else if method != Method::HEAD && bytes > 0 {
        let (to, pieces) = mpsc::channel(1);
        let left = bytes;
        tokio::spawn(send(account, (commitment, found), to));
        *answer.body_mut() = Body::new(Stream { pieces, left });
    }
    answer
}

/// Whether the client has this body.
fn knows(request: &HeaderMap, tag: &str) -> bool {
    let values = request.get_all(header::IF_NONE_MATCH).into_iter();
    let mut tags = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|known| known.trim().trim_start_matches("W/"));
    tags.any(|known| known == tag || known == "*")
}

/// Reads a body piece by piece, each where blocking is allowed: a client that reads slowly holds no thread.
async fn send(
    account: Arc<Account>,
    (commitment, mut found): (Hash, Download),
    to: mpsc::Sender<Piece>,
) {
    loop {
        let read = tokio::task::spawn_blocking(move || {
            let piece = found.next(PIECE);
            (found, piece)
        });
        let piece = match read.await {
            Ok((after, Ok(piece))) => {
                found = after;
                piece
            }
            Ok((_, Err(error))) => {
                tracing::error!(%error, "a body could not be read");
                break;
            }
            Err(error) => {
                tracing::error!(%error, "a body could not be read");
                break;
            }
        };
        if piece.is_empty() {
            return;
        }
        // Looked at after it was read: a body is overwritten only once a leaf that everybody sees has erased it.
        if account.reader().version().erased.get(&commitment).is_some() {
            break;
        }
        // Who has gone away wants no more.
        if to.send(Ok(piece.into())).await.is_err() {
            return;
        }
    }
    // The connection is cut: a client must not take what it has for all of it.
    let _ = to.send(Err(io::Error::other("the body ends here"))).await;
}
