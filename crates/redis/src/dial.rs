//! Makes a connection that is ready to be asked.
//!
//! [`Dialer`] knows who to be and what to speak; it connects to an address, or
//! to whoever the sentinels say is the master, shakes hands, and loads the
//! script, so that a [`Link`] needs nothing further.
//!
//! Invariants: a link's driver lives on the runtime that dialled; a link knows
//! that it is dead as soon as its socket is; a master that the sentinels name
//! is believed only if it says so itself.
//!
//! Deliberately not here: when to dial, and how often.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, RedisConnectionInfo, RedisError, Value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::AbortHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::config::{Address, Credentials, Endpoint};
use crate::error::{Error, Refusal, Trouble};
use crate::script::Script;
use crate::tls;

/// No dialling takes longer, sentinels included. Requests wait for it no longer
/// than for anything else; it goes on behind their backs.
pub(crate) const DIAL_TIMEOUT: Duration = Duration::from_secs(1);
/// No sentinel is waited for longer while there are others.
const SENTINEL_TIMEOUT: Duration = Duration::from_millis(300);
/// Requests that may queue for one connection before they wait to be queued.
/// A worker has seldom more at once.
const QUEUE: usize = 4096;

/// A connection that is ready to be asked.
#[derive(Debug)]
pub(crate) struct Link {
    connection: MultiplexedConnection,
    is_dead: Arc<AtomicBool>,
    driver: AbortHandle,
    /// What the server calls the scripts.
    shas: Vec<String>,
}

impl Link {
    pub(crate) fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::Acquire)
    }

    /// What the server calls a script.
    pub(crate) fn sha(&self, script: Script) -> &str {
        self.shas.get(script.number()).map_or("", String::as_str)
    }

    /// Sends one command and awaits its answer.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, Refusal> {
        let mut connection = self.connection.clone();
        let value = connection.send_packed_command(command).await.map_err(|error| Refusal::from(&error))?;
        checked(value)
    }

    /// Sends several commands at once and awaits all answers.
    pub(crate) async fn send_all(&self, commands: &redis::Pipeline) -> Result<Vec<Value>, Refusal> {
        let mut connection = self.connection.clone();
        let values = connection
            .send_packed_commands(commands, 0, commands.len())
            .await
            .map_err(|error| Refusal::from(&error))?;
        values.into_iter().map(checked).collect()
    }
}

/// Without this, a driver would wait for answers that nobody wants any more.
impl Drop for Link {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

fn checked(value: Value) -> Result<Value, Refusal> {
    if let Value::ServerError(error) = value {
        return Err(Refusal::from(&RedisError::from(error)));
    }
    Ok(value)
}

/// Who to be, what to speak.
#[derive(Clone)]
pub(crate) struct Dialer {
    credentials: Credentials,
    database: u32,
    tls: Option<TlsConnector>,
}

impl std::fmt::Debug for Dialer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dialer").field("database", &self.database).finish_non_exhaustive()
    }
}

/// Where to connect to.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    /// There.
    Address(Address),
    /// Where the sentinels say.
    Master { name: String, sentinels: Vec<Address>, dialer: Dialer },
}

impl Dialer {
    /// For the servers of an endpoint.
    pub(crate) fn new(endpoint: &Endpoint) -> Result<Self, Error> {
        let tls = endpoint.tls.as_ref().map(tls::connector).transpose()?;
        Ok(Self { credentials: endpoint.credentials.clone(), database: endpoint.database, tls })
    }

    /// Where the sentinels say; they have neither the users nor the databases
    /// of the servers.
    pub(crate) fn master(&self, name: &str, sentinels: &[Address], credentials: &Credentials) -> Target {
        let dialer = Self { credentials: credentials.clone(), database: 0, tls: self.tls.clone() };
        Target::Master { name: name.to_owned(), sentinels: sentinels.to_vec(), dialer }
    }

    /// Connects, shakes hands and loads the scripts.
    pub(crate) async fn dial(&self, target: &Target) -> Result<Link, Trouble> {
        let dialling = async {
            match target {
                Target::Address(address) => self.dial_ready(address).await,
                Target::Master { name, sentinels, dialer } => {
                    let address = dialer.ask_sentinels(name, sentinels).await?;
                    let link = self.dial_ready(&address).await?;
                    let role = link.send(&redis::cmd("ROLE")).await.map_err(trouble)?;
                    if says(&role, "master") { Ok(link) } else { Err(Trouble::ReadOnly) }
                }
            }
        };
        tokio::time::timeout(DIAL_TIMEOUT, dialling).await.unwrap_or(Err(Trouble::Timeout))
    }

