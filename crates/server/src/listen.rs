//! Sockets: what we listen on, who gets in, and how long they stay.
//!
//! [`Listeners::bind`] opens everything before any rule is read; each worker
//! then accepts on sockets of its own (SO_REUSEPORT), and a connection is
//! served by the worker that has the fewest; over RESP by half of the workers
//! while there are few connections (see `for_resp`). The adapters come next.
//!
//! | module | what it holds |
//! |---|---|
//! | `unix` | the Unix socket: stale files, live ones, and cleaning up |
//! | `accept` | the accept loop |
//! | `address_limit` | how many connections an address may open and have |
//! | `connection_limit` | how many connections there may be |
//! | `worker_pool` | which worker serves a connection |
//! | `stream` | a connection's bytes: counted, filtered |
//! | `prefixed` | bytes put back in front of a stream |
//! | `lifetime` | how long a connection stays |
//!
//! Deliberately not here: protocols, and TLS itself (`tls`).

pub(crate) mod accept;
pub(crate) mod address_limit;
pub(crate) mod connection_limit;
pub(crate) mod lifetime;
pub(crate) mod prefixed;
pub(crate) mod stream;
mod unix;
pub(crate) mod worker_pool;

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use socket2::{Domain, Protocol, SockAddr, Socket, TcpKeepalive, Type};
use tollgate_gateway::bounds::{TUNNEL_PROBE_AFTER, TUNNEL_PROBE_EVERY, TUNNEL_PROBES};

use crate::bounds::BACKLOG;
use crate::error::Error;
use tollgate_settings::{GrpcAddress, ListenAddress, Settings};
use unix::SocketFile;

/// Every listening socket, open.
#[derive(Debug)]
pub struct Listeners {
    pub(crate) grpc: Vec<Listener>,
    pub(crate) http: Vec<Listener>,
    /// One for each worker that serves RESP, or none at all.
    pub(crate) resp: Vec<Listener>,
    /// One for each worker, or none at all.
    pub(crate) gateway: Vec<Listener>,
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
    /// The gateway, if asked for.
    pub gateway: Option<SocketAddr>,
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

/// What a port is for, to say so if it is taken.
struct PortPurpose {
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
        let http = PortPurpose { what: "HTTP", setting: "--http or HOST and PORT" };
        let (http, http_address) = bind_tcp(&settings.http, workers, &http)?;
        let admin = PortPurpose { what: "the admin pages", setting: "--admin or DEBUG_HOST and DEBUG_PORT" };
        let (admin, admin_address) = bind_one(&settings.admin.address, &admin)?;
        let own = settings.metrics.prometheus.as_ref().map(|prometheus| {
            let purpose = PortPurpose { what: "Prometheus", setting: "PROMETHEUS_ADDR" };
            bind_one(&prometheus.address, &purpose)
        });
        let (prometheus, prometheus_address) = own.transpose()?.unzip();
        let resp = settings.resp.as_ref().map(|resp| {
            let purpose = PortPurpose { what: "RESP", setting: "--resp or TOLLGATE_RESP" };
            bind_tcp(&resp.address, for_resp(workers), &purpose)
        });
        let (resp, resp_address) = resp.transpose()?.unzip();
        let gateway = settings.gateway.as_ref().map(|gateway| {
            let purpose = PortPurpose { what: "the gateway", setting: "--gateway or TOLLGATE_GATEWAY" };
            bind_tcp(&gateway.address, workers, &purpose)
        });
        let (gateway, gateway_address) = gateway.transpose()?.unzip();
        Ok(Self {
            grpc,
            http,
            resp: resp.unwrap_or_default(),
            gateway: gateway.unwrap_or_default(),
            admin,
            prometheus,
            addresses: Addresses {
                grpc: bound,
                http: http_address,
                admin: admin_address,
                prometheus: prometheus_address,
                resp: resp_address,
                gateway: gateway_address,
            },
            _socket_file: file,
        })
    }

    /// Where the server can be reached, with the real port where 0 was asked for.
    pub const fn addresses(&self) -> &Addresses {
        &self.addresses
    }
}

