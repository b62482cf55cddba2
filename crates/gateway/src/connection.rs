//! A client's connection: HTTP/1.1 or HTTP/2, and tunnels.

mod stream_tasks;

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tollgate_http::Checker;

use crate::answer_watch::watched;
use crate::bounds::{
    CONNECTION_WINDOW, HEAD_MAX, HEAD_WAIT_MAX, KEEP_ALIVE_MAX, LOCAL_RESETS_MAX, PING_EVERY, PING_WAIT_MAX,
    RESETS_MAX, STREAM_WINDOW, STREAMS_MAX, TUNNEL_DRAIN, WRITE_WAIT_MAX,
};
use crate::connection_context::{CloseSignal, ConnectionContext};
use crate::direct::{DirectConnection, DirectEnd, poll_read_with};
use crate::strict::StrictStream;
use crate::{ClientSocket, Gateway};
use stream_tasks::StreamTasks;

/// What an HTTP/2 client says first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

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
        let close = pin!(close);
        let mut close = CloseSignal::new(close);
        let opening = tokio::select! {
            opening = opening(&mut io) => opening?,
            () = close.wait() => return Ok(()),
        };
        if opening.is_empty() {
            return Ok(());
        }
        let context = Arc::new(ConnectionContext::new(socket));
        let service = || {
            let (gateway, context) = (Arc::clone(&self), Arc::clone(&context));
            service_fn(move |request: Request<Incoming>| {
                // hyper and the task of a stream have room for it in several places, each as large as it is.
                let answer = Box::pin(Arc::clone(&gateway).answer(Arc::clone(&context), request));
                async move { Ok::<_, Infallible>(answer.await) }
            })
        };
        if opening.starts_with(PREFACE) {
            let io = TokioIo::new(StrictStream::http2(io, opening));
            let tasks = StreamTasks::default();
            let connection = http2_builder(tasks.clone()).serve_connection(io, service());
            let mut connection = Box::pin(connection);
            tokio::select! {
                ended = connection.as_mut() => return ended.map_err(io::Error::other),
                () = close.wait() => {}
                () = tasks.idle(KEEP_ALIVE_MAX) => {}
            }
            connection.as_mut().graceful_shutdown();
            return tokio::select! {
                ended = connection.as_mut() => ended.map_err(io::Error::other),
                // What is left are ends of answers that nobody takes.
                () = tasks.idle(WRITE_WAIT_MAX) => Err(io::ErrorKind::TimedOut.into()),
            };
        }
        // Each of the three ways is in a place of its own, so that a connection has room for one only.
        let direct = DirectConnection::new(&*self, &context, (io, opening), &mut close);
        let direct = Box::pin(direct.serve());
        let DirectEnd::HandedOver(io, read) = direct.await else { return Ok(()) };
        let io = TokioIo::new(StrictStream::http1(io, read, context.switch.clone()));
        let mut connection = Box::pin(http1_builder().serve_connection(io, service()).with_upgrades());
        let ended = watched(
            async {
                tokio::select! {
                    ended = connection.as_mut() => ended,
                    () = close.wait() => {
                        connection.as_mut().graceful_shutdown();
                        connection.as_mut().await
                    }
                }
            },
            // `StrictStream` knows whether the client takes anything.
            None,
        );
        ended.await.ok_or(io::ErrorKind::TimedOut)?.map_err(io::Error::other)?;
        let Some(tunnel) = context.take_tunnel() else { return Ok(()) };
        let until_closed = async {
            close.wait().await;
            tokio::time::sleep(TUNNEL_DRAIN).await;
        };
        tokio::select! {
            ended = tunnel.run() => ended,
            () = until_closed => Ok(()),
        }
    }
}

/// Reads until it is clear which protocol it is: what begins with [`PREFACE`], or anything else.
async fn opening(io: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut read = Vec::new();
    let reading = async {
        let mut is_open = true;
        while is_open && read.len() < PREFACE.len() && PREFACE.starts_with(&read) {
            is_open = poll_fn(|cx| {
                poll_read_with(io, cx, |bytes| {
                    read.extend_from_slice(bytes);
                    !bytes.is_empty()
                })
            })
            .await?;
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

fn http2_builder(tasks: StreamTasks) -> http2::Builder<StreamTasks> {
    let mut builder = http2::Builder::new(tasks);
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
