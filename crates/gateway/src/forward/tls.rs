//! TLS towards upstreams.
//!
//! Made once for a group, at the start and at every reload; `connect` shakes hands with it.
//!
//! Invariant: an upstream's certificate is verified, by the CA that is set or those of the system,
//! unless an operator says otherwise in a word that nobody can overlook.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    ClientConfig, DigitallySignedStruct, Error as RustlsError, RootCertStore, SignatureScheme,
};

use crate::config::{GroupConfig, UpstreamTls, UpstreamUrl};

/// Why TLS towards a group cannot be set up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct UpstreamTlsError {
    /// The file, or else the name of the group.
    pub path: PathBuf,
    /// What is wrong with it, and what to do.
    pub reason: String,
}

/// TLS towards the upstreams of a group.
pub(super) struct TlsClient {
    /// Whichever protocol the upstream prefers.
    any: TlsConnector,
    http1: TlsConnector,
    /// The name that the certificate must be for; none if it is the host of the URL.
    server_name: Option<ServerName<'static>>,
}

impl std::fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsClient").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

impl TlsClient {
    /// Reads the files that are named.
    pub(super) fn load(group: &GroupConfig) -> Result<Self, UpstreamTlsError> {
        let settings = &group.tls;
        let wrong = |reason: String| UpstreamTlsError { path: PathBuf::from(&group.name), reason };
        let mut config = client_config(settings, &wrong)?;
        if settings.accepts_any_certificate {
            tracing::warn!(
                group = group.name,
                "certificates of these upstreams are not verified: whoever gets in between can read and change \
                 everything; remove danger_accept_any_certificate and write tls.ca"
            );
            let provider = Arc::clone(config.crypto_provider());
            config.dangerous().set_certificate_verifier(Arc::new(AnyCertificate(provider)));
        }
        let server_name = settings.server_name.clone().map(ServerName::try_from).transpose();
        let server_name =
            server_name.map_err(|error| wrong(format!("server_name cannot be used: {error}")))?;
        let mut http1 = config.clone();
        http1.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let connector = |config| TlsConnector::from(Arc::new(config));
        Ok(Self { any: connector(config), http1: connector(http1), server_name })
    }

    /// The handshake with an upstream.
    pub(super) async fn handshake(
        &self,
        stream: TcpStream,
        url: &UpstreamUrl,
        is_http1: bool,
    ) -> io::Result<TlsStream<TcpStream>> {
        let name = match &self.server_name {
            Some(name) => name.clone(),
            None => ServerName::try_from(url.host().to_owned()).map_err(io::Error::other)?,
        };
        let connector = if is_http1 { &self.http1 } else { &self.any };
        connector.connect(name, stream).await
    }
}

fn client_config(
    settings: &UpstreamTls,
    wrong: &impl Fn(String) -> UpstreamTlsError,
) -> Result<ClientConfig, UpstreamTlsError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(error.to_string()))?;
    let builder = builder.with_root_certificates(roots(settings, wrong)?);
    let Some((cert, key)) = &settings.identity else { return Ok(builder.with_no_client_auth()) };
    let chain = certificates(cert)?;
    let own_key = PrivateKeyDer::from_pem_slice(&read(key)?)
        .map_err(|error| unusable(key, format!("{error}; it must hold a private key in PEM")))?;
    builder
        .with_client_auth_cert(chain, own_key)
        .map_err(|error| unusable(cert, format!("{error}; {} must hold its key", key.display())))
}

fn roots(
    settings: &UpstreamTls,
    wrong: &impl Fn(String) -> UpstreamTlsError,
) -> Result<RootCertStore, UpstreamTlsError> {
    let mut roots = RootCertStore::empty();
    if let Some(ca) = &settings.ca {
        for certificate in certificates(ca)? {
            roots.add(certificate).map_err(|error| unusable(ca, error.to_string()))?;
        }
        return Ok(roots);
    }
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() && !settings.accepts_any_certificate {
        return Err(wrong("this system has no CA certificates; write tls.ca".to_owned()));
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, UpstreamTlsError> {
    let pem = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let found =
        found.map_err(|error| unusable(path, format!("{error}; it must hold certificates in PEM")))?;
    if found.is_empty() {
        return Err(unusable(path, "it holds no certificate; give the path of a PEM file".to_owned()));
    }
    Ok(found)
}

fn read(path: &Path) -> Result<Vec<u8>, UpstreamTlsError> {
    let read = std::fs::read(path);
    read.map_err(|error| unusable(path, format!("{error}; give the path of a readable PEM file")))
}

fn unusable(path: &Path, reason: String) -> UpstreamTlsError {
    UpstreamTlsError { path: path.to_owned(), reason }
}

/// Takes whatever certificate an upstream shows.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, RustlsError> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, RustlsError> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, RustlsError> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
