//! What leads a client to the authorization server, where there is one: the metadata of RFC 9728, and the challenge of a refusal.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::json;

use crate::{
    app::App,
    doors::{auth, http::body},
    error::{Code, Problem},
};

/// `GET /.well-known/oauth-protected-resource`, and the same behind which the path of the door stands (RFC 9728 section 3.1). Without
/// an authorization server nothing is there that would lead nowhere.
pub(in crate::doors) async fn protected_resource(State(app): State<Arc<App>>) -> Response {
    let Some(issuer) = &app.issuer else {
        let why =
            "no authorization server is configured here: `countersign token new` makes tokens";
        return Problem::new(Code::NotFound, why).into_response();
    };
    let mut about = json!({
        "resource": auth::resource(&app),
        "authorization_servers": [issuer.name()],
        "bearer_methods_supported": ["header"],
        "resource_name": "Countersign",
    });
    if !issuer.scopes().is_empty() {
        about["scopes_supported"] = issuer.scopes().into();
    }
    let mut answer = body::json(StatusCode::OK, about.to_string());
    let any = HeaderValue::from_static("*");
    let headers = answer.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, any);
    answer
}

/// A refusal of HTTP's. RFC 6750 has no error code where no token came, but clients of MCP look for one.
pub(super) fn refused(app: &App, problem: Problem) -> Response {
    let error = match problem.code {
        Code::ScopeMissing => Some("insufficient_scope"),
        code if code.status() == 401 => Some("invalid_token"),
        _ => None,
    };
    let mut answer = problem.into_response();
    let Some(error) = error else {
        return answer;
    };
    let mut challenge = format!("Bearer error=\"{error}\"");
    if let Some(issuer) = &app.issuer {
        let url = app.url();
        challenge +=
            &format!(", resource_metadata=\"{url}/.well-known/oauth-protected-resource/mcp\"");
        if !issuer.scopes().is_empty() {
            challenge += &format!(", scope=\"{}\"", issuer.scopes().join(" "));
        }
    }
    // A public URL that no header can hold is the operator's to see at once: then nothing is promised.
    if let Ok(challenge) = HeaderValue::from_str(&challenge) {
        let headers = answer.headers_mut();
        headers.insert(header::WWW_AUTHENTICATE, challenge);
    }
    answer
}
