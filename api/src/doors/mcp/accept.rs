//! What a client takes, and where a page that asks comes from.

use axum::http::{HeaderMap, Uri, header};

/// The forms of an answer that a client takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Accepts {
    pub json: bool,
    pub events: bool,
}

impl Accepts {
    /// As the header says (RFC 9110 section 12.5.1); without one, everything.
    pub fn of(headers: &HeaderMap) -> Accepts {
        if !headers.contains_key(header::ACCEPT) {
            return Accepts {
                json: true,
                events: true,
            };
        }
        Accepts {
            json: takes(headers, "application", "json"),
            events: takes(headers, "text", "event-stream"),
        }
    }
}

/// Whether this type is taken: the most specific range that holds it says so, by a weight that is not zero.
fn takes(headers: &HeaderMap, kind: &str, subtype: &str) -> bool {
    let values = headers.get_all(header::ACCEPT).into_iter();
    let ranges = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    let mut best = (0, false);
    for range in ranges {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or("").to_ascii_lowercase();
        let specific = match name.split_once('/') {
            Some((k, s)) if k == kind && s == subtype => 3,
            Some((k, "*")) if k == kind => 2,
            Some(("*", "*")) => 1,
            _ => continue,
        };
        let zero = parts.any(|parameter| {
            let weight = parameter
                .split_once('=')
                .filter(|(n, _)| n.trim().eq_ignore_ascii_case("q"));
            weight.is_some_and(|(_, q)| q.trim().parse::<f32>().is_ok_and(|q| q <= 0.0))
        });
        if specific >= best.0 {
            best = (specific, !zero);
        }
    }
    best.1
}

/// Whether a page may ask: there is none (no browser, or one that asks for the user), it is ours, it is named in the
/// configuration, or both are on this machine.
pub(super) fn origin_is_known(headers: &HeaderMap, own: &str, named: &[String]) -> bool {
    let mut origins = headers.get_all(header::ORIGIN).into_iter();
    let Some(origin) = origins.next() else {
        return true;
    };
    let Ok(origin) = origin.to_str() else {
        return false;
    };
    if origins.next().is_some() {
        return false;
    }
    let same = |other: &str| origin.eq_ignore_ascii_case(other.trim_end_matches('/'));
    let is_own = origin_of(own).is_some_and(|own| same(&own));
    is_own || named.iter().any(|n| same(n)) || (is_local(own) && is_local(origin))
}

/// Scheme and authority of a URL.
fn origin_of(url: &str) -> Option<String> {
    let url: Uri = url.parse().ok()?;
    Some(format!("{}://{}", url.scheme_str()?, url.authority()?))
}

/// Whether a URL is one of this machine: a page from elsewhere can give its own name this machine's address, not the other way.
fn is_local(url: &str) -> bool {
    let host = url
        .parse::<Uri>()
        .ok()
        .and_then(|u| u.host().map(str::to_owned));
    matches!(host.as_deref(), Some("localhost" | "127.0.0.1" | "[::1]"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn with(name: header::HeaderName, values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name.clone(), HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn b164_b165_b166_accept_is_answered_with_what_it_accepts() {
        for (values, json, events) in [
            (&[][..], true, true),
            (&["application/json, text/event-stream"], true, true),
            (&["application/json", "text/event-stream"], true, true),
            (&["*/*"], true, true),
            (&["application/*"], true, false),
            (&["text/event-stream"], false, true),
            (&["application/json"], true, false),
            (&["Application/JSON;q=0.9"], true, false),
            (&["application/json; charset=utf-8"], true, false),
            (&["text/html"], false, false),
            (&["*/*, application/json;q=0"], false, true),
            (&["application/json;q=0, */*;q=0.1"], false, true),
            (&[""], false, false),
        ] {
            let accepts = Accepts::of(&with(header::ACCEPT, values));
            assert_eq!((accepts.json, accepts.events), (json, events), "{values:?}");
        }
    }

    #[test]
    fn a_page_from_elsewhere_may_not_ask() {
        let local = "http://127.0.0.1:8780";
        let public = "https://countersign.example.com";
        let named = ["https://tools.example.com".to_owned()];
        for (own, origin, known) in [
            (local, &[][..], true),
            (local, &["http://127.0.0.1:8780"], true),
            (local, &["http://localhost:6274"], true),
            (local, &["http://[::1]:1"], true),
            (local, &["http://evil.example.com"], false),
            (local, &["http://localhost.example.com"], false),
            (local, &["http://evil.example.com:8780"], false),
            (local, &["null"], false),
            (local, &[""], false),
            (local, &["https://tools.example.com"], true),
            (local, &["http://localhost:1", "http://localhost:1"], false),
            (public, &["https://countersign.example.com"], true),
            (public, &["HTTPS://Countersign.example.com"], true),
            (public, &["http://countersign.example.com"], false),
            (public, &["http://localhost:6274"], false),
        ] {
            let headers = with(header::ORIGIN, origin);
            assert_eq!(
                origin_is_known(&headers, own, &named),
                known,
                "{origin:?} at {own}"
            );
        }
    }
}
