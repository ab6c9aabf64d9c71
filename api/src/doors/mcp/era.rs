//! Which revision of the protocol a message is of, and whether its headers say the same as its body.
//!
//! Revision 2026-07-28 has neither handshake nor session: each request names revision and client in `_meta`, and repeats revision,
//! method and name in headers, so that whoever routes by headers routes what is then done. The revisions before begin with
//! `initialize`; we keep no session for them, and each request stands alone there too.

use axum::http::{HeaderMap, HeaderValue};
use countersign_verifier::base64;
use serde_json::{Value, json};

use super::message::{Fault, HEADER_MISMATCH, Message, PARAMS, UNSUPPORTED_VERSION};

/// The revision without handshake.
pub(super) const MODERN: &str = "2026-07-28";
/// Those with one, the newest first.
pub(super) const LEGACY: &[&str] = &["2025-11-25", "2025-06-18"];

const VERSION_HEADER: &str = "mcp-protocol-version";
const METHOD_HEADER: &str = "mcp-method";
const NAME_HEADER: &str = "mcp-name";
const VERSION_META: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_META: &str = "io.modelcontextprotocol/clientCapabilities";

/// How a message is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Era {
    /// 2026-07-28.
    Modern,
    /// A revision with a handshake.
    Legacy,
}

impl Era {
    /// The era of a request, its headers checked.
    pub fn of(headers: &HeaderMap, message: &Message<'_>) -> Result<Era, Fault> {
        let version = header(headers, VERSION_HEADER)?;
        let stated = message.params.meta(VERSION_META);
        let is_modern =
            stated.is_some() || version == Some(MODERN) || message.method == "server/discover";
        if is_modern {
            return checked(headers, version, stated, message).map(|()| Era::Modern);
        }
        match version {
            None => Ok(Era::Legacy),
            Some(version) if LEGACY.contains(&version) => Ok(Era::Legacy),
            // A handshake settles the revision; what was said before it binds nobody.
            Some(_) if message.method == "initialize" => Ok(Era::Legacy),
            Some(version) => {
                let all = std::iter::once(MODERN).chain(LEGACY.iter().copied());
                Err(unsupported(&version.into(), all.collect()))
            }
        }
    }

    /// The era of a request that comes without headers, over standard input.
    pub fn of_body(message: &Message<'_>) -> Result<Era, Fault> {
        let stated = message.params.meta(VERSION_META);
        if stated.is_none() && message.method != "server/discover" {
            return Ok(Era::Legacy);
        }
        match whole(stated, message)? {
            stated if stated == MODERN => Ok(Era::Modern),
            stated => Err(unsupported(stated, vec![MODERN])),
        }
    }

    /// The HTTP status that goes with a protocol error.
    pub fn status(self, fault: &Fault) -> u16 {
        use super::message::{METHOD, PARSE, REQUEST};
        match (self, fault.code) {
            (_, PARSE | REQUEST | HEADER_MISMATCH | UNSUPPORTED_VERSION)
            | (Era::Modern, PARAMS) => 400,
            (Era::Modern, METHOD) => 404,
            _ => 200,
        }
    }
}

/// What is answered to `initialize`: the revision asked for where it is one of ours, else the newest of its kind.
pub(super) fn negotiated(asked: Option<&Value>) -> &'static str {
    let asked = asked.and_then(Value::as_str);
    let ours = LEGACY.iter().find(|version| Some(**version) == asked);
    ours.unwrap_or(&LEGACY[0])
}

/// The revision that a request names, where it says all that each request must.
fn whole<'m>(stated: Option<&'m Value>, message: &Message<'_>) -> Result<&'m Value, Fault> {
    let capabilities = message.params.meta(CAPABILITIES_META);
    let missing: Vec<&str> = [
        (VERSION_META, stated.is_some_and(Value::is_string)),
        (
            CAPABILITIES_META,
            capabilities.is_some_and(Value::is_object),
        ),
    ]
    .into_iter()
    .filter_map(|(name, there)| (!there).then_some(name))
    .collect();
    match stated {
        Some(stated) if missing.is_empty() => Ok(stated),
        _ => {
            let why = format!("params._meta: {} missing or malformed", missing.join(", "));
            Err(Fault::new(PARAMS, why))
        }
    }
}

fn checked(
    headers: &HeaderMap,
    version: Option<&str>,
    stated: Option<&Value>,
    message: &Message<'_>,
) -> Result<(), Fault> {
    let stated = whole(stated, message)?;
    let mismatch = |name: &str, of: &str| {
        let why = format!("header {name} is not what the body says: {of}");
        Err(Fault::new(HEADER_MISMATCH, why))
    };
    if version != stated.as_str() {
        return mismatch("MCP-Protocol-Version", VERSION_META);
    }
    if header(headers, METHOD_HEADER)? != Some(&message.method) {
        return mismatch("Mcp-Method", "method");
    }
    let named = match message.method.as_str() {
        "tools/call" | "prompts/get" => message.params.name.as_ref(),
        "resources/read" => message.params.uri.as_ref(),
        _ => None,
    };
    if let Some(named) = named.and_then(Value::as_str) {
        let given = header(headers, NAME_HEADER)?.and_then(decoded);
        if given.as_deref() != Some(named) {
            return mismatch("Mcp-Name", "params.name or params.uri");
        }
    }
    if stated != MODERN {
        return Err(unsupported(stated, vec![MODERN]));
    }
    Ok(())
}

