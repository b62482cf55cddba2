//! Lets callers in whose `:authority` is not the name of a host.
//!
//! Nobody here looks at it, but `h2` refuses a call whose authority it cannot
//! parse, and there is no switch. Envoy sends the name of its cluster, which
//! with Istio is `outbound|8081||ratelimit.default.svc.cluster.local`; clients
//! of Unix sockets send the path. envoyproxy/ratelimit takes all of them, and so
//! must we. Between the connection and `h2`, [`Lenient`] changes what stands
//! there: each byte that no host has becomes a dash.
//!
//! Invariants: what comes out is as long as what went in once it is decoded,
//! so that both ends agree on the size of the dynamic table; all that needs no
//! change goes through where it was read; what is held back is never more than a
//! frame.
//!
//! Deliberately not here: headers that go on in a CONTINUATION frame, which are
//! larger than any caller's.

mod hpack;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::http::uri::Authority;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What a caller sends before the first frame.
const PREFACE_BYTES: usize = 24;
/// The head of a frame: its length, its kind, its flags and its stream.
const HEAD_BYTES: usize = 9;
/// `h2` refuses larger frames.
const FRAME_BYTES_MAX: usize = 16_384;
/// What is read at once while a frame is held back.
const CHUNK_BYTES: usize = 4_096;
const HEADERS: u8 = 1;
const PADDED: u8 = 0x08;
const PRIORITY: u8 = 0x20;

/// A connection of HTTP/2 on which every authority is one.
#[derive(Debug)]
pub(super) struct Lenient<I> {
    inner: I,
    sieve: Sieve,
    /// A frame that is not there as a whole.
    held: Vec<u8>,
    /// What may be read; it was held back before.
    ready: Vec<u8>,
}

/// Follows the frames of a connection.
#[derive(Debug)]
struct Sieve {
    /// So much of what comes next is nothing to us.
    pass: usize,
}

/// A frame at the start of some bytes.
struct Frame<'a> {
    flags: u8,
    payload: &'a [u8],
}

impl<I> Lenient<I> {
    pub(super) const fn new(inner: I) -> Self {
        Self { inner, sieve: Sieve { pass: PREFACE_BYTES }, held: Vec::new(), ready: Vec::new() }
    }

    /// Passes on what can be of what is held back.
    fn settle(&mut self) {
        loop {
            let passed = self.sieve.passes(&self.held);
            self.ready.extend(self.held.drain(..passed));
            let Some(frame) = Frame::at(&self.held) else { return };
            let length = HEAD_BYTES + frame.payload.len();
            // It is whole and was stopped, so that there is something to change.
            match changed(&self.held, &frame) {
                Some(changed) => self.ready.extend(changed),
                None => self.ready.extend(self.held.get(..length).unwrap_or_default()),
            }
            self.held.drain(..length);
        }
    }
}

impl Sieve {
    /// How many of `bytes` go through unchanged: all up to a frame of headers
    /// that is not whole or must be changed.
    fn passes(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        loop {
            let passed = self.pass.min(bytes.len() - at);
            at += passed;
            self.pass -= passed;
            let Some([a, b, c, kind, ..]) = bytes.get(at..at + HEAD_BYTES) else { return at };
            let length = length_of([*a, *b, *c]);
            if *kind == HEADERS && length <= FRAME_BYTES_MAX {
                let frame = bytes.get(at..).and_then(Frame::at);
                if frame.is_none_or(|frame| unlawful(&frame).is_some()) {
                    return at;
                }
            }
            self.pass = HEAD_BYTES + length;
        }
    }
}

impl<'a> Frame<'a> {
    /// The frame that `bytes` begin with, if it is whole.
    fn at(bytes: &'a [u8]) -> Option<Self> {
        let (head, rest) = bytes.split_at_checked(HEAD_BYTES)?;
        let [a, b, c, _, flags, ..] = head else { return None };
        let length = length_of([*a, *b, *c]);
        Some(Self { flags: *flags, payload: rest.get(..length)? })
    }

    /// Where the headers begin in the payload; what fills it up may follow them.
    const fn block_begin(&self) -> usize {
        let padded = if self.flags & PADDED == 0 { 0 } else { 1 };
        let priority = if self.flags & PRIORITY == 0 { 0 } else { 5 };
        padded + priority
    }
}

fn length_of([a, b, c]: [u8; 3]) -> usize {
    usize::try_from(u32::from_be_bytes([0, a, b, c])).unwrap_or(usize::MAX)
}

/// The authority of a frame of headers, where `h2` would refuse it.
fn unlawful(frame: &Frame<'_>) -> Option<hpack::Spelled> {
    let found = hpack::authority(frame.payload.get(frame.block_begin()..)?)?;
    let is_lawful = Authority::try_from(found.value.as_slice()).is_ok();
    // Nothing cannot be changed into anything of its length.
    (!is_lawful && !found.value.is_empty()).then_some(found)
}

/// The frame that `bytes` begin with, with an authority that `h2` takes.
fn changed(bytes: &[u8], frame: &Frame<'_>) -> Option<Vec<u8>> {
    let found = unlawful(frame)?;
    let is_of_hosts = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'.';
    let host: Vec<u8> = found.value.iter().map(|byte| if is_of_hosts(byte) { *byte } else { b'-' }).collect();
    let begin = frame.block_begin();
    let mut payload = frame.payload.get(..begin + found.begin)?.to_vec();
    hpack::put_text(&mut payload, &host);
    payload.extend_from_slice(frame.payload.get(begin + found.end..)?);
    let [_, length @ ..] =
        u32::try_from(payload.len()).ok().filter(|_| payload.len() <= FRAME_BYTES_MAX)?.to_be_bytes();
    Some([&length, bytes.get(3..HEAD_BYTES)?, &payload].concat())
}

impl<I: AsyncRead + Unpin> AsyncRead for Lenient<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buf.filled().len();
        loop {
            if !this.ready.is_empty() {
                let taken = this.ready.len().min(buf.remaining());
                buf.put_slice(this.ready.get(..taken).unwrap_or_default());
                this.ready.drain(..taken);
                return Poll::Ready(Ok(()));
            }
            if this.held.is_empty() {
                // The usual way: what is read goes through where it is.
                ready!(Pin::new(&mut this.inner).poll_read(cx, buf))?;
                let read = buf.filled().get(before..).unwrap_or_default();
                let passed = this.sieve.passes(read);
                if passed == read.len() {
                    return Poll::Ready(Ok(()));
                }
                this.held.extend_from_slice(read.get(passed..).unwrap_or_default());
                buf.set_filled(before + passed);
                this.settle();
                if passed > 0 {
                    return Poll::Ready(Ok(()));
                }
            } else {
                let mut chunk = [0; CHUNK_BYTES];
                let mut chunk = ReadBuf::new(&mut chunk);
                ready!(Pin::new(&mut this.inner).poll_read(cx, &mut chunk))?;
                if chunk.filled().is_empty() {
                    // The end, in the middle of a frame.
                    this.ready = std::mem::take(&mut this.held);
                    continue;
                }
                this.held.extend_from_slice(chunk.filled());
                this.settle();
            }
        }
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Lenient<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests;
