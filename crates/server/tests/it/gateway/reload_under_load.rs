//! `tollgate.yaml` is replaced again and again while requests come, streams are answered and a tunnel is open: nobody
//! notices. And the files that `tls` of a group names are read again at a SIGHUP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::FREE;
use super::kept::{KeptConnection, status};
use crate::support::certs::Authority;
use crate::support::{Server, Setup, eventually, http, replace_file};

/// How often the file is replaced.
const ROUNDS: usize = 6;

/// An API that keeps connections, answers `/slow` when it is told to, and echoes in tunnels.
async fn api(may_answer: Arc<Notify>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            tokio::spawn(answer(listener.accept().await.unwrap().0, Arc::clone(&may_answer)));
        }
    });
    address
}

async fn answer(mut stream: TcpStream, may_answer: Arc<Notify>) {
    let mut read = Vec::new();
    while stream.read_buf(&mut read).await.unwrap_or(0) > 0 {
        if !read.ends_with(b"\r\n\r\n") {
            continue;
        }
        let head = String::from_utf8(std::mem::take(&mut read)).unwrap().to_ascii_lowercase();
        if head.contains("upgrade: echo") {
            let answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";
            stream.write_all(answer.as_bytes()).await.unwrap();
            let (mut from, mut to) = stream.split();
            drop(tokio::io::copy(&mut from, &mut to).await);
            return;
        }
        if head.starts_with("get /slow") {
            may_answer.notified().await;
        }
        drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await);
    }
}

/// Another idle time and another mapping each round.
fn file(upstream: &str, round: usize) -> String {
    let mapping = match round % 2 {
        0 => "",
        _ => "mapping: { domain: edge, descriptors: [[remote_address: {}]] }\n",
    };
    format!(
        "listen: {{ gateway: '127.0.0.1:0' }}\n{mapping}gateway:\n  upstreams: {{ api: '{upstream}' }}\n  \
         routes: [{{ path: '/{{*all}}', upstream: api }}]\n  timeouts: {{ idle: {}s }}\n",
        10 + round
    )
}

/// The idle time in force.
async fn idle(server: &Server) -> String {
    let (_, body) = http::get(server.addresses.admin, "/v1/settings").await;
    let body: Value = serde_json::from_str(&body).unwrap();
    let settings = body["settings"].as_array().unwrap();
    let found = settings.iter().find(|own| own["name"] == "gateway.timeouts.idle");
    found.unwrap()["value"].as_str().unwrap().to_owned()
}

async fn connect_http2(gateway: SocketAddr) -> SendRequest<Empty<Bytes>> {
    let io = TokioIo::new(TcpStream::connect(gateway).await.unwrap());
    let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn get_http2(sender: &mut SendRequest<Empty<Bytes>>, path: &str) -> Bytes {
    let request = hyper::Request::get(format!("http://a{path}")).body(Empty::new()).unwrap();
    let answer = sender.send_request(request).await.unwrap();
    assert_eq!(answer.status(), 200);
    answer.into_body().collect().await.unwrap().to_bytes()
}

/// Two connections of HTTP/1.1 and one of HTTP/2 on which one request follows the other.
struct SteadyClients {
    stop: Arc<AtomicBool>,
    asked: [Arc<AtomicUsize>; 3],
    clients: Vec<JoinHandle<()>>,
}

impl SteadyClients {
    async fn start(gateway: SocketAddr, mut http2: SendRequest<Empty<Bytes>>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let asked: [Arc<AtomicUsize>; 3] = Default::default();
        let mut clients = Vec::new();
        for counter in &asked[..2] {
            let (stop, counter) = (Arc::clone(&stop), Arc::clone(counter));
            let mut connection = KeptConnection::open(gateway).await.unwrap();
            clients.push(tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let answer = connection.get("/fast").await.unwrap();
                    assert!(status(&answer) == 200 && !answer.contains("close"), "{answer}");
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            }));
        }
        let (own, counter) = (Arc::clone(&stop), Arc::clone(&asked[2]));
        clients.push(tokio::spawn(async move {
            while !own.load(Ordering::Relaxed) {
                assert_eq!(get_http2(&mut http2, "/fast").await, "ok");
                counter.fetch_add(1, Ordering::Relaxed);
            }
        }));
        Self { stop, asked, clients }
    }

    /// Waits until each has had further answers.
    async fn goes_on(&self) {
        let now = || self.asked.each_ref().map(|own| own.load(Ordering::Relaxed));
        let before = now();
        eventually("all of them are answered", || async {
            now().iter().zip(before).all(|(now, before)| *now >= before + 5)
        })
        .await;
    }

    async fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.await.unwrap();
        }
    }
}

