//! A gateway in this process, with an upstream and a client that are raw sockets.
#![expect(clippy::unwrap_used, reason = "clippy knows the tests here, but not the functions that they share")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tollgate_defer::DeferService;
use tollgate_gateway::{
    AccessLog, ClientSocket, Gateway, GatewayConfig, GatewayTimeouts, UpstreamUrl, default_mapping,
};
use tollgate_http::{ClientAddress, LimiterChecker, Mapping, RateLimitFields, ResponseSettings};
use tollgate_limiter::{Limiter, MemoryStore, NoSink, SystemClock};
use tollgate_rules::{Options, SourceFile, load};

/// Far more than anything here takes, even on a machine that is busy.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// A limiter in this process.
pub(crate) type TestChecker = LimiterChecker<MemoryStore, SystemClock, NoSink>;

pub(crate) fn checker(rules: &str) -> TestChecker {
    let source = SourceFile { name: "rules.yaml".into(), text: rules.into() };
    let rules = load(vec![source], &Options::default()).expect("the rules are right").rules;
    LimiterChecker {
        limiter: Arc::new(Limiter::with(rules, MemoryStore::default(), SystemClock::new(), NoSink)),
        responses: ResponseSettings {
            ratelimit_fields: RateLimitFields::Off,
            partition_keys: false,
            retry_after_jitter: Duration::ZERO,
        },
    }
}

/// Rules that limit nothing.
pub(crate) const FREE: &str =
    "domain: other\ndescriptors:\n  - key: x\n    rate_limit: { unit: hour, requests_per_unit: 1 }\n";

/// A gateway in front of an upstream.
pub(crate) struct TestGateway {
    pub(crate) address: SocketAddr,
    pub(crate) checker: Arc<TestChecker>,
    pub(crate) gateway: Arc<Gateway<TestChecker>>,
    tasks: [JoinHandle<()>; 2],
}

impl Drop for TestGateway {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// How a gateway is set up.
pub(crate) struct GatewaySetup {
    pub(crate) rules: &'static str,
    pub(crate) timeouts: GatewayTimeouts,
    pub(crate) trusted: &'static [&'static str],
    pub(crate) mapping: Mapping,
    pub(crate) access_log: Option<Arc<AccessLog>>,
    /// Clients are told in the IETF's fields, too.
    pub(crate) ratelimit_fields: bool,
    /// What keeps requests that are sent later.
    pub(crate) deferring: Option<Arc<DeferService>>,
}

impl Default for GatewaySetup {
    fn default() -> Self {
        Self {
            rules: FREE,
            timeouts: GatewayTimeouts::default(),
            trusted: &[],
            mapping: default_mapping(),
            access_log: None,
            ratelimit_fields: false,
            deferring: None,
        }
    }
}

impl GatewaySetup {
    /// Starts it in front of `upstream`.
    pub(crate) async fn start(self, upstream: SocketAddr) -> TestGateway {
        let config = GatewayConfig::single(url(upstream), self.timeouts, DEADLINE);
        self.start_with(config).await
    }

    /// Starts it in front of an upstream, with a client that is connected to it.
    pub(crate) async fn meet(self) -> (RawUpstream, TestGateway, Raw) {
        let upstream = RawUpstream::new().await;
        let gateway = self.start(upstream.address).await;
        let client = Raw::connect(gateway.address).await;
        (upstream, gateway, client)
    }

    /// Starts it with routes.
    pub(crate) async fn start_with(self, config: GatewayConfig) -> TestGateway {
        let proxies = ClientAddress::new(self.trusted, Default::default()).unwrap();
        let mapping = self.mapping.with_proxies(proxies);
        let mut checker = checker(self.rules);
        if self.ratelimit_fields {
            checker.responses.ratelimit_fields = RateLimitFields::Draft11;
        }
        let checker = Arc::new(checker);
        let gateway = Gateway::new(&config, &mapping, Arc::clone(&checker)).unwrap();
        let gateway = Arc::new(gateway.with_access_log(self.access_log).with_deferring(self.deferring));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let own = Arc::clone(&gateway);
        let checks = tokio::spawn(async move { own.check_upstreams().await });
        let own = Arc::clone(&gateway);
        let accepting = tokio::spawn(async move {
            loop {
                let (stream, peer) = listener.accept().await.unwrap();
                // As the server's listeners have it.
                stream.set_nodelay(true).unwrap();
                let socket = ClientSocket { peer: Some(peer.ip()), is_tls: false };
                tokio::spawn(Arc::clone(&own).serve(stream, socket, std::future::pending()));
            }
        });
        TestGateway { address, checker, gateway, tasks: [checks, accepting] }
    }
}

/// The URL of an upstream.
pub(crate) fn url(address: SocketAddr) -> UpstreamUrl {
    format!("http://{address}").parse().unwrap()
}

