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

/// Reads what is there and hands it over; nothing at the end of the stream.
pub(crate) fn poll_read_with<I: AsyncRead + Unpin, T>(
    io: &mut I,
    cx: &mut Context<'_>,
    take: impl FnOnce(&[u8]) -> T,
) -> Poll<io::Result<T>> {
    buffers::with_input(|input| {
        let mut buf = ReadBuf::new(input);
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
    /// So many bytes of the next request.
    Bytes(usize),
    /// The client has gone, or must.
    Over,
}

/// The client's side of a connection.
pub(super) struct ClientStream<'c, 'f, I, F> {
    pub(super) io: I,
    watchers: Watchers<'c, 'f, F>,
    /// What came after the request that is being answered.
    pub(super) ahead: Vec<u8>,
    /// Since when the client has nothing to wait for, if somebody knows that already: reading a clock takes
    /// its time.
    pub(super) idle_since: Option<Instant>,
}

impl<'c, 'f, I: AsyncRead + AsyncWrite + Unpin, F: Future<Output = ()>> ClientStream<'c, 'f, I, F> {
    pub(super) fn new(io: I, close: &'c mut CloseSignal<'f, F>) -> Self {
        let watchers = Watchers { close, is_closing: false, timer: None, note: WakeNote::default() };
        Self { io, watchers, ahead: Vec::new(), idle_since: None }
    }

    /// Whether the server stops, so that the next answer is the last.
    pub(super) const fn is_closing(&self) -> bool {
        self.watchers.is_closing
    }

    /// Reads of the next request what is there.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<NextRead> {
        let mut buf = ReadBuf::new(into);
        if let Poll::Ready(read) = Pin::new(&mut self.io).poll_read(cx, &mut buf) {
            self.idle_since = None;
            let count = buf.filled().len();
            return Poll::Ready(if read.is_ok() && count > 0 {
                NextRead::Bytes(count)
            } else {
                NextRead::Over
            });
        }
        let deadline = *self.idle_since.get_or_insert_with(Instant::now) + KEEP_ALIVE_MAX;
        let is_late = self.watchers.poll(cx, Some(deadline)).is_ready();
        if is_late || self.is_closing() { Poll::Ready(NextRead::Over) } else { Poll::Pending }
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
            self.idle_since = None;
            if self.is_gone(cx) {
                return Poll::Ready(Err(WaitError::Gone));
            }
            // That the server stops is only noted: the answer will say that it is the last.
            self.watchers.poll(cx, deadline).map(|()| Err(WaitError::Late))
        })
        .await
    }

    /// Writes what the client takes at once; how much that was. The rest, and whatever goes wrong, is for
    /// [`Self::write`].
    pub(super) fn write_at_once(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> usize {
        match Pin::new(&mut self.io).poll_write(cx, bytes) {
            Poll::Ready(Ok(written)) => written,
            Poll::Ready(Err(_)) | Poll::Pending => 0,
        }
    }

    /// Whether nothing waits to be written any more.
    pub(super) fn is_flushed(&mut self, cx: &mut Context<'_>) -> bool {
        matches!(Pin::new(&mut self.io).poll_flush(cx), Poll::Ready(Ok(())))
    }

    /// Writes all of it, unless the client takes nothing for too long.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_until(None, bytes).await
    }

    /// The same, to be over by then.
    pub(super) async fn write_until(&mut self, end: Option<Instant>, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = self.until_taken(end, |io, cx| io.poll_write(cx, bytes)).await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            bytes = bytes.get(written..).unwrap_or_default();
        }
        // TLS takes an answer whole and keeps what the client has no room for.
        self.until_taken(end, |io, cx| io.poll_flush(cx)).await
    }

    /// Waits until the client takes something, for so long and no longer.
    async fn until_taken<T>(
        &mut self,
        end: Option<Instant>,
        mut poll: impl FnMut(Pin<&mut I>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> io::Result<T> {
        // A socket has room for nearly all answers, so that nobody looks at the clock for them.
        let mut deadline = None;
        poll_fn(|cx| {
            if let Poll::Ready(taken) = poll(Pin::new(&mut self.io), cx) {
                return Poll::Ready(taken);
            }
            self.idle_since = None;
            let deadline = *deadline.get_or_insert_with(|| {
                let pause_end = Instant::now() + WRITE_WAIT_MAX;
                end.map_or(pause_end, |end| end.min(pause_end))
            });
            self.watchers.poll(cx, Some(deadline)).map(|()| Err(io::ErrorKind::TimedOut.into()))
        })
        .await
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
    /// What the close signal said last; it is elsewhere, and this is asked for every request.
    is_closing: bool,
    timer: Option<DeadlineTimer>,
    note: WakeNote,
}

/// A timer, and when it fires; the timer is elsewhere, too.
struct DeadlineTimer {
    fires_at: Instant,
    sleep: Pin<Box<Sleep>>,
}

impl DeadlineTimer {
    fn reset(&mut self, deadline: Instant) {
        self.sleep.as_mut().reset(deadline);
        self.fires_at = deadline;
    }
}

impl<F: Future<Output = ()>> Watchers<'_, '_, F> {
    /// Ready at the deadline; whether the server stops is known afterwards.
    fn poll(&mut self, cx: &Context<'_>, deadline: Option<Instant>) -> Poll<()> {
        let is_in_time = |deadline| self.timer.as_ref().is_some_and(|timer| timer.fires_at <= deadline);
        if deadline.is_none_or(is_in_time) && self.note.is_quiet(cx) {
            return Poll::Pending;
        }
        let waker = self.note.waker(cx);
        let cx = &mut Context::from_waker(&waker);
        self.is_closing = self.close.poll(cx).is_ready();
        let Some(deadline) = deadline else {
            // Another task may ask now, of which the timer does not know.
            self.timer = None;
            return Poll::Pending;
        };
        let new = || DeadlineTimer { fires_at: deadline, sleep: Box::pin(sleep_until(deadline)) };
        let timer = self.timer.get_or_insert_with(new);
        if timer.fires_at > deadline {
            timer.reset(deadline);
        }
        while timer.sleep.as_mut().poll(cx).is_ready() {
            if Instant::now() >= deadline {
                self.timer = None;
                return Poll::Ready(());
            }
            timer.reset(deadline);
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
        client.idle_since = Some(Instant::now());
        let mut upstream = pin!(sleep(KEEP_ALIVE_MAX + Duration::from_secs(1)));
        client.wait(None, |cx| upstream.as_mut().poll(cx)).await.unwrap();
        let mut bytes = [0; 8];
        let next = async {
            sleep(KEEP_ALIVE_MAX / 2).await;
            far.write_all(b"GET").await.unwrap();
        };
        let (read, ()) = tokio::join!(poll_fn(|cx| client.poll_read(cx, &mut bytes)), next);
        assert_eq!((read, &bytes[..3]), (NextRead::Bytes(3), &b"GET"[..]));
        // Nobody says anything for too long.
        client.idle_since = Some(Instant::now());
        let start = Instant::now();
        assert_eq!(poll_fn(|cx| client.poll_read(cx, &mut bytes)).await, NextRead::Over);
        let idle = start.elapsed();
        assert!(idle >= KEEP_ALIVE_MAX && idle < KEEP_ALIVE_MAX + Duration::from_secs(1), "{idle:?}");
    }
}
