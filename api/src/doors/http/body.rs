//! Reading bodies: bounded in bytes and in time, of a stated type, and never inflated.

use std::time::Duration;

use axum::{body::Body, extract::Request, http::header};
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, LengthLimitError, Limited};

use super::room::Held;
use crate::{
    app::App,
    error::{Code, Problem},
    limits::{BODY_BYTES_MAX, CONTENT_BYTES_MAX},
    tools::Tool,
};

/// The media type of a request, lower case and without parameters; `None` if there is none.
pub(in crate::doors) fn media_type(request: &Request) -> Option<String> {
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

/// Reads a body of at most `limit` bytes. A stated length above the limit is refused before anything is read. What is held is
/// the memory and, from now, a turn: to be kept until the request is answered.
pub(in crate::doors) async fn read(
    app: &App,
    request: Request,
    limit: usize,
) -> Result<(Bytes, Held), Problem> {
    refuse_encoded(&request)?;
    let stated = request
        .headers()
        .get(header::CONTENT_LENGTH)
        .and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
    if let Some(bytes) = stated.filter(|stated| *stated > limit as u64) {
        return Err(too_large(limit).with("bytes", bytes));
    }
    let time = Duration::from_secs(app.config.limits.request_timeout_s);
    match tokio::time::timeout(time, collect(app, request.into_body(), limit)).await {
        Ok(collected) => collected,
        Err(_) => {
            let why = format!("the body did not arrive within {} s", time.as_secs());
            Err(Problem::new(Code::Timeout, why).retry_after(1_000))
        }
    }
}

/// What is compressed is not taken: its length says nothing.
pub(in crate::doors) fn refuse_encoded(request: &Request) -> Result<(), Problem> {
    let encoding = request.headers().get(header::CONTENT_ENCODING);
    if encoding.is_some_and(|v| !v.as_bytes().eq_ignore_ascii_case(b"identity")) {
        let why = "a compressed body is not taken: send it as it is, without Content-Encoding";
        return Err(Problem::new(Code::MediaType, why));
    }
    Ok(())
}

/// Takes memory as it is needed, not as it is announced: who announces much and sends little takes nothing from others.
async fn collect(app: &App, body: Body, limit: usize) -> Result<(Bytes, Held), Problem> {
    let busy = |why: &str| Problem::new(Code::Busy, why).retry_after(1_000);
    let full = |_| {
        busy(
            "bodies of other requests fill the memory set aside for them; see `body_memory_bytes` in /health",
        )
    };
    let mut held = app.room.enter().await.map_err(full)?;
    let mut body = Limited::new(body, limit);
    let mut bytes = BytesMut::new();
    loop {
        let frame = tokio::select! {
            frame = body.frame() => frame,
            () = held.wanted() => {
                return Err(busy("this body was arriving for longest when its memory was needed for others"));
            }
        };
        let frame = match frame {
            None => break,
            Some(Ok(frame)) => frame,
            Some(Err(error)) if error.is::<LengthLimitError>() => return Err(too_large(limit)),
            Some(Err(_)) => return Err(Problem::new(Code::Malformed, "the body broke off")),
        };
        if let Ok(data) = frame.into_data() {
            bytes.extend_from_slice(&data);
            held.grow(bytes.len()).await.map_err(full)?;
        }
    }
    held.complete(app.turn()?);
    Ok((bytes.freeze(), held))
}

/// How large a call of this tool may be: some take a whole file.
pub(in crate::doors) fn limit_of(tool: &Tool) -> usize {
    match tool.table().iter().any(|a| a.name == "content") {
        true => CONTENT_BYTES_MAX,
        false => BODY_BYTES_MAX,
    }
}

pub(in crate::doors) fn too_large(limit: usize) -> Problem {
    Problem::new(
        Code::TooLarge,
        format!("the body is larger than {limit} bytes"),
    )
    .with("limit", limit)
}

/// An answer of JSON that was made elsewhere.
pub(in crate::doors) fn json(
    status: axum::http::StatusCode,
    text: String,
) -> axum::response::Response {
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