/// A listener that is an upstream.
pub(crate) struct RawUpstream {
    listener: TcpListener,
    pub(crate) address: SocketAddr,
}

impl RawUpstream {
    pub(crate) async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        Self { listener, address }
    }

    /// The next connection.
    pub(crate) async fn accept(&self) -> Raw {
        in_time(async { Raw::new(self.listener.accept().await.unwrap().0) }).await
    }

    /// The connection that a request of this client comes by; its head is read.
    pub(crate) async fn forwarded(&self, client: &mut Raw, request: impl AsRef<[u8]>) -> Raw {
        client.send(request).await;
        let mut backend = self.accept().await;
        backend.head().await;
        backend
    }

    /// Nothing has connected.
    pub(crate) async fn was_left_alone(&self) {
        let accepted = tokio::time::timeout(Duration::from_millis(50), self.listener.accept()).await;
        assert!(accepted.is_err(), "something was forwarded");
    }

    /// Answers every request, on any number of connections, with the same bytes.
    pub(crate) fn answer_all(self, answer: &'static str) -> JoinHandle<()> {
        self.answer_with(move |_| answer)
    }

    /// Answers every request with what is made of its head.
    pub(crate) fn answer_with(
        self,
        answer: impl Fn(&str) -> &'static str + Send + Sync + 'static,
    ) -> JoinHandle<()> {
        let answer = Arc::new(answer);
        tokio::spawn(async move {
            loop {
                let mut connection = Raw::new(self.listener.accept().await.unwrap().0);
                let answer = Arc::clone(&answer);
                tokio::spawn(async move {
                    while let Some(head) = connection.try_head().await {
                        connection.send(answer(&head)).await;
                    }
                });
            }
        })
    }
}

/// One end of a connection, in bytes.
pub(crate) struct Raw {
    pub(crate) stream: TcpStream,
    read: Vec<u8>,
}

impl Raw {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self { stream, read: Vec::new() }
    }

    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self::new(TcpStream::connect(address).await.unwrap())
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    /// The next head with its empty line; none at the end of the stream.
    pub(crate) async fn try_head(&mut self) -> Option<String> {
        self.until(b"\r\n\r\n").await
    }

    pub(crate) async fn head(&mut self) -> String {
        in_time(self.try_head()).await.expect("a head before the end of the stream")
    }

    /// Everything up to `end`, with it.
    pub(crate) async fn until(&mut self, end: &[u8]) -> Option<String> {
        loop {
            if let Some(at) = self.read.windows(end.len()).position(|window| window == end) {
                let rest = self.read.split_off(at + end.len());
                let head = std::mem::replace(&mut self.read, rest);
                return Some(String::from_utf8_lossy(&head).into_owned());
            }
            if self.stream.read_buf(&mut self.read).await.ok()? == 0 {
                return None;
            }
        }
    }

    /// So many bytes, as a text.
    pub(crate) async fn bytes(&mut self, count: usize) -> String {
        String::from_utf8_lossy(&self.raw_bytes(count).await).into_owned()
    }

    /// So many bytes.
    pub(crate) async fn raw_bytes(&mut self, count: usize) -> Vec<u8> {
        in_time(async {
            while self.read.len() < count {
                assert!(self.stream.read_buf(&mut self.read).await.unwrap() > 0, "the stream ended");
            }
        })
        .await;
        let rest = self.read.split_off(count);
        std::mem::replace(&mut self.read, rest)
    }

    /// How many bytes were read and not looked at; forgets them.
    pub(crate) fn forget(&mut self) -> usize {
        std::mem::take(&mut self.read).len()
    }

    /// Everything until the end of the stream.
    pub(crate) async fn rest(&mut self) -> String {
        in_time(async { while self.stream.read_buf(&mut self.read).await.is_ok_and(|count| count > 0) {} })
            .await;
        String::from_utf8_lossy(&std::mem::take(&mut self.read)).into_owned()
    }

    /// Sends a request and returns head and body of the answer, which has a length.
    pub(crate) async fn ask(&mut self, request: &str) -> (String, String) {
        self.send(request).await;
        let head = self.head().await;
        let body = self.bytes(length(&head)).await;
        (head, body)
    }
}

/// The `content-length` of a head, or 0.
pub(crate) fn length(head: &str) -> usize {
    field(head, "content-length").and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// The value of a field of a head.
pub(crate) fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let value = |line: &'a str| {
        let (own, value) = line.split_once(':')?;
        own.eq_ignore_ascii_case(name).then(|| value.trim())
    };
    head.lines().find_map(value)
}

/// Waits until it is so.
pub(crate) async fn eventually(is_so: impl Fn() -> bool) {
    in_time(async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// Fails if it takes too long.
pub(crate) async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, work).await.expect("in time")
}

/// Lets so much time pass at once.
pub(crate) async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}
