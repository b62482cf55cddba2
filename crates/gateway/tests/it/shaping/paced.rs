//! A gateway whose limiter follows tokio's timers, so that a test decides how fast time passes.
//!
//! Clients are in memory, and the upstream is on the loopback. Timers never run ahead of what is on its way there:
//! time stands still until [`Paced::pass`].
#![expect(clippy::unwrap_used, reason = "clippy knows the tests here, but not the functions that they share")]

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Empty;
use hyper::body::{Body, Bytes};
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWrite as _, AsyncWriteExt as _, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tollgate_core::{Entry, Micros, Time};
use tollgate_gateway::{ClientSocket, Gateway, GatewayConfig, GatewayTimeouts, default_mapping};
use tollgate_http::{LimiterChecker, ResponseSettings};
use tollgate_limiter::{Clock, Event, EventSink, Limiter, MemoryStore};
use tollgate_rules::{Options, SourceFile, load};

use crate::support::{DEADLINE, length, url};

/// Two a second for whoever asks from [`LIMITED`].
const RULES: &str = "domain: gateway\ndescriptors:\n  - key: remote_address\n    value: 10.0.0.1\n    rate_limit: { unit: second, requests_per_unit: 2, algorithm: leaky_bucket, burst: 200 }\n";
/// From one to the next.
pub(super) const TURN: Duration = Duration::from_millis(500);
const LIMITED: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const FREE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
/// What a connection in memory holds in each direction.
pub(super) const SOCKET_BYTES: usize = 16 << 10;

/// Shows tokio's time.
struct PausedClock(Instant);

impl Clock for PausedClock {
    fn now(&self) -> Time {
        Time::from_secs(1_700_000_000) + Micros::from(self.0.elapsed())
    }
}

/// The paths of requests that were decided, in that order.
#[derive(Default)]
struct DecidedPaths(Mutex<Vec<String>>);

impl EventSink for DecidedPaths {
    fn offer(&self, event: Event<'_>) {
        let mut entries = event.request.descriptors.iter().flat_map(|own| own.entries);
        let path = entries.find(|Entry { key, .. }| *key == "path");
        self.0.lock().extend(path.filter(|_| event.is_request).map(|path| path.value.to_owned()));
    }
}

type PacedChecker = LimiterChecker<MemoryStore, PausedClock, Arc<DecidedPaths>>;

/// A request as the upstream has got it.
pub(super) struct Arrival {
    pub(super) path: String,
    /// When its head came, since the beginning.
    pub(super) at: Duration,
    pub(super) body: Vec<u8>,
}

/// The gateway, with its upstream.
pub(super) struct Paced {
    gateway: Arc<Gateway<PacedChecker>>,
    decided: Arc<DecidedPaths>,
    arrivals: mpsc::UnboundedReceiver<Arrival>,
    /// Time stands still for as long as this is there.
    _stopped: std::sync::mpsc::Sender<()>,
}

