//! A connection to an upstream that counts what comes on it, and remembers how TLS was broken off.
//!
//! hyper says the same of a connection that was closed without a word and of one that was closed in the
//! middle of a head. Only after the former may a request be sent again, so that `connection` compares what
//! had come before the request with what had come when it failed. On a connection of HTTP/2 the bytes may
//! be another request's; then it is not sent again either, which is safe.
//!
//! With TLS 1.3 an upstream looks at our certificate when we take the handshake for over, so that what it says about
//! it comes in the place of an answer. h2 keeps only the kind of such an error.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::rustls::{self, AlertDescription};

/// How many bytes have come on a connection, and the alert that ended it.
#[derive(Debug, Clone, Default)]
pub(super) struct ReceivedBytes(Arc<ReceivedState>);

#[derive(Debug, Default)]
struct ReceivedState {
    count: AtomicU64,
    alert: OnceLock<AlertDescription>,
}

impl ReceivedBytes {
    pub(super) fn count(&self) -> u64 {
        self.0.count.load(Ordering::Relaxed)
    }

    /// The alert of TLS that ended the connection, if one did.
    pub(super) fn alert(&self) -> Option<AlertDescription> {
        self.0.alert.get().copied()
    }

    fn failed(&self, error: &io::Error) {
        let tls = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
        if let Some(rustls::Error::AlertReceived(alert)) = tls {
            self.0.alert.get_or_init(|| *alert);
        }
    }
}

/// A connection whose bytes are counted as they are read.
pub(super) struct CountedStream<I> {
    io: I,
    received: ReceivedBytes,
}

impl<I> CountedStream<I> {
    pub(super) fn new(io: I, received: &ReceivedBytes) -> Self {
        Self { io, received: received.clone() }
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for CountedStream<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.io).poll_read(cx, buf);
        let count = buf.filled().len().saturating_sub(before);
        self.received.0.count.fetch_add(u64::try_from(count).unwrap_or(u64::MAX), Ordering::Relaxed);
        if let Poll::Ready(Err(error)) = &read {
            self.received.failed(error);
        }
        read
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for CountedStream<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
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

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
