//! Refusals on their way to a client.
//!
//! An answer carries two messages: one for the client, and, for faults of the service, one that only the trace sees.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};

pub use crate::code::{CODES, Code};

/// A refusal on its way to a client.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// Which.
    pub code: Code,
    /// A plain sentence: whose fault it is, where, and what helps.
    pub message: String,
    /// More, for programs.
    pub detail: Map<String, Value>,
    /// When a repeat makes sense, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// The leaf that records the refusal, where one does.
    pub entry: Option<Value>,
    /// Only a person can end what is in the way: not worth a repeat, whatever the code says of most of its kind.
    pub needs_a_person: bool,
}

impl Problem {
    /// A refusal without further detail.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Problem {
        Problem {
            code,
            message: message.into(),
            detail: Map::new(),
            retry_after_ms: None,
            entry: None,
            needs_a_person: false,
        }
    }

    /// The same where no time will help, until a person has acted.
    #[must_use]
    pub fn until_a_person_acts(mut self) -> Problem {
        (self.needs_a_person, self.retry_after_ms) = (true, None);
        self
    }

    /// The same with a member of detail.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Problem {
        self.detail.insert(name.into(), value.into());
        self
    }

    /// The same with a time after which to ask again.
    #[must_use]
    pub fn retry_after(mut self, ms: u64) -> Problem {
        self.retry_after_ms = Some(ms);
        self
    }

    /// A fault of the service: `inside` goes to the trace and nowhere else.
    #[must_use]
    pub fn internal(inside: &dyn std::fmt::Display) -> Problem {
        tracing::error!(error = %inside, "a fault of the service");
        Problem::new(
            Code::Internal,
            "a fault of the service; its operator finds more in the trace",
        )
        .retry_after(1_000)
    }

    /// As problem JSON (RFC 9457).
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut body = json!({
            "type": "about:blank",
            "title": self.code.title(),
            "status": self.code.status(),
            "code": self.code.name(),
            "message": self.message,
            "retryable": self.code.retryable() && !self.needs_a_person,
            "detail": self.detail,
        });
        if let Some(ms) = self.retry_after_ms {
            body["retry_after_ms"] = ms.into();
        }
        if let Some(entry) = &self.entry {
            body["entry"] = entry.clone();
        }
        body
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        // OK because the table holds only valid statuses.
        let status = StatusCode::from_u16(self.code.status()).expect("Problem: status");
        let mut answer = (status, self.to_json().to_string()).into_response();
        let headers = answer.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(ms) = self.retry_after_ms {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(ms.div_ceil(1_000)));
        }
        // RFC 6750 section 3: an error code only where a token was given.
        let challenge = match self.code {
            Code::TokenInvalid => "Bearer error=\"invalid_token\"",
            _ => "Bearer",
        };
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static(challenge),
            );
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_has_the_members_that_clients_branch_on() {
        let problem = Problem::new(
            Code::TooLarge,
            "41,000 bytes of payload; the limit is 40,000",
        )
        .with("limit", 40_000)
        .retry_after(1_500);
        let body = problem.to_json();
        assert_eq!(body["code"], "TOO_LARGE");
        assert_eq!(body["status"], 413);
        assert_eq!(body["retryable"], false);
        assert_eq!(body["detail"]["limit"], 40_000);
        assert_eq!(problem.into_response().headers()["retry-after"], "2");
        let busy = Problem::new(Code::ReadOnly, "not just now").retry_after(5_000);
        assert_eq!(busy.to_json()["retryable"], true);
        let body = busy.until_a_person_acts().to_json();
        assert_eq!(
            (&body["retryable"], body.get("retry_after_ms")),
            (&json!(false), None)
        );
    }
}
