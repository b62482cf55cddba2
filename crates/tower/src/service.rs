//! Asks, holds, denies, and tells.
//!
//! A request comes in; the mapping makes descriptors of it; the limiter decides; the service behind gets
//! it, at once or after its wait, or never. What callers are told is what a Tollgate server tells.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Request, Response};
use http_body::Body;
use http_body_util::{Either, Full};
use tollgate_core::Verdict;
use tollgate_http::response::WAIT;
use tollgate_http::{CallerView, HttpRequestFacts};
use tollgate_limiter::{Clock, EventSink, Limiter, Store};
use tower_layer::Layer;
use tower_service::Service;

use crate::denial;
use crate::layer::{Policy, TollgateLayer};

/// The body of a response: the service's own, or that of a denial.
pub type TollgateBody<B> = Either<B, Full<Bytes>>;

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

/// What becomes of a request.
enum Passage {
    /// It goes on, and its response carries these headers.
    Open(HeaderMap),
    Denied(Response<Full<Bytes>>),
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
        let TollgateLayer { limiter, policy } = self.layer.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            match pass(&limiter, &policy, &parts).await {
                Passage::Denied(response) => Ok(response.map(Either::Right)),
                Passage::Open(headers) => {
                    let mut response = inner.call(Request::from_parts(parts, body)).await?;
                    response.headers_mut().extend(headers);
                    Ok(response.map(Either::Left))
                }
            }
        })
    }
}

/// Asks whether a request may pass, and waits as long as it has to.
async fn pass<S: Store, C: Clock, E: EventSink>(
    limiter: &Limiter<S, C, E>,
    policy: &Policy,
    parts: &Parts,
) -> Passage {
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    let facts = HttpRequestFacts {
        peer: (policy.find_peer)(&parts.extensions),
        method: parts.method.as_str(),
        target: target.as_bytes(),
        host: host(parts),
        headers: &parts.headers,
        now: limiter.clock().now(),
    };
    let mapped = match policy.mapping.map(&facts) {
        Ok(mapped) => mapped,
        Err(error) => return Passage::Denied(denial::refuse(parts, &error)),
    };
    if mapped.is_empty() {
        return Passage::Open(HeaderMap::new());
    }
    let entries = mapped.entries();
    let descriptors = mapped.descriptors(&entries);
    let request = mapped.request(&descriptors);
    let reply = limiter.check_within(&request, facts.now, policy.max_hold.into()).await;
    let view = CallerView::new(&policy.responses, &request, &reply);
    if reply.verdict.is_deny() {
        return Passage::Denied(denial::respond(parts, &view));
    }
    // What was to be waited for will have been waited for.
    let headers = view.headers().into_iter().filter(|(name, _)| *name != WAIT).collect();
    if let Verdict::Delay { wait } = reply.verdict {
        tokio::time::sleep(wait.into()).await;
    }
    Passage::Open(headers)
}

/// The authority of HTTP/2 is in the URI.
fn host(parts: &Parts) -> Option<&str> {
    let authority = parts.uri.authority().map(|authority| authority.as_str());
    authority.or_else(|| parts.headers.get(http::header::HOST)?.to_str().ok())
}
