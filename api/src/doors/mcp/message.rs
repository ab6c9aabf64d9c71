//! JSON-RPC 2.0 as MCP has it: one request or notification a body, and the answer to it.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json, value::RawValue};

/// One message of a client. Its id and its arguments stay as they were written: the one is echoed digit for digit, the others are
/// read by the strict rules that every call is read by.
#[derive(Debug)]
pub(super) struct Message<'a> {
    /// `None`: a notification.
    pub id: Option<Id>,
    pub method: String,
    pub params: Params<'a>,
}

/// What we read of `params`, of any method.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Params<'a> {
    /// `tools/call`, `prompts/get`: whose.
    #[serde(default)]
    pub name: Option<Value>,
    /// `resources/read`: of which.
    #[serde(default)]
    pub uri: Option<Value>,
    #[serde(borrow, default)]
    pub arguments: Option<&'a RawValue>,
    #[serde(default)]
    pub cursor: Option<Value>,
    #[serde(rename = "protocolVersion", default)]
    pub protocol_version: Option<Value>,
    #[serde(rename = "_meta", default)]
    pub meta: Option<Value>,
}

impl Params<'_> {
    /// A member of `_meta`.
    pub fn meta(&self, name: &str) -> Option<&Value> {
        self.meta.as_ref()?.get(name)
    }
}

/// An id as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Id(String);

/// A protocol error.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fault {
    pub code: i32,
    pub message: String,
    pub data: Option<Value>,
}

pub(super) const PARSE: i32 = -32_700;
pub(super) const REQUEST: i32 = -32_600;
pub(super) const METHOD: i32 = -32_601;
pub(super) const PARAMS: i32 = -32_602;
pub(super) const HEADER_MISMATCH: i32 = -32_020;
pub(super) const UNSUPPORTED_VERSION: i32 = -32_022;

impl Fault {
    pub fn new(code: i32, message: impl Into<String>) -> Fault {
        Fault {
            code,
            message: message.into(),
            data: None,
        }
    }

    /// As an answer.
    pub fn answer(&self, id: Option<&Id>) -> String {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        let id = id.map_or("null", |id| &id.0);
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}")
    }
}

/// A result as an answer.
pub(super) fn result(id: &Id, result: &Value) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{result}}}",
        id.0
    )
}

/// The members of a message. A name that stands twice is an error of serde's.
#[derive(Deserialize)]
struct Outer<'a> {
    #[serde(default)]
    jsonrpc: Option<Value>,
    #[serde(borrow, default, deserialize_with = "given")]
    id: Option<&'a RawValue>,
    #[serde(default)]
    method: Option<Value>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

/// `null` is a value that was given: a request whose id is null is no notification.
fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

impl Id {
    /// The id that goes into the answer.
    fn read(raw: &RawValue) -> Option<Id> {
        let text = raw.get();
        let digits = text.strip_prefix('-').unwrap_or(text);
        let whole = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        (text.starts_with('"') || whole).then(|| Id(text.into()))
    }

    /// An id that is written in the program.
    #[cfg(test)]
    pub fn of(text: &str) -> Id {
        Id(text.into())
    }
}

