//! Serves connections of HTTP/1.1, with TLS or without.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tower::ServiceExt as _;

use super::authz::Peer;
use super::direct::Direct;
use crate::bounds::{HTTP_HEAD_MAX, HTTP_IDLE_MAX};
use crate::listen::accept::{Arrival, Serve, Stream};
use crate::listen::life::{Life, Stay, supervise};
use crate::listen::rewound::Rewound;
use crate::listen::seen::{Counted, Seen};
use crate::service::Service;
use crate::tls::Tls;

/// A request line with a method, a path and a version is not shorter.
const OPENING_BYTES: u64 = 14;

/// Serves connections of HTTP/1.1 by a router.
#[derive(Debug, Clone)]
pub(crate) struct ServeHttp {
    router: Router,
    tls: Option<Arc<Tls>>,
    /// Answers what need not go through the router, if anything is.
    direct: Option<Arc<Service>>,
}

impl ServeHttp {
    pub(crate) const fn new(router: Router, tls: Option<Arc<Tls>>) -> Self {
        Self { router, tls, direct: None }
    }

    /// The same, where requests to `/v1/check` and its like need not go through the router.
    pub(crate) fn answering(self, service: Arc<Service>) -> Self {
        Self { direct: Some(service), ..self }
    }

    async fn serve_io<I>(&self, io: I, peer: Option<Peer>, mut life: Life)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (io, read) = match &self.direct {
            None => (io, Vec::new()),
            Some(service) => match Direct::new(io, service).serve(&mut life).await {
                Some(rest) => rest,
                None => return,
            },
        };
        let io = TokioIo::new(Counted::new(Rewound::new(io, read), Arc::clone(&life.seen)));
        let router = self.router.clone().map_request(move |mut request: Request<Incoming>| {
            peer.and_then(|peer| request.extensions_mut().insert(peer));
            request.map(Body::new)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HTTP_IDLE_MAX)
            .max_buf_size(HTTP_HEAD_MAX)
            .serve_connection(io, TowerToHyperService::new(router));
        supervise(connection, life).await;
    }
}

impl Serve for ServeHttp {
    async fn serve(&self, arrival: Arrival) {
        let Arrival { stream, pass, seat, stop } = arrival;
        let stay = Stay { opening_bytes: OPENING_BYTES, age: None, grace: None };
        let life = Life { stay, seen: Arc::new(Seen::default()), stop, pass, _seat: seat };
        let peer = |stream: &TcpStream| stream.peer_addr().ok().map(|address| Peer(address.ip()));
        match (stream, &self.tls) {
            (Stream::Tcp(stream), None) => {
                let peer = peer(&stream);
                self.serve_io(stream, peer, life).await;
            }
            (Stream::Tcp(stream), Some(tls)) => {
                let peer = peer(&stream);
                if let Some(stream) = tls.greet(stream).await {
                    self.serve_io(stream, peer, life).await;
                }
            }
            (Stream::Unix(stream), _) => self.serve_io(stream, None, life).await,
        }
    }
}
