//! The stream of a connection, and the one wrapper around it.
//!
//! `accept` makes an [`Io`] of whatever the bytes come through: TCP, TLS or a
//! Unix socket. Where hyper reads, [`FilteredStream`] stands in between: it
//! counts bytes for `lifetime`, and a [`ReadFilter`] may change what is read.
//!
//! Invariants: bytes are counted as they come from the connection, before the
//! filter. Nothing is read from a caller that does not read what was written.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::body::{HeldBytes, LARGE_RESPONSES};
use crate::bounds::{CONNECTION_RESPONSES_MAX, RESPONSE_LARGE, WAITING_CALL};

/// What bytes come through.
pub(crate) trait IoStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> IoStream for T {}

/// A connection's bytes, whatever they come through. A virtual call for each
/// read costs nothing beside the system's.
pub(crate) type Io = Box<dyn IoStream>;

/// How much a connection has read and written, and whether its caller keeps up.
#[derive(Debug, Default)]
pub(crate) struct ByteCount {
    read: AtomicU64,
    written: AtomicU64,
    /// The system has no room for what is to be written.
    is_blocked: AtomicBool,
    /// Bytes of responses that wait for the caller's flow-control window.
    waiting: AtomicUsize,
}

/// A [`ByteCount`] at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ByteTraffic {
    pub(crate) read: u64,
    pub(crate) written: u64,
    /// There is something that the caller has yet to take.
    pub(crate) is_waiting: bool,
}

impl ByteCount {
    pub(crate) fn traffic(&self) -> ByteTraffic {
        ByteTraffic {
            read: self.read.load(Ordering::Relaxed),
            written: self.written.load(Ordering::Relaxed),
            is_waiting: self.is_blocked.load(Ordering::Relaxed) || self.waiting() > 0,
        }
    }

    pub(crate) fn add_read(&self, bytes: usize) {
        self.read.fetch_add(u64::try_from(bytes).unwrap_or(0), Ordering::Relaxed);
    }

    pub(crate) fn add_written(&self, bytes: usize) {
        self.written.fetch_add(u64::try_from(bytes).unwrap_or(0), Ordering::Relaxed);
    }

    /// The system has no room for what is to be written, or has again.
    pub(crate) fn set_blocked(&self, is_blocked: bool) {
        self.is_blocked.store(is_blocked, Ordering::Relaxed);
    }

    fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Whether responses wait for the caller's window, and more than may.
    pub(crate) fn is_full(&self) -> bool {
        let waiting = self.waiting();
        waiting > CONNECTION_RESPONSES_MAX || (waiting > RESPONSE_LARGE && LARGE_RESPONSES.is_full())
    }
}

/// Bytes of a response that wait for the caller's window until this is dropped.
#[derive(Debug)]
pub(crate) struct WaitingBytes {
    connection: Arc<ByteCount>,
    bytes: usize,
    /// Where much waits on the connection, it counts among all callers, too.
    _held: Option<HeldBytes>,
}

impl WaitingBytes {
    /// Counts a message that is to be sent; none if too many wait already.
    pub(crate) fn new(connection: Arc<ByteCount>, bytes: usize) -> Option<Self> {
        if connection.is_full() {
            return None;
        }
        let bytes = bytes + WAITING_CALL;
        let waiting = connection.waiting.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let held = (waiting > RESPONSE_LARGE).then(|| LARGE_RESPONSES.hold(bytes));
        Some(Self { connection, bytes, _held: held })
    }
}

impl Drop for WaitingBytes {
    fn drop(&mut self) {
        self.connection.waiting.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Changes what is read from a stream.
pub(crate) trait ReadFilter {
    /// Reads from `io` into `buf`, as [`AsyncRead::poll_read`] does.
    fn poll_read(
        &mut self,
        io: &mut (impl AsyncRead + Unpin),
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>>;
}

/// A stream whose incoming bytes are counted and then filtered.
pub(crate) struct FilteredStream<F> {
    io: Io,
    filter: F,
    bytes: Arc<ByteCount>,
    /// Somebody wanted to read while the caller did not.
    has_read_to_do: bool,
}

impl<F> FilteredStream<F> {
    pub(crate) fn new(io: Io, filter: F, bytes: Arc<ByteCount>) -> Self {
        Self { io, filter, bytes, has_read_to_do: false }
    }

    /// Takes note of what became of a write or a flush.
    fn noted<T>(
        &mut self,
        cx: &Context<'_>,
        result: Poll<io::Result<T>>,
        written: impl FnOnce(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        self.bytes.set_blocked(result.is_pending());
        if let Poll::Ready(Ok(value)) = &result {
            self.bytes.add_written(written(value));
        }
        if result.is_ready() && std::mem::take(&mut self.has_read_to_do) {
            cx.waker().wake_by_ref();
        }
        result
    }
}

impl<F> fmt::Debug for FilteredStream<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilteredStream").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// Counts what a filter reads.
struct CountedReader<'a> {
    io: &'a mut Io,
    bytes: &'a ByteCount,
}

impl AsyncRead for CountedReader<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut *self.io).poll_read(cx, buf);
        self.bytes.add_read(buf.filled().len().saturating_sub(before));
        read
    }
}

impl<F: ReadFilter + Unpin> AsyncRead for FilteredStream<F> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { io, filter, bytes, has_read_to_do } = &mut *self;
        if bytes.is_blocked.load(Ordering::Relaxed) {
            *has_read_to_do = true;
            return Poll::Pending;
        }
        filter.poll_read(&mut CountedReader { io, bytes }, cx, buf)
    }
}

impl<F: Unpin> AsyncWrite for FilteredStream<F> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.noted(cx, written, |bytes| *bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        self.noted(cx, flushed, |()| 0)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.noted(cx, written, |bytes| *bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
