//! What can go wrong between a client and the service, and whose fault it is.

use std::{fmt, time::Duration};

use serde_json::{Map, Value};

use super::call::Entry;

/// A refusal by the service (RFC 9457 problem JSON).
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// The HTTP status; of one line of many, that line's.
    pub status: u16,
    /// The stable name to branch on; `HTTP_<status>` where the answer was no problem JSON, as proxies make them.
    pub code: String,
    /// A plain sentence.
    pub message: String,
    /// Whether the same request, under a new nonce where it has one, may succeed later.
    pub retryable: bool,
    /// When a repeat makes sense: `retry_after_ms`, else the header `Retry-After`.
    pub retry_after: Option<Duration>,
    /// More, for programs.
    pub detail: Map<String, Value>,
    /// The leaf that records the refusal, where one does.
    pub entry: Option<Entry>,
    /// All of it as it came; empty where the answer was no problem JSON.
    pub members: Map<String, Value>,
}

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ClientError {
    /// The URL or the account's name cannot be used. The caller's fault.
    #[error("{url:?} is no address of a service: {why}")]
    Url {
        /// As given.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// This machine cannot make secure connections.
    #[error("cannot set up TLS: {0}")]
    Setup(String),
    /// Nobody answers; nothing was sent.
    #[error("no service answers at {url}: {why}")]
    Unreachable {
        /// Where.
        url: String,
        /// What the system said.
        why: String,
    },
    /// Somebody answers, and does not show that it is who the URL names; nothing was sent.
    #[error("{url}: no secure connection: {why}")]
    Insecure {
        /// Where.
        url: String,
        /// What is wrong.
        why: String,
    },
    /// The connection ended, or the time was up, before the answer was there: what was sent may have been taken.
    #[error("{url}: no whole answer, so whether this was taken is not known: {why}")]
    Broken {
        /// Where.
        url: String,
        /// What the system said.
        why: String,
    },
    /// The service is elsewhere. Redirects are not followed: they would carry a token, or a signed operation, to whoever is
    /// named there.
    #[error("{url} sends us on to {to}; if that is right, give it as the URL")]
    Redirected {
        /// Where we asked.
        url: String,
        /// Where it points.
        to: String,
    },
    /// The answer is longer than an answer of this kind can be. The service's fault.
    #[error("{url}: the answer is longer than {limit} bytes, so it was not read")]
    AnswerTooLarge {
        /// Where.
        url: String,
        /// The bound.
        limit: usize,
    },
    /// The answer is not what this kind of request is answered with. The service's fault, or there is another one at this URL.
    #[error("{url}: not an answer of this service: {what}")]
    Answer {
        /// Where.
        url: String,
        /// What is wrong with it.
        what: String,
    },
    /// The service said no.
    #[error("{0}")]
    Refused(Box<Problem>),
}

impl ClientError {
    /// Whether sending the very same again may help: the connection failed, or the service was busy. Receipts and signed
    /// operations can always be sent again; nothing else 4xx is ever worth it.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Broken { .. } => true,
            Self::Refused(problem) => problem.is_transient(),
            _ => false,
        }
    }

    /// How long the service asked to be left alone.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused(problem) => problem.retry_after,
            _ => None,
        }
    }

    /// The refusal, if it is one.
    #[must_use]
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Refused(problem) => Some(problem),
            _ => None,
        }
    }

    /// What helps a person at a command line.
    #[must_use]
    pub fn help(&self) -> Option<&'static str> {
        let problem = self.problem()?;
        // A receipt whose signer is unknown is 401 too, and no token helps it.
        let is_token = problem.code == "KEY_REQUIRED" || problem.code == "HTTP_401";
        is_token.then_some(
            "show a token with --token-file FILE (or COUNTERSIGN_TOKEN); that of a data directory is found with --dir DIR",
        )
    }
}

impl From<Problem> for ClientError {
    fn from(problem: Problem) -> Self {
        Self::Refused(Box::new(problem))
    }
}

/// Whether an answer of this status may be another one later, where it does not say so itself.
fn may_pass(status: u16) -> bool {
    matches!(status, 429 | 502 | 503 | 504)
}

