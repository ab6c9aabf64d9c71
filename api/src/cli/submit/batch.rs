//! What goes into one request.

use bytes::Bytes;

use super::input::Next;

/// The rows of one request: what is sent, and what is not but has its place among them.
#[derive(Debug, Default)]
pub struct Batch {
    /// In the order of the inputs.
    pub rows: Vec<Next>,
    lines: usize,
    bytes: usize,
}

impl Batch {
    /// Whether one more fits a request of at most `lines` lines and `bytes` bytes.
    pub fn fits(&self, next: &Next, lines: usize, bytes: usize) -> bool {
        match next {
            Next::Envelope(item) => self.lines < lines && self.bytes + item.bytes.len() < bytes,
            _ => true,
        }
    }

    /// Adds one.
    pub fn push(&mut self, next: Next) {
        if let Next::Envelope(item) = &next {
            self.lines += 1;
            self.bytes += item.bytes.len() + 1;
        }
        self.rows.push(next);
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// What is sent.
    pub fn envelopes(&self) -> Vec<Bytes> {
        let bytes = |next: &Next| match next {
            Next::Envelope(item) => Some(item.bytes.clone()),
            _ => None,
        };
        self.rows.iter().filter_map(bytes).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::submit::frame::{Item, Source};

    #[test]
    fn a_batch_is_cut_by_lines_and_by_bytes() {
        let item = |bytes: &'static str| {
            let source = Source {
                name: "f".into(),
                line: 1,
            };
            Next::Envelope(Item {
                source,
                bytes: Bytes::from_static(bytes.as_bytes()),
            })
        };
        let mut batch = Batch::default();
        assert!(batch.fits(&item("12345"), 2, 6) && !batch.fits(&item("123456"), 2, 6));
        batch.push(item("123"));
        assert!(batch.fits(&item("1"), 2, 6) && !batch.fits(&item("12"), 2, 6));
        batch.push(item("1"));
        assert!(!batch.fits(&item(""), 2, 100));
        let error = Next::TooLong(
            Source {
                name: "f".into(),
                line: 2,
            },
            1 << 30,
        );
        assert!(batch.fits(&error, 2, 6));
        batch.push(error);
        assert_eq!((batch.rows.len(), batch.envelopes().len()), (3, 2));
    }
}
