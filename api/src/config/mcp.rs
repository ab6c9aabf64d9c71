//! What `[mcp]` may say.

use super::Mcp;
use crate::client::is_loopback_url;

/// Claims that say something else than who it is.
const NO_SUBJECT: [&str; 7] = ["iss", "aud", "exp", "nbf", "iat", "scope", "scp"];

impl Mcp {
    /// The first fault, by its key.
    pub(super) fn check(&self) -> Result<(), (&'static str, &'static str)> {
        if let Some(issuer) = &self.authorization_server {
            let reached = issuer.starts_with("https://") || is_loopback_url(issuer);
            let plain = reqwest::Url::parse(issuer).is_ok_and(|url| {
                url.query().is_none()
                    && url.fragment().is_none()
                    && url.username().is_empty()
                    && url.password().is_none()
            });
            if !reached || !plain || issuer.contains(|c: char| c.is_whitespace() || c == '"') {
                let why = "such as https://login.example.com, without query and fragment; http only on this machine";
                return Err(("mcp.authorization_server", why));
            }
        }
        let claim = self.subject_claim.as_str();
        if claim.is_empty() || claim.contains(char::is_control) || NO_SUBJECT.contains(&claim) {
            return Err((
                "mcp.subject_claim",
                "the name of a claim that says who it is",
            ));
        }
        // RFC 6749 section 3.3.
        let is_scope = |scope: &String| {
            !scope.is_empty()
                && scope
                    .bytes()
                    .all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\')
        };
        match self.scopes.iter().all(is_scope) {
            true => Ok(()),
            false => Err(("mcp.scopes", "words without spaces, quotes and backslashes")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_an_authorization_server_is_refused() {
        let of = |issuer: &str| Mcp {
            authorization_server: Some(issuer.into()),
            ..Mcp::default()
        };
        for issuer in [
            "https://login.example.com",
            "https://login.example.com/realms/a/",
            "http://127.0.0.1:8080",
        ] {
            assert_eq!(of(issuer).check(), Ok(()), "{issuer}");
        }
        for issuer in [
            "",
            "login.example.com",
            "http://login.example.com",
            "https://login.example.com?a=b",
            "https://a:b@login.example.com",
            "https://login.example.com/#a",
        ] {
            assert!(of(issuer).check().is_err(), "{issuer}");
        }
        let claim = |name: &str| Mcp {
            subject_claim: name.into(),
            ..Mcp::default()
        };
        assert_eq!(claim("client_id").check(), Ok(()));
        assert!(claim("aud").check().is_err() && claim("").check().is_err());
        let scope = |name: &str| Mcp {
            scopes: vec![name.into()],
            ..Mcp::default()
        };
        assert_eq!(scope("countersign:write").check(), Ok(()));
        assert!(scope("a b").check().is_err() && scope("\"").check().is_err());
    }
}
