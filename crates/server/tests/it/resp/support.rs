//! A server that speaks RESP, and a caller that counts bytes.
#![expect(clippy::unwrap_used, reason = "clippy knows the tests here, but not the functions that they share")]

use std::fmt::Write as _;
use std::net::SocketAddr;

use redis_protocol::resp2::decode::decode as decode2;
use redis_protocol::resp3::decode::complete::decode as decode3;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{DEADLINE, Server, Setup};

/// Rules for `TOLLGATE.CHECK`.
pub(crate) const RULES: &str = "
domain: shop
descriptors:
  - key: user_id
    rate_limit: { name: per_user, unit: day, requests_per_unit: 2, algorithm: sliding_log }
";

/// A server to be, that speaks RESP on some port.
pub(crate) fn setup() -> Setup {
    Setup::new(&[("rules.yaml", RULES)]).env("TOLLGATE_RESP", "127.0.0.1:0")
}

/// Where it speaks RESP.
pub(crate) fn address(server: &Server) -> SocketAddr {
    server.addresses.resp.unwrap()
}

/// A command as clients send it.
pub(crate) fn command(text: &str) -> Vec<u8> {
    let words: Vec<&str> = text.split(' ').collect();
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words {
        write!(bytes, "${}\r\n{word}\r\n", word.len()).unwrap();
    }
    bytes.into_bytes()
}

/// A connection.
pub(crate) struct Caller(pub(crate) TcpStream);

impl Caller {
    pub(crate) async fn new(server: &Server) -> Self {
        let stream = TcpStream::connect(address(server)).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.unwrap();
    }

    /// Exactly so many bytes.
    pub(crate) async fn hear(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        tokio::time::timeout(DEADLINE, self.0.read_exact(&mut bytes)).await.unwrap().unwrap();
        bytes
    }

    /// Sends, and expects exactly this back.
    pub(crate) async fn expect(&mut self, sent: &[u8], expected: &str) {
        self.send(sent).await;
        let heard = self.hear(expected.len()).await;
        assert_eq!(String::from_utf8_lossy(&heard), expected, "{}", String::from_utf8_lossy(sent));
    }

    /// All that comes until the connection is closed, which it must be.
    pub(crate) async fn last_words(&mut self) -> String {
        let mut bytes = Vec::new();
        tokio::time::timeout(DEADLINE, self.0.read_to_end(&mut bytes)).await.unwrap().unwrap();
        String::from_utf8(bytes).unwrap()
    }
}

/// How many whole values a library of its own finds, and that nothing is left.
pub(crate) fn values_in(bytes: &[u8], is_resp3: bool) -> usize {
    let (mut at, mut count) = (0, 0);
    while at < bytes.len() {
        let rest = &bytes[at..];
        at += if is_resp3 { decode3(rest).unwrap().unwrap().1 } else { decode2(rest).unwrap().unwrap().1 };
        count += 1;
    }
    count
}
