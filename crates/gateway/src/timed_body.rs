//! A body whose pieces must come in time, in either direction.
//!
//! `request_body` and `response_body` pass its pieces on. A timer costs something, so that only a
//! body that somebody has to wait for has one.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body as _, Bytes, Frame, Incoming};
use tokio::time::{Instant, Sleep};

/// A body whose pieces must come in time.
#[derive(Debug)]
pub(crate) struct TimedBody {
    pub(crate) inner: Incoming,
    timer: IdleTimer,
    /// All of it must have come by then; none if it may take any time.
    deadline: Option<Instant>,
}

/// Why a body broke off.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TimedBodyError {
    #[error(transparent)]
    Broken(hyper::Error),
    #[error("a piece of the body did not come in time")]
    Slow,
}

impl TimedBody {
    /// Pauses for at most `idle`.
    pub(crate) const fn new(inner: Incoming, idle: Duration) -> Self {
        Self { inner, timer: IdleTimer::new(idle), deadline: None }
    }

    /// The same, to be over by then.
    pub(crate) const fn until(mut self, deadline: Option<Instant>) -> Self {
        self.deadline = deadline;
        self
    }

    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, TimedBodyError>>> {
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Poll::Ready(Some(Err(TimedBodyError::Slow)));
        }
        match Pin::new(&mut self.inner).poll_frame(cx) {
            Poll::Ready(frame) => {
                self.timer.progress();
                Poll::Ready(frame.map(|frame| frame.map_err(TimedBodyError::Broken)))
            }
            Poll::Pending => self.timer.poll(cx, self.deadline).map(|()| Some(Err(TimedBodyError::Slow))),
        }
    }
}

/// Fires when somebody has waited for a piece for too long. Time in which nobody asks for one does
/// not count: the other side may be slow.
#[derive(Debug)]
struct IdleTimer {
    idle: Duration,
    /// Since when somebody waits; none while nobody does.
    waiting_since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl IdleTimer {
    const fn new(idle: Duration) -> Self {
        Self { idle, waiting_since: None, timer: None }
    }

    /// Something has come.
    const fn progress(&mut self) {
        self.waiting_since = None;
    }

    /// Ready once somebody has waited for the whole time, or until the deadline.
    fn poll(&mut self, cx: &mut Context<'_>, deadline: Option<Instant>) -> Poll<()> {
        let until = *self.waiting_since.get_or_insert_with(Instant::now) + self.idle;
        let until = deadline.map_or(until, |deadline| deadline.min(until));
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        while timer.as_mut().poll(cx).is_ready() {
            if timer.deadline() >= until {
                return Poll::Ready(());
            }
            timer.as_mut().reset(until);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_time_in_which_somebody_waits_counts() {
        let mut timer = IdleTimer::new(Duration::from_secs(10));
        let start = Instant::now();
        let wait = async |timer: &mut IdleTimer, seconds| {
            let waiting = std::future::poll_fn(|cx| timer.poll(cx, None));
            tokio::time::timeout(Duration::from_secs(seconds), waiting).await.is_ok()
        };
        assert!(!wait(&mut timer, 6).await);
        timer.progress();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(!wait(&mut timer, 6).await);
        assert!(wait(&mut timer, 6).await);
        assert_eq!(start.elapsed(), Duration::from_secs(6 + 60 + 10));
    }
}
