//! The smallest HTTP client that these tests need.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Status and body of a GET.
pub(crate) async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    request(address, &format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")).await
}

/// Status and body of a GET with one more header.
pub(crate) async fn get_with(address: SocketAddr, path: &str, header: &str) -> (u16, String) {
    request(
        address,
        &format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{header}\r\n\r\n"),
    )
    .await
}

/// Status and body of a POST.
pub(crate) async fn post(address: SocketAddr, path: &str, body: &str) -> (u16, String) {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    request(address, &(head + body)).await
}

/// Status and body of whatever `bytes` ask for.
pub(crate) async fn request(address: SocketAddr, bytes: &str) -> (u16, String) {
    let text = raw(address, bytes.as_bytes()).await;
    let (head, body) = text.split_once("\r\n\r\n").expect("an answer has a head and a body");
    let status = head.split(' ').nth(1).expect("a head has a status");
    (status.parse().expect("a status is a number"), body.to_owned())
}

/// All that comes back for `bytes` until the connection is closed, as text.
pub(crate) async fn raw(address: SocketAddr, bytes: &[u8]) -> String {
    String::from_utf8(raw_bytes(address, bytes).await).expect("an answer is text")
}

/// All that comes back for `bytes` until the connection is closed.
pub(crate) async fn raw_bytes(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.expect("the server listens");
    // A server that has heard enough may close while we still talk.
    drop(stream.write_all(bytes).await);
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer).await);
    answer
}
