//! The gRPC channel to an xDS server: address, certificates, headers.
//!
//! Certificates are read for every connection, so that new ones are used
//! after the next break.

use std::path::Path;
use std::time::Duration;

use thiserror::Error;
use tonic::metadata::{AsciiMetadataKey, AsciiMetadataValue, MetadataMap};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use tollgate_settings::{XdsSettings, XdsTls};

/// A server that takes longer is as good as gone; the next attempt comes soon.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A silent connection is tried after this long. By TCP and not by pings of
/// HTTP/2, which many xDS servers punish if they come more often than they like.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Why there is no channel.
#[derive(Debug, Error)]
pub(super) enum ConnectError {
    #[error("cannot read {path}: {source}")]
    File { path: String, source: std::io::Error },
    #[error(transparent)]
    Transport(#[from] tonic::transport::Error),
    #[error("'{name}' is no header that can be sent; correct CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS")]
    Header { name: String },
}

/// Connects.
pub(super) async fn connect(xds: &XdsSettings) -> Result<Channel, ConnectError> {
    let scheme = if xds.tls.is_some() { "https" } else { "http" };
    let mut endpoint = Endpoint::from_shared(format!("{scheme}://{}", xds.server))?
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .tcp_keepalive(Some(KEEPALIVE))
        .tcp_keepalive_interval(Some(KEEPALIVE));
    if let Some(tls) = &xds.tls {
        endpoint = endpoint.tls_config(certificates(tls).await?)?;
    }
    Ok(endpoint.connect().await?)
}

async fn certificates(tls: &XdsTls) -> Result<ClientTlsConfig, ConnectError> {
    let mut config = ClientTlsConfig::new();
    config = match &tls.ca {
        Some(path) => config.ca_certificate(Certificate::from_pem(file(path).await?)),
        None => config.with_native_roots(),
    };
    if let Some((cert, key)) = &tls.identity {
        config = config.identity(Identity::from_pem(file(cert).await?, file(key).await?));
    }
    if let Some(name) = &tls.server_name {
        config = config.domain_name(name);
    }
    Ok(config)
}

async fn file(path: &Path) -> Result<Vec<u8>, ConnectError> {
    let wrong = |source| ConnectError::File { path: path.display().to_string(), source };
    tokio::fs::read(path).await.map_err(wrong)
}

/// The extra headers of a stream.
pub(super) fn headers(xds: &XdsSettings) -> Result<MetadataMap, ConnectError> {
    let mut headers = MetadataMap::new();
    for (name, value) in &xds.headers {
        let wrong = || ConnectError::Header { name: name.clone() };
        let key: AsciiMetadataKey = name.to_ascii_lowercase().parse().map_err(|_| wrong())?;
        let mut value: AsciiMetadataValue = value.expose().parse().map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.append(key, value);
    }
    Ok(headers)
}

/// An error with what caused it, on one line.
pub(super) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}
