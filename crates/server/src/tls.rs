//! TLS and mutual TLS, with certificates that are reloaded when they change.
//!
//! `listen::accept` shakes hands with it before a connection's protocol begins.
//! The files are read every second, however they are replaced, and a change is
//! used from the next connection on.
//!
//! Invariants: files that cannot be used are logged and change nothing else; with
//! a CA for clients, nobody gets in without a certificate that it signed.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::client::danger::HandshakeSignatureValid;
use tokio_rustls::rustls::client::verify_server_name;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use tokio_rustls::rustls::{
    DigitallySignedStruct, DistinguishedName, Error as RustlsError, RootCertStore, ServerConfig,
    SignatureScheme,
};
use tokio_rustls::server::TlsStream;

use crate::bounds::{CERTIFICATE_LOOK_EVERY, OPENING_MAX, PEM_MAX};
use crate::error::Error;
use crate::shutdown::stopped;
use tollgate_settings::ServerTls;

/// The TLS of a listener, as the files on disk have it.
#[derive(Debug)]
pub struct Tls {
    settings: ServerTls,
    /// What may be spoken inside, the preferred one first.
    protocols: &'static [&'static [u8]],
    current: ArcSwap<ServerConfig>,
}

/// The contents of the files.
#[derive(PartialEq, Eq)]
struct PemFiles {
    cert: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl Tls {
    /// Reads the files if there are any; `protocols` is what may be spoken inside,
    /// such as `h2`.
    ///
    /// # Errors
    /// If a file cannot be read or used.
    pub fn load_some(
        settings: Option<&ServerTls>,
        protocols: &'static [&'static [u8]],
    ) -> Result<Option<Arc<Self>>, Error> {
        settings.map(|settings| Self::load(settings, protocols).map(Arc::new)).transpose()
    }

    /// Reads the files; `protocols` is what may be spoken inside, such as `h2`.
    ///
    /// # Errors
    /// If a file cannot be read or used.
    pub fn load(settings: &ServerTls, protocols: &'static [&'static [u8]]) -> Result<Self, Error> {
        let config = PemFiles::read(settings)?.config(settings, protocols)?;
        Ok(Self { settings: settings.clone(), protocols, current: ArcSwap::from_pointee(config) })
    }

    /// The handshake with a caller; none if it fails or takes too long.
    pub(crate) async fn handshake(&self, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
        let acceptor = TlsAcceptor::from(self.current.load_full());
        match tokio::time::timeout(OPENING_MAX, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => Some(stream),
            Ok(Err(error)) => {
                tracing::debug!(%error, "a TLS handshake failed");
                None
            }
            Err(_) => {
                tracing::debug!("a TLS handshake took too long");
                None
            }
        }
    }

    /// Reloads the files when they change, until the server stops.
    pub async fn follow(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let mut last = None;
        let mut every = tokio::time::interval(CERTIFICATE_LOOK_EVERY);
        loop {
            tokio::select! {
                () = stopped(&mut stop) => return,
                _ = every.tick() => {}
            }
            let settings = self.settings.clone();
            let read = tokio::task::spawn_blocking(move || {
                PemFiles::read(&settings).map_err(|error| error.to_string())
            });
            let Ok(read) = read.await else { continue };
            if last.as_ref() == Some(&read) {
                continue;
            }
            // The files may have changed between the start and the first read.
            self.take(&read, last.is_none());
            last = Some(read);
        }
    }

    fn take(&self, read: &Result<PemFiles, String>, is_first: bool) {
        let built = read
            .as_ref()
            .map_err(String::clone)
            .and_then(|pems| pems.config(&self.settings, self.protocols).map_err(|error| error.to_string()));
        match built {
            Ok(config) => {
                self.current.store(Arc::new(config));
                if is_first {
                    return;
                }
                tracing::info!(cert = %self.settings.cert.display(), "the certificate changed and is used from now on");
            }
            Err(error) => {
                tracing::warn!(%error, "the certificate changed but cannot be used; keeping the old one")
            }
        }
    }
}

impl PemFiles {
    fn read(settings: &ServerTls) -> Result<Self, Error> {
        Ok(Self {
            cert: read(&settings.cert)?,
            key: read(&settings.key)?,
            client_ca: settings.client_ca.as_deref().map(read).transpose()?,
        })
    }

    fn config(&self, settings: &ServerTls, protocols: &[&[u8]]) -> Result<ServerConfig, Error> {
        let provider = Arc::new(ring::default_provider());
        let chain = certificates(&self.cert, &settings.cert)?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|error| {
            unusable(&settings.key, &format!("{error}; it must hold a private key in PEM"))
        })?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(&settings.cert, &error.to_string()))?;
        let verified = match (&self.client_ca, &settings.client_ca) {
            (Some(pem), Some(path)) => {
                let roots = certificates(pem, path)?;
                builder.with_client_cert_verifier(client_verifier(roots, path, settings, provider)?)
            }
            _ => builder.with_no_client_auth(),
        };
        let mut config = verified.with_single_cert(chain, key).map_err(|error| {
            unusable(&settings.cert, &format!("{error}; {} must hold its key", settings.key.display()))
        })?;
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(config)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let limited = || -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(path)?.take(PEM_MAX + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = limited()
        .map_err(|error| unusable(path, &format!("{error}; give the path of a readable PEM file")))?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > PEM_MAX) {
        return Err(unusable(path, "it is too large; give the path of a PEM file"));
    }
    Ok(bytes)
}

fn unusable(path: &Path, reason: &str) -> Error {
    Error::Certificate { path: path.to_owned(), reason: reason.to_owned() }
}

fn certificates(pem: &[u8], path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let found = tollgate_redis::certificates_from_pem(pem);
    found.map_err(|reason| unusable(path, &format!("{reason}; it must hold certificates in PEM")))
}

fn client_verifier(
    roots: Vec<CertificateDer<'static>>,
    path: &Path,
    settings: &ServerTls,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    let mut store = RootCertStore::empty();
    for root in roots {
        store.add(root).map_err(|error| unusable(path, &error.to_string()))?;
    }
    let by_authority = WebPkiClientVerifier::builder_with_provider(Arc::new(store), provider)
        .build()
        .map_err(|error| unusable(path, &error.to_string()))?;
    let Some(name) = &settings.client_san else { return Ok(by_authority) };
    let name = ServerName::try_from(name.clone()).map_err(|error| {
        unusable(path, &format!("'{name}' cannot be required of clients: {error}; write a DNS name"))
    })?;
    Ok(Arc::new(NamedClientVerifier { by_authority, name }))
}

/// Also requires a name in the client's certificate.
#[derive(Debug)]
struct NamedClientVerifier {
    by_authority: Arc<dyn ClientCertVerifier>,
    name: ServerName<'static>,
}

impl ClientCertVerifier for NamedClientVerifier {
    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, RustlsError> {
        let verified = self.by_authority.verify_client_cert(end_entity, intermediates, now)?;
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, &self.name)?;
        Ok(verified)
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.by_authority.root_hint_subjects()
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, RustlsError> {
        self.by_authority.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, RustlsError> {
        self.by_authority.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.by_authority.supported_verify_schemes()
    }
}
