//! The client's side of a connection: its bytes, whether it is still there, and timeouts.
//!
//! Everything that takes time is waited for by [`ClientStream::wait`], which also notices that the
//! client has gone, as hyper does, and that the server stops.
//!
//! Invariants: a connection that waits has no buffer. What a client sends before it is answered is
//! kept up to [`HEAD_MAX`] bytes. There is one timer for a connection, which is set again only when
//! it fires: most waits are over long before.
//!
//! Timer and close signal are asked once, and again only when they have something to say
//! ([`Watchers`]): asking them for every request took as long as deciding it.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use super::buffers;
use crate::bounds::{HEAD_MAX, KEEP_ALIVE_MAX, LINGER_MAX, WRITE_WAIT_MAX};
use crate::connection_context::CloseSignal;
use crate::wake_note::WakeNote;

/// Bytes of one read, from clients and upstreams.
const READ: usize = 64 << 10;

thread_local! {
    /// Where all connections of a thread read, one after the other.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; READ]);
}

/// Reads what is there and hands it over; nothing at the end of the stream.
pub(crate) fn poll_read_with<I: AsyncRead + Unpin, T>(
    io: &mut I,
    cx: &mut Context<'_>,
    take: impl FnOnce(&[u8]) -> T,
) -> Poll<io::Result<T>> {
    SCRATCH.with_borrow_mut(|scratch| {
        let mut buf = ReadBuf::new(scratch);
        ready!(Pin::new(io).poll_read(cx, &mut buf))?;
        Poll::Ready(Ok(take(buf.filled())))
    })
}

/// Why a wait ended before what was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitError {
    /// The client has gone.
    Gone,
    /// It took too long.
    Late,
}

/// What became of a connection without a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextRead {
    Bytes,
    /// The client has gone, or must.
    Over,
}

/// The client's side of a connection.
pub(super) struct ClientStream<'c, 'f, I, F> {
    pub(super) io: I,
    watchers: Watchers<'c, 'f, F>,
    /// What came after the request that is being answered.
    pub(super) ahead: Vec<u8>,
    /// When the last answer was written, if somebody knows that already and nothing was waited for since:
    /// reading a clock takes its time.
    pub(super) seen_at: Option<Instant>,
}

impl<'c, 'f, I: AsyncRead + AsyncWrite + Unpin, F: Future<Output = ()>> ClientStream<'c, 'f, I, F> {
    pub(super) fn new(io: I, close: &'c mut CloseSignal<'f, F>) -> Self {
        let watchers = Watchers { close, timer: None, note: WakeNote::default() };
        Self { io, watchers, ahead: Vec::new(), seen_at: None }
    }

    /// Whether the server stops, so that the next answer is the last.
    pub(super) const fn is_closing(&self) -> bool {
        self.watchers.close.is_over()
    }

    /// Reads the beginning of the next request into a buffer of its own.
    pub(super) async fn read(&mut self, into: &mut Vec<u8>) -> io::Result<NextRead> {
        let deadline = self.seen_at.take().unwrap_or_else(Instant::now) + KEEP_ALIVE_MAX;
        poll_fn(|cx| {
            let read = poll_read_with(&mut self.io, cx, |bytes| {
                if !bytes.is_empty() {
                    *into = buffers::take();
                    into.extend_from_slice(bytes);
                }
            });
            if let Poll::Ready(read) = read {
                read?;
                let is_eof = into.is_empty();
                return Poll::Ready(Ok(if is_eof { NextRead::Over } else { NextRead::Bytes }));
            }
            let is_late = self.watchers.poll(cx, Some(deadline)).is_ready();
            if is_late || self.is_closing() { Poll::Ready(Ok(NextRead::Over)) } else { Poll::Pending }
        })
        .await
    }

    /// Whether the client has gone; what it sends is kept.
    fn is_gone(&mut self, cx: &mut Context<'_>) -> bool {
        while self.ahead.len() <= HEAD_MAX {
            let ahead = &mut self.ahead;
            let read = poll_read_with(&mut self.io, cx, |bytes| {
                ahead.extend_from_slice(bytes);
                bytes.len()
            });
            match read {
                Poll::Pending => return false,
                Poll::Ready(Ok(1..)) => {}
                Poll::Ready(Ok(0) | Err(_)) => return true,
            }
        }
        false
    }

