//! A server that goes and comes back; TLS.

use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tollgate_client::{Client, ClientSettings, Error, ReplyOrigin, WhenUnreachable};
use tollgate_core::Verdict;

use crate::support::{ServerSetup, TestServer, ask, patient};

const RULES: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: { name: burst, requests_per_unit: 3, unit: hour, algorithm: sliding_log }
";

/// A server on the ports of one that has ended.
async fn restart(http: std::net::SocketAddr, grpc: std::net::SocketAddr) -> TestServer {
    let setup = ServerSetup { http: http.to_string(), grpc: grpc.to_string(), ..ServerSetup::new(RULES) };
    let server = setup.start().await;
    server.until_decides().await;
    server
}

#[tokio::test]
async fn a_server_that_is_gone_is_stood_in_for_and_asked_again_when_it_is_back() {
    let server = TestServer::with(RULES).await;
    let (http, grpc) = (server.http, server.grpc);
    let standing_in = ClientSettings { when_unreachable: WhenUnreachable::Allow, ..patient() };
    let clients = [
        server.http_client().with_settings(standing_in.clone()).unwrap(),
        server.grpc_client().with_settings(standing_in).unwrap(),
    ];
    let check = async |client: &Client, user: &str| {
        ask("shop", user, 1, async |request| client.check(request).await).await.unwrap()
    };
    for client in &clients {
        assert_eq!(check(client, "before").await.origin, ReplyOrigin::Server);
    }
    server.stop();
    for client in &clients {
        let reply = check(client, "meanwhile").await;
        assert_eq!((reply.verdict, reply.origin), (Verdict::Allow, ReplyOrigin::Unreachable));
    }
    let server = restart(http, grpc).await;
    for client in &clients {
        assert_eq!(check(client, "after").await.origin, ReplyOrigin::Server);
    }
    drop(server);
}

#[tokio::test]
async fn a_denial_is_remembered_while_the_server_is_gone() {
    let server = TestServer::with(RULES).await;
    let client = server.http_client();
    let check = async |user| ask("shop", user, 3, async |request| client.check(request).await).await;
    assert_eq!(check("42").await.unwrap().verdict, Verdict::Allow);
    assert!(check("42").await.unwrap().verdict.is_deny());
    server.stop();
    assert_eq!(check("42").await.unwrap().origin, ReplyOrigin::Memory);
    let error = check("43").await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn a_server_whose_store_is_away_is_asked_every_time() {
    // Nobody listens there.
    let store = "redis://127.0.0.1:1".to_owned();
    let rules = RULES.replace("sliding_log", "sliding_log, on_store_error: deny");
    let setup = ServerSetup { store, ..ServerSetup::new(&rules) };
    let server = setup.env("TOLLGATE_TELL_THROUGH_ENVOY", "all").start().await;
    server.until_decides().await;
    for client in [server.http_client(), server.grpc_client()] {
        for _ in 0..2 {
            let reply = ask("shop", "42", 1, async |request| client.check(request).await).await.unwrap();
            assert!(reply.verdict.is_deny() && reply.decisions[0].degraded, "{reply:?}");
            assert_eq!(reply.origin, ReplyOrigin::Server);
        }
    }
}

#[tokio::test]
async fn an_address_where_nobody_answers_ends_in_time() {
    // It takes connections and says nothing.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let settings = ClientSettings { timeout: Duration::from_millis(200), ..ClientSettings::default() };
    for client in [Client::http(&url).unwrap(), Client::grpc(&url).unwrap()] {
        let client = client.with_settings(settings.clone()).unwrap();
        let error = ask("shop", "42", 1, async |request| client.check(request).await).await.unwrap_err();
        assert_eq!(error.to_string(), format!("no reply from {url} within 200ms"));
    }
}

#[tokio::test]
async fn both_protocols_speak_tls_and_trust_only_whom_they_are_told() {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let cert = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();

    let setup = ServerSetup::new(RULES);
    let (cert_path, key_path) = (setup.folder.path().join("cert.pem"), setup.folder.path().join("key.pem"));
    std::fs::write(&cert_path, cert.pem()).unwrap();
    std::fs::write(&key_path, key.serialize_pem()).unwrap();
    let (cert_path, key_path) = (cert_path.to_str().unwrap(), key_path.to_str().unwrap());
    let server = setup
        .env("GRPC_SERVER_USE_TLS", "true")
        .env("GRPC_SERVER_TLS_CERT", cert_path)
        .env("GRPC_SERVER_TLS_KEY", key_path)
        .env("TOLLGATE_HTTP_TLS_CERT", cert_path)
        .env("TOLLGATE_HTTP_TLS_KEY", key_path)
        .start()
        .await;

    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let (http, grpc) = (format!("https://{}", server.http), format!("https://{}", server.grpc));
    for client in [Client::http(&http).unwrap(), Client::grpc(&grpc).unwrap()] {
        let trusting = client.with_tls(tls.clone()).unwrap().with_settings(patient()).unwrap();
        let reply = ask("shop", "42", 1, async |request| trusting.check(request).await).await;
        assert_eq!(reply.unwrap().verdict, Verdict::Allow);
        let error = ask("shop", "42", 1, async |request| client.check(request).await).await.unwrap_err();
        assert!(error.to_string().contains("invalid peer certificate"), "{error}");
    }
}