impl<'a> Message<'a> {
    /// Reads a body; the error has the id to answer with, where that could be read.
    pub fn read(body: &'a [u8]) -> Result<Message<'a>, (Option<Id>, Fault)> {
        let of = |fault| (None, fault);
        let first = body.iter().find(|b| !b.is_ascii_whitespace());
        if first == Some(&b'[') {
            let why = "one message a body: batches are not taken";
            return Err(of(Fault::new(REQUEST, why)));
        }
        let outer: Outer<'a> = serde_json::from_slice(body).map_err(|e| {
            let code = match e.classify() {
                serde_json::error::Category::Data => REQUEST,
                _ => PARSE,
            };
            of(Fault::new(code, e.to_string()))
        })?;
        let id = match outer.id {
            None => None,
            Some(raw) => match Id::read(raw) {
                None => {
                    let why = "id: a text or a whole number; a notification has none";
                    return Err(of(Fault::new(REQUEST, why)));
                }
                id => id,
            },
        };
        if outer.jsonrpc.as_ref().and_then(Value::as_str) != Some("2.0") {
            return Err((id, Fault::new(REQUEST, "jsonrpc: \"2.0\"")));
        }
        let Some(Value::String(method)) = outer.method else {
            let why = "method: a text. Answers are not taken: nothing was asked of the client";
            return Err((id, Fault::new(REQUEST, why)));
        };
        let params = match outer.params {
            None => Params::default(),
            // serde would take a list for the members in order.
            Some(raw) if !raw.get().starts_with('{') => {
                return Err((id, Fault::new(PARAMS, "params: an object")));
            }
            Some(raw) => serde_json::from_str(raw.get())
                .map_err(|e| (id.clone(), Fault::new(PARAMS, format!("params: {e}"))))?,
        };
        Ok(Message { id, method, params })
    }

    /// The name of the tool that is called, where one is.
    pub fn tool(&self) -> Option<&str> {
        let named = self.params.name.as_ref().and_then(Value::as_str);
        named.filter(|_| self.method == "tools/call")
    }

    /// The members of `arguments`, by the strict rules.
    pub fn arguments(&self) -> Result<Map<String, Value>, crate::error::Problem> {
        let Some(raw) = self.params.arguments else {
            return Ok(Map::new());
        };
        match countersign_verifier::json::parse(raw.get().as_bytes()) {
            Ok(Value::Object(members)) => Ok(members),
            Ok(_) => Err(crate::error::Problem::new(
                crate::error::Code::Malformed,
                "arguments are one object",
            )),
            Err(error) => Err(crate::submit::malformed(&error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b177_ids_are_echoed_digit_for_digit_and_null_is_none() {
        for id in [
            "9007199254740993",
            "\"a\"",
            "-7",
            "\"\\u0061 \\\"b\"",
            "0",
            "99999999999999999999999",
        ] {
            let body = format!("{{\"jsonrpc\":\"2.0\",\"id\": {id} ,\"method\":\"ping\"}}");
            let message = Message::read(body.as_bytes()).unwrap();
            let answer = result(&message.id.unwrap(), &json!({}));
            assert_eq!(
                answer,
                format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}")
            );
        }
        for id in ["null", "1.5", "1e3", "true", "[1]", "{}"] {
            let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}");
            let (answered, fault) = Message::read(body.as_bytes()).unwrap_err();
            assert_eq!((answered, fault.code), (None, REQUEST), "{id}");
        }
        let message = Message::read(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}");
        assert_eq!(message.unwrap().id, None);
    }

    #[test]
    fn what_is_no_message_is_told_apart() {
        for (body, code) in [
            ("", PARSE),
            ("{", PARSE),
            ("nonsense", PARSE),
            ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"} x", PARSE),
            ("[]", REQUEST),
            (
                " [{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}]",
                REQUEST,
            ),
            ("7", REQUEST),
            (
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"a\"}",
                REQUEST,
            ),
            ("{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"a\"}", REQUEST),
            ("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", REQUEST),
            (
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"params\":[]}",
                PARAMS,
            ),
        ] {
            assert_eq!(
                Message::read(body.as_bytes()).unwrap_err().1.code,
                code,
                "{body}"
            );
        }
    }

    #[test]
    fn arguments_are_read_by_the_strict_rules() {
        let of = |arguments: &str| {
            let body = format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"x\",\"arguments\":{arguments}}}}}"
            );
            let message = Message::read(body.as_bytes()).unwrap();
            message.arguments().map(|map| map.len())
        };
        assert_eq!(of("{\"a\":1,\"b\":[]}").unwrap(), 2);
        for bad in [
            "{\"a\":1,\"a\":2}",
            "{\"a\":1.5}",
            "{\"a\":9007199254740993}",
            "[]",
            "7",
        ] {
            assert_eq!(
                of(bad).unwrap_err().code,
                crate::error::Code::Malformed,
                "{bad}"
            );
        }
    }
}
