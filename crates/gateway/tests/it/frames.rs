//! HTTP/2 frame by frame, as a client that keeps to no rules sends it.
#![expect(clippy::unwrap_used, reason = "clippy knows the tests here, but not the functions that they share")]

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::in_time;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

pub(crate) const REFUSED_STREAM: u32 = 7;
pub(crate) const ENHANCE_YOUR_CALM: u32 = 11;

/// A frame as it is sent.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// A client that says whatever it likes.
pub(crate) struct Attacker {
    stream: TcpStream,
}

/// A frame that came back.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) kind: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Received {
    /// The error of a RST_STREAM or of a GOAWAY.
    pub(crate) fn error(&self) -> u32 {
        let at = if self.kind == GOAWAY { 4 } else { 0 };
        u32::from_be_bytes(self.payload[at..at + 4].try_into().unwrap())
    }
}

impl Attacker {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        stream.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
        Self { stream }
    }

    pub(crate) async fn send(&mut self, frames: Vec<Vec<u8>>) {
        // Whoever is attacked may close before all is sent.
        drop(self.stream.write_all(&frames.concat()).await);
    }

    /// The next frame; none at the end of the connection.
    pub(crate) async fn receive(&mut self) -> Option<Received> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).await.ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        self.stream.read_exact(&mut payload).await.ok()?;
        let stream = u32::from_be_bytes(head[5..].try_into().unwrap());
        Some(Received { kind: head[3], stream, payload })
    }

    /// The next frame of this kind; none if the connection ends before.
    pub(crate) async fn next(&mut self, kind: u8) -> Option<Received> {
        in_time(async {
            loop {
                let received = self.receive().await?;
                if received.kind == kind {
                    return Some(received);
                }
            }
        })
        .await
    }
}

/// A field in HPACK: a literal with a name of its own, in no table.
pub(crate) fn literal(name: &[u8], value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0];
    for part in [name, value] {
        // Seven bits of the first byte, and what is more in a second one.
        let length = u8::try_from(part.len()).unwrap();
        match length.checked_sub(0x7f) {
            Some(rest) => bytes.extend([0x7f, rest]),
            None => bytes.push(length),
        }
        bytes.extend_from_slice(part);
    }
    bytes
}
