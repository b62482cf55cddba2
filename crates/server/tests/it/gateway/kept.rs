//! A client that keeps its connection and asks one request after the other.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A connection over HTTP/1.1.
pub(super) struct KeptConnection(TcpStream);

impl KeptConnection {
    pub(super) async fn open(address: SocketAddr) -> io::Result<Self> {
        TcpStream::connect(address).await.map(Self)
    }

    /// The answer to a GET, which has a length; an error if the connection ends before.
    pub(super) async fn get(&mut self, path: &str) -> io::Result<String> {
        self.0.write_all(format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes()).await?;
        let mut answer = Vec::new();
        loop {
            let text = String::from_utf8_lossy(&answer);
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|line| {
                    line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok()
                });
                if length.is_none_or(|length| body.len() >= length) {
                    return Ok(text.into_owned());
                }
            }
            if self.0.read_buf(&mut answer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// The status of an answer.
pub(super) fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}
