//! A request by HTTP/1.1 and its answer; a connection each.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy knows the tests here, but not the functions that they share"
)]

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use crate::patience::DEADLINE;

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    /// The value of a header that comes at most once.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(own, _)| own == name).map(|(_, value)| value.as_str());
        let first = values.next();
        assert_eq!(values.next(), None, "{name} comes twice: {self:?}");
        first
    }

    /// A header that is a number.
    pub(crate) fn number(&self, name: &str) -> u64 {
        let value = self.header(name);
        value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no number {name}: {self:?}"))
    }
}

/// Gets `path`.
pub(crate) fn get(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> io::Result<Answer> {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    send(address, &format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n{headers}\r\n"))
}

/// Posts `body` to `path`.
pub(crate) fn post(address: SocketAddr, path: &str, body: &str) -> io::Result<Answer> {
    let head = format!("POST {path} HTTP/1.1\r\nhost: test\r\nconnection: close");
    send(address, &format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()))
}

fn send(address: SocketAddr, request: &str) -> io::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&address, DEADLINE)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.write_all(request.as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    parse(&text).ok_or_else(|| io::Error::other(format!("no answer: {text:?}")))
}

fn parse(text: &str) -> Option<Answer> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let split = |line: &str| {
        let (name, value) = line.split_once(':').unwrap();
        (name.to_ascii_lowercase(), value.trim().to_owned())
    };
    Some(Answer { status, headers: lines.map(split).collect(), body: body.to_owned() })
}
