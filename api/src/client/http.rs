//! Requests with a time-out, answers with a bound.

use std::{error::Error, time::Duration};

use reqwest::{ClientBuilder, Method, RequestBuilder, Response, Url, header, redirect};

use super::{
    error::{ClientError, Problem},
    token::Token,
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Beyond what the service itself was told to wait: it gives a commit 30 s before it says that the outcome is unknown.
pub(super) const TIMEOUT: Duration = Duration::from_secs(45);
/// No problem, entry or state is longer; a proof of the longest kind has 260 KiB.
pub(super) const SMALL: usize = 1 << 20;

/// A client of one account of one service. Cheap to clone; clones share their connections.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    account: String,
    says_account: bool,
    token: Option<Token>,
}

/// An answer of status 2xx, read in full.
pub(super) struct Answer {
    pub(super) url: String,
    pub(super) status: u16,
    pub(super) headers: header::HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Client {
    /// A client of `account` at the service under `url` (`http` or `https`, a path before ours allowed). Connects to nothing yet.
    ///
    /// # Errors
    /// [`ClientError::Url`], or [`ClientError::Setup`] where this machine has no trusted certificates.
    pub fn new(url: &str, account: &str, token: Option<Token>) -> Result<Client, ClientError> {
        let bad = |why: &str| ClientError::Url {
            url: url.to_owned(),
            why: why.to_owned(),
        };
        let base = Url::parse(url).map_err(|e| bad(&e.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(bad("it must begin with http:// or https://"));
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(bad(
                "it must hold no name and no password; a token goes into a file",
            ));
        }
        if base.query().is_some() || base.fragment().is_some() {
            return Err(bad("it must end with its path"));
        }
        if matches!(account, "." | "..") || account.contains('/') {
            return Err(bad("an account's name is one part of a path"));
        }
        let http = builder_for(&base, CONNECT_TIMEOUT)
            .build()
            .map_err(|e| ClientError::Setup(cause(&e)))?;
        Ok(Client {
            http,
            base,
            account: account.to_owned(),
            says_account: false,
            token,
        })
    }

    /// Says with each call of a tool which account is meant: a token of another one is then refused, and answers for no other.
    #[must_use]
    pub fn saying_account(mut self) -> Client {
        self.says_account = true;
        self
    }

    /// The same service, another account.
    #[must_use]
    pub fn with_account(mut self, account: &str) -> Client {
        account.clone_into(&mut self.account);
        self
    }

    /// The account.
    #[must_use]
    pub fn account(&self) -> &str {
        &self.account
    }

    /// The URL of the service.
    #[must_use]
    pub fn url(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// Whether it has a token to show.
    #[must_use]
    pub fn has_token(&self) -> bool {
        self.token.is_some()
    }

    pub(super) fn at(&self, parts: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(parts);
        }
        url
    }

    pub(super) fn tool(&self, tool: &str) -> Url {
        let mut url = self.at(&["v1", tool]);
        if self.says_account {
            url.query_pairs_mut().append_pair("account", &self.account);
        }
        url
    }

    pub(super) fn log(&self, parts: &[&str]) -> Url {
        self.at(&[&["log", &self.account], parts].concat())
    }

    pub(super) fn request(&self, method: Method, url: Url, timeout: Duration) -> RequestBuilder {
        let request = self.http.request(method, url).timeout(timeout);
        let Some(token) = &self.token else {
            return request;
        };
        // OK because a token is visible ASCII.
        let mut value = header::HeaderValue::from_str(&format!("Bearer {}", token.text()))
            .expect("Client::request: a token");
        value.set_sensitive(true);
        request.header(header::AUTHORIZATION, value)
    }
}

/// What every request of ours goes out by: named, and never sent on to where nobody meant it to go.
pub(crate) fn builder(connect_timeout: Duration) -> ClientBuilder {
    // Whoever uses this as a library may have installed a provider; a second one is refused, and that is right.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .user_agent(concat!("countersign/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(connect_timeout)
        .redirect(redirect::Policy::none())
}

/// For plain HTTP alone: without this, a machine without certificates could not even talk to itself.
pub(crate) fn without_certificates(builder: ClientBuilder) -> ClientBuilder {
    builder.tls_certs_only([])
}

/// For one address, as its scheme and its host ask: no certificates for plain HTTP, no proxy before this machine itself.
pub(crate) fn builder_for(url: &Url, connect_timeout: Duration) -> ClientBuilder {
    let mut builder = builder(connect_timeout);
    if url.scheme() == "http" {
        builder = without_certificates(builder);
    }
    if is_loopback(url) {
        builder = builder.no_proxy();
    }
    builder
}

/// Sends a request and reads its answer, up to `limit` bytes.
pub(super) async fn send(request: RequestBuilder, limit: usize) -> Result<Answer, ClientError> {
    let response = match request.send().await {
        Ok(response) => response,
        Err(error) => return Err(failed(&error)),
    };
    let url = response.url().to_string();
    let status = response.status();
    if status.is_redirection() {
        let to = response
            .headers()
            .get(header::LOCATION)
            .and_then(|v| v.to_str().ok());
        return Err(ClientError::Redirected {
            url,
            to: to.unwrap_or("nowhere").to_owned(),
        });
    }
    let retry_after = retry_after(&response);
    let headers = response.headers().clone();
    let body = read(
        response,
        &url,
        if status.is_success() { limit } else { SMALL },
    )
    .await?;
    if status.is_success() {
        return Ok(Answer {
            url,
            status: status.as_u16(),
            headers,
            body,
        });
    }
    Err(Problem::parse(status.as_u16(), retry_after, &body).into())
}

async fn read(mut response: Response, url: &str, limit: usize) -> Result<Vec<u8>, ClientError> {
    let too_large = || ClientError::AnswerTooLarge {
        url: url.to_owned(),
        limit,
    };
    if response
        .content_length()
        .is_some_and(|length| length > limit as u64)
    {
        return Err(too_large());
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|e| failed(&e))? {
        if body.len() + chunk.len() > limit {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = response
        .headers()
        .get(header::RETRY_AFTER)?
        .to_str()
        .ok()?
        .trim()
        .parse()
        .ok()?;
    Some(Duration::from_secs(seconds))
}

fn failed(error: &reqwest::Error) -> ClientError {
    let url = error
        .url()
        .map_or_else(|| "the service".to_owned(), ToString::to_string);
    let why = cause(error);
    match error.is_connect() {
        true if is_tls(error) => ClientError::Insecure { url, why },
        true => ClientError::Unreachable { url, why },
        false if error.is_timeout() => ClientError::Broken {
            url,
            why: "it took too long".to_owned(),
        },
        false => ClientError::Broken { url, why },
    }
}

/// Whether it was the handshake that failed. Trying again would only meet the same certificate.
fn is_tls(error: &(dyn Error + 'static)) -> bool {
    // An I/O error does not count what it wraps as its source.
    let inner = error
        .downcast_ref::<std::io::Error>()
        .and_then(std::io::Error::get_ref);
    match inner {
        _ if error.is::<rustls::Error>() => true,
        Some(inner) => is_tls(inner),
        None => error.source().is_some_and(is_tls),
    }
}

/// The innermost reason: the outer ones repeat the URL and say "error sending request".
pub(super) fn cause(error: &dyn Error) -> String {
    let mut inner = error;
    while let Some(next) = inner.source() {
        inner = next;
    }
    inner.to_string()
}

/// Whether the host is this machine itself, by name or by address.
#[must_use]
pub(crate) fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else {
        return false;
    };
    let address: Option<std::net::IpAddr> = host.trim_matches(['[', ']']).parse().ok();
    host == "localhost" || address.is_some_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_keep_their_path_and_nothing_else() {
        for (url, receipts) in [
            (
                "http://127.0.0.1:8780",
                "http://127.0.0.1:8780/log/dev/receipts",
            ),
            (
                "https://example.com/a/",
                "https://example.com/a/log/dev/receipts",
            ),
        ] {
            let client = Client::new(url, "dev", None).unwrap();
            assert_eq!(client.log(&["receipts"]).as_str(), receipts);
            assert_eq!(client.url(), url.trim_end_matches('/'));
        }
        let client = Client::new("http://127.0.0.1", "a b", None).unwrap();
        assert_eq!(
            client.log(&["x/y"]).as_str(),
            "http://127.0.0.1/log/a%20b/x%2Fy"
        );
        for bad in [
            "127.0.0.1:8780",
            "ftp://example.com",
            "http://a:b@example.com",
            "http://example.com/?x=1",
            "",
        ] {
            assert!(
                matches!(Client::new(bad, "dev", None), Err(ClientError::Url { .. })),
                "{bad}"
            );
        }
        assert!(Client::new("http://127.0.0.1", "..", None).is_err());
    }

    #[test]
    fn loopback_is_this_machine() {
        for (url, is) in [
            ("http://127.0.0.1:1", true),
            ("http://127.9.9.9", true),
            ("http://[::1]:1", true),
            ("http://localhost", true),
            ("http://example.com", false),
            ("http://127.0.0.1.example.com", false),
            ("http://10.0.0.1", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), is, "{url}");
        }
    }
}
