//! Sockets: what is listened on, who gets in, and how long they stay.
//!
//! [`Listeners::bind`] opens everything before any rule is read; each worker
//! then accepts on sockets of its own (SO_REUSEPORT), and a connection is
//! served by the worker that has the fewest; over RESP by half of the workers
//! while connections are few, `for_resp` says why. After it come the adapters.
//!
//! | module | what it holds |
//! |---|---|
//! | `unix` | the Unix socket: stale files, live ones, and cleaning up |
//! | `gate` | how many may be connected |
//! | `pool` | which worker serves a connection |
//! | `accept` | the loop that accepts |
//! | `seen` | how much a connection has said |
//! | `rewound` | a stream of which somebody has read a little too much |
//! | `life` | how long a connection stays |
//!
//! Deliberately not here: protocols, and TLS itself (`tls`).

pub(crate) mod accept;
pub(crate) mod gate;
pub(crate) mod life;
pub(crate) mod pool;
pub(crate) mod rewound;
pub(crate) mod seen;
mod unix;

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::task::Poll;

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use crate::bounds::{BACKLOG, BODY_WAIT_MAX};
use crate::error::Error;
use tollgate_settings::{Address, GrpcAddress, Settings};
use unix::SocketFile;

/// Everything that is listened on, open.
#[derive(Debug)]
pub struct Listeners {
    pub(crate) grpc: Vec<Listener>,
    pub(crate) http: Vec<Listener>,
    /// One for each worker that serves RESP, or none at all.
    pub(crate) resp: Vec<Listener>,
    pub(crate) admin: Listener,
    pub(crate) prometheus: Option<Listener>,
    addresses: Addresses,
    /// Removed when the server ends.
    _socket_file: Option<SocketFile>,
}

/// Where the server can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses {
    /// gRPC.
    pub grpc: BoundTo,
    /// `/json` and `/healthcheck`.
    pub http: SocketAddr,
    /// The admin pages.
    pub admin: SocketAddr,
    /// The Prometheus listener of its own, if asked for.
    pub prometheus: Option<SocketAddr>,
    /// RESP, if asked for.
    pub resp: Option<SocketAddr>,
}

/// Where gRPC can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BoundTo {
    /// A port.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for BoundTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// One listening socket.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// What a port is for, to tell when it cannot be had.
struct Purpose {
    what: &'static str,
    setting: &'static str,
}

impl Listeners {
    /// Opens everything, with a socket for each of `workers` where they share a port.
    ///
    /// # Errors
    /// If something else listens there, or the address cannot be had.
    pub fn bind(settings: &Settings, workers: usize) -> Result<Self, Error> {
        let (grpc, bound, file) = bind_grpc(&settings.grpc.address, workers)?;
        let http = Purpose { what: "HTTP", setting: "--http or HOST and PORT" };
        let (http, http_address) = bind_tcp(&settings.http, workers, &http)?;
        let admin = Purpose { what: "the admin pages", setting: "--admin or DEBUG_HOST and DEBUG_PORT" };
        let (admin, admin_address) = bind_one(&settings.admin.address, &admin)?;
        let own = settings.metrics.prometheus.as_ref().map(|prometheus| {
            let purpose = Purpose { what: "Prometheus", setting: "PROMETHEUS_ADDR" };
            bind_one(&prometheus.address, &purpose)
        });
        let (prometheus, prometheus_address) = own.transpose()?.unzip();
        let resp = settings.resp.as_ref().map(|resp| {
            let purpose = Purpose { what: "RESP", setting: "--resp or TOLLGATE_RESP" };
            bind_tcp(&resp.address, for_resp(workers), &purpose)
        });
        let (resp, resp_address) = resp.transpose()?.unzip();
        Ok(Self {
            grpc,
            http,
            resp: resp.unwrap_or_default(),
            admin,
            prometheus,
            addresses: Addresses {
                grpc: bound,
                http: http_address,
                admin: admin_address,
                prometheus: prometheus_address,
                resp: resp_address,
            },
            _socket_file: file,
        })
    }

    /// Where the server can be reached; asked-for port 0 is the real one here.
    pub const fn addresses(&self) -> &Addresses {
        &self.addresses
    }
}

/// How many of so many workers serve RESP while connections are few: the first
/// half. Six of the seven microseconds that a command takes which is not
/// pipelined are the kernel's, most of them on whichever core has time; spread
/// over all workers, each would be woken up for one command after the other
/// instead of finding several.
pub(crate) const fn for_resp(workers: usize) -> usize {
    workers.div_ceil(2)
}

