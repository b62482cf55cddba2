//! Connects to a server: sockets, TLS, login, sentinels.
//!
//! A [`Connector`] has the credentials and the TLS settings. It connects to an
//! address, or to the master that the sentinels name, logs in and loads the
//! scripts, so that a [`Connection`] is ready for calls.
//!
//! Invariant: a master that the sentinels name is used only if it says itself
//! that it is one.
//!
//! Deliberately not here: when to connect, and how often (`server`).

use std::time::Duration;

use redis::Value;
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::connection::Connection;
use super::tls;
use crate::config::{Credentials, Endpoint, ServerAddress};
use crate::error::{Error, FailureReport, ServerError, StoreFailure};

/// The longest that connecting takes, sentinels included. A request waits no
/// longer than its own timeout; connecting goes on without it.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// The longest that one sentinel is waited for while there are others.
const SENTINEL_TIMEOUT: Duration = Duration::from_millis(300);

/// Connects to servers with the same credentials and TLS.
#[derive(Clone)]
pub(crate) struct Connector {
    credentials: Credentials,
    database: u32,
    tls: Option<TlsConnector>,
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector").field("database", &self.database).finish_non_exhaustive()
    }
}

/// Where to connect to.
#[derive(Debug, Clone)]
pub(crate) enum ConnectTarget {
    /// To this address.
    Address(ServerAddress),
    /// To the master that the sentinels name.
    SentinelMaster {
        /// The name that they know it by.
        name: String,
        sentinels: Vec<ServerAddress>,
        /// Connects to the sentinels.
        connector: Connector,
    },
}

impl Connector {
    /// For the servers of an endpoint.
    pub(crate) fn new(endpoint: &Endpoint) -> Result<Self, Error> {
        let tls = endpoint.tls.as_ref().map(tls::connector).transpose()?;
        Ok(Self { credentials: endpoint.credentials.clone(), database: endpoint.database, tls })
    }

    /// The master that sentinels name. They have neither the users nor the
    /// databases of the servers.
    pub(crate) fn sentinel_master(
        &self,
        name: &str,
        sentinels: &[ServerAddress],
        credentials: &Credentials,
    ) -> ConnectTarget {
        let connector = Self { credentials: credentials.clone(), database: 0, tls: self.tls.clone() };
        ConnectTarget::SentinelMaster { name: name.to_owned(), sentinels: sentinels.to_vec(), connector }
    }

    /// Connects, logs in and loads the scripts.
    pub(crate) async fn connect_ready(&self, target: &ConnectTarget) -> Result<Connection, FailureReport> {
        let connecting = async {
            match target {
                ConnectTarget::Address(address) => self.connect_with_scripts(address).await,
                ConnectTarget::SentinelMaster { name, sentinels, connector } => {
                    let address = connector.ask_sentinels(name, sentinels).await?;
                    let connection = self.connect_with_scripts(&address).await?;
                    let role = connection.send(&redis::cmd("ROLE")).await.map_err(ServerError::report)?;
                    if is_master(&role) {
                        return Ok(connection);
                    }
                    let said = format!("the sentinels name {address}, which is no master");
                    Err(FailureReport::new(StoreFailure::ReadOnly, said))
                }
            }
        };
        tokio::time::timeout(CONNECT_TIMEOUT, connecting).await.unwrap_or_else(|_| {
            let (seconds, tls) =
                (CONNECT_TIMEOUT.as_secs(), if self.tls.is_some() { "with" } else { "without" });
            Err(FailureReport::new(StoreFailure::Timeout, format!("no answer within {seconds} s, {tls} TLS")))
        })
    }

    async fn connect_with_scripts(&self, address: &ServerAddress) -> Result<Connection, FailureReport> {
        let mut connection = self.connect(address).await?;
        connection.load_scripts().await.map_err(ServerError::report)?;
        Ok(connection)
    }

    /// Connects and logs in.
    pub(crate) async fn connect(&self, address: &ServerAddress) -> Result<Connection, FailureReport> {
        let lost = |error: std::io::Error| FailureReport::new(StoreFailure::Lost, error);
        let connection = match address {
            ServerAddress::Unix { path } => {
                Connection::new(UnixStream::connect(path).await.map_err(lost)?).await
            }
            ServerAddress::Tcp { host, port } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(lost)?;
                // Without it a request waits for the acknowledgement of the last one.
                stream.set_nodelay(true).map_err(lost)?;
                match &self.tls {
                    None => Connection::new(stream).await,
                    Some(tls) => {
                        let name = ServerName::try_from(host.clone())
                            .map_err(|error| FailureReport::new(StoreFailure::Other, error))?;
                        let stream = tls.connect(name, stream).await.map_err(|error| {
                            FailureReport::new(StoreFailure::Lost, format!("TLS handshake: {error}"))
                        })?;
                        Connection::new(stream).await
                    }
                }
            }
        };
        let connection = connection.map_err(ServerError::report)?;
        self.log_in(&connection).await?;
        Ok(connection)
    }

    async fn log_in(&self, connection: &Connection) -> Result<(), FailureReport> {
        let Credentials { user, password } = &self.credentials;
        if let Some(password) = password {
            let mut auth = redis::cmd("AUTH");
            auth.arg(user.as_slice()).arg(password.expose());
            connection.send(&auth).await.map_err(|error| {
                let report = error.report().without(password.expose());
                let is_known = report.failure != StoreFailure::Other;
                let failure = if is_known { report.failure } else { StoreFailure::Forbidden };
                FailureReport { failure, ..report }
            })?;
        }
        if self.database > 0 {
            let mut select = redis::cmd("SELECT");
            select.arg(self.database);
            connection.send(&select).await.map_err(ServerError::report)?;
        }
        Ok(())
    }

    /// Where the sentinels say the master is.
    async fn ask_sentinels(
        &self,
        name: &str,
        sentinels: &[ServerAddress],
    ) -> Result<ServerAddress, FailureReport> {
        let mut last = FailureReport::from(StoreFailure::Lost);
        // Not always the same one first.
        let start = fastrand::usize(0..sentinels.len().max(1));
        let (behind, ahead) = sentinels.split_at_checked(start).unwrap_or((sentinels, &[]));
        for sentinel in ahead.iter().chain(behind) {
            let asked = tokio::time::timeout(SENTINEL_TIMEOUT, self.ask_sentinel(name, sentinel)).await;
            match asked.unwrap_or_else(|_| Err(StoreFailure::Timeout.into())) {
                Ok(address) => return Ok(address),
                Err(report) => last = report,
            }
            last.said = format!("sentinel {sentinel}: {}", last.said).into();
        }
        Err(last)
    }

    async fn ask_sentinel(
        &self,
        name: &str,
        sentinel: &ServerAddress,
    ) -> Result<ServerAddress, FailureReport> {
        let connection = self.connect(sentinel).await?;
        let mut ask = redis::cmd("SENTINEL");
        ask.arg("get-master-addr-by-name").arg(name);
        let reply = connection.send(&ask).await.map_err(ServerError::report)?;
        let (host, port): (String, u16) = redis::from_redis_value(reply)
            .map_err(|_| FailureReport::new(StoreFailure::Other, format!("it knows no master {name}")))?;
        Ok(ServerAddress::Tcp { host, port })
    }
}

/// Whether the reply to `ROLE` is that of a master.
fn is_master(role: &Value) -> bool {
    let Value::Array(items) = role else { return false };
    matches!(items.first(), Some(Value::BulkString(bytes)) if bytes == b"master")
}

impl std::fmt::Display for ConnectTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::SentinelMaster { name, .. } => write!(f, "master {name}"),
        }
    }
}
