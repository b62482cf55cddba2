//! Asks, holds, denies, and tells.
//!
//! A request comes in; the mapping makes descriptors of it; the limiter decides; the service behind gets
//! it, at once or after its wait, or never. What callers are told is what a Tollgate server tells.
//!
//! On the memory store a request is decided by the time [`Service::call`] returns: what passes or is denied
//! needs no boxed future. On a store that takes its time, nothing is asked before the future is polled.

use std::convert::Infallible;
use std::future::poll_fn;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Either;
use tollgate_core::Verdict;
use tollgate_http::response::ResponseHeaders;
use tollgate_http::{Admission, AdmissionError, Checker, HttpRequestFacts, LimiterChecker};
use tollgate_limiter::{Clock, EventSink, Store};
use tower_layer::Layer;
use tower_service::Service;

use crate::denial;
use crate::layer::{Policy, TollgateLayer};
use crate::response_future::{self, BoxedResponse, ResponseFuture};

pub use crate::response_future::TollgateBody;

/// A service whose requests are limited; made by [`TollgateLayer`].
#[derive(Debug)]
pub struct LimitedService<Inner, S, C, E> {
    inner: Inner,
    layer: TollgateLayer<S, C, E>,
}

impl<Inner, S, C, E> Layer<Inner> for TollgateLayer<S, C, E> {
    type Service = LimitedService<Inner, S, C, E>;

    fn layer(&self, inner: Inner) -> Self::Service {
        LimitedService { inner, layer: self.clone() }
    }
}

impl<Inner: Clone, S, C, E> Clone for LimitedService<Inner, S, C, E> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<Inner, S, C, E, B, R> Service<Request<B>> for LimitedService<Inner, S, C, E>
where
    Inner: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    Inner::Future: Send,
    S: Store + Send + Sync + 'static,
    C: Clock + 'static,
    E: EventSink + Send + Sync + 'static,
    B: Send + 'static,
    R: Body<Data = Bytes>,
{
    type Response = Response<TollgateBody<R>>;
    type Error = Inner::Error;
    type Future = ResponseFuture<Inner::Future, LimiterChecker<S, C, E>, R, Inner::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (TollgateLayer { checker, policy }, mut told) = (&self.layer, ResponseHeaders::new());
        let decided = policy.admission.admit_at_once(checker, &facts(policy, &request), &mut told);
        let Some(decided) = decided else { return ResponseFuture::waiting(self.call_later(request)) };
        let mut admission = match decided {
            Ok(admission) => admission,
            Err(error) => {
                drop(self.ready_service());
                return ResponseFuture::denied(refuse(&request, error));
            }
        };
        admission.headers = told;
        match admission.verdict {
            Verdict::Allow => ResponseFuture::passed(self.inner.call(request), admission),
            Verdict::Deny { .. } => {
                drop(self.ready_service());
                ResponseFuture::denied(deny(&request, &mut admission))
            }
            Verdict::Delay { .. } => {
                drop(self.ready_service());
                let inner = self.inner.clone();
                ResponseFuture::waiting(Box::pin(async move {
                    admission.turn().await;
                    response_future::answered(call_when_ready(inner, request).await, &mut admission)
                }))
            }
        }
    }
}

impl<Inner: Clone, S, C, E> LimitedService<Inner, S, C, E> {
    /// The service that is ready; its clone is asked next time. What is ready may hold a permit that others
    /// wait for, so that it is dropped where it is not called, or not soon.
    fn ready_service(&mut self) -> Inner {
        let next = self.inner.clone();
        std::mem::replace(&mut self.inner, next)
    }

    /// Decides a request by a store that takes its time.
    fn call_later<B, R>(&mut self, request: Request<B>) -> BoxedResponse<R, Inner::Error>
    where
        Inner: Service<Request<B>, Response = Response<R>> + Send + 'static,
        Inner::Future: Send,
        S: Store + Send + Sync + 'static,
        C: Clock + 'static,
        E: EventSink + Send + Sync + 'static,
        B: Send + 'static,
        R: Body<Data = Bytes>,
    {
        let (TollgateLayer { checker, policy }, mut inner) = (self.layer.clone(), self.ready_service());
        Box::pin(async move {
            // The body is no part of what is asked about, and need not be shared while that takes time.
            let (parts, body) = request.into_parts();
            let head = Request::from_parts(parts, ());
            let admitted = policy.admission.admit(&checker, &facts(&policy, &head)).await;
            match admitted {
                Ok(mut admission) if admission.verdict.is_deny() => Ok(deny(&head, &mut admission)),
                Ok(mut admission) => {
                    let request = head.map(|()| body);
                    if admission.verdict == Verdict::Allow {
                        return response_future::answered(inner.call(request).await, &mut admission);
                    }
                    let again = inner.clone();
                    drop(inner);
                    admission.turn().await;
                    response_future::answered(call_when_ready(again, request).await, &mut admission)
                }
                Err(error) => Ok(refuse(&head, error)),
            }
        })
    }
}

/// Calls a service for a request that was held, once it is ready again.
async fn call_when_ready<Inner, B>(
    mut inner: Inner,
    request: Request<B>,
) -> Result<Inner::Response, Inner::Error>
where
    Inner: Service<Request<B>>,
{
    poll_fn(|cx| inner.poll_ready(cx)).await?;
    inner.call(request).await
}

/// The response of a request that a limit denies.
fn deny<B, R, C: Checker>(request: &Request<B>, admission: &mut Admission<C>) -> Response<TollgateBody<R>> {
    let mut response = denial::respond(request, admission.problem.as_deref());
    response.headers_mut().extend(std::mem::take(&mut admission.headers));
    response.map(Either::Right)
}

/// The response of a request that cannot be decided.
fn refuse<B, R>(request: &Request<B>, error: AdmissionError<Infallible>) -> Response<TollgateBody<R>> {
    match error {
        AdmissionError::Mapping(denial) => denial::refuse(request, &denial).map(Either::Right),
        AdmissionError::Check(never) => match never {},
    }
}

fn facts<'a, B>(policy: &Policy, request: &'a Request<B>) -> HttpRequestFacts<'a> {
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
    HttpRequestFacts {
        peer: (policy.find_peer)(request.extensions()),
        peer_name: None,
        method: request.method().as_str(),
        target: target.as_bytes(),
        host: host(request),
        headers: request.headers().into(),
    }
}

/// The authority of HTTP/2 is in the URI.
fn host<B>(request: &Request<B>) -> Option<&str> {
    let authority = request.uri().authority().map(|authority| authority.as_str());
    authority.or_else(|| request.headers().get(http::header::HOST)?.to_str().ok())
}
