//! The socket to a daemon, with timeouts and back-off.
//!
//! Invariants: nothing waits longer than [`TIMEOUT`]; retries of a daemon that
//! is away back off, and an outage is logged once.

use std::io;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpStream, UdpSocket};

use crate::config::{StatsdConfig, StatsdDialect, StatsdProtocol};

/// How long connecting may take, or sending.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The back-off after a failure, in flushes left out: a minute or so at most.
const SKIP_MAX: u32 = 6;
/// What fits in a datagram without being cut in pieces on the way.
const DATAGRAM_BYTES: usize = 1_432;
/// What is written to a connection at once.
const STREAM_BYTES: usize = 16 * 1_024;

/// The socket to a daemon, open or not.
#[derive(Debug)]
pub(super) struct StatsdSocket {
    host: String,
    port: u16,
    protocol: StatsdProtocol,
    transport: Option<Transport>,
    /// How many flushes to leave out before trying again.
    skip: u32,
    /// How many to leave out the next time.
    next_skip: u32,
    is_outage_logged: bool,
}

#[derive(Debug)]
enum Transport {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

impl StatsdSocket {
    pub(super) fn new(config: &StatsdConfig) -> Self {
        let protocol = match config.dialect {
            StatsdDialect::Plain => config.protocol,
            StatsdDialect::Dog(_) => StatsdProtocol::Udp,
        };
        Self {
            host: config.host.clone(),
            port: config.port,
            protocol,
            transport: None,
            skip: 0,
            next_skip: 1,
            is_outage_logged: false,
        }
    }

    /// How much to send at once.
    pub(super) const fn packet_bytes(&self) -> usize {
        match self.protocol {
            StatsdProtocol::Tcp => STREAM_BYTES,
            StatsdProtocol::Udp => DATAGRAM_BYTES,
        }
    }

    /// Connects if there is no connection, unless it failed a short while ago;
    /// whether there is one.
    pub(super) async fn open(&mut self) -> bool {
        if self.transport.is_some() {
            return true;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        match in_time(self.connect()).await {
            Ok(transport) => self.transport = Some(transport),
            Err(error) => self.failed(&error),
        }
        self.transport.is_some()
    }

    /// Sends whole lines; whether they were taken.
    pub(super) async fn send(&mut self, lines: &[u8]) -> bool {
        let sent = match &mut self.transport {
            None => return false,
            Some(Transport::Tcp(stream)) => in_time(stream.write_all(lines)).await,
            Some(Transport::Udp(socket)) => in_time(socket.send(lines)).await.map(drop),
        };
        match sent {
            Ok(()) => self.succeeded(),
            Err(error) => self.failed(&error),
        }
        self.transport.is_some()
    }

    async fn connect(&self) -> io::Result<Transport> {
        let to = (self.host.as_str(), self.port);
        match self.protocol {
            StatsdProtocol::Tcp => Ok(Transport::Tcp(TcpStream::connect(to).await?)),
            StatsdProtocol::Udp => {
                let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
                for address in tokio::net::lookup_host(to).await? {
                    let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                    let socket = UdpSocket::bind(any).await?;
                    match socket.connect(address).await {
                        Ok(()) => return Ok(Transport::Udp(socket)),
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
        }
    }

    fn succeeded(&mut self) {
        if std::mem::take(&mut self.is_outage_logged) {
            tracing::info!(host = self.host, port = self.port, "statsd takes metrics again");
        }
        self.next_skip = 1;
    }

    fn failed(&mut self, error: &io::Error) {
        self.transport = None;
        self.skip = self.next_skip;
        self.next_skip = (self.next_skip * 2).min(SKIP_MAX);
        if !std::mem::replace(&mut self.is_outage_logged, true) {
            tracing::warn!(
                host = self.host,
                port = self.port,
                %error,
                "statsd takes no metrics; counts are kept and sent later; check STATSD_HOST, STATSD_PORT and \
                 STATSD_PROTOCOL, or set USE_STATSD=false"
            );
        }
    }
}

async fn in_time<T>(what: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(TIMEOUT, what).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
