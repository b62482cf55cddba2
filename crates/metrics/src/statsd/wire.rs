//! Sockets to a daemon, and when to try again.
//!
//! Invariants: nothing waits longer than [`PATIENCE`]; a daemon that is away
//! is asked for less and less often, and complained about once.

use std::io;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpStream, UdpSocket};

use crate::config::{StatsdConfig, StatsdDialect, StatsdProtocol};

/// So long may it take to connect, or to take what is sent.
const PATIENCE: Duration = Duration::from_secs(2);
/// After failing, so many flushes are left out at most: a minute or so.
const SKIP_MAX: u32 = 6;
/// What fits in a datagram without being cut in pieces on the way.
const DATAGRAM_BYTES: usize = 1_432;
/// What is written to a connection at once.
const STREAM_BYTES: usize = 16 * 1_024;

/// A way to a daemon, open or not.
#[derive(Debug)]
pub(super) struct Wire {
    host: String,
    port: u16,
    protocol: StatsdProtocol,
    socket: Option<Socket>,
    /// How many flushes to leave out before trying again.
    skip: u32,
    /// How many to leave out the next time.
    next_skip: u32,
    is_complained: bool,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

impl Wire {
    pub(super) fn new(config: &StatsdConfig) -> Self {
        let protocol = match config.dialect {
            StatsdDialect::Plain => config.protocol,
            StatsdDialect::Dog(_) => StatsdProtocol::Udp,
        };
        Self {
            host: config.host.clone(),
            port: config.port,
            protocol,
            socket: None,
            skip: 0,
            next_skip: 1,
            is_complained: false,
        }
    }

    /// How much to send at once.
    pub(super) const fn chunk_bytes(&self) -> usize {
        match self.protocol {
            StatsdProtocol::Tcp => STREAM_BYTES,
            StatsdProtocol::Udp => DATAGRAM_BYTES,
        }
    }

    /// Opens the way if it is not, unless it failed a short while ago; whether
    /// it is open.
    pub(super) async fn open(&mut self) -> bool {
        if self.socket.is_some() {
            return true;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        match in_time(self.connect()).await {
            Ok(socket) => self.socket = Some(socket),
            Err(error) => self.failed(&error),
        }
        self.socket.is_some()
    }

    /// Sends whole lines; whether they were taken.
    pub(super) async fn send(&mut self, lines: &[u8]) -> bool {
        let sent = match &mut self.socket {
            None => return false,
            Some(Socket::Tcp(stream)) => in_time(stream.write_all(lines)).await,
            Some(Socket::Udp(socket)) => in_time(socket.send(lines)).await.map(drop),
        };
        match sent {
            Ok(()) => self.succeeded(),
            Err(error) => self.failed(&error),
        }
        self.socket.is_some()
    }

    async fn connect(&self) -> io::Result<Socket> {
        let to = (self.host.as_str(), self.port);
        match self.protocol {
            StatsdProtocol::Tcp => Ok(Socket::Tcp(TcpStream::connect(to).await?)),
            StatsdProtocol::Udp => {
                let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
                for address in tokio::net::lookup_host(to).await? {
                    let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                    let socket = UdpSocket::bind(any).await?;
                    match socket.connect(address).await {
                        Ok(()) => return Ok(Socket::Udp(socket)),
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
        }
    }

    fn succeeded(&mut self) {
        if std::mem::take(&mut self.is_complained) {
            tracing::info!(host = self.host, port = self.port, "statsd takes metrics again");
        }
        self.next_skip = 1;
    }

    fn failed(&mut self, error: &io::Error) {
        self.socket = None;
        self.skip = self.next_skip;
        self.next_skip = (self.next_skip * 2).min(SKIP_MAX);
        if !std::mem::replace(&mut self.is_complained, true) {
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
    tokio::time::timeout(PATIENCE, what).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
