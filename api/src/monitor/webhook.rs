//! Telling another machine of alerts: each is delivered once at least, and nothing is passed over meanwhile.

use std::{error::Error, thread, time::Duration};

use reqwest::{StatusCode, Url, header};
use ring::hmac;
use tokio::runtime::Runtime;
use zeroize::Zeroizing;

use super::Undelivered;
use crate::client::{builder_for, is_loopback_url};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// For one delivery: a receiver that has more to do than to take note does it afterwards.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The pause behind the first attempt; each is twice as long as the one before, up to the longest.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// A receiver may ask for more patience than that, up to this.
const ASKED_MAX: Duration = Duration::from_secs(600);
/// An attempt that fails is told of at the first, and then at each of these.
const TOLD_EVERY: u32 = 10;

/// Why an address cannot be a webhook.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebhookError {
    /// It is none, or is one in the clear.
    #[error("{place:?} cannot be a webhook: {why}")]
    Address {
        /// As given, without what may be secret in it.
        place: String,
        /// Why not.
        why: String,
    },
    /// This machine cannot make secure connections, or has no threads.
    #[error("cannot set up the webhook: {0}")]
    Setup(String),
}

/// Where alerts go.
pub struct Webhook {
    client: reqwest::Client,
    url: Url,
    secret: Option<hmac::Key>,
    runtime: Runtime,
}

/// Why an attempt failed, and how long the receiver asks to be left alone.
struct Failed {
    why: String,
    pause: Option<Duration>,
}

impl Webhook {
    /// Connects to nothing yet. In the clear only to this machine, unless `insecure`.
    ///
    /// # Errors
    /// [`WebhookError`].
    pub fn new(
        text: &str,
        secret: Option<&Zeroizing<Vec<u8>>>,
        insecure: bool,
    ) -> Result<Webhook, WebhookError> {
        let bad = |place: String, why: &str| WebhookError::Address {
            place,
            why: why.to_owned(),
        };
        let url = Url::parse(text).map_err(|e| bad(shown(text), &e.to_string()))?;
        let place = place(&url);
        match url.scheme() {
            "https" => {}
            "http" if insecure || is_loopback_url(text) => {}
            "http" => {
                let why = "what is sent over http can be read and changed on its way; https, or --insecure-webhook";
                return Err(bad(place, why));
            }
            _ => return Err(bad(place, "it must begin with https:// or http://")),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(bad(place, "it must hold no name and no password"));
        }
        let setup = |e: &dyn std::fmt::Display| WebhookError::Setup(e.to_string());
        // Redirects are followed nowhere: alerts go to whom they are meant for.
        let client = builder_for(&url, CONNECT_TIMEOUT)
            .timeout(TIMEOUT)
            .build()
            .map_err(|e| setup(&e))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| setup(&e))?;
        Ok(Webhook {
            client,
            url,
            secret: secret.map(|secret| hmac::Key::new(hmac::HMAC_SHA256, secret)),
            runtime,
        })
    }

    /// Delivers, and tries again for as long as it takes, or so many times; `say` is told of what goes wrong.
    ///
    /// # Errors
    /// [`Undelivered::Webhook`] where attempts are counted.
    pub fn deliver(
        &self,
        (id, body): (&str, &[u8]),
        attempts: Option<u32>,
        say: &mut dyn FnMut(String),
    ) -> Result<(), Undelivered> {
        let (mut attempt, mut pause) = (0_u32, PAUSE);
        loop {
            attempt = attempt.saturating_add(1);
            let failed = match self.runtime.block_on(self.post(id, body)) {
                Ok(()) if attempt > 1 => {
                    say(format!("{id}: the webhook has it, at attempt {attempt}"));
                    return Ok(());
                }
                Ok(()) => return Ok(()),
                Err(failed) => failed,
            };
            let told = format!(
                "{id}: the webhook does not take it, attempt {attempt}: {}",
                failed.why
            );
            if attempts.is_some_and(|most| attempt >= most) {
                return Err(Undelivered::Webhook(told));
            }
            if attempt == 1 || attempt.is_multiple_of(TOLD_EVERY) {
                say(format!(
                    "{told}; it is tried again, and nothing is read meanwhile"
                ));
            }
            thread::sleep(failed.pause.map_or(pause, |asked| asked.max(pause)));
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn post(&self, id: &str, body: &[u8]) -> Result<(), Failed> {
        let mut request = self
            .client
            .post(self.url.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header("idempotency-key", ascii(id))
            .body(body.to_vec());
        if let Some(key) = &self.secret {
            let mac = hmac::sign(key, body);
            let digits: String = mac.as_ref().iter().map(|b| format!("{b:02x}")).collect();
            request = request.header("x-countersign-signature", format!("sha256={digits}"));
        }
        let failed = |why: String| Failed { why, pause: None };
        let response = request.send().await.map_err(|e| failed(cause(&e)))?;
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        let why = if status.is_redirection() {
            format!("{status}: it sends us on, and that is not followed")
        } else {
            format!("it answers {status}")
        };
        let asks = matches!(
            status,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
        );
        let after = response.headers().get(header::RETRY_AFTER).filter(|_| asks);
        let seconds = after.and_then(|v| v.to_str().ok()?.trim().parse().ok());
        let pause = seconds.map(|seconds| Duration::from_secs(seconds).min(ASKED_MAX));
        Err(Failed { why, pause })
    }
}

/// An id as a header can hold it: origins may have letters of any script.
fn ascii(id: &str) -> String {
    id.chars()
        .flat_map(|c| {
            let plain = c.is_ascii_graphic().then(|| c.to_string());
            let shown = plain.unwrap_or_else(|| c.escape_unicode().to_string());
            shown.chars().collect::<Vec<char>>()
        })
        .collect()
}

/// An address without its path, which of many webhooks is their secret.
fn place(url: &Url) -> String {
    format!("{}://{}", url.scheme(), url.host_str().unwrap_or_default())
}

fn shown(text: &str) -> String {
    text.chars().take(12).collect::<String>() + "…"
}

/// The innermost reason; the outer ones repeat the address.
fn cause(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "it took too long".into();
    }
    let mut inner: &dyn Error = error;
    while let Some(next) = inner.source() {
        inner = next;
    }
    inner.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_go_over_https_or_stay_on_this_machine() {
        let taken = |url: &str, insecure| Webhook::new(url, None, insecure).is_ok();
        for url in [
            "http://127.0.0.1:1/x",
            "http://localhost/x",
            "http://[::1]/x",
        ] {
            assert!(taken(url, false), "{url}");
        }
        assert!(!taken("http://hooks.example.com/secret", false));
        assert!(taken("http://hooks.example.com/secret", true));
        for url in [
            "",
            "hooks.example.com",
            "ftp://example.com/x",
            "http://a:b@127.0.0.1/",
        ] {
            assert!(!taken(url, true), "{url}");
        }
        let error = Webhook::new("http://hooks.example.com/secret", None, false);
        let error = error.err().map(|e| e.to_string()).unwrap_or_default();
        assert!(
            error.contains("hooks.example.com") && !error.contains("secret"),
            "{error}"
        );
        assert_eq!(ascii("log.example.com/a#7"), "log.example.com/a#7");
        assert_eq!(ascii("é x"), "\\u{e9}\\u{20}x");
    }
}