    /// Waits for something while the client is there, until the deadline if there is one.
    pub(super) async fn wait<T>(
        &mut self,
        deadline: Option<Instant>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Result<T, WaitError> {
        poll_fn(|cx| {
            if let Poll::Ready(value) = poll(cx) {
                return Poll::Ready(Ok(value));
            }
            self.seen_at = None;
            if self.is_gone(cx) {
                return Poll::Ready(Err(WaitError::Gone));
            }
            // That the server stops is only noted: the answer will say that it is the last.
            self.watchers.poll(cx, deadline).map(|()| Err(WaitError::Late))
        })
        .await
    }

    /// Writes all of it, unless the client takes nothing for too long.
    pub(super) async fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        // A socket has room for nearly all answers, so that nobody looks at the clock for them.
        let mut deadline = None;
        while !bytes.is_empty() {
            let written = poll_fn(|cx| {
                if let Poll::Ready(written) = Pin::new(&mut self.io).poll_write(cx, bytes) {
                    return Poll::Ready(written);
                }
                self.seen_at = None;
                let deadline = *deadline.get_or_insert_with(|| Instant::now() + WRITE_WAIT_MAX);
                self.watchers.poll(cx, Some(deadline)).map(|()| Err(io::ErrorKind::TimedOut.into()))
            })
            .await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            (bytes, deadline) = (bytes.get(written..).unwrap_or_default(), None);
        }
        poll_fn(|cx| Pin::new(&mut self.io).poll_flush(cx)).await
    }

    /// Says goodbye; the client need not listen.
    pub(super) async fn end(mut self) {
        let mut goodbye = pin!(self.io.shutdown());
        drop(timeout(LINGER_MAX, goodbye.as_mut()).await);
    }
}

/// What ends a wait besides what is waited for: a timer, and the server's wish to stop.
struct Watchers<'c, 'f, F> {
    close: &'c mut CloseSignal<'f, F>,
    timer: Option<Pin<Box<Sleep>>>,
    note: WakeNote,
}

impl<F: Future<Output = ()>> Watchers<'_, '_, F> {
    /// Ready at the deadline; whether the server stops, the close signal knows afterwards.
    fn poll(&mut self, cx: &Context<'_>, deadline: Option<Instant>) -> Poll<()> {
        let is_in_time = |deadline| self.timer.as_ref().is_some_and(|timer| timer.deadline() <= deadline);
        if self.note.is_quiet(cx) && deadline.is_none_or(is_in_time) {
            return Poll::Pending;
        }
        let waker = self.note.waker(cx);
        let cx = &mut Context::from_waker(&waker);
        let _is_closing = self.close.poll(cx);
        let Some(deadline) = deadline else {
            // Another task may ask now, of which the timer does not know.
            self.timer = None;
            return Poll::Pending;
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if timer.deadline() > deadline {
            timer.as_mut().reset(deadline);
        }
        while timer.as_mut().poll(cx).is_ready() {
            if Instant::now() >= deadline {
                self.timer = None;
                return Poll::Ready(());
            }
            timer.as_mut().reset(deadline);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::time::Duration;

    use tokio::io::duplex;
    use tokio::time::sleep;

    use super::*;

    /// A denial and a request that is forwarded can come in one read: the upstream then takes its time.
    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_only_since_its_last_wait() {
        let (near, mut far) = duplex(64);
        let mut never = pin!(pending::<()>());
        let mut close = CloseSignal::new(never.as_mut());
        let mut client = ClientStream::new(near, &mut close);
        client.seen_at = Some(Instant::now());
        let mut upstream = pin!(sleep(KEEP_ALIVE_MAX + Duration::from_secs(1)));
        client.wait(None, |cx| upstream.as_mut().poll(cx)).await.unwrap();
        let mut bytes = Vec::new();
        let next = async {
            sleep(KEEP_ALIVE_MAX / 2).await;
            far.write_all(b"GET").await.unwrap();
        };
        let (read, ()) = tokio::join!(client.read(&mut bytes), next);
        assert_eq!((read.unwrap(), bytes.as_slice()), (NextRead::Bytes, &b"GET"[..]));
        // Nobody says anything for too long.
        client.seen_at = Some(Instant::now());
        let start = Instant::now();
        assert_eq!(client.read(&mut Vec::new()).await.unwrap(), NextRead::Over);
        let idle = start.elapsed();
        assert!(idle >= KEEP_ALIVE_MAX && idle < KEEP_ALIVE_MAX + Duration::from_secs(1), "{idle:?}");
    }
}
