//! HTTP/2 and TLS towards upstreams.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::HeaderMap;
use hyper::body::Bytes;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tollgate_gateway::{
    GatewayConfig, GatewayTimeouts, GroupConfig, RouteConditions, RouteConfig, UpstreamTls,
};

use crate::support::{DEADLINE, GatewaySetup, Raw, TestGateway, eventually, field};

/// An upstream that speaks HTTP/2 frame by frame.
#[derive(Clone, Default)]
pub(crate) struct Http2Upstream {
    connections: Arc<AtomicUsize>,
    /// The most streams at a time on one connection.
    streams_max: Arc<AtomicUsize>,
    /// So many requests are refused before one is served.
    refusals: Arc<AtomicUsize>,
    /// Goes away after every answer.
    goes_away: bool,
    /// Requests wait for it.
    gate: Option<Arc<Semaphore>>,
    allowed_streams: Option<u32>,
}

impl Http2Upstream {
    async fn listen(self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(self.clone().serve(stream));
            }
        });
        address
    }

    pub(crate) async fn serve(self, io: impl AsyncRead + AsyncWrite + Unpin) {
        self.connections.fetch_add(1, Ordering::SeqCst);
        let mut builder = h2::server::Builder::new();
        if let Some(streams) = self.allowed_streams {
            builder.max_concurrent_streams(streams);
        }
        let Ok(mut connection) = builder.handshake::<_, Bytes>(io).await else { return };
        let open = Arc::new(AtomicUsize::new(0));
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            let refuse = |left: usize| left.checked_sub(1);
            if self.refusals.fetch_update(Ordering::SeqCst, Ordering::SeqCst, refuse).is_ok() {
                respond.send_reset(h2::Reason::REFUSED_STREAM);
                continue;
            }
            let now = open.fetch_add(1, Ordering::SeqCst) + 1;
            self.streams_max.fetch_max(now, Ordering::SeqCst);
            let (gate, open) = (self.gate.clone(), Arc::clone(&open));
            tokio::spawn(async move {
                if let Some(gate) = gate {
                    gate.acquire().await.unwrap().forget();
                }
                open.fetch_sub(1, Ordering::SeqCst);
                answer(request, respond).await;
            });
            if self.goes_away {
                connection.graceful_shutdown();
            }
        }
    }
}

/// Answers with what was asked, the body, and trailers.
async fn answer(request: http::Request<h2::RecvStream>, mut respond: h2::server::SendResponse<Bytes>) {
    let (parts, mut body) = request.into_parts();
    let mut text = format!("{} {}", parts.method, parts.uri);
    for name in ["host", "connection", "te", "upgrade", "x-forwarded-proto", "x-forwarded-host"] {
        if let Some(value) = parts.headers.get(name) {
            text.push_str(&format!("\n{name}: {}", value.to_str().unwrap()));
        }
    }
    while let Some(Ok(piece)) = body.data().await {
        body.flow_control().release_capacity(piece.len()).unwrap();
        text.push_str(&format!("\n{}", String::from_utf8_lossy(&piece)));
    }
    if let Ok(Some(trailers)) = body.trailers().await {
        text.push_str(&format!("\n{trailers:?}"));
    }
    let head = http::Response::builder().header("trailer", "x-end").body(()).unwrap();
    let Ok(mut stream) = respond.send_response(head, false) else { return };
    stream.send_data(text.into(), false).unwrap();
    let mut trailers = HeaderMap::new();
    trailers.insert("x-end", "8".parse().unwrap());
    stream.send_trailers(trailers).unwrap();
}

pub(crate) async fn start(group: GroupConfig) -> TestGateway {
    GatewaySetup::default().start_with(config(group)).await
}

/// One route to these upstreams.
pub(crate) fn config(group: GroupConfig) -> GatewayConfig {
    let route = RouteConfig {
        conditions: RouteConditions::default(),
        group: Arc::new(group),
        mapping: None,
        timeouts: GatewayTimeouts::default(),
    };
    GatewayConfig { routes: vec![route], max_wait: DEADLINE }
}

pub(crate) fn group(scheme: &str, address: SocketAddr) -> GroupConfig {
    GroupConfig::of(format!("{scheme}://{address}").parse().unwrap())
}

/// Head and whole body of the answer to a request over HTTP/1.1.
pub(crate) async fn ask(gateway: &TestGateway, request: &str) -> (String, String) {
    let mut client = Raw::connect(gateway.address).await;
    client.send(request).await;
    let head = client.head().await;
    (head, client.rest().await)
}

pub(crate) const GET: &str = "GET /a?b HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n";