    async fn dial_ready(&self, address: &Address) -> Result<Link, Trouble> {
        let mut link = self.connect(address).await?;
        let mut load = redis::Pipeline::new();
        for script in Script::all() {
            load.cmd("SCRIPT").arg("LOAD").arg(script.text());
        }
        let shas = link.send_all(&load).await.map_err(trouble)?;
        let shas: Result<_, _> = shas.into_iter().map(redis::from_redis_value).collect();
        link.shas = shas.map_err(|_| Trouble::Other)?;
        Ok(link)
    }

    /// Connects and shakes hands.
    pub(crate) async fn connect(&self, address: &Address) -> Result<Link, Trouble> {
        match address {
            Address::Unix { path } => {
                let stream = UnixStream::connect(path).await.map_err(|_| Trouble::Lost)?;
                self.drive(stream).await
            }
            Address::Tcp { host, port } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(|_| Trouble::Lost)?;
                // Without it a request waits for the acknowledgement of the last one.
                stream.set_nodelay(true).map_err(|_| Trouble::Lost)?;
                match &self.tls {
                    None => self.drive(stream).await,
                    Some(tls) => {
                        let name = ServerName::try_from(host.clone()).map_err(|_| Trouble::Other)?;
                        let stream = tls.connect(name, stream).await.map_err(|error| {
                            tracing::warn!(%address, %error, "the store's TLS handshake failed");
                            Trouble::Lost
                        })?;
                        self.drive(stream).await
                    }
                }
            }
        }
    }

    async fn drive<S>(&self, stream: S) -> Result<Link, Trouble>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut info = RedisConnectionInfo::default().set_db(i64::from(self.database));
        if let Some(user) = &self.credentials.user {
            info = info.set_username(user);
        }
        if let Some(password) = &self.credentials.password {
            info = info.set_password(password.reveal());
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(QUEUE);
        let (connection, driver) = MultiplexedConnection::new_with_config(&info, stream, config)
            .await
            .map_err(|error| trouble(Refusal::from(&error)))?;
        let is_dead = Arc::new(AtomicBool::new(false));
        let dies = Arc::clone(&is_dead);
        let driver = tokio::spawn(async move {
            driver.await;
            dies.store(true, Ordering::Release);
        });
        Ok(Link { connection, is_dead, driver: driver.abort_handle(), shas: Vec::new() })
    }

    /// Where the sentinels say the master is.
    async fn ask_sentinels(&self, name: &str, sentinels: &[Address]) -> Result<Address, Trouble> {
        let mut last = Trouble::Lost;
        // Not always the same one first.
        let start = fastrand::usize(0..sentinels.len().max(1));
        let (behind, ahead) = sentinels.split_at_checked(start).unwrap_or((sentinels, &[]));
        for sentinel in ahead.iter().chain(behind) {
            let asked = tokio::time::timeout(SENTINEL_TIMEOUT, self.ask_sentinel(name, sentinel)).await;
            match asked.unwrap_or(Err(Trouble::Timeout)) {
                Ok(address) => return Ok(address),
                Err(trouble) => last = trouble,
            }
        }
        Err(last)
    }

    async fn ask_sentinel(&self, name: &str, sentinel: &Address) -> Result<Address, Trouble> {
        let link = self.connect(sentinel).await?;
        let mut ask = redis::cmd("SENTINEL");
        ask.arg("get-master-addr-by-name").arg(name);
        let answer = link.send(&ask).await.map_err(trouble)?;
        let (host, port): (String, u16) = redis::from_redis_value(answer).map_err(|_| {
            tracing::warn!(%sentinel, master = name, "a sentinel does not know this master");
            Trouble::Other
        })?;
        Ok(Address::Tcp { host, port })
    }
}

/// Whether the first item of an answer is this text.
fn says(answer: &Value, text: &str) -> bool {
    let Value::Array(items) = answer else { return false };
    matches!(items.first(), Some(Value::BulkString(bytes)) if bytes == text.as_bytes())
}

/// While dialling, a redirection is as bad as any trouble.
pub(crate) fn trouble(refusal: Refusal) -> Trouble {
    match refusal {
        Refusal::Trouble(trouble) => trouble,
        Refusal::NoScript | Refusal::Moved { .. } | Refusal::Ask { .. } => Trouble::Other,
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Master { name, .. } => write!(f, "master {name}"),
        }
    }
}
