//! Ends answers that a client does not take.
//!
//! hyper asks a body for no more pieces while the client has no room for the last one, so that a body cannot
//! notice by itself that nobody takes it: its timers are not asked either. Whoever drives the answer
//! does: the task of a stream of HTTP/2, or the connection of HTTP/1, is run by [`watched`], and the
//! body tells it through [`AnswerWatch`] whom it waits for.
//!
//! Invariant: an answer is dropped, and its upstream with it, once the client has taken nothing for
//! the time that it has, or when `timeouts.total` is over, whoever is waited for.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, Sleep, sleep_until};

tokio::task_local! {
    /// Of the answer that is being driven.
    static CURRENT: Arc<AnswerWatch>;
}

/// What the body of an answer tells whoever drives it.
#[derive(Debug, Default)]
pub(crate) struct AnswerWatch {
    state: Mutex<AnswerState>,
    /// Whether the client is seen to take something by the pieces that are asked for.
    is_by_piece: bool,
}

#[derive(Debug, Default, Clone, Copy)]
struct AnswerState {
    /// Pieces that the client had room for.
    pieces: u64,
    /// Whether the next piece waits for the client, and not for the upstream.
    waits_for_client: bool,
    /// All of it must have been read by then; none if it may take any time.
    deadline: Option<Instant>,
}

impl AnswerWatch {
    /// Of the answer that is being driven; none if nobody watches it.
    pub(crate) fn current() -> Option<Arc<Self>> {
        CURRENT.try_with(Arc::clone).ok()
    }

    /// Whether the client is seen to take something by the pieces that are asked for: then these must be small.
    pub(crate) const fn is_by_piece(&self) -> bool {
        self.is_by_piece
    }

    /// A body begins, which must be over by then.
    pub(crate) fn begin(&self, deadline: Option<Instant>) {
        // Until it is asked for its first piece, nobody but the client can be waited for.
        *self.state.lock() = AnswerState { deadline, waits_for_client: true, pieces: 0 };
    }

    /// The client had room for a piece, and gets it.
    pub(crate) fn passed(&self) {
        let mut state = self.state.lock();
        state.pieces += 1;
        state.waits_for_client = true;
    }

    /// The client has room, and there is nothing to give to it.
    pub(crate) fn awaits_upstream(&self) {
        self.state.lock().waits_for_client = false;
    }

    /// There is nothing left to give to it.
    pub(crate) fn end(&self) {
        *self.state.lock() = AnswerState::default();
    }

    fn state(&self) -> AnswerState {
        *self.state.lock()
    }
}

/// Drives an answer, or several one after the other; none if the client did not take one in time.
/// It may pause for `pause_max`, where nobody else looks after that.
pub(crate) async fn watched<F: Future>(driven: F, pause_max: Option<Duration>) -> Option<F::Output> {
    let watch = Arc::new(AnswerWatch { is_by_piece: pause_max.is_some(), ..AnswerWatch::default() });
    let mut timer = PauseTimer { pause_max, since: None, sleep: None };
    let mut driven = pin!(driven);
    std::future::poll_fn(|cx| {
        let polled = CURRENT.sync_scope(Arc::clone(&watch), || driven.as_mut().poll(cx));
        match polled {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => timer.poll(watch.state(), cx).map(|()| None),
        }
    })
    .await
}

/// Fires when a client has paused for too long.
struct PauseTimer {
    pause_max: Option<Duration>,
    /// How many pieces it had, and since when.
    since: Option<(u64, Instant)>,
    /// Set again only when it fires: nearly all answers are taken long before.
    sleep: Option<Pin<Box<Sleep>>>,
}

impl PauseTimer {
    fn poll(&mut self, state: AnswerState, cx: &mut Context<'_>) -> Poll<()> {
        if !state.waits_for_client {
            self.since = None;
            return Poll::Pending;
        }
        let since = self.since.filter(|(pieces, _)| *pieces == state.pieces);
        let (_, since) = *self.since.insert(since.unwrap_or_else(|| (state.pieces, Instant::now())));
        let until = self.pause_max.map(|pause_max| since + pause_max);
        let Some(until) = until.into_iter().chain(state.deadline).min() else { return Poll::Pending };
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(until)));
        if sleep.deadline() > until {
            sleep.as_mut().reset(until);
        }
        while sleep.as_mut().poll(cx).is_ready() {
            if Instant::now() >= until {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(until);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, sleep};

    use super::*;

    const PAUSE: Duration = Duration::from_secs(60);

    /// An answer of which a client takes a piece every so often, for ever.
    async fn taken_every(pause: Duration, deadline: Option<Instant>) {
        let watch = AnswerWatch::current().expect("it is watched");
        watch.begin(deadline);
        loop {
            watch.passed();
            sleep(pause).await;
        }
    }

    async fn cut_after(answer: impl Future<Output = ()>, pause_max: Option<Duration>) -> Duration {
        let start = Instant::now();
        assert_eq!(watched(answer, pause_max).await, None);
        start.elapsed()
    }

    fn is_about(time: Duration, seconds: u64) -> bool {
        let wanted = Duration::from_secs(seconds);
        time >= wanted && time < wanted + Duration::from_secs(1)
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_may_pause_but_not_for_ever() {
        let stalled = cut_after(taken_every(Duration::MAX / 4, None), Some(PAUSE)).await;
        assert!(is_about(stalled, 60), "{stalled:?}");
        // One that takes a little again and again may take any time, but for the deadline.
        let slow = watched(taken_every(PAUSE / 2, None), Some(PAUSE));
        assert!(tokio::time::timeout(100 * PAUSE, slow).await.is_err(), "it was cut");
        let deadline = Some(Instant::now() + 10 * PAUSE);
        let slow = cut_after(taken_every(PAUSE / 2, deadline), Some(PAUSE)).await;
        assert!(is_about(slow, 600), "{slow:?}");
        let deadline = Some(Instant::now() + PAUSE / 12);
        let stalled = cut_after(taken_every(Duration::MAX / 4, deadline), None).await;
        assert!(is_about(stalled, 5), "{stalled:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_an_upstream_is_not_the_clients() {
        let answer = async {
            let watch = AnswerWatch::current().expect("it is watched");
            watch.begin(None);
            watch.passed();
            sleep(PAUSE / 2).await;
            watch.awaits_upstream();
            sleep(10 * PAUSE).await;
            watch.passed();
            sleep(PAUSE / 2).await;
            watch.end();
            advance(10 * PAUSE).await;
        };
        assert_eq!(watched(answer, Some(PAUSE)).await, Some(()));
    }
}
