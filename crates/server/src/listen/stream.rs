//! The stream of a connection, and the one wrapper around it.
//!
//! `accept` makes an [`Io`] of whatever the bytes come through: TCP, TLS or a
//! Unix socket. Where hyper reads, [`FilteredStream`] stands in between: it
//! counts bytes for `lifetime`, and a [`ReadFilter`] may change what is read.
//!
//! Invariant: bytes are counted as they come from the connection, before the filter.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What bytes come through.
pub(crate) trait IoStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> IoStream for T {}

/// A connection's bytes, whatever they come through. A virtual call for each
/// read costs nothing beside the system's.
pub(crate) type Io = Box<dyn IoStream>;

/// Bytes read from a connection so far.
#[derive(Debug, Default)]
pub(crate) struct ByteCount(AtomicU64);

impl ByteCount {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, bytes: usize) {
        self.0.fetch_add(u64::try_from(bytes).unwrap_or(0), Ordering::Relaxed);
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
}

impl<F> FilteredStream<F> {
    pub(crate) fn new(io: Io, filter: F, bytes: Arc<ByteCount>) -> Self {
        Self { io, filter, bytes }
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
        self.bytes.add(buf.filled().len().saturating_sub(before));
        read
    }
}

impl<F: ReadFilter + Unpin> AsyncRead for FilteredStream<F> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { io, filter, bytes } = &mut *self;
        filter.poll_read(&mut CountedReader { io, bytes }, cx, buf)
    }
}

impl<F: Unpin> AsyncWrite for FilteredStream<F> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
