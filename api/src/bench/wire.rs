//! HTTP/1.1 as a load generator needs it: one request at a time on a kept connection, answers with a length or in chunks
//! (RFC 9112). It shares the processors with what it measures, so it does no more than that.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    ops::Range,
};

use bytes::Buf;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};

/// An answer's head may have this many bytes; more is an error, not a reason to wait.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Why an exchange failed.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The connection failed.
    #[error("connection: {0}")]
    Io(#[from] io::Error),
    /// The server ended the connection within an answer or before it.
    #[error("the connection ended before its answer")]
    Ended,
    /// The answer is none of HTTP/1.1 with a length or in chunks.
    #[error("not an HTTP/1.1 answer: {0}")]
    Form(&'static str),
}

/// A kept connection to one server.
#[derive(Debug)]
pub struct Connection {
    address: SocketAddr,
    /// The address of this side, where it matters.
    from: Option<IpAddr>,
    stream: Option<TcpStream>,
    buffer: Vec<u8>,
}

/// An answer, alive until the next exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'c> {
    /// The status code.
    pub status: u16,
    /// The body, out of its chunks.
    pub body: &'c [u8],
}

impl Connection {
    /// A connection that will be opened by the first exchange.
    #[must_use]
    pub const fn new(address: SocketAddr) -> Connection {
        Connection {
            address,
            from: None,
            stream: None,
            buffer: Vec::new(),
        }
    }

    /// The same from this address.
    #[must_use]
    pub const fn from(from: IpAddr, address: SocketAddr) -> Connection {
        Connection {
            address,
            from: Some(from),
            stream: None,
            buffer: Vec::new(),
        }
    }

    async fn connect(&self) -> io::Result<TcpStream> {
        let Some(from) = self.from else {
            return TcpStream::connect(self.address).await;
        };
        let socket = match from {
            IpAddr::V4(_) => TcpSocket::new_v4()?,
            IpAddr::V6(_) => TcpSocket::new_v6()?,
        };
        socket.bind(SocketAddr::new(from, 0))?;
        socket.connect(self.address).await
    }

    /// Sends `head` (request line and fields, with the empty line) and `body`, and reads the answer.
    ///
    /// # Errors
    /// [`WireError`]; the next exchange then opens a new connection. Nothing is sent twice.
    pub async fn exchange(&mut self, head: &[u8], body: &[u8]) -> Result<Answer<'_>, WireError> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let stream = self.connect().await?;
                stream.set_nodelay(true)?;
                stream
            }
        };
        self.buffer.clear();
        stream.write_all_buf(&mut Buf::chain(head, body)).await?;
        let found = loop {
            if stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(WireError::Ended);
            }
            if let Some(found) = parse(&mut self.buffer)? {
                break found;
            }
        };
        if !found.close {
            self.stream = Some(stream);
        }
        Ok(Answer {
            status: found.status,
            body: &self.buffer[found.body],
        })
    }
}

/// A whole answer in a buffer.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    status: u16,
    body: Range<usize>,
    close: bool,
}

/// What of the head matters here.
struct Head {
    status: u16,
    length: Option<usize>,
    chunked: bool,
    close: bool,
    /// Where the body starts.
    end: usize,
}

/// Finds the answer in `buffer`, or `None` while some of it is missing. The body is moved out of its chunks in place once
/// all are there.
fn parse(buffer: &mut [u8]) -> Result<Option<Found>, WireError> {
    let Some(head) = parse_head(buffer)? else {
        return Ok(None);
    };
    let body = if head.chunked {
        let Some(chunks) = find_chunks(buffer, head.end)? else {
            return Ok(None);
        };
        let mut end = head.end;
        for chunk in chunks {
            let bytes = chunk.len();
            buffer.copy_within(chunk, end);
            end += bytes;
        }
        head.end..end
    } else {
        let length = head
            .length
            .ok_or(WireError::Form("neither a length nor chunks"))?;
        let end = head
            .end
            .checked_add(length)
            .ok_or(WireError::Form("its length"))?;
        if buffer.len() < end {
            return Ok(None);
        }
        if buffer.len() > end {
            return Err(WireError::Form("bytes beyond the answer"));
        }
        head.end..end
    };
    Ok(Some(Found {
        status: head.status,
        body,
        close: head.close,
    }))
}

