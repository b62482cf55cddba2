//! An answer that a store gives now or later.
//!
//! Every operation of [`crate::Limiter`] returns one. It is awaited where there
//! is a runtime; on a store that answers at once, [`Pending::at_once`] takes it
//! without one. Neither costs more than the operation itself.

use std::marker::PhantomData;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use crate::store::ImmediateStore;

/// An answer that a store gives now or later: `.await` it, or take it
/// [`at_once`](Self::at_once) where the store is in this process.
///
/// ```
/// use tollgate_core::{Request, RuleSet};
/// use tollgate_limiter::Limiter;
/// let limiter = Limiter::new(RuleSet::default());
/// let reply = limiter.check(&Request::new("shop", &[])).at_once();
/// # async fn in_a_runtime(limiter: Limiter) {
/// let reply = limiter.check(&Request::new("shop", &[])).await;
/// # }
/// ```
#[must_use = "nothing is asked before it is awaited or taken at once"]
#[derive(Debug)]
pub struct Pending<S, F: Future, N = fn() -> <F as Future>::Output> {
    future: F,
    /// The same answer without a future, which would move a large one more than once; where there is such a way.
    shortcut: Option<N>,
    store: PhantomData<fn(&S)>,
}

impl<S, F: Future> Pending<S, F> {
    pub(crate) const fn new(future: F) -> Self {
        Self { future, shortcut: None, store: PhantomData }
    }
}

impl<S, F: Future, N: FnOnce() -> F::Output> Pending<S, F, N> {
    pub(crate) const fn with_shortcut(future: F, shortcut: Option<N>) -> Self {
        Self { future, shortcut, store: PhantomData }
    }
}

impl<S: ImmediateStore, F: Future, N: FnOnce() -> F::Output> Pending<S, F, N> {
    /// The answer of a store in this process. Always inlined: an answer is large, and is not moved then.
    #[inline(always)]
    pub fn at_once(self) -> F::Output {
        let Self { future, shortcut, .. } = self;
        match shortcut {
            Some(answer) => {
                // First, so that nothing is left to do behind the answer, which is then made where it is wanted.
                drop(future);
                answer()
            }
            None => poll_once(future),
        }
    }
}

/// The answer of a future that never waits.
#[expect(clippy::panic, reason = "an ImmediateStore promises not to wait")]
fn poll_once<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("a store that answers at once was waited for"),
    }
}

impl<S, F: Future, N> IntoFuture for Pending<S, F, N> {
    type Output = F::Output;
    type IntoFuture = F;

    #[inline]
    fn into_future(self) -> F {
        self.future
    }
}
