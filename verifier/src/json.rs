//! Strict JSON: what may be read, and the one canonical spelling of what was read.
//!
//! Two readers of one text must not see two things. So a name may stand once in an object, strings
//! are Unicode, numbers are integers that every language holds exactly, and nesting is bounded.

use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write as _;

use serde_json::{Map, Value};

use crate::base64::Base64Error;
use crate::limits;
use crate::scan::{Scanner, push_string};

/// What is wrong with a text that should have been a JSON document of a known form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Not UTF-8.
    #[error("not UTF-8")]
    Utf8,
    /// The text ended early.
    #[error("the text ends where {due} is due")]
    End {
        /// What should have come.
        due: &'static str,
    },
    /// Something else than what has to stand here.
    #[error("not {due}")]
    Unexpected {
        /// What should have come.
        due: &'static str,
    },
    /// Something follows the document.
    #[error("something follows the end of the document")]
    Trailing,
    /// A control character inside a string.
    #[error("an unescaped control character in a string")]
    Control,
    /// An escape that JSON does not have.
    #[error("an escape that JSON does not have")]
    Escape,
    /// Half of a surrogate pair.
    #[error("half of a surrogate pair")]
    Surrogate,
    /// A member name stands twice in one object.
    #[error("a member name stands twice")]
    Duplicate,
    /// More than [`limits::JSON_DEPTH_MAX`] brackets are open.
    #[error("nested deeper than {}", limits::JSON_DEPTH_MAX)]
    Depth,
    /// A number that is not an integer within ±(2^53−1), or not written as one.
    #[error("not an integer within 2^53-1 of zero")]
    Integer,
    /// Not a whole number below 2^63, written in digits.
    #[error("not a whole number below 2^63")]
    Count,
    /// A member is missing.
    #[error("member {0} is missing")]
    Missing(&'static str),
    /// A member that this form does not have.
    #[error("a member that this form does not have")]
    Unknown,
    /// A string that is not base64.
    #[error("{0}")]
    Base64(#[from] Base64Error),
    /// More bytes than allowed.
    #[error("{bytes} bytes where {limit} are allowed")]
    TooLarge {
        /// The bound, in bytes.
        limit: usize,
        /// What was there, in bytes.
        bytes: usize,
    },
    /// More elements than allowed.
    #[error("more than {limit} elements")]
    TooMany {
        /// The bound.
        limit: usize,
    },
    /// A text or a value of another form than its member has.
    #[error("not {0}")]
    Form(&'static str),
    /// A string spelled with other escapes than the fewest.
    #[error("not the shortest spelling of this string")]
    Spelling,
}

/// A fault and where it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} (at {}, line {line}, byte {offset})", if .pointer.is_empty() { "the top" } else { .pointer })]
pub struct JsonError {
    /// The RFC 6901 pointer of the value at fault; empty for the document itself.
    pub pointer: String,
    /// Offset in bytes, from 0.
    pub offset: usize,
    /// Line, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: Fault,
}

/// The largest integer that all readers hold exactly: 2^53 − 1.
pub const MAX_INTEGER: i64 = (1 << 53) - 1;

/// Reads a document by the strict rules.
///
/// # Errors
/// [`JsonError`] for invalid UTF-8, a name that stands twice in an object, a lone surrogate, nesting
/// deeper than [`limits::JSON_DEPTH_MAX`], a number that is not written as an integer or is beyond
/// ±(2^53−1), and anything that is not JSON at all.
pub fn parse(bytes: &[u8]) -> Result<Value, JsonError> {
    let mut scanner = Scanner::new(bytes)?;
    let value = scanner.value()?;
    scanner.end()?;
    Ok(value)
}

impl Scanner<'_> {
    /// Reads one value by the strict rules.
    pub(crate) fn value(&mut self) -> Result<Value, JsonError> {
        match self.peek() {
            Some(b'"') => Ok(Value::String(self.string()?.into_owned())),
            Some(b'{') => self.members(),
            Some(b'[') => {
                let mut elements = Vec::new();
                self.array(|scanner, _| {
                    elements.push(scanner.value()?);
                    Ok(())
                })?;
                Ok(Value::Array(elements))
            }
            _ if self.take("true") => Ok(Value::Bool(true)),
            _ if self.take("false") => Ok(Value::Bool(false)),
            _ if self.take("null") => Ok(Value::Null),
            _ => self.integer(),
        }
    }

    fn members(&mut self) -> Result<Value, JsonError> {
        let mut map = Map::new();
        self.object(|scanner, name| {
            if map.contains_key(name.as_ref()) {
                return scanner.fail(Fault::Duplicate);
            }
            let value = scanner.value()?;
            map.insert(name.into_owned(), value);
            Ok(())
        })?;
        Ok(Value::Object(map))
    }

    fn integer(&mut self) -> Result<Value, JsonError> {
        let start = self.offset();
        match self.number()?.parse::<i64>() {
            Ok(number) if (-MAX_INTEGER..=MAX_INTEGER).contains(&number) => Ok(number.into()),
            _ => self.fail_at(start, Fault::Integer),
        }
    }
}

/// The RFC 8785 form: no white space, members in UTF-16 order of their names, fewest escapes.
///
/// Total: a [`Value`] that did not come from [`parse`] may hold fractions, and gets the number form
/// that the RFC takes from ECMAScript.
#[must_use]
pub fn canonical(value: &Value) -> String {
    let mut out = Vec::new();
    push_canonical(&mut out, value);
    String::from_utf8(out).expect("OK because only whole strings and ASCII are pushed")
}

fn push_canonical(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => out.extend_from_slice(spell_number(number).as_bytes()),
        Value::String(text) => push_string(out, text),
        Value::Array(elements) => {
            out.push(b'[');
            for (i, element) in elements.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                push_canonical(out, element);
            }
            out.push(b']');
        }
        Value::Object(members) => {
            let mut names: Vec<&String> = members.keys().collect();
            names.sort_by(|a, b| a.encode_utf16().cmp(b.encode_utf16()));
            out.push(b'{');
            for (i, name) in names.into_iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                push_string(out, name);
                out.push(b':');
                push_canonical(out, &members[name]);
            }
            out.push(b'}');
        }
    }
}