fn parse_head(buffer: &[u8]) -> Result<Option<Head>, WireError> {
    let Some(end) = find(buffer, b"\r\n\r\n") else {
        return if buffer.len() > HEAD_BYTES_MAX {
            Err(WireError::Form("a long head"))
        } else {
            Ok(None)
        };
    };
    let text = std::str::from_utf8(&buffer[..end])
        .map_err(|_| WireError::Form("a head that is not text"))?;
    let mut lines = text.split("\r\n");
    let status_line = lines.next().unwrap_or_default();
    let status = status_line
        .strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3)?.parse().ok())
        .ok_or(WireError::Form("its first line"))?;
    let mut head = Head {
        status,
        length: None,
        chunked: false,
        close: false,
        end: end + 4,
    };
    for line in lines {
        let (name, value) = line
            .split_once(':')
            .ok_or(WireError::Form("a field without a colon"))?;
        let value = value.trim_matches([' ', '\t']);
        if name.eq_ignore_ascii_case("content-length") {
            head.length = Some(value.parse().map_err(|_| WireError::Form("its length"))?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            head.chunked = value.eq_ignore_ascii_case("chunked");
        } else if name.eq_ignore_ascii_case("connection") {
            head.close = value.eq_ignore_ascii_case("close");
        }
    }
    Ok(Some(head))
}

/// The chunks of a body that starts at `at`, or `None` while some are missing. Steps from size to size, so that reading
/// again after each packet costs little.
fn find_chunks(buffer: &[u8], mut at: usize) -> Result<Option<Vec<Range<usize>>>, WireError> {
    const SIZE: WireError = WireError::Form("the size of a chunk");
    let mut chunks = Vec::new();
    loop {
        let Some(line) = find(&buffer[at..], b"\r\n") else {
            return Ok(None);
        };
        let digits = buffer[at..at + line]
            .split(|b| *b == b';')
            .next()
            .unwrap_or_default();
        let digits = std::str::from_utf8(digits).map_err(|_| SIZE)?.trim_ascii();
        let bytes = usize::from_str_radix(digits, 16).map_err(|_| SIZE)?;
        let start = at + line + 2;
        if bytes == 0 {
            // Trailer fields end with an empty line, as the head does; usually there is nothing but that line.
            let whole = buffer[start..].starts_with(b"\r\n")
                || find(&buffer[start..], b"\r\n\r\n").is_some();
            return Ok(whole.then_some(chunks));
        }
        let end = start.checked_add(bytes).ok_or(SIZE)?;
        match buffer.get(end..end.saturating_add(2)) {
            None => return Ok(None),
            Some(b"\r\n") => chunks.push(start..end),
            Some(_) => return Err(WireError::Form("a chunk without its end")),
        }
        at = end + 2;
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(answer: &str) -> Result<Option<(u16, String, bool)>, WireError> {
        let mut buffer = answer.as_bytes().to_vec();
        let found = parse(&mut buffer)?;
        Ok(found.map(|f| {
            (
                f.status,
                String::from_utf8(buffer[f.body].to_vec()).expect("text"),
                f.close,
            )
        }))
    }

    #[test]
    fn answers() {
        for (answer, status, body, close) in [
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
                200,
                "hi",
                false,
            ),
            (
                "HTTP/1.1 202 \r\ncontent-length:0\r\nCONNECTION: Close\r\n\r\n",
                202,
                "",
                true,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0A;x=1\r\n\r\n23456\r\n9\r\n0\r\n\r\n",
                200,
                "abc\r\n23456\r\n9",
                false,
            ),
            (
                "HTTP/1.1 503 Busy\r\ntransfer-encoding: chunked\r\n\r\n0\r\nX: y\r\n\r\n",
                503,
                "",
                false,
            ),
        ] {
            assert_eq!(
                whole(answer).expect(answer),
                Some((status, body.to_owned(), close)),
                "{answer:?}"
            );
            for cut in 0..answer.len() {
                assert_eq!(
                    whole(&answer[..cut]).expect(answer),
                    None,
                    "{answer:?} cut at {cut}"
                );
            }
        }
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for answer in [
            "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi",
            "HTTP/1.1 20\r\nContent-Length: 2\r\n\r\nhi",
            "HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\nhi",
            "HTTP/1.1 200 OK\r\n\r\nhi",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nhi",
            "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nabc",
        ] {
            assert!(
                matches!(whole(answer), Err(WireError::Form(_))),
                "{answer:?}"
            );
        }
        let long = "HTTP/1.1 200 OK\r\n".repeat(5000);
        assert!(matches!(whole(&long), Err(WireError::Form(_))));
    }
}
