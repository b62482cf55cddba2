//! Which Redis, and how to talk to it: checked, and silent about passwords.
//!
//! The settings of a service become a [`RedisConfig`], and that becomes a
//! [`crate::RedisStore`]. `url` reads the addresses that users write.
//!
//! Invariant: neither Debug nor Display nor an error shows a password.
//!
//! Deliberately not here: environment variables and files; certificates come as
//! PEM text. The size of a pool: each worker has one connection to each server
//! and sends all its requests down that one.

mod url;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tollgate_core::Secret;
use tollgate_limiter::Capacity;

pub use url::{EnvoyRedisSettings, SocketType};

/// The longest that a request waits for the store, whatever happens to it.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_millis(20);
/// The most that envoyproxy/ratelimit adds to the life of a key.
pub const JITTER_DEFAULT_S: u32 = 300;

/// A node that dies counts for some of these, so that the shares of the others are
/// too small for half a minute.
const HEARTBEAT_DEFAULT: Duration = Duration::from_secs(10);

/// What the local fallback may hold: a million keys in about 30 MB, and as much
/// again for logs. It only has what this node saw.
const LOCAL_DEFAULT: Capacity = Capacity { keys: 1_000_000, log_bytes: 32 << 20 };

/// The login at a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The user of an access list; none for the default one.
    pub user: Option<String>,
    /// The password, if one is needed.
    pub password: Option<Secret>,
}

impl Credentials {
    /// Reads `password` or `user:password`.
    ///
    /// A password with a colon in it needs the colon of an empty user before
    /// it, as in `:pass:word`.
    pub fn parse(text: &str) -> Self {
        let (user, password) = text.split_once(':').unwrap_or(("", text));
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Self { user: some(user), password: some(password).map(Secret::new) }
    }
}

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ServerAddress {
    /// Host and port.
    Tcp {
        /// A name or an address, without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// A Unix socket.
    Unix {
        /// Its path.
        path: PathBuf,
    },
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix { path } => write!(f, "{}", path.display()),
        }
    }
}

/// Which servers make up the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Topology {
    /// One server.
    Single(ServerAddress),
    /// One master at a time, which the sentinels know.
    Sentinel {
        /// The name that the sentinels know it by.
        master: String,
        /// Where they listen.
        sentinels: Vec<ServerAddress>,
        /// The login there.
        credentials: Credentials,
    },
    /// A cluster, by some of its servers.
    Cluster(Vec<ServerAddress>),
}

/// What TLS needs beside the roots of the system.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RedisTls {
    /// Further roots to trust, as PEM.
    pub ca: Option<String>,
    /// The certificate of this client and its key, as PEM.
    pub client: Option<ClientCertificate>,
    /// Accept a certificate for any name; the chain is verified all the same.
    pub skip_hostname: bool,
}

impl fmt::Debug for RedisTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisTls")
            .field("ca", &self.ca.is_some())
            .field("client", &self.client.is_some())
            .field("skip_hostname", &self.skip_hostname)
            .finish()
    }
}

/// The certificate of this client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The chain, as PEM.
    pub chain: String,
    /// The private key, as PEM.
    pub key: Secret,
}

/// One endpoint: which servers, the login, and how long to wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The servers.
    pub topology: Topology,
    /// The login at them.
    pub credentials: Credentials,
    /// The number of the database; a cluster has only 0.
    pub database: u32,
    /// TLS, if it is used.
    pub tls: Option<RedisTls>,
    /// The longest that a request waits.
    pub timeout: Duration,
}

impl Endpoint {
    /// One server without a password, without TLS, database 0.
    pub fn single(address: ServerAddress) -> Self {
        Self {
            topology: Topology::Single(address),
            credentials: Credentials::default(),
            database: 0,
            tls: None,
            timeout: TIMEOUT_DEFAULT,
        }
    }
}

/// Without user and password.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |addresses: &[ServerAddress]| {
            addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
        };
        let scheme = if self.tls.is_some() { "rediss" } else { "redis" };
        match &self.topology {
            Topology::Single(address @ ServerAddress::Unix { .. }) => write!(f, "redis+unix://{address}")?,
            Topology::Single(address) => write!(f, "{scheme}://{address}")?,
            Topology::Sentinel { master, sentinels, .. } => {
                write!(f, "{scheme}+sentinel://{}/{master}", list(sentinels))?;
            }
            Topology::Cluster(seeds) => write!(f, "{scheme}+cluster://{}", list(seeds))?,
        }
        if self.database > 0 { write!(f, "/{}", self.database) } else { Ok(()) }
    }
}

/// How counters are named and kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layout {
    /// As `spec/keys.md` says: no two counters share a key.
    #[default]
    Tollgate,
    /// Limits that envoyproxy/ratelimit knows are kept exactly as it keeps
    /// them, so that both can share a store; all others as `Tollgate`.
    Envoy {
        /// A key lives up to so many seconds longer than its window.
        jitter_max_s: u32,
    },
}

/// Everything about the shared store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisConfig {
    /// Where counters live.
    pub main: Endpoint,
    /// Where counters of limits by the second live, if elsewhere.
    pub per_second: Option<Endpoint>,
    /// The prefix of every key.
    pub key_prefix: String,
    /// How counters are named and kept.
    pub layout: Layout,
    /// How much of the store's counters this node remembers, to go on without it.
    pub local: Capacity,
    /// The size of the memory of denials, in bytes; 0 remembers none.
    pub denial_bytes: usize,
    /// How often this node tells the store that it is alive.
    pub heartbeat: Duration,
}

impl RedisConfig {
    /// One endpoint, and the defaults.
    pub fn new(main: Endpoint) -> Self {
        Self {
            main,
            per_second: None,
            key_prefix: String::new(),
            layout: Layout::default(),
            local: LOCAL_DEFAULT,
            denial_bytes: 0,
            heartbeat: HEARTBEAT_DEFAULT,
        }
    }
}

#[cfg(test)]
mod tests;
