//! A client's connection: HTTP/1.1 or HTTP/2, and tunnels.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tollgate_http::Checker;

use crate::bounds::{
    CONNECTION_WINDOW, HEAD_MAX, HEAD_WAIT_MAX, KEEP_ALIVE_MAX, LOCAL_RESETS_MAX, PING_EVERY, PING_WAIT_MAX,
    RESETS_MAX, STREAM_WINDOW, STREAMS_MAX, TUNNEL_DRAIN,
};
use crate::fields::PeerFields;
use crate::forward::Lease;
use crate::strict::{StrictStream, UpgradeSwitch};
use crate::{ClientSocket, Gateway};

/// What an HTTP/2 client says first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What the requests of a connection share.
#[derive(Debug)]
pub(crate) struct ConnectionContext {
    pub(crate) socket: ClientSocket,
    pub(crate) peer: PeerFields,
    pub(crate) switch: UpgradeSwitch,
    tunnel: Mutex<Option<Tunnel>>,
}

/// The two ends of what becomes of a connection that speaks another protocol.
#[derive(Debug)]
pub(crate) struct Tunnel {
    pub(crate) client: OnUpgrade,
    pub(crate) upstream: OnUpgrade,
    /// The upstream is as busy with it as with a request.
    pub(crate) lease: Lease,
}

impl ConnectionContext {
    pub(crate) fn open_tunnel(&self, tunnel: Tunnel) {
        *self.tunnel.lock() = Some(tunnel);
    }
}

impl<C: Checker> Gateway<C> {
    /// Serves a connection to its end. After `close` it finishes the requests it has begun and
    /// takes no more.
    ///
    /// # Errors
    /// If the connection breaks.
    pub async fn serve<I>(
        self: Arc<Self>,
        mut io: I,
        socket: ClientSocket,
        close: impl Future<Output = ()>,
    ) -> io::Result<()>
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut close = pin!(close);
        let opening = tokio::select! {
            opening = opening(&mut io) => opening?,
            () = close.as_mut() => return Ok(()),
        };
        if opening.is_empty() {
            return Ok(());
        }
        let context = Arc::new(ConnectionContext {
            peer: PeerFields::new(socket.peer, socket.is_tls),
            socket,
            switch: UpgradeSwitch::default(),
            tunnel: Mutex::default(),
        });
        let service = service_fn({
            let context = Arc::clone(&context);
            move |request: Request<Incoming>| {
                let answer = Arc::clone(&self).answer(Arc::clone(&context), request);
                async move { Ok::<_, Infallible>(answer.await) }
            }
        });
        if opening == PREFACE {
            let io = TokioIo::new(StrictStream::http2(io, opening));
            let mut connection = pin!(http2_builder().serve_connection(io, service));
            return tokio::select! {
                ended = connection.as_mut() => ended,
                () = close => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            }
            .map_err(io::Error::other);
        }
        let io = TokioIo::new(StrictStream::http1(io, opening, context.switch.clone()));
        let mut connection = pin!(http1_builder().serve_connection(io, service).with_upgrades());
        let mut is_closing = false;
        tokio::select! {
            ended = connection.as_mut() => ended,
            () = close.as_mut() => {
                is_closing = true;
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
        .map_err(io::Error::other)?;
        let tunnel = context.tunnel.lock().take();
        let Some(tunnel) = tunnel else { return Ok(()) };
        let until_closed = async {
            if !is_closing {
                close.await;
            }
            tokio::time::sleep(TUNNEL_DRAIN).await;
        };
        tokio::select! {
            ended = tunnel.run() => ended,
            () = until_closed => Ok(()),
        }
    }
}

impl Tunnel {
    /// Passes bytes on both ways until both ends are done.
    async fn run(self) -> io::Result<()> {
        let Self { client, upstream, lease: _lease } = self;
        let (client, upstream) = tokio::try_join!(client, upstream).map_err(io::Error::other)?;
        let (mut client, mut upstream) = (TokioIo::new(client), TokioIo::new(upstream));
        tokio::io::copy_bidirectional(&mut client, &mut upstream).await?;
        Ok(())
    }
}

/// Reads until it is clear which protocol it is: [`PREFACE`], or the beginning of anything else.
async fn opening(io: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut read = Vec::with_capacity(PREFACE.len());
    let reading = async {
        while read.len() < PREFACE.len() && PREFACE.starts_with(&read) {
            let left = u64::try_from(PREFACE.len() - read.len()).unwrap_or(0);
            if (&mut *io).take(left).read_buf(&mut read).await? == 0 {
                break;
            }
        }
        Ok(())
    };
    match tokio::time::timeout(HEAD_WAIT_MAX, reading).await {
        Ok(result) => result.map(|()| read),
        // Nothing at all, or a slow head; whoever reads that has a timeout and an answer for it.
        Err(_) => Ok(read),
    }
}

fn http1_builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(KEEP_ALIVE_MAX).max_buf_size(2 * HEAD_MAX);
    builder
}

fn http2_builder() -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_WAIT_MAX)
        .max_concurrent_streams(STREAMS_MAX)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .initial_stream_window_size(STREAM_WINDOW)
        .max_send_buf_size(usize::try_from(STREAM_WINDOW).unwrap_or(usize::MAX))
        .max_header_list_size(u32::try_from(HEAD_MAX).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(RESETS_MAX)
        .max_local_error_reset_streams(LOCAL_RESETS_MAX);
    builder
}
