//! TCP with or without TLS.
//!
//! [`ConnectOptions`] are part of the plan; `LoadStream` is an open stream.
//!
//! Deliberately not here: client certificates.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::error::Error;
use crate::protocol::LoadProtocol;

/// For connecting, and for one response: a server that is merely busy makes it.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// How to connect.
#[derive(Debug, Clone, Default)]
pub struct ConnectOptions {
    /// TLS, if the server speaks it.
    pub tls: Option<ClientTls>,
    /// The password over RESP, if it wants one.
    pub password: Option<Password>,
}

/// A password; its `Debug` hides it.
#[derive(Clone)]
pub struct Password(pub String);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// TLS with a server of this name.
#[derive(Debug, Clone)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl ClientTls {
    /// TLS with the server at `address`, signed by an authority in a file, or else by one that the
    /// system trusts.
    ///
    /// # Errors
    /// If the file has no certificates, or the address no name.
    pub fn new(address: &str, authorities: Option<&Path>, protocol: LoadProtocol) -> Result<Self, Error> {
        let bad = |what: &str| Error::Tls { address: address.to_owned(), what: what.to_owned() };
        let (host, _) = address.rsplit_once(':').unwrap_or((address, ""));
        let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned());
        let name = name.map_err(|_| bad("its name is none that a certificate can have"))?;
        let mut roots = RootCertStore::empty();
        match authorities {
            Some(file) => {
                let unread = |error: &dyn fmt::Display| bad(&format!("{}: {error}", file.display()));
                for one in CertificateDer::pem_file_iter(file).map_err(|error| unread(&error))? {
                    roots.add(one.map_err(|error| unread(&error))?).map_err(|error| unread(&error))?;
                }
                if roots.is_empty() {
                    return Err(unread(&"there is no certificate in it"));
                }
            }
            // Clients skip what they cannot use.
            None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| bad(&error.to_string()))?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = match protocol {
            LoadProtocol::Grpc => vec![b"h2".to_vec()],
            LoadProtocol::Http => vec![b"http/1.1".to_vec()],
            LoadProtocol::Resp => Vec::new(),
        };
        Ok(Self { config: Arc::new(config), name })
    }
}

/// A stream with TLS or without.
pub(crate) enum LoadStream<S: Read + Write> {
    Plain(S),
    Tls(Box<StreamOwned<ClientConnection, S>>),
}

impl LoadStream<TcpStream> {
    /// Connects, and finishes the handshake of TLS.
    pub(crate) fn open(target: SocketAddr, tls: Option<&ClientTls>) -> io::Result<Self> {
        let mut socket = TcpStream::connect_timeout(&target, TIMEOUT)?;
        socket.set_nodelay(true)?;
        let Some(ClientTls { config, name }) = tls else { return Ok(Self::Plain(socket)) };
        socket.set_read_timeout(Some(TIMEOUT))?;
        let client = ClientConnection::new(Arc::clone(config), name.clone());
        let mut client = client.map_err(io::Error::other)?;
        while client.is_handshaking() {
            client.complete_io(&mut socket)?;
        }
        Ok(Self::Tls(Box::new(StreamOwned::new(client, socket))))
    }
}

impl<S: Read + Write> LoadStream<S> {
    /// The socket.
    pub(crate) fn socket(&mut self) -> &mut S {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &mut stream.sock,
        }
    }

    /// The same with the socket changed.
    pub(crate) fn map<T: Read + Write>(self, change: impl FnOnce(S) -> T) -> LoadStream<T> {
        match self {
            Self::Plain(socket) => LoadStream::Plain(change(socket)),
            Self::Tls(stream) => {
                let StreamOwned { conn, sock } = *stream;
                LoadStream::Tls(Box::new(StreamOwned::new(conn, change(sock))))
            }
        }
    }

    /// Without TLS a read that does not fill the buffer has read all there is.
    pub(crate) const fn is_plain(&self) -> bool {
        matches!(self, Self::Plain(_))
    }
}

impl<S: Read + Write> Read for LoadStream<S> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(bytes),
            Self::Tls(stream) => match stream.read(bytes) {
                // Many servers close the connection without TLS's close_notify.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(0),
                read => read,
            },
        }
    }
}

impl<S: Read + Write> Write for LoadStream<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}
