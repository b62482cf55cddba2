//! Reads from and writes to the socket of a connection.
//!
//! Invariant: buffers belong to the thread. A connection keeps of what it read only the beginning of a
//! frame, and of what it is to write only what the system had no room for.

use std::cell::Cell;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::GrpcConnection;
use crate::bounds::{GRPC_READ, GRPC_TURN, LINGER_MAX, RESPONSE_LARGE};
use crate::listen::stream::Io;

thread_local! {
    /// What connections of this thread read into.
    static INPUT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    /// What connections of this thread append answers to.
    static OUTPUT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Lends the thread's buffer to a connection that has none.
pub(super) fn lend_output(output: &mut Vec<u8>) {
    if output.capacity() == 0 {
        *output = OUTPUT.take();
    }
}

/// Takes it back if it is empty.
pub(super) fn return_output(output: &mut Vec<u8>) {
    if !output.is_empty() {
        return;
    }
    // A connection begins with a small one of its own.
    let (own, kept) = (std::mem::take(output), OUTPUT.take());
    let larger = if own.capacity() > kept.capacity() { own } else { kept };
    OUTPUT.set(if larger.capacity() <= RESPONSE_LARGE { larger } else { Vec::new() });
}

/// The socket, and what is on its way.
pub(super) struct SocketState {
    io: Io,
    /// The beginning of a frame that has not arrived whole, after what was put off.
    held: Vec<u8>,
    /// There are whole frames in it, which wait for their turn.
    is_put_off: bool,
    /// How much of the output was written.
    written: usize,
    needs_flush: bool,
    is_blocked: bool,
    /// There may be more to read than was read in this turn.
    has_more: bool,
    pub(super) end: Option<ConnectionEnd>,
}

/// The end of a connection, once everything is written.
pub(super) struct ConnectionEnd {
    is_shut_down: bool,
    /// How long to go on reading, so that the last answers and the goodbye are not lost to a reset.
    linger: Pin<Box<Sleep>>,
}

impl ConnectionEnd {
    pub(super) fn new() -> Self {
        Self { is_shut_down: false, linger: Box::pin(sleep(LINGER_MAX)) }
    }
}

impl SocketState {
    pub(super) const fn new(io: Io) -> Self {
        Self {
            io,
            held: Vec::new(),
            is_put_off: false,
            written: 0,
            needs_flush: false,
            is_blocked: false,
            has_more: false,
            end: None,
        }
    }

    /// Whether others are to be served before there is another read.
    pub(super) const fn has_had_its_turn(&mut self) -> bool {
        std::mem::replace(&mut self.has_more, false)
    }

    /// Says goodbye.
    pub(super) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(end) = &mut self.end else { return Poll::Ready(Ok(())) };
        if end.linger.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        if !end.is_shut_down {
            ready!(Pin::new(&mut self.io).poll_shutdown(cx))?;
            end.is_shut_down = true;
        }
        let mut rest = [0; 1_024];
        loop {
            let mut buf = ReadBuf::new(&mut rest);
            match Pin::new(&mut self.io).poll_read(cx, &mut buf) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(read) => {
                    read?;
                    if buf.filled().is_empty() || end.linger.as_mut().poll(cx).is_ready() {
                        return Poll::Ready(Ok(()));
                    }
                }
            }
        }
    }
}

impl GrpcConnection {
    /// Writes all of the output.
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let written = self.poll_write_all(cx);
        if self.socket.is_blocked != written.is_pending() {
            self.socket.is_blocked = written.is_pending();
            self.bytes.set_blocked(written.is_pending());
        }
        written
    }

    fn poll_write_all(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (socket, output) = (&mut self.socket, self.http2.output());
        while let Some(rest) = output.get(socket.written..).filter(|rest| !rest.is_empty()) {
            let written = ready!(Pin::new(&mut socket.io).poll_write(cx, rest))?;
            if written == 0 {
                return Poll::Ready(Err(ErrorKind::WriteZero.into()));
            }
            socket.written += written;
            socket.needs_flush = true;
            self.bytes.add_written(written);
        }
        output.clear();
        socket.written = 0;
        if socket.needs_flush {
            ready!(Pin::new(&mut socket.io).poll_flush(cx))?;
            socket.needs_flush = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Goes on with what was put off, or reads once, and answers it; how many bytes there were.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if std::mem::take(&mut self.socket.is_put_off) {
            let input = std::mem::take(&mut self.socket.held);
            self.answer_all(&input);
            return Poll::Ready(Ok(input.len()));
        }
        let mut buffer = INPUT.take();
        buffer.resize(GRPC_READ, 0);
        let mut buf = ReadBuf::new(&mut buffer);
        let read = Pin::new(&mut self.socket.io).poll_read(cx, &mut buf);
        let bytes = buf.filled().len();
        if read.is_ready() && bytes > 0 {
            self.socket.has_more = bytes == GRPC_READ;
            self.bytes.add_read(bytes);
            self.read_at = Instant::now();
            self.http2.begin_read();
            if self.socket.held.is_empty() {
                self.answer_all(buf.filled());
            } else {
                let mut input = std::mem::take(&mut self.socket.held);
                input.extend_from_slice(buf.filled());
                self.answer_all(&input);
            }
        }
        INPUT.set(buffer);
        read.map_ok(|()| bytes)
    }

    /// Answers what was read, and keeps the beginning of a frame. A read can end hundreds of calls whose
    /// messages came before; after as much as a turn may take, the rest is put off, until others were served
    /// and the answers so far are written.
    fn answer_all(&mut self, mut input: &[u8]) {
        let frames = self.http2.frames();
        self.decided_bytes = 0;
        while let Some(event) = self.http2.next_event(&mut input) {
            self.handle(event);
            if self.decided_bytes >= GRPC_TURN || self.http2.output().len() >= RESPONSE_LARGE {
                (self.socket.is_put_off, self.socket.has_more) = (!input.is_empty(), true);
                break;
            }
        }
        if !input.is_empty() && !self.http2.is_over() {
            self.socket.held = input.to_vec();
        }
        if self.http2.frames() != frames {
            self.timers.frame_came(self.read_at);
        }
        if !self.http2.is_idle() {
            self.timers.watch_bodies(self.read_at);
        }
    }
}
