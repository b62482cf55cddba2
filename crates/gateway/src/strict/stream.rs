//! The stream between the socket and hyper.
//!
//! Heads are held back until they are whole and right; bodies are passed on as they come. It also
//! has the timeouts that hyper lacks: of a head, with an answer, and of a client that takes nothing.
//!
//! Invariant: holds at most [`HEAD_MAX`] bytes and one read more.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::REJECTED;
use super::chunked::ChunkedBody;
use super::head::{self, Framing, HeadError, HeadShape};
use super::upgrade::{NextBytes, UpgradeSwitch};
use crate::bounds::{HEAD_MAX, HEAD_WAIT_MAX, LINGER_BYTES, LINGER_MAX, WRITE_WAIT_MAX};

/// Bytes of one read of a head.
const READ: usize = 8 << 10;

/// What the next bytes of the client are.
#[derive(Debug)]
enum ReadState {
    Head,
    Length(u64),
    Chunked(ChunkedBody),
    /// Unknown until the upstream has answered.
    Upgrade,
    /// No HTTP/1.
    Raw,
    /// Nothing that anybody wants to read.
    Rejected,
}

/// A client's stream that only lets heads through that are right.
pub(crate) struct StrictStream<I> {
    io: I,
    state: ReadState,
    /// Bytes that were read and not passed on.
    held: Vec<u8>,
    /// How many of them may be passed on.
    cleared: usize,
    is_eof: bool,
    switch: UpgradeSwitch,
    head_timer: Option<Pin<Box<Sleep>>>,
    write_timer: Option<Pin<Box<Sleep>>>,
    linger: Option<(Pin<Box<Sleep>>, usize)>,
}

impl<I> fmt::Debug for StrictStream<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StrictStream").field("state", &self.state).finish_non_exhaustive()
    }
}

impl<I> StrictStream<I> {
    /// A stream of HTTP/1 of which `read` was read before.
    pub(crate) fn http1(io: I, read: Vec<u8>, switch: UpgradeSwitch) -> Self {
        Self::new(io, read, switch, ReadState::Head)
    }

    /// A stream of HTTP/2, which has a framing of its own.
    pub(crate) fn http2(io: I, read: Vec<u8>) -> Self {
        let cleared = read.len();
        Self { cleared, ..Self::new(io, read, UpgradeSwitch::default(), ReadState::Raw) }
    }

    const fn new(io: I, held: Vec<u8>, switch: UpgradeSwitch, state: ReadState) -> Self {
        Self {
            io,
            state,
            held,
            cleared: 0,
            is_eof: false,
            switch,
            head_timer: None,
            write_timer: None,
            linger: None,
        }
    }

    /// Clears what can be, of what is held.
    fn clear(&mut self) -> io::Result<()> {
        let Some(rest) = self.held.get(self.cleared..) else { return Ok(()) };
        match &mut self.state {
            ReadState::Head => {
                let blank = rest.chunks_exact(2).take_while(|line| *line == b"\r\n").count() * 2;
                if self.cleared == 0 && blank > 0 {
                    // An empty line or two before a request are old clients' habit.
                    self.held.drain(..blank);
                    return Ok(());
                }
                match head::whole(rest) {
                    Ok(None) => {}
                    Ok(Some((end, shape))) => {
                        self.cleared += end;
                        self.passed(shape);
                    }
                    Err(error) => self.reject(error),
                }
            }
            ReadState::Length(left) => {
                let taken = usize::try_from(*left).map_or(rest.len(), |left| left.min(rest.len()));
                self.cleared += taken;
                *left -= u64::try_from(taken).unwrap_or(0);
                if *left == 0 {
                    self.state = ReadState::Head;
                }
            }
            ReadState::Chunked(body) => {
                let followed = body.follow(rest);
                self.cleared +=
                    followed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                if body.is_done() {
                    self.state = ReadState::Head;
                }
            }
            ReadState::Raw => self.cleared = self.held.len(),
            ReadState::Upgrade | ReadState::Rejected => {}
        }
        Ok(())
    }

    /// A head is whole and right; what follows it is known now.
    fn passed(&mut self, shape: HeadShape) {
        self.head_timer = None;
        self.state = match shape.framing {
            _ if shape.is_upgrade => ReadState::Upgrade,
            Framing::Length(0) => ReadState::Head,
            Framing::Length(length) => ReadState::Length(length),
            Framing::Chunked => ReadState::Chunked(ChunkedBody::new()),
        };
    }

    /// Lets hyper see a request that stands for the error.
    fn reject(&mut self, error: HeadError) {
        self.head_timer = None;
        self.held.truncate(self.cleared);
        self.held.extend_from_slice(
            format!("{REJECTED} {} HTTP/1.1\r\nconnection: close\r\n\r\n", error.code()).as_bytes(),
        );
        self.cleared = self.held.len();
        self.state = ReadState::Rejected;
    }

    /// Passes on what is cleared.
    fn hand_out(&mut self, buf: &mut ReadBuf<'_>) {
        let taken = self.cleared.min(buf.remaining());
        buf.put_slice(self.held.get(..taken).unwrap_or_default());
        self.cleared -= taken;
        if taken == self.held.len() {
            self.held = Vec::new();
        } else {
            self.held.drain(..taken);
        }
    }
}

