//! How long a body may pause.
//!
//! A timer costs something, so that only a body that somebody has to wait for has one.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// Fires when somebody has waited for a piece for too long. Time in which nobody asks for one does
/// not count: the other side may be slow.
#[derive(Debug)]
pub(crate) struct IdleTimer {
    idle: Duration,
    /// Since when somebody waits; none while nobody does.
    waiting_since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl IdleTimer {
    pub(crate) const fn new(idle: Duration) -> Self {
        Self { idle, waiting_since: None, timer: None }
    }

    /// Something has come.
    pub(crate) const fn progress(&mut self) {
        self.waiting_since = None;
    }

    /// Ready once somebody has waited for the whole time.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let until = *self.waiting_since.get_or_insert_with(Instant::now) + self.idle;
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
            let waiting = std::future::poll_fn(|cx| timer.poll(cx));
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
