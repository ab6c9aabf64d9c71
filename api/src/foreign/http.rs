//! A log under a URL's prefix. Redirects are not followed: what is there is another log than the one that was named.

use std::{error::Error, time::Duration};

use reqwest::{Response, StatusCode, Url, header};

use super::ForeignError;
use crate::client::Token;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// For one answer: the largest bundle has 16 MiB, and whoever sends slower than 280 KB/s has no reader that waits.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Between attempts, where another one may help.
const PAUSES: [Duration; 3] = [
    Duration::from_millis(200),
    Duration::from_secs(1),
    Duration::from_secs(3),
];
/// A server that asks for more patience than this has said no.
const PAUSE_MAX: Duration = Duration::from_secs(30);

pub(super) struct Http {
    client: reqwest::Client,
    base: Url,
    token: Option<Token>,
}

/// Why an attempt failed, and whether another one may help.
struct Failed {
    error: ForeignError,
    again: Option<Option<Duration>>,
}

impl From<ForeignError> for Failed {
    fn from(error: ForeignError) -> Failed {
        Failed { error, again: None }
    }
}

impl Http {
    pub(super) fn new(text: &str, token: Option<&Token>) -> Result<Http, ForeignError> {
        let bad = |why: &str| ForeignError::Address {
            place: text.to_owned(),
            why: why.to_owned(),
        };
        let base = Url::parse(text).map_err(|e| bad(&e.to_string()))?;
        if !base.username().is_empty() || base.password().is_some() {
            return Err(bad("it must hold no name and no password"));
        }
        if base.query().is_some() || base.fragment().is_some() {
            return Err(bad("it must end with its path"));
        }
        let client = crate::client::builder_for(&base, CONNECT_TIMEOUT).timeout(TIMEOUT);
        let client = client
            .build()
            .map_err(|e| ForeignError::Setup(e.to_string()))?;
        Ok(Http {
            client,
            base,
            token: token.cloned(),
        })
    }

    pub(super) fn at(&self, path: &str) -> String {
        format!("{}/{path}", self.base.as_str().trim_end_matches('/'))
    }

    /// What is at `path`, which has only characters that stand in a URL as they are.
    pub(super) async fn get(&self, path: &str, limit: usize) -> Result<Vec<u8>, ForeignError> {
        let place = self.at(path);
        let mut pauses = PAUSES.iter();
        loop {
            let failed = match self.attempt(&place, limit).await {
                Ok(bytes) => return Ok(bytes),
                Err(failed) => failed,
            };
            let (Some(asked), Some(pause)) = (failed.again, pauses.next()) else {
                return Err(failed.error);
            };
            let pause = asked.map_or(*pause, |asked| asked.max(*pause));
            if pause > PAUSE_MAX {
                return Err(failed.error);
            }
            tokio::time::sleep(pause).await;
        }
    }

    async fn attempt(&self, place: &str, limit: usize) -> Result<Vec<u8>, Failed> {
        let mut request = self.client.get(place);
        if let Some(token) = &self.token {
            // OK because a token is visible ASCII.
            let mut value = header::HeaderValue::from_str(&format!("Bearer {}", token.text()))
                .expect("Http::attempt: a token");
            value.set_sensitive(true);
            request = request.header(header::AUTHORIZATION, value);
        }
        let response = request.send().await.map_err(|e| lost(place, &e))?;
        check_status(place, &response)?;
        read(place, response, limit).await
    }
}

fn check_status(place: &str, response: &Response) -> Result<(), Failed> {
    let status = response.status();
    let (place, why) = (place.to_owned(), status.to_string());
    let error = match status {
        StatusCode::OK => return Ok(()),
        StatusCode::NOT_FOUND | StatusCode::GONE => ForeignError::Missing { place, why },
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ForeignError::Denied { place, why },
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::INTERNAL_SERVER_ERROR
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => {
            return Err(Failed {
                error: ForeignError::Unreachable { place, why },
                again: Some(retry_after(response)),
            });
        }
        _ if status.is_redirection() => {
            let to = response.headers().get(header::LOCATION);
            let to = to.and_then(|v| v.to_str().ok()).unwrap_or("nowhere");
            ForeignError::Server {
                place,
                what: format!(
                    "it sends us on to {to:?}; if the log is there, give that as its address"
                ),
            }
        }
        _ => ForeignError::Server {
            place,
            what: format!("it answers {why}"),
        },
    };
    Err(error.into())
}

/// The body, decoded where it is compressed, asked for or not; never more than `limit` bytes of it, decoded.
async fn read(place: &str, mut response: Response, limit: usize) -> Result<Vec<u8>, Failed> {
    let too_long = || ForeignError::Server {
        place: place.to_owned(),
        what: format!("its answer is longer than {limit} bytes, the most that this can have"),
    };
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(None) => return Ok(body),
            Ok(Some(chunk)) if body.len() + chunk.len() > limit => return Err(too_long().into()),
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Err(error) if error.is_decode() && !is_of_network(&error) => {
                return Err(ForeignError::Server {
                    place: place.to_owned(),
                    what: format!("its answer is wrongly encoded: {}", cause(&error)),
                }
                .into());
            }
            Err(error) => return Err(lost(place, &error)),
        }
    }
}

/// Whether the connection failed, and not the decoding of what came over it.
fn is_of_network(error: &(dyn Error + 'static)) -> bool {
    // An I/O error does not count what it wraps as its source.
    let inner = error
        .downcast_ref::<std::io::Error>()
        .and_then(std::io::Error::get_ref);
    let timed_out = |e: &reqwest::Error| e.is_timeout();
    match inner {
        _ if error.is::<hyper::Error>() => true,
        _ if error.downcast_ref().is_some_and(timed_out) => true,
        Some(inner) => is_of_network(inner),
        None => error.source().is_some_and(is_of_network),
    }
}

fn lost(place: &str, error: &reqwest::Error) -> Failed {
    let why = if error.is_timeout() {
        "it took too long".to_owned()
    } else {
        cause(error)
    };
    Failed {
        error: ForeignError::Unreachable {
            place: place.to_owned(),
            why,
        },
        again: Some(None),
    }
}

fn retry_after(response: &Response) -> Option<Duration> {
    let value = response.headers().get(header::RETRY_AFTER)?;
    let seconds = value.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// The innermost reason: the outer ones repeat the URL and say "error sending request".
fn cause(error: &reqwest::Error) -> String {
    let mut inner: &dyn Error = error;
    while let Some(next) = inner.source() {
        inner = next;
    }
    if error.source().is_none() {
        return error.to_string();
    }
    inner.to_string()
}
