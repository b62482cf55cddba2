//! What stands before a server: TLS, and a password.
//!
//! A [`Door`] is part of the plan; `Pipe` is a connection that has come
//! through it.
//!
//! Deliberately not here: certificates of our own, for servers that ask for one.

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
use crate::plan::Protocol;

/// Whoever listens takes a connection, and answers one question, in this time, even when busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// What stands before a server.
#[derive(Debug, Clone, Default)]
pub struct Door {
    /// TLS, if the server speaks it.
    pub tls: Option<Tls>,
    /// The password over RESP, if it wants one.
    pub password: Option<Password>,
}

/// A password, which is not shown.
#[derive(Clone)]
pub struct Password(pub String);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// TLS with a server of a name.
#[derive(Debug, Clone)]
pub struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Tls {
    /// TLS with the server at `address`, which the authorities of a file have
    /// signed, or else those that the system trusts.
    ///
    /// # Errors
    /// If the file has no certificates, or the address no name.
    pub fn new(address: &str, authorities: Option<&Path>, protocol: Protocol) -> Result<Self, Error> {
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
            // Whatever of them cannot be used is left out, as everywhere.
            None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| bad(&error.to_string()))?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = match protocol {
            Protocol::Grpc => vec![b"h2".to_vec()],
            Protocol::Http => vec![b"http/1.1".to_vec()],
            Protocol::Resp => Vec::new(),
        };
        Ok(Self { config: Arc::new(config), name })
    }
}

/// A connection, with TLS or without.
pub(crate) enum Pipe<S: Read + Write> {
    Plain(S),
    Tls(Box<StreamOwned<ClientConnection, S>>),
}

impl Pipe<TcpStream> {
    /// Connects, and waits until whoever listens is known.
    pub(crate) fn open(target: SocketAddr, tls: Option<&Tls>) -> io::Result<Self> {
        let mut socket = TcpStream::connect_timeout(&target, PATIENCE)?;
        socket.set_nodelay(true)?;
        let Some(Tls { config, name }) = tls else { return Ok(Self::Plain(socket)) };
        socket.set_read_timeout(Some(PATIENCE))?;
        let client = ClientConnection::new(Arc::clone(config), name.clone());
        let mut client = client.map_err(io::Error::other)?;
        while client.is_handshaking() {
            client.complete_io(&mut socket)?;
        }
        Ok(Self::Tls(Box::new(StreamOwned::new(client, socket))))
    }
}

impl<S: Read + Write> Pipe<S> {
    /// The socket.
    pub(crate) fn socket(&mut self) -> &mut S {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &mut stream.sock,
        }
    }

    /// The same with the socket changed.
    pub(crate) fn map<T: Read + Write>(self, change: impl FnOnce(S) -> T) -> Pipe<T> {
        match self {
            Self::Plain(socket) => Pipe::Plain(change(socket)),
            Self::Tls(stream) => {
                let StreamOwned { conn, sock } = *stream;
                Pipe::Tls(Box::new(StreamOwned::new(conn, change(sock))))
            }
        }
    }

    /// Whether a read that did not fill its bytes has read all there is.
    pub(crate) const fn is_plain(&self) -> bool {
        matches!(self, Self::Plain(_))
    }
}

impl<S: Read + Write> Read for Pipe<S> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(bytes),
            Self::Tls(stream) => match stream.read(bytes) {
                // Many servers hang up without the last word of TLS.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(0),
                read => read,
            },
        }
    }
}

impl<S: Read + Write> Write for Pipe<S> {
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
