//! Asks, holds, denies, and tells.
//!
//! A request comes in; the mapping makes descriptors of it; the limiter decides; the service behind gets
//! it, at once or after its wait, or never. What callers are told is what a Tollgate server tells.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{Either, Full};
use tollgate_http::{AdmissionError, HttpRequestFacts, MeteredBody};
use tollgate_limiter::{Clock, EventSink, Store};
use tower_layer::Layer;
use tower_service::Service;

use crate::denial;
use crate::layer::{Policy, TollgateLayer};

/// The body of a response: the service's own, or that of a denial.
pub type TollgateBody<B> = Either<MeteredBody<B>, Full<Bytes>>;

/// An error of a service is counted as the status that servers make of it.
const FAILED: u16 = 500;

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
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The one that is ready is called, and its clone is asked next time.
        let next = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, next);
        let TollgateLayer { checker, policy } = self.layer.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let mut admission = match policy.admission.admit(&checker, &facts(&policy, &parts)).await {
                Ok(admission) => admission,
                Err(AdmissionError::Mapping(denial)) => {
                    return Ok(denial::refuse(&parts, &denial).map(Either::Right));
                }
                Err(AdmissionError::Check(never)) => match never {},
            };
            if let Some(problem) = &admission.problem {
                let mut response = denial::respond(&parts, problem);
                response.headers_mut().extend(admission.headers);
                return Ok(response.map(Either::Right));
            }
            admission.turn().await;
            let answered = inner.call(Request::from_parts(parts, body)).await;
            let mut response = answered.inspect_err(|_| admission.failed(FAILED))?;
            let meter = admission.answered(response.status().as_u16(), response.headers());
            response.headers_mut().reserve(admission.headers.len());
            response.headers_mut().extend(admission.headers);
            Ok(response.map(|body| Either::Left(MeteredBody::new(body, meter))))
        })
    }
}

fn facts<'a>(policy: &Policy, parts: &'a Parts) -> HttpRequestFacts<'a> {
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    HttpRequestFacts {
        peer: (policy.find_peer)(&parts.extensions),
        peer_name: None,
        method: parts.method.as_str(),
        target: target.as_bytes(),
        host: host(parts),
        headers: (&parts.headers).into(),
    }
}

/// The authority of HTTP/2 is in the URI.
fn host(parts: &Parts) -> Option<&str> {
    let authority = parts.uri.authority().map(|authority| authority.as_str());
    authority.or_else(|| parts.headers.get(http::header::HOST)?.to_str().ok())
}
