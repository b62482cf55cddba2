//! Bytes that are not the protocol, and connections that say nothing.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Bystander, RULES};
use crate::support::{DEADLINE, Server, http};

/// What comes back until the connection is closed, which it must be in time.
async fn until_closed(mut stream: TcpStream) -> Vec<u8> {
    let mut answer = Vec::new();
    let read = timeout(2 * DEADLINE, stream.read_to_end(&mut answer)).await;
    // A reset is as good an end as any.
    drop(read.expect("the connection is closed in time"));
    answer
}

async fn send(server: &Server, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(server.grpc_address()).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream
}

#[tokio::test]
async fn garbage_closes_the_connection_it_came_on() {
    let server = Server::with(RULES).await;
    let bystander = Bystander::at(&server).await;
    let garbage: Vec<u8> =
        (0..100_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    for bytes in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], &garbage, b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"]
    {
        let mut stream = TcpStream::connect(server.grpc_address()).await.unwrap();
        // It may be closed before all of it is sent.
        drop(stream.write_all(bytes).await);
        until_closed(stream).await;
    }
    let answer = http::raw(server.addresses.http, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    bystander.noticed_nothing().await;
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

#[tokio::test]
async fn half_a_preface_and_then_silence_is_cut_off() {
    let server = Server::with(RULES).await;
    let bystander = Bystander::at(&server).await;
    let stream = send(&server, &PREFACE[..10]).await;
    until_closed(stream).await;
    bystander.noticed_nothing().await;
}

#[tokio::test]
async fn half_a_frame_and_then_silence_is_cut_off() {
    let server = Server::with(RULES).await;
    let bystander = Bystander::at(&server).await;
    // The head of a HEADERS frame of 100 bytes, and 10 of them.
    let half = [&[0, 0, 100, 1, 4, 0, 0, 0, 1][..], &[0; 10]].concat();
    let stream = send(&server, &[PREFACE, SETTINGS, &half].concat()).await;
    until_closed(stream).await;
    bystander.noticed_nothing().await;
}

#[tokio::test]
async fn thousands_of_connections_that_say_nothing_are_cut_off() {
    let server = Server::with(RULES).await;
    let bystander = Bystander::at(&server).await;
    let mut silent = Vec::new();
    for number in 0..3_000 {
        // Half of them to HTTP.
        let address = if number % 2 == 0 { server.grpc_address() } else { server.addresses.http };
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    let newcomer = server.client().await;
    for stream in silent {
        until_closed(stream).await;
    }
    drop(newcomer);
    bystander.noticed_nothing().await;
}