#[tokio::test]
async fn a_request_over_http1_reaches_an_upstream_over_http2_with_trailers_both_ways() {
    let gateway = start(group("h2c", Http2Upstream::default().listen().await)).await;
    let (head, body) = ask(
        &gateway,
        "POST /a?b HTTP/1.1\r\nHost: shop.example\r\nTE: trailers\r\nTrailer: x-sum\r\n\
         Transfer-Encoding: chunked\r\nConnection: close, te\r\n\r\n2\r\nhi\r\n0\r\nX-Sum: 7\r\n\r\n",
    )
    .await;
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    for part in [
        "POST http://shop.example/a?b",
        "\nte: trailers",
        "\nx-forwarded-proto: http\n",
        "\nhi",
        "\"x-sum\": \"7\"",
    ] {
        assert!(body.contains(part), "{part}: {body}");
    }
    for part in ["\nhost:", "\nconnection:"] {
        assert!(!body.contains(part), "{part}: {body}");
    }
    assert!(body.ends_with("0\r\nx-end: 8\r\n\r\n"), "{body}");
}

/// hyper passes on any trailers here, announced or not.
#[tokio::test]
async fn claims_in_trailers_stay_behind_on_the_way_to_http2_too() {
    let gateway = start(group("h2c", Http2Upstream::default().listen().await)).await;
    for (trailers, expected) in [
        (
            "X-Tollgate-Client: 6\r\nX-Forwarded-For: 6\r\nAuthorization: 6\r\nX-Sum: 7\r\n",
            "\n{\"x-sum\": \"7\"}",
        ),
        // Nothing is left of them but an empty piece at the end.
        ("X-Tollgate-Client: 6\r\n", "\n"),
    ] {
        let (_, body) = ask(
            &gateway,
            &format!(
                "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n\
                 2\r\nhi\r\n0\r\n{trailers}\r\n"
            ),
        )
        .await;
        assert!(body.contains(&format!("\nhi{expected}\r\n")), "{body}");
    }
}

#[tokio::test]
async fn a_host_can_be_set_for_a_group() {
    let host = Some("api.internal".parse().unwrap());
    let own = GroupConfig { host, ..group("h2c", Http2Upstream::default().listen().await) };
    let (_, body) = ask(&start(own).await, GET).await;
    assert!(
        body.contains("GET http://api.internal/a?b") && body.contains("x-forwarded-host: shop.example"),
        "{body}"
    );
}

/// Requests that come together share connections, and no more streams than the upstream allows.
#[tokio::test]
async fn a_connection_is_shared_within_what_the_upstream_allows() {
    for (allowed, connections) in [(None, 1..=1), (Some(10), 2..=30)] {
        let gate = Arc::new(Semaphore::new(0));
        let upstream = Http2Upstream {
            gate: Some(Arc::clone(&gate)),
            allowed_streams: allowed,
            ..Http2Upstream::default()
        };
        let gateway = start(group("h2c", upstream.clone().listen().await)).await;
        // The first one learns what the upstream allows.
        gate.add_permits(1);
        ask(&gateway, GET).await;
        let mut clients = Vec::new();
        for _ in 0..30 {
            let mut client = Raw::connect(gateway.address).await;
            client.send(GET).await;
            clients.push(client);
        }
        eventually(|| gateway.gateway.upstreams()[0].in_flight == 30).await;
        gate.add_permits(30);
        for mut client in clients {
            assert!(client.head().await.starts_with("HTTP/1.1 200"));
        }
        let opened = upstream.connections.load(Ordering::SeqCst);
        assert!(connections.contains(&opened), "{opened} connections");
        let most = upstream.streams_max.load(Ordering::SeqCst);
        assert!(most <= allowed.map_or(30, |allowed| usize::try_from(allowed).unwrap()), "{most} streams");
    }
}

/// What an upstream refuses it has not looked at (RFC 9113, 8.7), whatever the method.
#[tokio::test]
async fn a_refused_request_is_sent_again_once_if_it_has_no_body() {
    let empty = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let full = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi";
    for (request, refusals, status) in [(GET, 1, "200"), (empty, 1, "200"), (GET, 2, "502"), (full, 1, "502")]
    {
        let upstream = Http2Upstream { refusals: Arc::new(refusals.into()), ..Http2Upstream::default() };
        let gateway = start(group("h2c", upstream.listen().await)).await;
        let (head, body) = ask(&gateway, request).await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{request} {refusals}: {head}{body}");
    }
}

/// An upstream that goes away says so, and no request is lost.
#[tokio::test]
async fn a_connection_that_goes_away_loses_nothing() {
    let upstream = Http2Upstream { goes_away: true, ..Http2Upstream::default() };
    let gateway = start(group("h2c", upstream.clone().listen().await)).await;
    for number in 0..20 {
        let (head, body) = ask(&gateway, GET).await;
        assert!(head.starts_with("HTTP/1.1 200"), "{number}: {head}{body}");
    }
    assert!(upstream.connections.load(Ordering::SeqCst) > 1);
}

