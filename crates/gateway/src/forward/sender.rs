//! A connection of either protocol, and a request in the form that it takes.
//!
//! A connection of HTTP/1.1 is one request's alone; one of HTTP/2 is shared, and a request has a
//! stream of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::header::{CONNECTION, EXPECT, HOST, HeaderValue, UPGRADE};
use http::uri::{Authority, Parts, PathAndQuery, Scheme};
use http::{Uri, Version};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper::{Request, Response};

use super::counted_stream::ReceivedBytes;
use crate::request_body::RequestBody;

/// A connection, or a stream of one, that a request has for itself.
#[derive(Debug)]
pub(super) enum UpstreamSender {
    Http1(Http1Connection),
    Http2(Http2Stream),
}

impl UpstreamSender {
    /// What has come on the connection, now and later.
    pub(super) fn received(&self) -> ReceivedBytes {
        match self {
            Self::Http1(connection) => connection.received.clone(),
            Self::Http2(stream) => stream.connection.received.clone(),
        }
    }

    /// The head of the answer.
    pub(super) async fn send(
        self,
        request: Request<RequestBody>,
        is_tls: bool,
    ) -> Result<(Response<Incoming>, Self), TrySendError<Request<RequestBody>>> {
        match self {
            Self::Http1(mut connection) => {
                let response = connection.sender.try_send_request(request).await?;
                Ok((response, Self::Http1(connection)))
            }
            Self::Http2(mut stream) => {
                let request = for_http2(request, is_tls);
                let response = stream.connection.sender.try_send_request(request).await?;
                Ok((response, Self::Http2(stream)))
            }
        }
    }
}

/// A connection that one request has at a time.
#[derive(Debug)]
pub(super) struct Http1Connection {
    sender: http1::SendRequest<RequestBody>,
    received: ReceivedBytes,
}

impl Http1Connection {
    pub(super) const fn new(sender: http1::SendRequest<RequestBody>, received: ReceivedBytes) -> Self {
        Self { sender, received }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Whether its last answer is over.
    pub(super) fn is_ready(&self) -> bool {
        self.sender.is_ready()
    }
}

/// A connection that several requests share.
#[derive(Debug, Clone)]
pub(super) struct Http2Connection {
    sender: http2::SendRequest<RequestBody>,
    streams: Arc<StreamCount>,
    received: ReceivedBytes,
}

/// How many streams of a connection are open, and may be.
#[derive(Debug)]
pub(super) struct StreamCount {
    open: AtomicUsize,
    max: AtomicUsize,
}

impl StreamCount {
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { open: AtomicUsize::new(0), max: AtomicUsize::new(max) })
    }

    /// The upstream allows so many.
    pub(super) fn allow(&self, max: usize) {
        self.max.store(max, Ordering::Relaxed);
    }
}

impl Http2Connection {
    pub(super) const fn new(
        sender: http2::SendRequest<RequestBody>,
        streams: Arc<StreamCount>,
        received: ReceivedBytes,
    ) -> Self {
        Self { sender, streams, received }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    pub(super) fn open_streams(&self) -> usize {
        self.streams.open.load(Ordering::Relaxed)
    }

    /// Whether the upstream allows another stream.
    pub(super) fn has_room(&self) -> bool {
        self.open_streams() < self.streams.max.load(Ordering::Relaxed)
    }

    pub(super) fn stream(&self) -> Http2Stream {
        self.streams.open.fetch_add(1, Ordering::Relaxed);
        Http2Stream { connection: self.clone() }
    }
}

/// One request's part of a shared connection; counted until it is dropped.
#[derive(Debug)]
pub(super) struct Http2Stream {
    connection: Http2Connection,
}

impl Http2Stream {
    pub(super) const fn connection(&self) -> &Http2Connection {
        &self.connection
    }
}

impl Drop for Http2Stream {
    fn drop(&mut self) {
        self.connection.streams.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The host becomes a part of the URI, and what is about a connection of HTTP/1.1 stays here.
fn for_http2(mut request: Request<RequestBody>, is_tls: bool) -> Request<RequestBody> {
    let headers = request.headers_mut();
    for name in [CONNECTION, UPGRADE, EXPECT] {
        headers.remove(name);
    }
    let host = headers.remove(HOST);
    let mut parts = Parts::default();
    parts.scheme = Some(if is_tls { Scheme::HTTPS } else { Scheme::HTTP });
    parts.authority = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
    parts.path_and_query = Some(path_of(&request));
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
    *request.version_mut() = Version::HTTP_2;
    request.body_mut().begin();
    request
}

/// The form in which requests come here, whichever protocol they were to be sent by.
pub(super) fn in_own_form(mut request: Request<RequestBody>) -> Request<RequestBody> {
    let host = request.uri().authority().map(|host| HeaderValue::from_str(host.as_str()));
    if let Some(Ok(host)) = host {
        request.headers_mut().insert(HOST, host);
        *request.uri_mut() = Uri::from(path_of(&request));
    }
    *request.version_mut() = Version::HTTP_11;
    request
}

fn path_of(request: &Request<RequestBody>) -> PathAndQuery {
    request.uri().path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"))
}

/// The same head without a body.
pub(super) fn without_body(request: &Request<RequestBody>) -> Request<RequestBody> {
    let mut again = Request::new(RequestBody::empty());
    again.method_mut().clone_from(request.method());
    again.uri_mut().clone_from(request.uri());
    again.headers_mut().clone_from(request.headers());
    again
}