fn unsupported(requested: &Value, supported: Vec<&str>) -> Fault {
    Fault {
        code: UNSUPPORTED_VERSION,
        message: "Unsupported protocol version".into(),
        data: Some(json!({"supported": supported, "requested": requested})),
    }
}

/// The only value of a header: of two, whoever routes might read the one and we the other.
fn header<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Fault> {
    let mut values = headers.get_all(name).into_iter();
    let value = values.next();
    if values.next().is_some() {
        let why = format!("header {name} stands twice");
        return Err(Fault::new(HEADER_MISMATCH, why));
    }
    let text = value.map(HeaderValue::to_str).transpose();
    text.map(|text| text.map(str::trim))
        .map_err(|_| Fault::new(HEADER_MISMATCH, format!("header {name}: not ASCII")))
}

/// A value as it was before it was made fit for a header; `None` where it claims to be base64 and is not.
fn decoded(value: &str) -> Option<String> {
    let inside = value
        .strip_prefix("=?base64?")
        .and_then(|rest| rest.strip_suffix("?="));
    match inside {
        None => Some(value.into()),
        Some(inside) => String::from_utf8(base64::decode(inside).ok()?).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const META: &str = "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":{}}";

    /// The era of a request with these headers, or the code of the fault.
    fn era(method: &str, params: &str, headers: &[(&'static str, &str)]) -> Result<Era, i32> {
        let body = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{method}\",\"params\":{{{params}}}}}"
        );
        let message = Message::read(body.as_bytes()).unwrap();
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        Era::of(&map, &message).map_err(|fault| fault.code)
    }

    #[test]
    fn the_revisions_with_a_handshake_need_no_header() {
        assert_eq!(era("tools/list", "", &[]), Ok(Era::Legacy));
        for version in LEGACY {
            let headers = [(VERSION_HEADER, *version)];
            assert_eq!(era("tools/list", "", &headers), Ok(Era::Legacy));
        }
        let older = [(VERSION_HEADER, "2024-11-05")];
        assert_eq!(era("tools/list", "", &older), Err(UNSUPPORTED_VERSION));
        assert_eq!(era("initialize", "", &older), Ok(Era::Legacy));
        for (asked, answered) in [
            ("2025-06-18", "2025-06-18"),
            ("2025-11-25", "2025-11-25"),
            ("2024-11-05", "2025-11-25"),
            ("2026-07-28", "2025-11-25"),
        ] {
            assert_eq!(negotiated(Some(&asked.into())), answered);
        }
        assert_eq!(negotiated(None), "2025-11-25");
    }

    #[test]
    fn headers_and_body_of_2026_07_28_say_the_same() {
        let version = (VERSION_HEADER, MODERN);
        let list = (METHOD_HEADER, "tools/list");
        let call = (METHOD_HEADER, "tools/call");
        let named = format!("\"name\":\"a\",{META}");
        for (method, params, headers, expected) in [
            ("tools/list", META, &[version, list][..], Ok(Era::Modern)),
            ("tools/list", META, &[list], Err(HEADER_MISMATCH)),
            ("tools/list", META, &[version], Err(HEADER_MISMATCH)),
            ("tools/list", META, &[version, call], Err(HEADER_MISMATCH)),
            (
                "tools/list",
                META,
                &[version, (METHOD_HEADER, "TOOLS/LIST")],
                Err(HEADER_MISMATCH),
            ),
            (
                "tools/list",
                META,
                &[(VERSION_HEADER, "2025-11-25"), list],
                Err(HEADER_MISMATCH),
            ),
            (
                "tools/list",
                META,
                &[version, list, list],
                Err(HEADER_MISMATCH),
            ),
            ("tools/list", "", &[version, list], Err(PARAMS)),
            ("tools/list", "\"_meta\":7", &[version, list], Err(PARAMS)),
            (
                "server/discover",
                "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}",
                &[version, (METHOD_HEADER, "server/discover")],
                Err(PARAMS),
            ),
            ("server/discover", "", &[], Err(PARAMS)),
            ("tools/call", &named, &[version, call], Err(HEADER_MISMATCH)),
            (
                "tools/call",
                &named,
                &[version, call, (NAME_HEADER, "b")],
                Err(HEADER_MISMATCH),
            ),
            (
                "tools/call",
                &named,
                &[version, call, (NAME_HEADER, " a ")],
                Ok(Era::Modern),
            ),
            (
                "tools/call",
                &named,
                &[version, call, (NAME_HEADER, "=?base64?YQ==?=")],
                Ok(Era::Modern),
            ),
            (
                "tools/call",
                &named,
                &[version, call, (NAME_HEADER, "=?base64?YQ?=")],
                Err(HEADER_MISMATCH),
            ),
        ] {
            assert_eq!(
                era(method, params, headers),
                expected,
                "{method} {params} {headers:?}"
            );
        }
        let future = META.replace("2026-07-28", "2030-01-01");
        let headers = [(VERSION_HEADER, "2030-01-01"), list];
        assert_eq!(
            era("tools/list", &future, &headers),
            Err(UNSUPPORTED_VERSION)
        );
    }
}