impl Problem {
    /// Busy, over quota, or a gateway without its service; not what only a person can end.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        may_pass(self.status) && self.retryable
    }

    /// The leaf is not published yet, and will be: 404 with a time to ask again.
    #[must_use]
    pub fn is_not_yet(&self) -> bool {
        self.status == 404 && self.retry_after.is_some()
    }

    /// Reads a problem; whatever else came under an error's status becomes one.
    pub(super) fn parse(status: u16, retry_after: Option<Duration>, body: &[u8]) -> Problem {
        match serde_json::from_slice::<Value>(body) {
            Ok(Value::Object(members)) if members.get("code").is_some_and(Value::is_string) => {
                Self::from_members(status, retry_after, &members)
            }
            _ => {
                let text = String::from_utf8_lossy(&body[..body.len().min(512)]);
                let line = text.lines().map(str::trim).find(|line| !line.is_empty());
                // A page of markup says nothing in its first line.
                let said = line
                    .filter(|line| !line.starts_with('<'))
                    .unwrap_or("no reason given");
                Problem {
                    status,
                    code: format!("HTTP_{status}"),
                    message: said.chars().filter(|c| !c.is_control()).take(200).collect(),
                    retryable: may_pass(status),
                    retry_after,
                    detail: Map::new(),
                    entry: None,
                    members: Map::new(),
                }
            }
        }
    }

    /// Reads the members of problem JSON; `status` is that of the answer or of the line.
    pub(super) fn from_members(
        status: u16,
        retry_after: Option<Duration>,
        members: &Map<String, Value>,
    ) -> Problem {
        let text = |name| members.get(name).and_then(Value::as_str);
        let ms = members.get("retry_after_ms").and_then(Value::as_u64);
        Problem {
            status,
            code: text("code").unwrap_or("UNKNOWN").to_owned(),
            message: text("message")
                .or(text("title"))
                .unwrap_or("no reason given")
                .to_owned(),
            retryable: members
                .get("retryable")
                .and_then(Value::as_bool)
                .unwrap_or(may_pass(status)),
            retry_after: ms.map(Duration::from_millis).or(retry_after),
            detail: members
                .get("detail")
                .and_then(Value::as_object)
                .cloned()
                .unwrap_or_default(),
            entry: members
                .get("entry")
                .and_then(|entry| serde_json::from_value(entry.clone()).ok()),
            members: members.clone(),
        }
    }
}

impl fmt::Display for Problem {
    /// `CODE: message [name=value, name.member=value …] (recorded as leaf n)`. Of lists, those of plain values are shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)?;
        let mut shown = Vec::new();
        for (name, value) in &self.detail {
            show(name, value, &mut shown);
        }
        if !shown.is_empty() {
            write!(f, " [{}]", shown.join(", "))?;
        }
        match &self.entry {
            Some(entry) => write!(f, " (recorded as leaf {})", entry.index),
            None => Ok(()),
        }
    }
}

/// Adds what a detail says to what is shown; objects by their members.
fn show(name: &str, value: &Value, shown: &mut Vec<String>) {
    let plain = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    };
    match value {
        Value::Object(members) => {
            for (member, value) in members {
                show(&format!("{name}.{member}"), value, shown);
            }
        }
        Value::Array(values) => {
            let texts: Option<Vec<String>> = values.iter().map(plain).collect();
            if let Some(texts) = texts.filter(|texts| !texts.is_empty()) {
                shown.push(format!("{name}={}", texts.join(" ")));
            }
        }
        other => shown.extend(plain(other).map(|text| format!("{name}={text}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_busy_and_broken_are_worth_a_repeat() {
        let status = |status| ClientError::from(Problem::parse(status, None, b"{}")).is_transient();
        for again in [429, 502, 503, 504] {
            assert!(status(again), "{again}");
        }
        for never in [400, 401, 403, 404, 408, 409, 413, 415, 422, 500] {
            assert!(!status(never), "{never}");
        }
        let (url, why) = (String::new(), String::new());
        assert!(
            ClientError::Broken {
                url: url.clone(),
                why: why.clone()
            }
            .is_transient()
        );
        assert!(
            ClientError::Unreachable {
                url: url.clone(),
                why: why.clone()
            }
            .is_transient()
        );
        assert!(!ClientError::Answer { url, what: why }.is_transient());
        let says = |retryable: bool| {
            let body = format!(r#"{{"code":"READ_ONLY","retryable":{retryable}}}"#);
            ClientError::from(Problem::parse(503, None, body.as_bytes())).is_transient()
        };
        assert!(says(true) && !says(false));
    }

    #[test]
    fn a_problem_keeps_what_clients_branch_on() {
        let body = br#"{"type":"about:blank","title":"t","status":413,"code":"TOO_LARGE","message":"m","retryable":false,
            "retry_after_ms":1500,"detail":{"limit":40000,"holder":{"identity":"id_1","role":"agent"},"x":[1,"a"],"y":[[1]],"z":null}}"#;
        let problem = Problem::parse(413, Some(Duration::from_secs(9)), body);
        assert_eq!((problem.status, &*problem.code), (413, "TOO_LARGE"));
        assert_eq!(problem.retry_after, Some(Duration::from_millis(1500)));
        assert_eq!(
            problem.to_string(),
            "TOO_LARGE: m [limit=40000, holder.identity=id_1, holder.role=agent, x=1 a]"
        );
    }

    #[test]
    fn what_a_proxy_says_becomes_a_problem() {
        let page = Problem::parse(502, None, b"<html>\n<h1>Bad gateway</h1>");
        assert_eq!(page.to_string(), "HTTP_502: no reason given");
        let text = Problem::parse(503, Some(Duration::from_secs(2)), b"\n busy\x07 now\n");
        assert_eq!(text.to_string(), "HTTP_503: busy now");
        assert_eq!(text.retry_after, Some(Duration::from_secs(2)));
    }
}