fn bind_grpc(
    address: &GrpcAddress,
    workers: usize,
) -> Result<(Vec<Listener>, BoundTo, Option<SocketFile>), Error> {
    match address {
        GrpcAddress::Tcp(address) => {
            let purpose = Purpose { what: "gRPC", setting: "--grpc or GRPC_HOST and GRPC_PORT" };
            let (listeners, bound) = bind_tcp(address, workers, &purpose)?;
            Ok((listeners, BoundTo::Tcp(bound), None))
        }
        GrpcAddress::Unix(path) => {
            let (listener, file) = unix::bind(path)?;
            let failed = |source| Error::System { what: "share the Unix socket between threads", source };
            let shared =
                (0..workers).map(|_| Ok(Listener::Unix(listener.try_clone()?))).collect::<io::Result<_>>();
            Ok((shared.map_err(failed)?, BoundTo::Unix(path.clone()), Some(file)))
        }
    }
}

fn bind_one(address: &Address, purpose: &Purpose) -> Result<(Listener, SocketAddr), Error> {
    let (listeners, bound) = bind_tcp(address, 1, purpose)?;
    let failed = || listen_error(address, purpose, io::ErrorKind::AddrNotAvailable.into());
    listeners.into_iter().next().map(|listener| (listener, bound)).ok_or_else(failed)
}

/// Binds `count` sockets to one port, at the first candidate that can be had.
fn bind_tcp(
    address: &Address,
    count: usize,
    purpose: &Purpose,
) -> Result<(Vec<Listener>, SocketAddr), Error> {
    let failed = |source| listen_error(address, purpose, source);
    let candidates = address.candidates().map_err(failed)?;
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for candidate in candidates {
        match bind_group(candidate, count) {
            Ok(bound) => return Ok(bound),
            // The same port of the other family may still be free, but to
            // listen there alone is not what was asked for.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(failed(error)),
            Err(error) => last = error,
        }
    }
    Err(failed(last))
}

fn listen_error(address: &Address, purpose: &Purpose, source: io::Error) -> Error {
    Error::Listen { what: purpose.what, address: address.to_string(), setting: purpose.setting, source }
}

fn bind_group(address: SocketAddr, count: usize) -> io::Result<(Vec<Listener>, SocketAddr)> {
    if address.port() != 0 {
        // With SO_REUSEPORT a second server could take half of the calls
        // without anyone noticing; without it this bind fails.
        drop(socket(address, false)?);
    }
    let first = socket(address, true)?;
    let bound = TcpListener::from(first.try_clone()?).local_addr()?;
    let mut sockets = vec![first];
    while sockets.len() < count {
        sockets.push(socket(bound, true)?);
    }
    let listen = |socket: Socket| {
        socket.listen(BACKLOG)?;
        Ok(Listener::Tcp(socket.into()))
    };
    Ok((sockets.into_iter().map(listen).collect::<io::Result<_>>()?, bound))
}

fn socket(address: SocketAddr, share_port: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() && address.ip().is_unspecified() {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(share_port)?;
    socket.set_nonblocking(true)?;
    // Accepted sockets inherit it: an answer goes out at once.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&SockAddr::from(address))?;
    Ok(socket)
}

/// What a future has now, without waiting for it.
pub(crate) async fn at_once<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
    poll_fn(|cx| match Pin::new(&mut future).poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Writes all of `bytes`, unless whoever they are for does not take them.
pub(crate) async fn write_in_time(io: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    let mut writing = pin!(async {
        io.write_all(bytes).await?;
        io.flush().await
    });
    match at_once(writing.as_mut()).await {
        Some(written) => written,
        // Only now is a timer worth its price.
        None => tokio::time::timeout(BODY_WAIT_MAX, writing).await?,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn purpose() -> Purpose {
        Purpose { what: "tests", setting: "--test" }
    }

    #[test]
    fn workers_share_one_port_and_a_second_server_does_not() {
        let any = Address::new("127.0.0.1", 0);
        let (listeners, bound) = bind_tcp(&any, 3, &purpose()).unwrap();
        assert_eq!(listeners.len(), 3);
        let taken = Address::new("127.0.0.1", bound.port());
        let error = bind_tcp(&taken, 1, &purpose()).unwrap_err().to_string();
        assert!(error.contains("cannot listen for tests") && error.contains("--test"), "{error}");
        drop(listeners);
        bind_tcp(&taken, 2, &purpose()).expect("the port is free again");
    }

    #[test]
    fn an_empty_host_means_both_families() {
        let (_listeners, bound) = bind_tcp(&Address::new("", 0), 1, &purpose()).unwrap();
        std::net::TcpStream::connect(("127.0.0.1", bound.port())).expect("it is reached by IPv4");
    }
}
