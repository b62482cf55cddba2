//! Upstreams that ask who the gateway is.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};
use tollgate_gateway::{GroupConfig, UpstreamTls};

use crate::support::in_time;
use crate::upstream_http2::{GET, Http2Upstream, answer_http1, ask, group, start};

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate for a name and its key, in PEM.
fn certificate(name: &str, authority: &CertifiedIssuer<'static, KeyPair>) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    (params.signed_by(&key, authority).unwrap().pem(), key.serialize_pem())
}

/// An authority, and a folder with its certificate.
struct Identities {
    authority: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

impl Identities {
    fn new() -> Self {
        let own = Self { authority: authority(), folder: tempfile::tempdir().unwrap() };
        own.file("ca.pem", &own.authority.pem());
        own
    }

    fn file(&self, name: &str, pem: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, pem).unwrap();
        path
    }

    /// What a group is told that shows a certificate of this authority, or none.
    fn shown(&self, signed_by: Option<&CertifiedIssuer<'static, KeyPair>>) -> UpstreamTls {
        let identity = signed_by.map(|authority| {
            let (cert, key) = certificate("gateway", authority);
            (self.file("gateway.pem", &cert), self.file("gateway.key", &key))
        });
        let ca = Some(self.folder.path().join("ca.pem"));
        UpstreamTls { ca, identity, server_name: Some("api.internal".to_owned()), ..UpstreamTls::default() }
    }

    /// An upstream that wants a certificate of this authority.
    async fn listen(&self, version: &'static SupportedProtocolVersion, protocol: &str) -> SocketAddr {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.der().clone()).unwrap();
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let (cert, key) = certificate("api.internal", &self.authority);
        let chain = vec![CertificateDer::from_pem_slice(cert.as_bytes()).unwrap()];
        let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(&[version]);
        let builder = builder.unwrap().with_client_cert_verifier(verifier.build().unwrap());
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let mut config = builder.with_single_cert(chain, key).unwrap();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(acceptor.clone(), stream));
            }
        });
        address
    }
}

async fn serve(acceptor: TlsAcceptor, stream: TcpStream) {
    match acceptor.accept(stream).into_fallible().await {
        Ok(stream) => {
            assert!(stream.get_ref().1.peer_certificates().is_some_and(|shown| !shown.is_empty()));
            match stream.get_ref().1.alpn_protocol() {
                Some(b"h2") => Http2Upstream::default().serve(stream).await,
                _ => answer_http1(stream).await,
            }
        }
        // Closed with unread bytes, the connection would be reset, and the alert lost.
        Err((_, mut stream)) => {
            let mut rest = Vec::new();
            drop(stream.read_to_end(&mut rest).await);
        }
    }
}

/// Before 1.3 the handshake itself fails; since then it is over when our certificate is looked at.
#[tokio::test]
async fn an_upstream_that_asks_for_a_certificate_is_shown_that_of_the_group() {
    let (own, other) = (Identities::new(), authority());
    for version in [&TLS12, &TLS13] {
        for protocol in ["http/1.1", "h2"] {
            let address = own.listen(version, protocol).await;
            let what = format!("{version:?}, {protocol}");
            let shown = GroupConfig { tls: own.shown(Some(&own.authority)), ..group("https", address) };
            let (head, body) = ask(&start(shown).await, GET).await;
            assert!(head.starts_with("HTTP/1.1 200"), "{what}: {head}{body}");
            for signed_by in [None, Some(&other)] {
                let shown = GroupConfig { tls: own.shown(signed_by), ..group("https", address) };
                let gateway = start(shown).await;
                let (head, body) = in_time(ask(&gateway, GET)).await;
                let what = format!("{what}, with a wrong one: {}", signed_by.is_some());
                assert!(head.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{what}: {head}{body}");
                let says = if *version == TLS12 { "cannot be reached" } else { "asks for a certificate" };
                assert!(body.contains(says), "{what}: {body}");
                assert!(gateway.gateway.upstreams()[0].failures > 0, "{what}");
            }
        }
    }
}

/// A key of another certificate is a mistake of the operator, and is told before any request comes.
#[tokio::test]
async fn a_key_that_is_not_that_of_the_certificate_is_told_at_the_start() {
    let own = Identities::new();
    let mut tls = own.shown(Some(&own.authority));
    let (_, key) = certificate("gateway", &own.authority);
    let other_key = own.file("other.key", &key);
    tls.identity = tls.identity.map(|(cert, _)| (cert, other_key.clone()));
    let gateway = start(group("http", ([127, 0, 0, 1], 1).into())).await;
    let config = group("https", ([127, 0, 0, 1], 1).into());
    let config = crate::upstream_http2::config(GroupConfig { tls, ..config });
    let error =
        gateway.gateway.reload(&config, &tollgate_gateway::default_mapping()).unwrap_err().to_string();
    let names = |path: &Path| error.contains(&path.display().to_string());
    assert!(names(&own.folder.path().join("gateway.pem")) && names(&other_key), "{error}");
}
