//! TLS as the settings want it: the system's roots, further ones, a client
//! certificate, and names that need not match.
//!
//! Made once from [`crate::config::RedisTls`]; [`super::connect`] uses it for every
//! connection.
//!
//! Invariant: with `skip_hostname` the certificate chain is verified all the
//! same.

use std::sync::Arc;

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error as RustlsError, RootCertStore,
    SignatureScheme,
};

use crate::config::RedisTls;
use crate::error::Error;

/// What does the handshake.
pub(crate) fn connector(tls: &RedisTls) -> Result<TlsConnector, Error> {
    let provider = Arc::new(ring::default_provider());
    let roots = Arc::new(roots(tls)?);
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| refused("protocol version", &error))?;
    let builder = if tls.skip_hostname {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyName::new(roots, provider)?))
    } else {
        builder.with_root_certificates(roots)
    };
    let config = match &tls.client {
        None => builder.with_no_client_auth(),
        Some(client) => {
            let chain = certificates(&client.chain, "client certificate")?;
            let key = PrivateKeyDer::from_pem_slice(client.key.expose().as_bytes())
                .map_err(|error| refused("client key", &error))?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| refused("client certificate with its key", &error))?
        }
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

fn roots(tls: &RedisTls) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    // A system without roots is fine for those who bring their own.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(ca) = &tls.ca {
        let found = certificates(ca, "CA certificate")?;
        for certificate in found {
            roots.add(certificate).map_err(|error| refused("CA certificate", &error))?;
        }
    }
    Ok(roots)
}

fn certificates(pem: &str, what: &'static str) -> Result<Vec<CertificateDer<'static>>, Error> {
    certificates_from_pem(pem.as_bytes()).map_err(|reason| Error::Tls { what, reason })
}

/// The certificates in `pem`, or why there are none; the server's listeners use it, too.
///
/// # Errors
/// If there is no certificate, or one that cannot be read.
pub fn certificates_from_pem(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if found.is_empty() => Err("there is no certificate in it".to_owned()),
        found => found.map_err(|error| error.to_string()),
    }
}

fn refused(what: &'static str, error: &dyn std::fmt::Display) -> Error {
    Error::Tls { what, reason: error.to_string() }
}

/// Verifies everything but the name.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl AnyName {
    fn new(roots: Arc<RootCertStore>, provider: Arc<CryptoProvider>) -> Result<Self, Error> {
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider)
            .build()
            .map_err(|error| refused("set of roots", &error))?;
        Ok(Self(verifier))
    }
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, RustlsError> {
        match self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(RustlsError::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, RustlsError> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, RustlsError> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
