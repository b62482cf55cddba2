//! One connection of HTTP/2, from its bytes to its bytes.
//!
//! What was read at a time is answered at a time: calls that take Envoy's messages are decided where they
//! were read (`calls`), and all answers go out in one write. `io` reads and writes, `timers` says when
//! something has taken too long.
//!
//! Invariants: nothing is read while what was answered cannot be written; a silent connection holds no
//! buffers, because those of its thread are lent to it while it has something to do. One turn takes one
//! read at most if there is more to read, and less of it if that asks for much.
//!
//! Deliberately not here: how long a connection may stay (`listen::lifetime`), which polls this.

mod calls;
mod io;
mod timers;

use std::io::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::Instant;
use tollgate_http2::{Http2Config, Http2Connection};

use super::Grpc;
use crate::listen::stream::{ByteCount, Io};
use calls::{CallState, PendingCall};
use io::{ConnectionEnd, SocketState};
use timers::ConnectionTimers;

/// One connection of HTTP/2. It ends when the caller goes, or some time after [`GrpcConnection::close`].
pub(super) struct GrpcConnection {
    socket: SocketState,
    http2: Http2Connection<CallState>,
    grpc: Arc<Grpc>,
    bytes: Arc<ByteCount>,
    /// Calls that wait for the store.
    pending: FuturesUnordered<PendingCall>,
    /// Calls that tonic answers.
    side_calls: Vec<u32>,
    timers: ConnectionTimers,
    /// When the bytes came that are being answered.
    read_at: Instant,
    /// Bytes of messages that were decided in this turn.
    decided_bytes: usize,
}

impl GrpcConnection {
    pub(super) fn new(io: Io, grpc: Arc<Grpc>, config: Http2Config, bytes: Arc<ByteCount>) -> Self {
        Self {
            socket: SocketState::new(io),
            http2: Http2Connection::new(config),
            grpc,
            bytes,
            pending: FuturesUnordered::new(),
            side_calls: Vec::new(),
            timers: ConnectionTimers::new(),
            read_at: Instant::now(),
            decided_bytes: 0,
        }
    }

    /// Asks the caller to go; what it has begun is still answered.
    pub(super) fn close(&mut self) {
        self.http2.close();
    }

    fn serve(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        loop {
            // What was read may have set one.
            self.poll_timers(cx)?;
            self.poll_pending(cx);
            // First what waits for windows: a side call is asked for more only when nothing of it waits.
            let has_more = self.http2.send_waiting();
            let are_put_off = self.poll_side_calls(cx);
            ready!(self.poll_write(cx))?;
            if has_more || are_put_off {
                continue;
            }
            if self.http2.is_over() {
                self.socket.end = Some(ConnectionEnd::new());
                return self.socket.poll_end(cx);
            }
            if self.socket.has_had_its_turn() {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if ready!(self.poll_read(cx))? == 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Answers the calls whose decision has come.
    fn poll_pending(&mut self, cx: &mut Context<'_>) {
        while !self.pending.is_empty() {
            match self.pending.poll_next_unpin(cx) {
                Poll::Ready(Some(Ok((stream, answer)))) => self.answer(stream, answer),
                // Its caller has gone.
                Poll::Ready(Some(Err(_))) => {}
                Poll::Ready(None) | Poll::Pending => return,
            }
        }
    }
}

impl Future for GrpcConnection {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.socket.end.is_some() {
            return self.socket.poll_end(cx);
        }
        io::lend_output(self.http2.output());
        let served = self.serve(cx);
        io::return_output(self.http2.output());
        if served.is_pending() && self.http2.is_idle() {
            self.http2.rest();
        }
        served
    }
}
