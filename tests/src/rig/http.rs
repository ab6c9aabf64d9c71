//! HTTP/1.1 by hand: sends exactly the bytes that a test means, `..` and bad lengths included.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

use rustls::{ClientConfig, ClientConnection, StreamOwned};
use serde_json::Value;

/// Longer than any deadline that a test asks for: reaching it is a failure.
const TIMEOUT: Duration = Duration::from_secs(90);

/// Bytes both ways.
pub trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A client with one connection, kept open while the server keeps it.
pub struct Http {
    address: SocketAddr,
    trust: Option<Arc<ClientConfig>>,
    connection: Option<BufReader<Box<dyn Stream>>>,
}

/// What a server said.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Http {
    /// Over TLS where it is told whom to trust.
    pub fn new(address: SocketAddr, trust: Option<Arc<ClientConfig>>) -> Http {
        Http {
            address,
            trust,
            connection: None,
        }
    }

    /// Over a connection that was made elsewhere; it is not made again.
    pub fn over(stream: Box<dyn Stream>) -> Http {
        Http {
            address: SocketAddr::from(([0, 0, 0, 0], 0)),
            trust: None,
            connection: Some(BufReader::new(stream)),
        }
    }

    pub fn get(&mut self, target: &str) -> Answer {
        self.send("GET", target, &[], b"")
    }

    pub fn post(&mut self, target: &str, kind: &str, body: &[u8]) -> Answer {
        self.send("POST", target, &[("content-type", kind)], body)
    }

    /// Sends a request; a failure of the connection is a failure of the test.
    pub fn send(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        self.try_send(method, target, headers, body)
            .unwrap_or_else(|e| panic!("{method} {target}: {e}"))
    }

    /// Sends a request to a server that may be going away.
    ///
    /// # Errors
    /// What the system says; whether the server took the request is then unknown.
    pub fn try_send(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Answer> {
        let mut request = head(method, target, headers);
        if !body.is_empty() || method == "POST" {
            request += &format!("content-length: {}\r\n", body.len());
        }
        let bytes = [request.as_bytes(), b"\r\n", body].concat();
        self.raw(&bytes, method == "HEAD")
    }

    /// Sends these bytes and reads one answer.
    pub fn raw(&mut self, bytes: &[u8], head: bool) -> io::Result<Answer> {
        let sent = self.connect()?.get_mut().write_all(bytes);
        if sent.is_ok() {
            self.connect()?.get_mut().flush()?;
        }
        // Whoever is refused early may meet a closed door while still sending; the answer is there all the same.
        self.read(head).map_err(|e| sent.err().unwrap_or(e))
    }

    /// Sends these bytes; the answer is read by [`Http::read`].
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let connection = self.connect()?;
        let sent = connection.get_mut().write_all(bytes);
        sent.and_then(|()| connection.get_mut().flush())
            .inspect_err(|_| self.connection = None)
    }

    /// Reads one answer; `head` says that it has no body whatever its length says.
    pub fn read(&mut self, head: bool) -> io::Result<Answer> {
        let connection = self.connect()?;
        let answer = read(connection, head);
        let closes = |a: &Answer| {
            a.header("connection")
                .is_some_and(|c| c.eq_ignore_ascii_case("close"))
        };
        if answer.as_ref().map_or(true, closes) {
            self.connection = None;
        }
        answer
    }

    fn connect(&mut self) -> io::Result<&mut BufReader<Box<dyn Stream>>> {
        if self.connection.is_none() {
            let stream = TcpStream::connect(self.address)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            stream.set_write_timeout(Some(TIMEOUT))?;
            let stream: Box<dyn Stream> = match &self.trust {
                None => Box::new(stream),
                Some(trust) => {
                    let name = self.address.ip().into();
                    let tls = ClientConnection::new(trust.clone(), name);
                    Box::new(StreamOwned::new(tls.map_err(io::Error::other)?, stream))
                }
            };
            self.connection = Some(BufReader::new(stream));
        }
        // OK because it was just made.
        Ok(self.connection.as_mut().expect("Http::connect"))
    }
}

/// Request line and headers, without the empty line that ends them.
pub fn head(method: &str, target: &str, headers: &[(&str, &str)]) -> String {
    let mut text = format!("{method} {target} HTTP/1.1\r\nhost: localhost\r\n");
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    text
}

fn line(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

fn read(from: &mut impl BufRead, head: bool) -> io::Result<Answer> {
    let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let first = line(from)?;
    let status = first.split(' ').nth(1).and_then(|s| s.parse().ok());
    let status = status.ok_or_else(|| bad(&first))?;
    let mut answer = Answer {
        status,
        headers: Vec::new(),
        body: Vec::new(),
    };
    loop {
        let line = line(from)?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').ok_or_else(|| bad(&line))?;
        let header = (name.to_ascii_lowercase(), value.trim().to_owned());
        answer.headers.push(header);
    }
    if head || status < 200 || status == 304 || status == 204 {
        return Ok(answer);
    }
    if answer.header("transfer-encoding") == Some("chunked") {
        loop {
            let size = line(from)?;
            let size = usize::from_str_radix(&size, 16).map_err(|_| bad(&size))?;
            let mut chunk = vec![0; size + 2];
            from.read_exact(&mut chunk)?;
            if size == 0 {
                return Ok(answer);
            }
            answer.body.extend_from_slice(&chunk[..size]);
        }
    }
    let length = answer.header("content-length").and_then(|l| l.parse().ok());
    match length {
        Some(length) => {
            answer.body = vec![0; length];
            from.read_exact(&mut answer.body)?;
        }
        None => {
            from.read_to_end(&mut answer.body)?;
        }
    }
    Ok(answer)
}

impl Answer {
    /// The first header of this name, in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("status {}, {e}: {}", self.status, self.text()))
    }

    /// The objects of an answer that has one a line.
    pub fn lines(&self) -> Vec<Value> {
        assert_eq!(self.header("content-type"), Some(super::NDJSON));
        let text = self.text();
        let lines = text.lines().map(serde_json::from_str);
        lines.map(|line| line.expect("a line of JSON")).collect()
    }

    /// That it is this problem, as RFC 9457 and the design have it. Its `detail`.
    #[track_caller]
    pub fn problem(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json")
        );
        let body = self.json();
        check_problem(&body, code);
        assert_eq!(body["status"], status);
        body["detail"].clone()
    }

    /// That the write was taken and is under a published checkpoint. Its index.
    #[track_caller]
    pub fn index(&self) -> u64 {
        assert_eq!(self.status, 200, "{}", self.text());
        let body = self.json();
        assert_eq!(body["state"], "included", "{body}");
        body["index"].as_u64().expect("an index")
    }
}

/// The members that clients branch on.
#[track_caller]
pub fn check_problem(body: &Value, code: &str) {
    assert_eq!(body["code"], code, "{body}");
    let message = body["message"].as_str().unwrap_or_default();
    assert!(message.len() > 10, "a plain sentence: {body}");
    assert!(body["retryable"].is_boolean(), "{body}");
    assert!(body["title"].is_string(), "{body}");
    assert!(body["detail"].is_object(), "{body}");
    // 5xx never shows what is inside.
    for inside in ["panicked", ".rs:", "rocksdb", "IO error", "No such file"] {
        assert!(!message.contains(inside), "{body}");
    }
}
