//! Bytes to a server and back: connections that are kept, HTTP/1.1 or HTTP/2, plain or TLS.
//!
//! The client hands over a whole request and gets a whole answer, or whether the request may have
//! arrived. Timeouts are the client's.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, Uri, Version};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::{ClientConfig, RootCertStore};

use crate::bounds::{PING_EVERY, PING_WAIT_MAX, POOL_IDLE_MAX, REPLY_MAX};
use crate::error::{Error, SourceError};

/// A whole answer.
#[derive(Debug)]
pub(crate) struct RawReply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) trailers: HeaderMap,
}

/// Why there is none.
#[derive(Debug)]
pub(crate) struct SendFailure {
    /// The request cannot have arrived.
    pub(crate) never_sent: bool,
    pub(crate) source: SourceError,
}

pub(crate) type Sending = Pin<Box<dyn Future<Output = Result<RawReply, SendFailure>> + Send>>;

/// Who takes requests to a server.
pub(crate) trait SendRequest: Send + Sync {
    fn send(&self, request: Request<Full<Bytes>>) -> Sending;
}

/// A pool of connections.
pub(crate) struct ConnectionPool(legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>);

impl ConnectionPool {
    /// Connections to `server`, of HTTP/2 alone if `version` says so. `tls` is for `https`; without it
    /// the authorities of this system are trusted.
    pub(crate) fn new(
        server: &Uri,
        version: Version,
        connect_timeout: Duration,
        tls: Option<ClientConfig>,
    ) -> Result<Self, Error> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(connect_timeout));
        let is_http2 = version == Version::HTTP_2;
        let mut tls = match tls {
            Some(tls) => tls,
            None => trusting_system(server.scheme_str() == Some("https"))?,
        };
        tls.alpn_protocols = vec![if is_http2 { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
        let mut builder = legacy::Client::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).pool_idle_timeout(POOL_IDLE_MAX).http2_only(is_http2);
        if is_http2 {
            let pinged = builder.timer(TokioTimer::new()).http2_keep_alive_interval(PING_EVERY);
            pinged.http2_keep_alive_timeout(PING_WAIT_MAX).http2_keep_alive_while_idle(true);
        }
        Ok(Self(builder.build(HttpsConnector::from((http, tls)))))
    }
}

/// Reading the authorities takes a while, so it is done only if TLS `is_needed`.
fn trusting_system(is_needed: bool) -> Result<ClientConfig, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|source| Error::Tls { source: source.into() })?;
    let builder = if is_needed {
        builder.with_native_roots().map_err(|source| Error::Tls { source: source.into() })?
    } else {
        builder.with_root_certificates(RootCertStore::empty())
    };
    Ok(builder.with_no_client_auth())
}

impl SendRequest for ConnectionPool {
    fn send(&self, request: Request<Full<Bytes>>) -> Sending {
        let sent = self.0.request(request);
        Box::pin(async move {
            let response = sent
                .await
                .map_err(|error| SendFailure { never_sent: error.is_connect(), source: error.into() })?;
            let (parts, body) = response.into_parts();
            let collected = Limited::new(body, REPLY_MAX)
                .collect()
                .await
                .map_err(|source| SendFailure { never_sent: false, source })?;
            let trailers = collected.trailers().cloned().unwrap_or_default();
            let body = collected.to_bytes();
            Ok(RawReply { status: parts.status, headers: parts.headers, body, trailers })
        })
    }
}