impl Paced {
    pub(super) async fn start() -> Self {
        let (stopped, until) = std::sync::mpsc::channel::<()>();
        // Tokio moves its paused time by itself, but not while a thread works.
        tokio::task::spawn_blocking(move || until.recv_timeout(DEADLINE));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let config = GatewayConfig::single(
            url(listener.local_addr().unwrap()),
            GatewayTimeouts::default(),
            2 * DEADLINE,
        );
        let source = SourceFile { name: "rules.yaml".into(), text: RULES.into() };
        let rules = load(vec![source], &Options::default()).unwrap().rules;
        let (decided, start) = (Arc::new(DecidedPaths::default()), Instant::now());
        let limiter = Limiter::with(rules, MemoryStore::default(), PausedClock(start), Arc::clone(&decided));
        let checker = LimiterChecker { limiter: Arc::new(limiter), responses: ResponseSettings::default() };
        let gateway = Arc::new(Gateway::new(&config, &default_mapping(), Arc::new(checker)).unwrap());
        let (tell, arrivals) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(answer(stream, start, tell.clone()));
            }
        });
        Self { gateway, decided, arrivals, _stopped: stopped }
    }

    /// A connection of a client whose requests have turns.
    pub(super) fn connect(&self) -> PacedClient {
        self.connect_from(LIMITED)
    }

    fn connect_from(&self, peer: IpAddr) -> PacedClient {
        let (stream, served) = tokio::io::duplex(SOCKET_BYTES);
        let socket = ClientSocket { peer: Some(peer), is_tls: false };
        tokio::spawn(Arc::clone(&self.gateway).serve(served, socket, std::future::pending()));
        PacedClient { stream, read: Vec::new() }
    }

    /// The same over HTTP/2.
    pub(super) async fn connect_http2<B>(&self) -> hyper::client::conn::http2::SendRequest<B>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let io = TokioIo::new(self.connect().stream);
        let (sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    /// Waits until so many requests were decided; their paths in that order.
    pub(super) async fn until_decided(&self, count: usize) -> Vec<String> {
        loop {
            let decided = self.decided.0.lock().clone();
            if decided.len() >= count {
                return decided;
            }
            tokio::task::yield_now().await;
        }
    }

    /// The next request that arrives.
    pub(super) async fn arrival(&mut self) -> Arrival {
        self.arrivals.recv().await.unwrap()
    }

    /// Lets time pass, and then all that is due: there is one thread, and a request that comes later has been
    /// answered. It is forgotten on both sides.
    pub(super) async fn pass(&mut self, time: Duration) {
        tokio::time::advance(time).await;
        self.settle().await;
    }

    /// Lets everything happen that is due.
    pub(super) async fn settle(&mut self) {
        let mut free = self.connect_from(FREE);
        free.send("GET /free HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let mut others = Vec::new();
        loop {
            let arrival = self.arrival().await;
            if arrival.path == "/free" {
                break;
            }
            others.push(arrival);
        }
        assert!(free.head().await.starts_with("HTTP/1.1 200"));
        self.decided.0.lock().retain(|path| path != "/free");
        let early: Vec<&str> = others.iter().map(|arrival| arrival.path.as_str()).collect();
        assert!(early.is_empty(), "nothing was due, and {early:?} came");
    }
}

/// Answers the requests of a connection, and tells of them.
async fn answer(mut stream: TcpStream, start: Instant, tell: mpsc::UnboundedSender<Arrival>) {
    let mut read = Vec::new();
    loop {
        let Some(head) = head(&mut stream, &mut read).await else { return };
        let (path, at) = (head.split(' ').nth(1).unwrap().to_owned(), start.elapsed());
        while read.len() < length(&head) {
            if stream.read_buf(&mut read).await.unwrap() == 0 {
                return;
            }
        }
        let rest = read.split_off(length(&head));
        let body = std::mem::replace(&mut read, rest);
        // Nobody is left to be told when the test is over.
        drop(tell.send(Arrival { path, at, body }));
        drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await);
    }
}

async fn head(stream: &mut (impl tokio::io::AsyncRead + Unpin), read: &mut Vec<u8>) -> Option<String> {
    loop {
        if let Some(at) = read.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            let rest = read.split_off(at + 4);
            return Some(String::from_utf8(std::mem::replace(read, rest)).unwrap());
        }
        if stream.read_buf(read).await.ok()? == 0 {
            return None;
        }
    }
}

/// One end of a connection in memory.
pub(super) struct PacedClient {
    stream: DuplexStream,
    read: Vec<u8>,
}

impl PacedClient {
    pub(super) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Sends as much as is taken without waiting; how much that was.
    pub(super) async fn send_some(&mut self, bytes: &[u8]) -> usize {
        let stream = &mut self.stream;
        std::future::poll_fn(|cx| {
            let polled = Pin::new(&mut *stream).poll_write(cx, bytes);
            std::task::Poll::Ready(match polled {
                std::task::Poll::Ready(count) => count.unwrap(),
                std::task::Poll::Pending => 0,
            })
        })
        .await
    }

    pub(super) async fn head(&mut self) -> String {
        head(&mut self.stream, &mut self.read).await.unwrap()
    }
}

/// A request without a body over HTTP/2.
pub(super) fn get(path: impl std::fmt::Display) -> hyper::Request<Empty<Bytes>> {
    hyper::Request::get(format!("http://a{path}")).body(Empty::new()).unwrap()
}
