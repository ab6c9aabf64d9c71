//! Reading bodies: bounded in bytes and in time, of a stated type, and never inflated.

use std::time::Duration;

use axum::{body::Body, extract::Request, http::header};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use tokio::sync::OwnedSemaphorePermit;

use crate::{
    app::App,
    error::{Code, Problem},
};

/// The media type of a request, lower case and without parameters; `None` if there is none.
pub(super) fn media_type(request: &Request) -> Option<String> {
    let value = request.headers().get(header::CONTENT_TYPE)?.to_str().ok()?;
    Some(
        value
            .split(';')
            .next()
            .unwrap_or("")
            .trim()
            .to_ascii_lowercase(),
    )
}

/// Reads a body of at most `limit` bytes. A stated length above the limit is refused before anything is read. The permit stands
/// for the memory: to be kept until the request is answered.
pub(super) async fn read(
    app: &App,
    request: Request,
    limit: usize,
) -> Result<(Bytes, OwnedSemaphorePermit), Problem> {
    if request
        .headers()
        .get(header::CONTENT_ENCODING)
        .is_some_and(|v| !v.as_bytes().eq_ignore_ascii_case(b"identity"))
    {
        return Err(Problem::new(
            Code::MediaType,
            "a compressed body is not taken: send it as it is, without Content-Encoding",
        ));
    }
    let stated = request
        .headers()
        .get(header::CONTENT_LENGTH)
        .and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
    if let Some(bytes) = stated.filter(|stated| *stated > limit as u64) {
        return Err(too_large(limit).with("bytes", bytes));
    }
    // A body of no stated length may turn out to be as long as any.
    let bytes = stated
        .and_then(|s| usize::try_from(s).ok())
        .unwrap_or(limit);
    let permits = u32::try_from(bytes.div_ceil(1_024)).unwrap_or(u32::MAX);
    let held = app.bodies.clone().try_acquire_many_owned(permits).map_err(|_| {
        Problem::new(Code::Busy, "bodies of other requests fill the memory set aside for them; see `body_memory_bytes` in /health")
            .retry_after(1_000)
    })?;
    let time = Duration::from_secs(app.config.limits.request_timeout_s);
    let collected =
        tokio::time::timeout(time, Limited::new(request.into_body(), limit).collect()).await;
    match collected {
        Ok(Ok(body)) => Ok((body.to_bytes(), held)),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large(limit)),
        Ok(Err(_)) => Err(Problem::new(Code::Malformed, "the body broke off")),
        Err(_) => Err(Problem::new(
            Code::Timeout,
            format!("the body did not arrive within {} s", time.as_secs()),
        )
        .retry_after(1_000)),
    }
}

fn too_large(limit: usize) -> Problem {
    Problem::new(
        Code::TooLarge,
        format!("the body is larger than {limit} bytes"),
    )
    .with("limit", limit)
}

/// An answer of JSON that was made elsewhere.
pub(super) fn json(status: axum::http::StatusCode, text: String) -> axum::response::Response {
    let mut answer = axum::response::Response::new(Body::from(text));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        axum::http::HeaderValue::from_static("application/json"),
    );
    headers.insert(
        header::CACHE_CONTROL,
        axum::http::HeaderValue::from_static("no-store"),
    );
    answer
}
