//! Serves connections of HTTP/1.1.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tower::ServiceExt as _;

use super::authz::Peer;
use super::direct::DirectConnection;
use crate::body::{ByteBudget, HeldBytes, LARGE_PAGES, LARGE_RESPONSES};
use crate::bounds::{HTTP_HEAD_MAX, HTTP_IDLE_MAX, RESPONSE_LARGE};
use crate::listen::accept::{Serve, ServerConnection};
use crate::listen::lifetime::LifetimePolicy;
use crate::listen::prefixed::Prefixed;
use crate::listen::stream::FilteredStream;
use crate::service::Service;
use crate::tls::Tls;
use tollgate_settings::LimitedListener;

/// A request line with a method, a path and a version is not shorter.
const OPENING_BYTES: u64 = 14;

/// Serves connections of HTTP/1.1 by a router.
#[derive(Debug, Clone)]
pub(crate) struct ServeHttp {
    router: Router,
    tls: Option<Arc<Tls>>,
    /// Answers requests on the short way, if there is one.
    direct: Option<Arc<Service>>,
    /// What large responses count against.
    budget: &'static ByteBudget,
}

/// Marks a response whose body several callers share, and which is accounted for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SharedBody;

impl ServeHttp {
    /// Serves operators.
    pub(crate) const fn pages(router: Router) -> Self {
        Self { router, tls: None, direct: None, budget: &LARGE_PAGES }
    }

    /// Serves callers of the limiter, with the short way for `/v1/check` and its
    /// like; but not where spans are made, which takes longer than it saves.
    pub(crate) fn calls(router: Router, tls: Option<Arc<Tls>>, service: Arc<Service>) -> Self {
        let direct = Some(service).filter(|service| !service.tracer().is_on());
        Self { router, tls, direct, budget: &LARGE_RESPONSES }
    }
}

/// Counts a large response against a budget until it is read, or refuses it.
fn bounded(response: Response, budget: &'static ByteBudget) -> Response {
    let bytes = response.body().size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
    let bytes = bytes.unwrap_or(0);
    if bytes < RESPONSE_LARGE || response.extensions().get::<SharedBody>().is_some() {
        return response;
    }
    let mut held = budget.none();
    match held.add(bytes) {
        Ok(()) => response.map(|body| Body::new(LargeBody { body, held: Arc::new(held) })),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
    }
}

/// A body that is accounted for until its bytes are written: hyper takes them
/// whole and drops the body long before that.
struct LargeBody {
    body: Body,
    held: Arc<HeldBytes>,
}

/// Bytes of such a body.
struct LargeBytes {
    bytes: Bytes,
    _held: Arc<HeldBytes>,
}

impl AsRef<[u8]> for LargeBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl HttpBody for LargeBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Self { body, held } = &mut *self;
        let counted = |bytes| Bytes::from_owner(LargeBytes { bytes, _held: Arc::clone(held) });
        let frame = Pin::new(body).poll_frame(cx);
        frame.map(|frame| frame.map(|frame| frame.map(|frame| frame.map_data(counted))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Serve for ServeHttp {
    fn tls(&self) -> Option<&Tls> {
        self.tls.as_deref()
    }

    fn listener(&self) -> LimitedListener {
        LimitedListener::Http
    }

    fn policy(&self) -> LifetimePolicy {
        LifetimePolicy {
            opening_bytes: OPENING_BYTES,
            idle: Some(HTTP_IDLE_MAX),
            ..LifetimePolicy::default()
        }
    }

    async fn serve(&self, connection: ServerConnection) {
        let ServerConnection { io, peer, mut lifetime } = connection;
        let (io, read) = match &self.direct {
            None => (io, Vec::new()),
            Some(service) => match DirectConnection::new(io, service).serve(&mut lifetime).await {
                Some(rest) => rest,
                None => return,
            },
        };
        let io = FilteredStream::new(io, Prefixed::new(read), lifetime.byte_count());
        let router = self.router.clone().map_request(move |mut request: Request<Incoming>| {
            peer.and_then(|peer| request.extensions_mut().insert(Peer(peer)));
            request.map(Body::new)
        });
        let budget = self.budget;
        let router = router.map_response(move |response| bounded(response, budget));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HTTP_IDLE_MAX)
            .max_buf_size(HTTP_HEAD_MAX)
            // A caller that is done sending still wants its answer.
            .half_close(true)
            .serve_connection(TokioIo::new(io), TowerToHyperService::new(router));
        lifetime.supervise(connection).await;
    }
}

#[cfg(test)]
mod tests;