/// ECMAScript's Number::toString (ECMA-262 section 6.1.6.1.20) of the double nearest to `number`.
fn spell_number(number: &serde_json::Number) -> Cow<'static, str> {
    let exact = |n: i64| (-MAX_INTEGER..=MAX_INTEGER).contains(&n);
    if let Some(integer) = number.as_i64().filter(|&n| exact(n)) {
        return Cow::Owned(integer.to_string());
    }
    let double = number.as_f64().unwrap_or(0.0);
    if double == 0.0 {
        return Cow::Borrowed("0");
    }
    // Rust's exponent form has as many digits as ECMAScript asks for. Where two numbers of so many digits
    // are equally near it may take the odd one; rounding to that many digits takes the even one.
    let shortest = alloc::format!("{:e}", double.abs());
    let places = shortest
        .bytes()
        .take_while(|b| *b != b'e')
        .count()
        .saturating_sub(2);
    let scientific = alloc::format!("{:.places$e}", double.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let digits = mantissa.replace('.', "");
    let point = 1 + exponent.parse::<i32>().unwrap_or(0);
    let mut out = String::from(if double < 0.0 { "-" } else { "" });
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let zeros = |n: i32| "0".repeat(usize::try_from(n).unwrap_or(0));
    match point {
        1..=21 if count <= point => out += &(digits + &zeros(point - count)),
        1..=21 => {
            let (whole, part) = digits.split_at(usize::try_from(point).unwrap_or(0));
            out = out + whole + "." + part;
        }
        -5..=0 => out = out + "0." + &zeros(-point) + &digits,
        _ => {
            let (first, part) = digits.split_at(1);
            let dot = if part.is_empty() { "" } else { "." };
            let sign = if point > 0 { "+" } else { "" };
            // OK because writing to a String cannot fail.
            let _ = write!(out, "{first}{dot}{part}e{sign}{}", point - 1);
        }
    }
    Cow::Owned(out)
}
