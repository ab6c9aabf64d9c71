//! Where one envelope ends and the next begins: one a line, or one over many lines as pretty printers make them.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use countersign_verifier::dsse::Envelope;

/// An envelope over many lines has at most this many bytes: four times what the service takes.
const SPREAD_BYTES_MAX: usize = 1 << 20;

/// Where an envelope came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The input.
    pub name: Arc<str>,
    /// The line it begins at, from 1.
    pub line: u64,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.line)
    }
}

/// An envelope as it is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Where it came from.
    pub source: Source,
    /// Its bytes; nothing about them is checked, that is for the service.
    pub bytes: Bytes,
}

/// Takes lines, gives items.
#[derive(Debug, Default)]
pub struct Framer {
    /// The lines of an envelope that is not whole yet.
    pending: Vec<Item>,
    bytes: usize,
    depth: usize,
}

impl Framer {
    /// Takes a line without its end; gives what is whole by now.
    pub fn push(&mut self, line: Item) -> Vec<Item> {
        if self.pending.is_empty() && line.bytes.trim_ascii().is_empty() {
            return Vec::new();
        }
        // A line that is an envelope by itself belongs to nothing that was cut short before it.
        let is_own = !self.pending.is_empty() && Envelope::parse(&line.bytes).is_ok();
        let mut items = if is_own { self.finish() } else { Vec::new() };
        let cut = scan(&line.bytes, &mut self.depth);
        self.bytes += line.bytes.len() + 1;
        self.pending.push(line);
        if cut || self.bytes > SPREAD_BYTES_MAX {
            items.extend(self.finish());
        } else if self.depth == 0 {
            items.extend(self.join());
        }
        items
    }

    /// Gives the lines that never became a whole: each alone, for the service to say what is wrong with it.
    pub fn finish(&mut self) -> Vec<Item> {
        (self.bytes, self.depth) = (0, 0);
        let mut lines = std::mem::take(&mut self.pending);
        lines.retain(|line| !line.bytes.trim_ascii().is_empty());
        lines
    }

    fn join(&mut self) -> Option<Item> {
        let mut lines = std::mem::take(&mut self.pending);
        let whole = std::mem::take(&mut self.bytes);
        if lines.len() > 1 {
            // What ended lines stood between tokens, or it would have been cut: a space there says the same.
            let mut bytes = Vec::with_capacity(whole);
            for line in &lines {
                bytes.extend_from_slice(&line.bytes);
                bytes.push(b' ');
            }
            lines[0].bytes = bytes.into();
            lines.truncate(1);
        }
        lines.pop()
    }
}

/// Follows how many brackets are open. Whether the line ends in the middle of a string, which no JSON does, or closes more than
/// was open.
fn scan(line: &[u8], depth: &mut usize) -> bool {
    let (mut in_string, mut escaped) = (false, false);
    for &byte in line {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => *depth += 1,
            b'}' | b']' if !in_string => match depth.checked_sub(1) {
                Some(less) => *depth = less,
                None => return true,
            },
            _ => {}
        }
    }
    in_string
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_verifier::key::{Algorithm, PrivateKey};

    fn envelope() -> String {
        let key = PrivateKey::from_secret(Algorithm::Ed25519, &[1; 32]).unwrap();
        String::from_utf8(Envelope::sign("a/b", b"x", &[key]).to_json()).unwrap()
    }

    /// Line and bytes of each item.
    fn frame(text: &str) -> Vec<(u64, String)> {
        let mut framer = Framer::default();
        let mut items = Vec::new();
        for (line, bytes) in (1..).zip(text.split('\n')) {
            let source = Source {
                name: "f".into(),
                line,
            };
            items.extend(framer.push(Item {
                source,
                bytes: Bytes::copy_from_slice(bytes.as_bytes()),
            }));
        }
        items.extend(framer.finish());
        items
            .into_iter()
            .map(|item| {
                (
                    item.source.line,
                    String::from_utf8(item.bytes.to_vec()).unwrap(),
                )
            })
            .collect()
    }

    fn lines(text: &str) -> Vec<u64> {
        frame(text).into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn one_a_line_or_one_over_many() {
        let one = envelope();
        let pretty =
            serde_json::to_string_pretty(&serde_json::from_str::<serde_json::Value>(&one).unwrap())
                .unwrap();
        let long = pretty.lines().count() as u64;
        assert_eq!(frame(&one), [(1, one.clone())]);
        assert_eq!(lines(&format!("{one}\n\n {one} \r\n{one}")), [1, 3, 4]);
        assert_eq!(
            lines(&format!("\n{pretty}\n{one}\n{pretty}\n")),
            [2, 2 + long, 3 + long]
        );
        let whole = &frame(&pretty)[0].1;
        assert!(!whole.contains('\n'));
        assert_eq!(
            Envelope::parse(whole.as_bytes()).unwrap(),
            Envelope::parse(one.as_bytes()).unwrap()
        );
        assert!(frame("\n \n").is_empty());
    }

    #[test]
    fn a_bad_line_stops_no_other() {
        let one = envelope();
        let half = &one[..one.len() / 2];
        for bad in [
            "garbage",
            "}",
            half,
            r#"{"payloadType":"#,
            r#"{"payloadType":"a"#,
            "{",
            "]",
            r#"{"a\""#,
            "\"{",
        ] {
            assert_eq!(
                lines(&format!("{one}\n{bad}\n{one}\n{one}")),
                [1, 2, 3, 4],
                "{bad}"
            );
            assert_eq!(lines(&format!("{one}\n{bad}")), [1, 2], "{bad}");
        }
    }

    #[test]
    fn brackets_in_strings_are_text() {
        assert_eq!(lines("{\"a\":\"{[\\\"{\"}\n{\"b\":1}"), [1, 2]);
    }

    #[test]
    fn what_never_ends_is_given_up() {
        let open = format!("{{\n{}", "[1,\n".repeat(SPREAD_BYTES_MAX / 4));
        assert!(frame(&open).len() > 1000);
    }
}
