//! A server that answers every call with the bytes that it was sent, between the two ends of a pipe.
#![expect(clippy::unwrap_used, reason = "clippy knows the tests here, but not the functions that they share")]

use std::collections::HashMap;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tollgate_http2::{Event, Http2Config, Http2Connection, MessageWriter, RequestHead, put_field};

pub(crate) const CONFIG: Http2Config = Http2Config {
    streams_max: 100,
    stream_window: 1_000,
    connection_window: 100_000,
    headers_max: 16 << 10,
    resets_max: 64,
    known_paths: &["/known"],
    keeps_fields: true,
};

/// A connection, and what it was asked.
pub(crate) struct EchoServer {
    pub(crate) http2: Http2Connection<Vec<u8>>,
    pub(crate) heads: HashMap<u32, RequestHead>,
    held: Vec<u8>,
}

impl EchoServer {
    pub(crate) fn new() -> Self {
        Self { http2: Http2Connection::new(CONFIG), heads: HashMap::new(), held: Vec::new() }
    }

    /// Answers what has arrived.
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
        let held = std::mem::take(&mut self.held);
        let mut input = held.as_slice();
        self.http2.begin_read();
        while let Some(event) = self.http2.next_event(&mut input) {
            let (stream, is_end) = match event {
                Event::Request { stream, head, is_end } => {
                    self.heads.insert(stream, head);
                    (stream, is_end)
                }
                Event::Data { stream, data, is_end } => {
                    self.http2.call_mut(stream).unwrap().extend_from_slice(data);
                    self.http2.consumed(stream, data.len());
                    (stream, is_end)
                }
            };
            if is_end {
                self.answer(stream);
            }
        }
        self.held = if self.http2.has_failed() { Vec::new() } else { input.to_vec() };
        while self.http2.send_waiting() {}
    }

    /// Whether a frame has begun to arrive.
    pub(crate) const fn is_within_frame(&self) -> bool {
        !self.held.is_empty()
    }

    fn answer(&mut self, stream: u32) {
        let body = std::mem::take(self.http2.call_mut(stream).unwrap());
        let (mut head, mut trailers) = (Vec::new(), Vec::new());
        put_field(&mut head, b":status", b"200");
        put_field(&mut trailers, b"bytes", body.len().to_string().as_bytes());
        let write = |out: &mut Vec<u8>| out.extend_from_slice(&body);
        self.http2.respond(stream, &head, MessageWriter { length: body.len(), write }, &trailers);
    }

    /// Serves one end of a pipe, reading so many bytes at a time. It reads while it writes: the client of
    /// `h2` does not read while it cannot write, and a pipe that holds a few bytes would block both ends.
    pub(crate) async fn serve(mut self, io: DuplexStream, read: usize) -> Self {
        let (mut reader, mut writer) = tokio::io::split(io);
        let (mut buffer, mut output) = (vec![0; read], Vec::new());
        loop {
            output.append(self.http2.output());
            if output.is_empty() && self.http2.is_over() {
                // Whoever is told that it is over may have something to say to it.
                drop(writer.shutdown().await);
                while matches!(reader.read(&mut buffer).await, Ok(1..)) {}
                return self;
            }
            tokio::select! {
                written = writer.write(&output), if !output.is_empty() => match written {
                    Ok(bytes) => drop(output.drain(..bytes)),
                    Err(_) => return self,
                },
                read = reader.read(&mut buffer) => match read {
                    Ok(bytes @ 1..) => self.receive(&buffer[..bytes]),
                    _ => return self,
                },
            }
        }
    }
}
