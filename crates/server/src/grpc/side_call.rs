//! A call of health, of reflection, or of what there is not: one that tonic answers.
//!
//! The connection polls it whenever it is woken up, and sends what comes of it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::body::{Body as _, Bytes, Frame};
use hyper::http::uri::PathAndQuery;
use hyper::http::{HeaderName, HeaderValue, Method, Uri};
use hyper::{HeaderMap, Request, Response, StatusCode};
use tollgate_http2::{RequestHead, RequestPath};
use tonic::Status;
use tonic::body::Body;

use super::request_body::{RequestBody, RequestBodySender};
use super::{Grpc, TonicFuture};
use crate::listen::stream::{ByteCount, WaitingBytes};

/// A call that tonic answers.
pub(super) struct SideCall {
    state: SideState,
    /// The request, as far as it has arrived.
    pub(super) request: RequestBodySender,
    /// The last message, which the caller's window has yet to take.
    waiting: Option<WaitingBytes>,
}

impl std::fmt::Debug for SideCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SideCall").field("request", &self.request).finish_non_exhaustive()
    }
}

enum SideState {
    Calling(TonicFuture),
    Answering(Body),
}

/// What comes next of an answer.
pub(super) enum SideEvent {
    Head {
        status: StatusCode,
        headers: HeaderMap,
        is_end: bool,
    },
    Data(Bytes),
    Trailers(HeaderMap),
    End,
    /// There will be no answer, or not the rest of it.
    Broken,
}

impl SideCall {
    /// Begins a call; none if it is to no path at all.
    pub(super) fn new(
        grpc: &Grpc,
        head: RequestHead,
        request: RequestBodySender,
        body: RequestBody,
    ) -> Option<Self> {
        let request_to_tonic = tonic_request(head, body)?;
        let state = SideState::Calling(grpc.call_tonic(request_to_tonic));
        Some(Self { state, request, waiting: None })
    }

    /// What comes next. The last message must have been sent.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<SideEvent> {
        self.waiting = None;
        match &mut self.state {
            SideState::Calling(call) => call.as_mut().poll(cx).map(|Ok(response)| {
                let (parts, body) = Response::into_parts(response);
                let is_end = body.is_end_stream();
                self.state = SideState::Answering(body);
                SideEvent::Head { status: parts.status, headers: parts.headers, is_end }
            }),
            SideState::Answering(body) => Pin::new(body).poll_frame(cx).map(event),
        }
    }

    /// Counts a message that waits for the caller's window; none if too much does.
    pub(super) fn wait(&mut self, connection: &Arc<ByteCount>, bytes: usize) -> Option<()> {
        self.waiting = WaitingBytes::new(Arc::clone(connection), bytes);
        self.waiting.as_ref().map(|_| ())
    }
}

fn event(frame: Option<Result<Frame<Bytes>, Status>>) -> SideEvent {
    match frame.map(|frame| frame.map(Frame::into_data)) {
        None => SideEvent::End,
        Some(Err(_)) => SideEvent::Broken,
        Some(Ok(Ok(data))) => SideEvent::Data(data),
        Some(Ok(Err(frame))) => frame.into_trailers().map_or(SideEvent::Broken, SideEvent::Trailers),
    }
}

/// The request as tonic takes it. Fields that HTTP has no name for are left out.
fn tonic_request(head: RequestHead, body: RequestBody) -> Option<Request<Body>> {
    let RequestHead { other_method, path, fields, .. } = head;
    let mut request = Request::new(Body::new(body));
    *request.method_mut() = match other_method {
        None => Method::POST,
        Some(other) => Method::from_bytes(&other).ok()?,
    };
    *request.uri_mut() = match path {
        RequestPath::Known(place) => Uri::from_static(super::KNOWN_PATHS.get(place)?),
        RequestPath::Other(path) => Uri::from(PathAndQuery::try_from(&*path).ok()?),
    };
    for (name, value) in fields.iter() {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            request.headers_mut().append(name, value);
        }
    }
    Some(request)
}
