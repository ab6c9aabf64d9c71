//! Reading inputs line by line, whatever their length; each step may be given up and taken again.

use std::{collections::VecDeque, io, path::PathBuf, sync::Arc};

use tokio::{
    fs::File,
    io::{AsyncBufRead, AsyncBufReadExt as _, BufReader, stdin},
};

use super::frame::{Framer, Item, Source};
use crate::client::NDJSON_BYTES_MAX;

/// A line that no request can carry is passed over while it is read, so memory is bounded by this.
pub const LINE_BYTES_MAX: usize = NDJSON_BYTES_MAX - 1;

/// What an input holds next.
#[derive(Debug)]
pub enum Next {
    /// An envelope.
    Envelope(Item),
    /// A line of so many bytes, which cannot be sent.
    TooLong(Source, usize),
    /// The rest of an input cannot be read.
    Unreadable(Source, io::Error),
}

impl Next {
    /// Where it came from.
    pub fn source(&self) -> &Source {
        match self {
            Self::Envelope(item) => &item.source,
            Self::TooLong(source, _) | Self::Unreadable(source, _) => source,
        }
    }
}

/// All inputs, one after another.
pub struct Inputs {
    paths: VecDeque<PathBuf>,
    open: Option<Open>,
    ready: VecDeque<Next>,
}

struct Open {
    name: Arc<str>,
    lines: Lines<Box<dyn AsyncBufRead + Unpin>>,
    framer: Framer,
}

impl Inputs {
    /// These files, in this order; `-` is standard input.
    pub fn new(paths: Vec<PathBuf>) -> Inputs {
        Inputs {
            paths: paths.into(),
            open: None,
            ready: VecDeque::new(),
        }
    }

    /// What comes next; `None` at the end of all. Cancel safe: nothing is lost when it is given up.
    pub async fn next(&mut self) -> Option<Next> {
        loop {
            if let Some(next) = self.ready.pop_front() {
                return Some(next);
            }
            let Some(open) = &mut self.open else {
                let path = self.paths.front()?;
                let opened = Open::new(path).await;
                let name: Arc<str> = path.to_string_lossy().into();
                self.paths.pop_front();
                match opened {
                    Ok(open) => self.open = Some(open),
                    Err(error) => return Some(Next::Unreadable(Source { name, line: 1 }, error)),
                }
                continue;
            };
            let step = open.lines.next().await;
            let source = Source {
                name: open.name.clone(),
                line: open.lines.number,
            };
            match step {
                Ok(Some(Line::Whole(bytes))) => {
                    self.ready.extend(
                        open.framer
                            .push(Item {
                                source,
                                bytes: bytes.into(),
                            })
                            .into_iter()
                            .map(Next::Envelope),
                    );
                }
                Ok(Some(Line::TooLong(bytes))) => {
                    self.ready
                        .extend(open.framer.finish().into_iter().map(Next::Envelope));
                    self.ready.push_back(Next::TooLong(source, bytes));
                }
                Ok(None) => {
                    self.ready
                        .extend(open.framer.finish().into_iter().map(Next::Envelope));
                    self.open = None;
                }
                Err(error) => {
                    // A line that broke off is none; those before it are.
                    self.ready
                        .extend(open.framer.finish().into_iter().map(Next::Envelope));
                    self.ready.push_back(Next::Unreadable(source, error));
                    self.open = None;
                }
            }
        }
    }
}

impl Open {
    async fn new(path: &PathBuf) -> io::Result<Open> {
        const BUFFER: usize = 1 << 18;
        let (name, reader): (_, Box<dyn AsyncBufRead + Unpin>) = if path.as_os_str() == "-" {
            (
                "standard input".into(),
                Box::new(BufReader::with_capacity(BUFFER, stdin())),
            )
        } else {
            (
                path.to_string_lossy(),
                Box::new(BufReader::with_capacity(BUFFER, File::open(path).await?)),
            )
        };
        Ok(Open {
            name: name.into(),
            lines: Lines::new(reader),
            framer: Framer::default(),
        })
    }
}

/// One line, without its end.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Whole(Vec<u8>),
    TooLong(usize),
}

struct Lines<R> {
    reader: R,
    partial: Vec<u8>,
    /// Bytes of the line that `partial` no longer holds.
    dropped: usize,
    /// The line last given, from 1.
    number: u64,
    max: usize,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    fn new(reader: R) -> Self {
        Self {
            reader,
            partial: Vec::new(),
            dropped: 0,
            number: 0,
            max: LINE_BYTES_MAX,
        }
    }

    /// Cancel safe: what was read of a line is kept here, and only the filling of the buffer can be given up.
    async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let available = self.reader.fill_buf().await?;
            if available.is_empty() {
                let is_end = self.partial.is_empty() && self.dropped == 0;
                return Ok(if is_end { None } else { Some(self.take()) });
            }
            let end = available.iter().position(|b| *b == b'\n');
            let part = &available[..end.unwrap_or(available.len())];
            if self.dropped > 0 || self.partial.len() + part.len() > self.max {
                self.dropped += std::mem::take(&mut self.partial).len() + part.len();
            } else {
                self.partial.extend_from_slice(part);
            }
            let used = part.len() + usize::from(end.is_some());
            self.reader.consume(used);
            if end.is_some() {
                return Ok(Some(self.take()));
            }
        }
    }

    fn take(&mut self) -> Line {
        self.number += 1;
        match std::mem::take(&mut self.dropped) {
            0 => Line::Whole(std::mem::take(&mut self.partial)),
            bytes => Line::TooLong(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(text: &str, max: usize, chunk: usize) -> Vec<Line> {
        let mut lines = Lines::new(BufReader::with_capacity(chunk, text.as_bytes()));
        lines.max = max;
        let mut all = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            all.push(line);
        }
        assert_eq!(lines.number, all.len() as u64);
        all
    }

    #[tokio::test]
    async fn lines_are_whole_whatever_the_buffer() {
        let whole = |text: &str| Line::Whole(text.into());
        for chunk in 1..9 {
            assert_eq!(
                lines("ab\n\ncde\nf", 4, chunk).await,
                [whole("ab"), whole(""), whole("cde"), whole("f")]
            );
            assert_eq!(
                lines("ab\nabcde\nf\n", 4, chunk).await,
                [whole("ab"), Line::TooLong(5), whole("f")]
            );
            assert_eq!(lines("abcdefghij", 4, chunk).await, [Line::TooLong(10)]);
            assert!(lines("", 4, chunk).await.is_empty());
        }
    }

    #[tokio::test]
    async fn inputs_follow_each_other_and_an_unreadable_one_stops_none() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let paths = vec![
            file("a", "{}\n[\n"),
            dir.path().join("none"),
            file("b", "{}"),
        ];
        let mut inputs = Inputs::new(paths);
        let mut seen = Vec::new();
        while let Some(next) = inputs.next().await {
            seen.push(match next {
                Next::Envelope(item) => item.source.line.to_string(),
                Next::Unreadable(source, _) => {
                    format!("unreadable {}", source.name.rsplit('/').next().unwrap())
                }
                Next::TooLong(..) => "long".into(),
            });
        }
        assert_eq!(seen, ["1", "2", "unreadable none", "1"]);
    }
}
