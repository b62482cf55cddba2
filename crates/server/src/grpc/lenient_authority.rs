//! Lets in callers whose `:authority` is not the name of a host.
//!
//! We never look at it, but `h2` refuses a call whose authority it cannot parse,
//! and has no switch for that. Envoy sends the name of its cluster, which with
//! Istio is `outbound|8081||ratelimit.default.svc.cluster.local`; clients of Unix
//! sockets send the path. envoyproxy/ratelimit takes all of them, and so must we.
//! [`LenientAuthority`] filters what `h2` reads, and replaces each byte that cannot be
//! in a host name by a dash. docs/decisions/008 says why by hand.
//!
//! Invariants: a replaced value has the decoded length of the original, so that
//! both ends agree on the size of the dynamic table; bytes that need no change are
//! not copied; at most one frame is held back.
//!
//! Deliberately not here: header blocks that continue in a CONTINUATION frame;
//! no caller sends headers that large.

mod hpack;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::http::uri::Authority;
use tokio::io::{AsyncRead, ReadBuf};

use crate::listen::stream::ReadFilter;

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

/// Filters a connection of HTTP/2 so that every authority is one that `h2` takes.
#[derive(Debug)]
pub(super) struct LenientAuthority {
    /// How many of the next bytes go through without a look.
    pass: usize,
    /// The beginning of a frame that has not arrived whole.
    held: Vec<u8>,
    /// Bytes that were held back and may be read now.
    ready: Vec<u8>,
}

/// A frame at the start of some bytes.
struct RawFrame<'a> {
    flags: u8,
    payload: &'a [u8],
}

impl Default for LenientAuthority {
    fn default() -> Self {
        Self { pass: PREFACE_BYTES, held: Vec::new(), ready: Vec::new() }
    }
}

impl LenientAuthority {
    /// Makes ready what need not be held back any more.
    fn release(&mut self) {
        loop {
            let passed = passing(&mut self.pass, &self.held);
            self.ready.extend(self.held.drain(..passed));
            let Some(frame) = RawFrame::at(&self.held) else { return };
            let length = HEAD_BYTES + frame.payload.len();
            // It is whole and did not pass, so there is something to replace.
            match with_lawful_authority(&self.held, &frame) {
                Some(frame) => self.ready.extend(frame),
                None => self.ready.extend(self.held.get(..length).unwrap_or_default()),
            }
            self.held.drain(..length);
        }
    }
}

/// How many of `bytes` go through unchanged: all up to a HEADERS frame that is
/// not whole or must be changed. `pass` is what is left of the current frame.
fn passing(pass: &mut usize, bytes: &[u8]) -> usize {
    let mut at = 0;
    loop {
        let passed = (*pass).min(bytes.len() - at);
        at += passed;
        *pass -= passed;
        let Some([a, b, c, kind, ..]) = bytes.get(at..at + HEAD_BYTES) else { return at };
        let length = length_of([*a, *b, *c]);
        if *kind == HEADERS && length <= FRAME_BYTES_MAX {
            let frame = bytes.get(at..).and_then(RawFrame::at);
            if frame.is_none_or(|frame| unlawful(&frame).is_some()) {
                return at;
            }
        }
        *pass = HEAD_BYTES + length;
    }
}

impl<'a> RawFrame<'a> {
    /// The frame that `bytes` begin with, if it has arrived whole.
    fn at(bytes: &'a [u8]) -> Option<Self> {
        let (head, rest) = bytes.split_at_checked(HEAD_BYTES)?;
        let [a, b, c, _, flags, ..] = head else { return None };
        let length = length_of([*a, *b, *c]);
        Some(Self { flags: *flags, payload: rest.get(..length)? })
    }

    /// Where the header block begins in the payload. Padding may follow it.
    const fn block_begin(&self) -> usize {
        let padded = if self.flags & PADDED == 0 { 0 } else { 1 };
        let priority = if self.flags & PRIORITY == 0 { 0 } else { 5 };
        padded + priority
    }
}

fn length_of([a, b, c]: [u8; 3]) -> usize {
    usize::try_from(u32::from_be_bytes([0, a, b, c])).unwrap_or(usize::MAX)
}

/// The authority of a HEADERS frame, if `h2` would refuse it.
fn unlawful(frame: &RawFrame<'_>) -> Option<hpack::HeaderLiteral> {
    let found = hpack::authority(frame.payload.get(frame.block_begin()..)?)?;
    let is_lawful = Authority::try_from(found.value.as_slice()).is_ok();
    // An empty one has no replacement of its length.
    (!is_lawful && !found.value.is_empty()).then_some(found)
}

/// The frame that `bytes` begin with, with an authority that `h2` takes.
fn with_lawful_authority(bytes: &[u8], frame: &RawFrame<'_>) -> Option<Vec<u8>> {
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

impl ReadFilter for LenientAuthority {
    fn poll_read(
        &mut self,
        io: &mut (impl AsyncRead + Unpin),
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        loop {
            if !self.ready.is_empty() {
                let taken = self.ready.len().min(buf.remaining());
                buf.put_slice(self.ready.get(..taken).unwrap_or_default());
                self.ready.drain(..taken);
                return Poll::Ready(Ok(()));
            }
            if self.held.is_empty() {
                // Nearly always: what is read stays where it was read to.
                ready!(Pin::new(&mut *io).poll_read(cx, buf))?;
                let read = buf.filled().get(before..).unwrap_or_default();
                let passed = passing(&mut self.pass, read);
                if passed == read.len() {
                    return Poll::Ready(Ok(()));
                }
                self.held.extend_from_slice(read.get(passed..).unwrap_or_default());
                buf.set_filled(before + passed);
                self.release();
                if passed > 0 {
                    return Poll::Ready(Ok(()));
                }
            } else {
                let mut chunk = [0; CHUNK_BYTES];
                let mut chunk = ReadBuf::new(&mut chunk);
                ready!(Pin::new(&mut *io).poll_read(cx, &mut chunk))?;
                if chunk.filled().is_empty() {
                    // The stream ends within a frame.
                    self.ready = std::mem::take(&mut self.held);
                    continue;
                }
                self.held.extend_from_slice(chunk.filled());
                self.release();
            }
        }
    }
}

#[cfg(test)]
mod tests;
