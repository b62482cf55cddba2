//! The response of a limited service, now or later.
//!
//! Made by [`crate::LimitedService`] once a request is decided: on the memory store that is when the service is
//! called, so that a request that passes waits for nothing but the service, and one that is denied for nothing.
//! What has to wait, for its turn or for a store, does so in a place of its own.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use http_body::Body;
use http_body_util::{Either, Full};
use pin_project_lite::pin_project;
use tollgate_http::{Admission, Checker, MeteredBody};

/// The body of a response: the service's own, or that of a denial.
pub type TollgateBody<B> = Either<MeteredBody<B>, Full<Bytes>>;

/// An error of a service is counted as the status that servers make of it.
const FAILED: u16 = 500;

/// A response that somebody else is waiting for.
pub(crate) type BoxedResponse<R, E> =
    Pin<Box<dyn Future<Output = Result<Response<TollgateBody<R>>, E>> + Send>>;

pin_project! {
    /// The response of a limited service; made by [`crate::LimitedService`].
    #[must_use = "futures do nothing unless they are polled"]
    pub struct ResponseFuture<F, C: Checker, R, E> {
        #[pin]
        stage: ResponseStage<F, C, R, E>,
    }
}

pin_project! {
    #[project = ProjectedStage]
    enum ResponseStage<F, C: Checker, R, E> {
        Passed { #[pin] answering: F, admission: Admission<C> },
        Denied { response: Option<Response<TollgateBody<R>>> },
        Waiting { answering: BoxedResponse<R, E> },
    }
}

impl<F, C: Checker, R, E> ResponseFuture<F, C, R, E> {
    /// The service answers a request that passes.
    pub(crate) const fn passed(answering: F, admission: Admission<C>) -> Self {
        Self { stage: ResponseStage::Passed { answering, admission } }
    }

    /// It never gets to the service.
    pub(crate) const fn denied(response: Response<TollgateBody<R>>) -> Self {
        Self { stage: ResponseStage::Denied { response: Some(response) } }
    }

    /// It has to wait before the service gets it, or it is decided.
    pub(crate) const fn waiting(answering: BoxedResponse<R, E>) -> Self {
        Self { stage: ResponseStage::Waiting { answering } }
    }
}

impl<F, C, R, E> Future for ResponseFuture<F, C, R, E>
where
    F: Future<Output = Result<Response<R>, E>>,
    C: Checker,
    R: Body<Data = Bytes>,
{
    type Output = Result<Response<TollgateBody<R>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().stage.project() {
            ProjectedStage::Passed { answering, admission } => {
                Poll::Ready(answered(ready!(answering.poll(cx)), admission))
            }
            ProjectedStage::Denied { response } => {
                Poll::Ready(Ok(response.take().expect("a future is not polled after its end")))
            }
            ProjectedStage::Waiting { answering } => answering.as_mut().poll(cx),
        }
    }
}

impl<F, C: Checker, R, E> fmt::Debug for ResponseFuture<F, C, R, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

/// What the caller gets of what the service answered.
pub(crate) fn answered<C: Checker, R: Body<Data = Bytes>, E>(
    answer: Result<Response<R>, E>,
    admission: &mut Admission<C>,
) -> Result<Response<TollgateBody<R>>, E> {
    let mut response = answer.inspect_err(|_| admission.failed(FAILED))?;
    let meter = admission.answered(response.status().as_u16(), response.headers());
    let told = std::mem::take(&mut admission.headers);
    response.headers_mut().reserve(told.len());
    // In place of what the service says about limits of its own.
    for (name, value) in told {
        response.headers_mut().insert(name, value);
    }
    Ok(response.map(|body| Either::Left(MeteredBody::new(body, meter))))
}
