//! A hyper server that sends, takes and returns bodies of any size without holding them.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::thread::JoinHandle;

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::sync::oneshot;

use super::pattern;

/// How much of an answer is made at a time.
const PIECE: usize = 64 << 10;

/// A running server, ended with this value.
pub(super) struct HyperUpstream {
    pub(super) address: SocketAddr,
    /// Bytes of generated answers that the connection has asked for.
    pub(super) made: Arc<AtomicUsize>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl HyperUpstream {
    pub(super) fn start() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let made = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&made);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                tokio::select! {
                    () = accept(listener, counter) => {}
                    _ = stopped => {}
                }
            });
        });
        Self { address, made, stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for HyperUpstream {
    fn drop(&mut self) {
        drop(self.stop.take());
        drop(self.thread.take().map(JoinHandle::join));
    }
}

async fn accept(listener: tokio::net::TcpListener, made: Arc<AtomicUsize>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let made = Arc::clone(&made);
        let service = service_fn(move |request| {
            let made = Arc::clone(&made);
            async move { Ok::<_, Infallible>(answer(request, made).await) }
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

/// `/echo` gives back what it gets, `/count` says how much that was and whether it was [`pattern`], and
/// `/length/N` and `/chunked/N` send so many bytes of it, with and without a length.
async fn answer(
    request: Request<Incoming>,
    made: Arc<AtomicUsize>,
) -> Response<BoxBody<Bytes, hyper::Error>> {
    let never = |never: Infallible| match never {};
    let path = request.uri().path().to_owned();
    let mut words = path.trim_matches('/').split('/');
    match (words.next(), words.next().and_then(|length| length.parse().ok())) {
        (Some("echo"), _) => Response::new(request.into_body().boxed()),
        (Some("count"), _) => {
            let text = count(request.into_body()).await;
            Response::new(Full::new(Bytes::from(text)).map_err(never).boxed())
        }
        (Some(kind @ ("length" | "chunked")), Some(length)) => {
            let body = GeneratedBody { sent: 0, length, tells: kind == "length", made };
            Response::new(body.map_err(never).boxed())
        }
        _ => Response::new(Full::new(Bytes::from_static(b"ok")).map_err(never).boxed()),
    }
}

async fn count(mut body: Incoming) -> String {
    let (mut length, mut is_exact) = (0, true);
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        is_exact &= pattern(length, data.len()) == data;
        length += data.len();
    }
    format!("{length} {is_exact}")
}

/// Made while it is read.
struct GeneratedBody {
    sent: usize,
    length: usize,
    tells: bool,
    made: Arc<AtomicUsize>,
}

impl Body for GeneratedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let length = PIECE.min(self.length - self.sent);
        if length == 0 {
            return Poll::Ready(None);
        }
        let piece = pattern(self.sent, length);
        self.sent += length;
        self.made.fetch_add(length, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(piece.into()))))
    }

    fn size_hint(&self) -> SizeHint {
        let left = u64::try_from(self.length - self.sent).unwrap();
        if self.tells { SizeHint::with_exact(left) } else { SizeHint::default() }
    }
}