/// A tunnel needs HTTP/1.1; an upstream without it answers as if nobody had asked for one.
#[tokio::test]
async fn an_upgrade_is_not_asked_of_an_upstream_that_cannot() {
    let gateway = start(group("h2c", Http2Upstream::default().listen().await)).await;
    let mut client = Raw::connect(gateway.address).await;
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n").await;
    assert!(client.head().await.starts_with("HTTP/1.1 200"));
    let body = client.until(b"0\r\n\r\n").await.unwrap();
    assert!(!body.contains("upgrade"), "{body}");
}

/// An authority, and a server with a certificate of it for `api.internal`.
struct SecureUpstream {
    folder: tempfile::TempDir,
    config: ServerConfig,
}

impl SecureUpstream {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["api.internal".to_owned()]).unwrap();
        let cert = params.signed_by(&key, &authority).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
        let chain = vec![CertificateDer::from_pem_slice(cert.pem().as_bytes()).unwrap()];
        Self { folder, config: config.with_single_cert(chain, key).unwrap() }
    }

    fn ca(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Speaks these protocols.
    async fn listen(&self, protocols: &[&str]) -> SocketAddr {
        let mut config = self.config.clone();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    match stream.get_ref().1.alpn_protocol() {
                        Some(b"h2") => Http2Upstream::default().serve(stream).await,
                        _ => answer_http1(stream).await,
                    }
                });
            }
        });
        address
    }
}

/// Answers with the head of the request.
pub(crate) async fn answer_http1(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut head).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", head.len());
    stream.write_all(answer.as_bytes()).await.unwrap();
    stream.write_all(&head).await.unwrap();
    stream.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_upstream_over_tls_is_verified_and_speaks_what_it_prefers() {
    let upstream = SecureUpstream::new();
    let server_name = Some("api.internal".to_owned());
    let verified = UpstreamTls { ca: Some(upstream.ca()), server_name, ..UpstreamTls::default() };
    for (protocols, expected) in [
        (&["h2", "http/1.1"][..], "GET https://shop.example/a?b"),
        (&["http/1.1"], "GET /a?b HTTP/1.1\r\n"),
        (&[], "GET /a?b HTTP/1.1\r\n"),
    ] {
        let own = group("https", upstream.listen(protocols).await);
        let gateway = start(GroupConfig { tls: verified.clone(), ..own }).await;
        let (head, body) = ask(&gateway, GET).await;
        assert!(head.starts_with("HTTP/1.1 200") && body.contains(expected), "{protocols:?}: {head}{body}");
    }
}

#[tokio::test]
async fn a_certificate_that_is_not_for_it_is_a_502_unless_that_is_said_loudly() {
    let upstream = SecureUpstream::new();
    let address = upstream.listen(&["h2"]).await;
    let unknown = UpstreamTls { server_name: Some("api.internal".to_owned()), ..UpstreamTls::default() };
    let other_name = UpstreamTls { ca: Some(upstream.ca()), ..UpstreamTls::default() };
    let anything = UpstreamTls { accepts_any_certificate: true, ..UpstreamTls::default() };
    for (tls, status) in [(unknown, "502"), (other_name, "502"), (anything, "200")] {
        let gateway = start(GroupConfig { tls: tls.clone(), ..group("https", address) }).await;
        let (head, body) = ask(&gateway, GET).await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{tls:?}: {head}{body}");
    }
}

/// A WebSocket goes over HTTP/1.1, even if the upstream prefers HTTP/2.
#[tokio::test]
async fn an_upgrade_goes_over_http1() {
    let upstream = SecureUpstream::new();
    let server_name = Some("api.internal".to_owned());
    let tls = UpstreamTls { ca: Some(upstream.ca()), server_name, ..UpstreamTls::default() };
    let gateway =
        start(GroupConfig { tls, ..group("https", upstream.listen(&["h2", "http/1.1"]).await) }).await;
    let mut client = Raw::connect(gateway.address).await;
    let (head, body) = client
        .ask("GET /chat HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
        .await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(body.starts_with("GET /chat HTTP/1.1") && field(&body, "upgrade") == Some("websocket"), "{body}");
}

#[tokio::test]
async fn files_that_cannot_be_used_are_told_with_their_names() {
    let tls = UpstreamTls { ca: Some("/no/such/ca.pem".into()), ..UpstreamTls::default() };
    let config = config(GroupConfig { tls, ..group("https", ([127, 0, 0, 1], 1).into()) });
    let gateway = start(group("http", ([127, 0, 0, 1], 1).into())).await;
    let error = gateway.gateway.reload(&config, &tollgate_gateway::default_mapping()).unwrap_err();
    assert!(error.to_string().starts_with("/no/such/ca.pem: "), "{error}");
    assert!(!gateway.gateway.upstreams()[0].upstream.starts_with("https"), "the old routes stay");
}
