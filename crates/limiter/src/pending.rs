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
pub struct Pending<S, F> {
    future: F,
    store: PhantomData<fn(&S)>,
}

impl<S, F: Future> Pending<S, F> {
    pub(crate) const fn new(future: F) -> Self {
        Self { future, store: PhantomData }
    }
}

impl<S: ImmediateStore, F: Future> Pending<S, F> {
    /// The answer of a store in this process.
    #[expect(clippy::panic, reason = "an ImmediateStore promises not to wait")]
    #[inline]
    pub fn at_once(self) -> F::Output {
        match pin!(self.future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => answer,
            Poll::Pending => panic!("a store that answers at once was waited for"),
        }
    }
}

impl<S, F: Future> IntoFuture for Pending<S, F> {
    type Output = F::Output;
    type IntoFuture = F;

    #[inline]
    fn into_future(self) -> F {
        self.future
    }
}