/// How many of the workers serve RESP while there are few connections: half of
/// them. A command that is not pipelined takes seven microseconds, six of them in
/// the kernel and mostly on whichever core has time. Spread over all workers, each
/// would wake up for one command at a time instead of finding several.
pub(crate) const fn for_resp(workers: usize) -> usize {
    workers.div_ceil(2)
}

fn bind_grpc(
    address: &GrpcAddress,
    workers: usize,
) -> Result<(Vec<Listener>, BoundTo, Option<SocketFile>), Error> {
    match address {
        GrpcAddress::Tcp(address) => {
            let purpose = PortPurpose { what: "gRPC", setting: "--grpc or GRPC_HOST and GRPC_PORT" };
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

fn bind_one(address: &ListenAddress, purpose: &PortPurpose) -> Result<(Listener, SocketAddr), Error> {
    let (listeners, bound) = bind_tcp(address, 1, purpose)?;
    let failed = || listen_error(address, purpose, io::ErrorKind::AddrNotAvailable.into());
    listeners.into_iter().next().map(|listener| (listener, bound)).ok_or_else(failed)
}

/// Binds `count` sockets to one port, at the first candidate that can be had.
fn bind_tcp(
    address: &ListenAddress,
    count: usize,
    purpose: &PortPurpose,
) -> Result<(Vec<Listener>, SocketAddr), Error> {
    let failed = |source| listen_error(address, purpose, source);
    let candidates = address.candidates().map_err(failed)?;
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for candidate in candidates {
        match bind_group(candidate, count) {
            Ok(bound) => return Ok(bound),
            // The same port may be free in the other family, but listening
            // only there is not what was asked for.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(failed(error)),
            Err(error) => last = error,
        }
    }
    Err(failed(last))
}

fn listen_error(address: &ListenAddress, purpose: &PortPurpose, source: io::Error) -> Error {
    Error::Listen { what: purpose.what, address: address.to_string(), setting: purpose.setting, source }
}

fn bind_group(address: SocketAddr, count: usize) -> io::Result<(Vec<Listener>, SocketAddr)> {
    if address.port() != 0 {
        // With SO_REUSEPORT a second server would take half of the calls
        // unnoticed. Without it this bind fails if there is one.
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
    // And this: callers that are gone without a word are noticed, also while nobody waits for them.
    let probes = TcpKeepalive::new()
        .with_time(TUNNEL_PROBE_AFTER)
        .with_interval(TUNNEL_PROBE_EVERY)
        .with_retries(TUNNEL_PROBES);
    socket.set_tcp_keepalive(&probes)?;
    socket.bind(&SockAddr::from(address))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn purpose() -> PortPurpose {
        PortPurpose { what: "tests", setting: "--test" }
    }

    #[test]
    fn workers_share_one_port_and_a_second_server_does_not() {
        let any = ListenAddress::new("127.0.0.1", 0);
        let (listeners, bound) = bind_tcp(&any, 3, &purpose()).unwrap();
        assert_eq!(listeners.len(), 3);
        let taken = ListenAddress::new("127.0.0.1", bound.port());
        let error = bind_tcp(&taken, 1, &purpose()).unwrap_err().to_string();
        assert!(error.contains("cannot listen for tests") && error.contains("--test"), "{error}");
        drop(listeners);
        bind_tcp(&taken, 2, &purpose()).expect("the port is free again");
    }

    #[test]
    fn callers_that_are_gone_are_noticed() {
        let (listeners, bound) = bind_tcp(&ListenAddress::new("127.0.0.1", 0), 1, &purpose()).unwrap();
        let [Listener::Tcp(listener)] = listeners.as_slice() else { panic!("there is one") };
        let _caller = std::net::TcpStream::connect(bound).unwrap();
        listener.set_nonblocking(false).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let socket = socket2::SockRef::from(&accepted);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), TUNNEL_PROBE_AFTER);
    }

    #[test]
    fn an_empty_host_means_both_families() {
        let (_listeners, bound) = bind_tcp(&ListenAddress::new("", 0), 1, &purpose()).unwrap();
        std::net::TcpStream::connect(("127.0.0.1", bound.port())).expect("it is reached by IPv4");
    }
}