/// An open tunnel to the echo.
async fn tunnel(gateway: SocketAddr) -> TcpStream {
    let mut tunnel = TcpStream::connect(gateway).await.unwrap();
    let request = b"GET /tunnel HTTP/1.1\r\nhost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n";
    tunnel.write_all(request).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        assert!(tunnel.read_buf(&mut head).await.unwrap() > 0, "it ended");
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&head));
    tunnel
}

#[tokio::test]
async fn reloads_under_load_close_no_connection_and_fail_no_request() {
    let may_answer = Arc::new(Notify::new());
    let upstream = format!("http://{}", api(Arc::clone(&may_answer)).await);
    let setup = Setup::new(&[("free.yaml", FREE)]);
    let path = setup.path("tollgate.yaml");
    std::fs::write(&path, file(&upstream, 0)).unwrap();
    let server = setup.file_on_disk(&path).start().await;
    let gateway = server.addresses.gateway.unwrap();
    let mut tunnel = tunnel(gateway).await;
    let mut http2 = connect_http2(gateway).await;
    // A stream and a request that are answered when all is over.
    let mut own = http2.clone();
    let slow_stream = tokio::spawn(async move { get_http2(&mut own, "/slow").await });
    let mut slow_connection = KeptConnection::open(gateway).await.unwrap();
    let slow_request = tokio::spawn(async move { slow_connection.get("/slow").await.unwrap() });
    let load = SteadyClients::start(gateway, http2.clone()).await;
    for round in 1..=ROUNDS {
        load.goes_on().await;
        replace_file(&path, file(&upstream, round));
        // At a SIGHUP, or because the file is looked at.
        if round % 3 > 0 {
            server.control().reload();
        }
        let expected = format!("{}s", 10 + round);
        eventually("the file is in force", || async { idle(&server).await == expected }).await;
        let said = format!("round {round}");
        tunnel.write_all(said.as_bytes()).await.unwrap();
        let mut echo = vec![0; said.len()];
        tunnel.read_exact(&mut echo).await.unwrap();
        assert_eq!(echo, said.as_bytes());
    }
    load.goes_on().await;
    load.end().await;
    eventually("they are answered", || async {
        may_answer.notify_waiters();
        slow_stream.is_finished() && slow_request.is_finished()
    })
    .await;
    assert_eq!(slow_stream.await.unwrap(), "ok");
    assert_eq!(status(&slow_request.await.unwrap()), 200);
    assert_eq!(get_http2(&mut http2, "/last").await, "ok");
}

/// An API that speaks TLS, with a certificate of this authority, and closes each connection after its answer.
async fn tls_api(authority: &Authority) -> SocketAddr {
    let own = authority.sign("localhost");
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(own.cert.as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap(),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            // Whoever does not trust it goes away.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") && stream.read_buf(&mut head).await.unwrap_or(0) > 0 {}
            let answer = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
            drop(stream.write_all(answer.as_bytes()).await);
            drop(stream.shutdown().await);
        }
    });
    address
}

/// The file is the same all the time, and only what it names changes.
#[tokio::test]
async fn a_sighup_reads_the_certificates_of_upstreams_again() {
    let (authority, other) = (Authority::new(), Authority::new());
    let upstream = tls_api(&authority).await;
    let setup = Setup::new(&[("free.yaml", FREE)]);
    let (path, ca) = (setup.path("tollgate.yaml"), setup.path("ca.pem"));
    std::fs::write(&ca, authority.pem()).unwrap();
    let file = format!(
        "listen: {{ gateway: '127.0.0.1:0' }}\ngateway:\n  upstreams:\n    api: {{ servers: ['https://{upstream}'], \
         tls: {{ ca: '{}', server_name: localhost }} }}\n  routes: [{{ path: '/{{*all}}', upstream: api }}]\n",
        ca.display()
    );
    std::fs::write(&path, file).unwrap();
    let server = setup.file_on_disk(&path).start().await;
    let gateway = server.addresses.gateway.unwrap();
    let ask = || async { http::get(gateway, "/x").await.0 };
    assert_eq!(ask().await, 200);
    replace_file(&ca, other.pem());
    assert_eq!(ask().await, 200, "nobody has said that it changed");
    server.control().reload();
    eventually("the other authority is in force", || async { ask().await == 502 }).await;
    replace_file(&ca, authority.pem());
    server.control().reload();
    eventually("the first one is in force again", || async { ask().await == 200 }).await;
}