/// Whether so much time has passed, from the first call on.
fn is_over(timer: &mut Option<Pin<Box<Sleep>>>, time: Duration, cx: &mut Context<'_>) -> bool {
    let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(time)));
    timer.as_mut().poll(cx).is_ready()
}

impl<I: AsyncRead + Unpin> StrictStream<I> {
    /// Reads where nothing is held, straight to where it is wanted: nearly every head comes whole
    /// and alone, and is never copied. Whatever else comes is held; false if nothing was passed on.
    fn poll_whole_head(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<bool>> {
        let start = buf.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(cx, buf))?;
        let read = buf.filled().get(start..).unwrap_or_default();
        self.is_eof = read.is_empty();
        let end = match head::whole(read) {
            Ok(Some((end, shape))) => {
                self.passed(shape);
                end
            }
            // Not whole, or wrong, or there are empty lines before it.
            Ok(None) | Err(_) => 0,
        };
        self.held.extend_from_slice(read.get(end..).unwrap_or_default());
        buf.set_filled(start + end);
        Poll::Ready(Ok(end > 0))
    }

    /// Reads more into what is held; false at the end of the stream.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let before = self.held.len();
        self.held.resize(before + READ, 0);
        let mut buf = ReadBuf::new(self.held.get_mut(before..).unwrap_or_default());
        let read = Pin::new(&mut self.io).poll_read(cx, &mut buf);
        let count = buf.filled().len();
        self.held.truncate(before + count);
        if before + count == 0 {
            // An idle connection keeps no buffer.
            self.held = Vec::new();
        }
        ready!(read)?;
        self.is_eof = count == 0;
        Poll::Ready(Ok(count > 0))
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for StrictStream<I> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if this.cleared > 0 {
                this.hand_out(buf);
                return Poll::Ready(Ok(()));
            }
            if !this.held.is_empty() {
                let before = this.held.len();
                this.clear()?;
                if this.cleared > 0 || this.held.len() < before {
                    continue;
                }
            }
            if this.is_eof {
                return Poll::Ready(Ok(()));
            }
            match &mut this.state {
                ReadState::Raw => return Pin::new(&mut this.io).poll_read(cx, buf),
                ReadState::Length(left) => {
                    let room =
                        usize::try_from(*left).map_or(buf.remaining(), |left| left.min(buf.remaining()));
                    let mut part = ReadBuf::new(buf.initialize_unfilled_to(room));
                    ready!(Pin::new(&mut this.io).poll_read(cx, &mut part))?;
                    let count = part.filled().len();
                    buf.advance(count);
                    *left -= u64::try_from(count).unwrap_or(0);
                    this.is_eof = count == 0;
                    if *left == 0 {
                        this.state = ReadState::Head;
                    }
                    return Poll::Ready(Ok(()));
                }
                ReadState::Upgrade => {
                    if let Poll::Ready(next) = this.switch.poll(cx) {
                        this.state = match next {
                            NextBytes::Http => ReadState::Head,
                            NextBytes::Tunnel => ReadState::Raw,
                        };
                        continue;
                    }
                    if this.held.len() > HEAD_MAX {
                        return Poll::Pending;
                    }
                    if ready!(this.poll_more(cx))? {
                        continue;
                    }
                }
                ReadState::Head if this.held.is_empty() => {
                    if ready!(this.poll_whole_head(cx, buf))? {
                        return Poll::Ready(Ok(()));
                    }
                }
                ReadState::Head => match this.poll_more(cx) {
                    Poll::Pending => {
                        if !is_over(&mut this.head_timer, HEAD_WAIT_MAX, cx) {
                            return Poll::Pending;
                        }
                        this.reject(HeadError::TooSlow);
                    }
                    Poll::Ready(more) => drop(more?),
                },
                ReadState::Chunked(_) => {
                    ready!(this.poll_more(cx))?;
                }
                // hyper would take the end of the stream for a client that is gone.
                ReadState::Rejected => return Poll::Pending,
            }
        }
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> StrictStream<I> {
    /// After the last answer: throws away what the client still sends, within bounds.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let has_more = match self.state {
            ReadState::Rejected | ReadState::Length(_) | ReadState::Chunked(_) => !self.is_eof,
            ReadState::Head | ReadState::Upgrade | ReadState::Raw => false,
        };
        if !has_more {
            return Poll::Ready(());
        }
        let (timer, left) =
            self.linger.get_or_insert_with(|| (Box::pin(tokio::time::sleep(LINGER_MAX)), LINGER_BYTES));
        let mut waste = [0; READ];
        while *left > 0 && timer.as_mut().poll(cx).is_pending() {
            let mut buf = ReadBuf::new(&mut waste);
            match ready!(Pin::new(&mut self.io).poll_read(cx, &mut buf)) {
                Ok(()) if !buf.filled().is_empty() => *left = left.saturating_sub(buf.filled().len()),
                Ok(()) | Err(_) => break,
            }
        }
        self.is_eof = true;
        Poll::Ready(())
    }

    /// The result of a write, unless the client takes nothing for too long.
    fn in_time<T>(&mut self, written: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.write_timer = None;
            return written;
        }
        match is_over(&mut self.write_timer, WRITE_WAIT_MAX, cx) {
            true => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            false => Poll::Pending,
        }
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> AsyncWrite for StrictStream<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.in_time(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.in_time(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.io).poll_shutdown(cx))?;
        ready!(self.poll_linger(cx));
        Poll::Ready(Ok(()))
    }
}
