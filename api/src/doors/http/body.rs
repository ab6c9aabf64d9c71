//! Reading bodies: bounded in bytes and in time, of a stated type, and never inflated.

use std::time::Duration;

use axum::{body::Body, extract::Request, http::header};
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, LengthLimitError, Limited};

use tokio::sync::OwnedSemaphorePermit;

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

/// Reads a body of at most `limit` bytes. A stated length above the limit is refused before anything is read. The permit stands
/// for the memory: to be kept until the request is answered.
pub(in crate::doors) async fn read(
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
    let time = Duration::from_secs(app.config.limits.request_timeout_s);
    match tokio::time::timeout(time, collect(app, request.into_body(), limit)).await {
        Ok(collected) => collected,
        Err(_) => {
            let why = format!("the body did not arrive within {} s", time.as_secs());
            Err(Problem::new(Code::Timeout, why).retry_after(1_000))
        }
    }
}

/// Takes memory as it is needed, not as it is announced: who announces much and sends little takes nothing from others.
async fn collect(
    app: &App,
    body: Body,
    limit: usize,
) -> Result<(Bytes, OwnedSemaphorePermit), Problem> {
    let full = || {
        let why = "bodies of other requests fill the memory set aside for them; see `body_memory_bytes` in /health";
        Problem::new(Code::Busy, why).retry_after(1_000)
    };
    let mut held = app
        .bodies
        .clone()
        .try_acquire_many_owned(1)
        .map_err(|_| full())?;
    let mut body = Limited::new(body, limit);
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) if error.is::<LengthLimitError>() => return Err(too_large(limit)),
            Err(_) => return Err(Problem::new(Code::Malformed, "the body broke off")),
        };
        let Ok(data) = frame.into_data() else {
            continue;
        };
        bytes.extend_from_slice(&data);
        let needed = bytes.len().div_ceil(1_024);
        if let Some(more) = needed
            .checked_sub(held.num_permits())
            .filter(|more| *more > 0)
        {
            let more = u32::try_from(more).unwrap_or(u32::MAX);
            held.merge(
                app.bodies
                    .clone()
                    .try_acquire_many_owned(more)
                    .map_err(|_| full())?,
            );
        }
    }
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
