//! `/v1/authz`, asked as proxies ask, and by the real nginx.
#![expect(clippy::unwrap_used, reason = "clippy knows the tests here, but not the functions that they share")]

mod nginx;
mod questions;
pub(crate) mod tokens;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;

use crate::support::{Server, Setup};

/// Two an hour for each address, and three for each path.
pub(crate) const RULES: &str = "
domain: edge
descriptors:
  - key: remote_address
    rate_limit: { name: address, algorithm: sliding_log, requests_per_unit: 2, unit: hour, message: slow down }
  - key: method
    descriptors:
      - key: path
        rate_limit: { name: path, algorithm: sliding_log, requests_per_unit: 3, unit: hour }
  - key: user
    rate_limit: { name: user, algorithm: sliding_log, requests_per_unit: 1, unit: hour }
  - key: slow
    rate_limit: { name: slow, algorithm: leaky_bucket, requests_per_unit: 5, unit: second, burst: 50, max_wait: 10s }
";

/// A mapping with these descriptors that trusts 127.0.0.1 alone.
pub(crate) fn mapping(descriptors: &str) -> String {
    format!(
        "mapping:\n  domain: edge\n  trusted_proxies: [127.0.0.1]\n  descriptors:\n    - {}\n",
        descriptors.replace('\n', "\n    - ")
    )
}

pub(crate) const BY_ADDRESS: &str = "[remote_address: {}]";
const BY_PATH: &str = r#"[method: {}, path: { templates: ["/users/{id}"] }]"#;

async fn server(file: &str) -> Server {
    Setup::new(&[("edge.yaml", RULES)]).file(file).start().await
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    head: String,
    body: String,
}

impl Response {
    /// The value of a header, whatever the case of its name.
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (own, value) = line.split_once(':')?;
            own.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }
}

/// Asks from an address of this machine, with these lines as headers.
pub(crate) async fn ask_from(from: [u8; 4], to: SocketAddr, line: &str, headers: &[&str]) -> Response {
    let mut bytes = format!("{line} HTTP/1.1\r\nhost: shop.example\r\nconnection: close\r\n");
    for header in headers {
        bytes.push_str(header);
        bytes.push_str("\r\n");
    }
    bytes.push_str("\r\n");
    send(from, to, bytes.as_bytes()).await
}

async fn send(from: [u8; 4], to: SocketAddr, bytes: &[u8]) -> Response {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::from(from)), 0)).unwrap();
    let mut stream = socket.connect(to).await.unwrap();
    // A server that has heard enough may close while we still talk.
    drop(stream.write_all(bytes).await);
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer).await);
    let text = String::from_utf8(answer).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Response { status, head: head.to_owned(), body: body.to_owned() }
}

/// Asks as a trusted proxy.
async fn ask(server: &Server, line: &str, headers: &[&str]) -> Response {
    ask_from([127, 0, 0, 1], server.addresses.http, line, headers).await
}
