//! Where results and remarks go.

use std::{
    fmt::Display,
    io::{self, Write},
};

use countersign_verifier::words::printable;

/// Standard output. When its reader has gone, the rest is dropped without a word: work that is under way is finished, and the
/// exit code still says how it went.
#[derive(Debug)]
pub struct Out<W = io::Stdout> {
    to: W,
    closed: bool,
}

impl Out {
    /// The standard output of this process.
    pub fn stdout() -> Out {
        Out {
            to: io::stdout(),
            closed: false,
        }
    }
}

impl<W: Write> Out<W> {
    /// Another place for results.
    #[cfg(test)]
    pub fn to(to: W) -> Out<W> {
        Out { to, closed: false }
    }

    /// Writes a line.
    ///
    /// # Errors
    /// What the system says; a closed pipe is none.
    pub fn line(&mut self, line: impl Display) -> io::Result<()> {
        self.bytes(format!("{line}\n").as_bytes())
    }

    /// Writes bytes as they are.
    ///
    /// # Errors
    /// As [`Out::line`].
    pub fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.closed {
            return Ok(());
        }
        match self.to.write_all(bytes).and_then(|()| self.to.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            written => written,
        }
    }

    /// Whether nobody reads any more: what only prints may stop.
    pub fn is_closed(&self) -> bool {
        self.closed
    }
}

impl<W: Write> Write for Out<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a remark to standard error, control characters of what it quotes as escapes.
pub fn note(remark: impl Display) {
    // Nobody is left to tell.
    let _ = writeln!(io::stderr(), "{}", shown(&remark.to_string()));
}

/// Text of several lines that quotes what others wrote: no file can draw on the reader's terminal.
pub fn shown(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(printable).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Pipe(usize);

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(1).ok_or(io::ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn nothing_that_is_quoted_reaches_the_terminal_as_it_is() {
        assert_eq!(shown("a\u{1b}[2Jb\n\u{202e}c"), "a\\u{1b}[2Jb\n\\u{202e}c");
    }

    #[test]
    fn a_closed_pipe_is_no_error() {
        let mut out = Out {
            to: Pipe(1),
            closed: false,
        };
        for closed in [false, true, true] {
            out.line("x").unwrap();
            assert_eq!(out.is_closed(), closed);
        }
    }
}
