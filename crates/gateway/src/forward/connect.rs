//! A new connection to an upstream: TCP, TLS, HTTP/1.1 or HTTP/2.

use std::io;
use std::pin::Pin;
use std::sync::Arc;

use arc_swap::ArcSwap;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::counted_stream::{CountedStream, ReceivedBytes};
use super::sender::{Http1Connection, Http2Connection, StreamCount, UpstreamSender};
use super::tls::TlsClient;
use crate::bounds::{
    CONNECTION_WINDOW, PING_EVERY, PING_WAIT_MAX, STREAM_WINDOW, TUNNEL_PROBE_AFTER, TUNNEL_PROBE_EVERY,
    TUNNEL_PROBES, UPSTREAM_HEAD_MAX, UPSTREAM_STREAMS_MAX,
};
use crate::config::{UpstreamProtocol, UpstreamUrl};
use crate::request_body::RequestBody;

/// Until the upstream has said how many streams it allows, further requests wait for that.
const STREAMS_UNTIL_TOLD: usize = 1;

/// Where an upstream is, and how it is spoken to.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) url: UpstreamUrl,
    /// None without TLS.
    pub(super) tls: Option<ArcSwap<TlsClient>>,
}

/// A new connection that nothing is spoken on yet.
pub(super) async fn open_tcp(url: &UpstreamUrl) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((url.host(), url.port())).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Has TCP notice that the other end is gone: a tunnel may be silent for any time.
fn probe(stream: &TcpStream) -> io::Result<()> {
    let probes = TcpKeepalive::new()
        .with_time(TUNNEL_PROBE_AFTER)
        .with_interval(TUNNEL_PROBE_EVERY)
        .with_retries(TUNNEL_PROBES);
    SockRef::from(stream).set_tcp_keepalive(&probes)
}

/// A new connection; `is_http1` where nothing else will do.
pub(super) async fn open(endpoint: &Endpoint, is_http1: bool) -> io::Result<UpstreamSender> {
    let Endpoint { url, tls } = endpoint;
    let stream = open_tcp(url).await?;
    if is_http1 {
        probe(&stream)?;
    }
    let Some(tls) = tls else {
        return match url.protocol() {
            Some(UpstreamProtocol::Http2) => speak_http2(stream).await,
            Some(UpstreamProtocol::Http1) | None => speak_http1(stream).await,
        };
    };
    let tls = tls.load_full();
    let stream = tls.handshake(stream, url, is_http1).await?;
    match stream.get_ref().1.alpn_protocol() {
        Some(b"h2") => speak_http2(stream).await,
        _ => speak_http1(stream).await,
    }
}

async fn speak_http1<I>(io: I) -> io::Result<UpstreamSender>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let received = ReceivedBytes::default();
    let io = TokioIo::new(CountedStream::new(io, &received));
    let handshake = http1::Builder::new().max_buf_size(UPSTREAM_HEAD_MAX).handshake(io);
    let (sender, connection) = handshake.await.map_err(io::Error::other)?;
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "a connection to the upstream ended with an error");
        }
    });
    Ok(UpstreamSender::Http1(Http1Connection::new(sender, received)))
}

async fn speak_http2<I>(io: I) -> io::Result<UpstreamSender>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_WAIT_MAX)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .initial_stream_window_size(STREAM_WINDOW)
        .max_send_buf_size(usize::try_from(STREAM_WINDOW).unwrap_or(usize::MAX))
        .max_header_list_size(u32::try_from(UPSTREAM_HEAD_MAX).unwrap_or(u32::MAX))
        .initial_max_send_streams(STREAMS_UNTIL_TOLD);
    let received = ReceivedBytes::default();
    let handshake = builder.handshake::<_, RequestBody>(TokioIo::new(CountedStream::new(io, &received)));
    let (sender, mut connection) = handshake.await.map_err(io::Error::other)?;
    let streams = StreamCount::new(UPSTREAM_STREAMS_MAX);
    let own = Arc::clone(&streams);
    tokio::spawn(async move {
        let ended = std::future::poll_fn(|cx| {
            let polled = Pin::new(&mut connection).poll(cx);
            let allowed = connection.current_max_send_streams();
            if allowed != STREAMS_UNTIL_TOLD {
                own.allow(allowed.min(UPSTREAM_STREAMS_MAX));
            }
            polled
        });
        if let Err(error) = ended.await {
            tracing::debug!(%error, "a connection to the upstream ended with an error");
        }
    });
    Ok(UpstreamSender::Http2(Http2Connection::new(sender, streams, received).stream()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_end_of_a_tunnel_that_is_gone_is_noticed() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url: UpstreamUrl = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let stream = open_tcp(&url).await.unwrap();
        let socket = SockRef::from(&stream);
        assert!(!socket.keepalive().unwrap(), "requests have timeouts");
        probe(&stream).unwrap();
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), TUNNEL_PROBE_AFTER);
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), TUNNEL_PROBE_EVERY);
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), TUNNEL_PROBES);
    }
}
