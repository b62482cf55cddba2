//! The addresses that users write: our URLs, and envoyproxy/ratelimit's settings.
//!
//! [`Endpoint`] is read from `redis://[user:password@]host:port[/db]`,
//! `rediss://…`, `redis+unix:///path`, `redis+cluster://host:port,…` and
//! `redis+sentinel://host:port,…/master`; [`EnvoyRedisSettings`] from what
//! envoyproxy/ratelimit calls socket type, type, URL and auth.
//!
//! Invariant: an error quotes hosts and schemes, never what comes before an @.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tollgate_core::Secret;

use super::{Credentials, Endpoint, RedisTls, ServerAddress, TIMEOUT_DEFAULT, Topology};
use crate::error::Error;

const PORT_DEFAULT: u16 = 6379;
const SENTINEL_PORT_DEFAULT: u16 = 26379;

const HELP: &str = "write redis://host:port, redis+unix:///path, redis+cluster://host:port,host:port \
                    or redis+sentinel://host:port,host:port/master";

#[derive(Clone, Copy, PartialEq, Eq)]
enum UrlKind {
    Single,
    Unix,
    Cluster,
    Sentinel,
}

impl FromStr for Endpoint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (scheme, rest) = text.split_once("://").ok_or_else(|| bad("a store needs a scheme", HELP))?;
        let (is_tls, kind) = match scheme {
            "redis" | "valkey" => (false, UrlKind::Single),
            "rediss" | "valkeys" => (true, UrlKind::Single),
            "redis+unix" | "valkey+unix" | "unix" => (false, UrlKind::Unix),
            "redis+cluster" => (false, UrlKind::Cluster),
            "rediss+cluster" => (true, UrlKind::Cluster),
            "redis+sentinel" => (false, UrlKind::Sentinel),
            "rediss+sentinel" => (true, UrlKind::Sentinel),
            _ => return Err(bad(format!("unknown scheme {scheme}"), HELP)),
        };
        // A password may hold an @, a host may not.
        let (credentials, rest) = match rest.rsplit_once('@') {
            Some((credentials, rest)) => (userinfo(credentials)?, rest),
            None => (Credentials::default(), rest),
        };
        if rest.contains(['?', '#']) {
            return Err(bad("a store takes no ? and no #", HELP));
        }
        let mut endpoint = if kind == UrlKind::Unix {
            Self::single(ServerAddress::Unix { path: path(rest)? })
        } else {
            hosts_and_path(kind, rest)?
        };
        endpoint.credentials = credentials;
        endpoint.tls = is_tls.then(RedisTls::default);
        Ok(endpoint)
    }
}

/// Reads what comes after the @ of an address with hosts.
fn hosts_and_path(kind: UrlKind, rest: &str) -> Result<Endpoint, Error> {
    let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut endpoint = Endpoint::single(ServerAddress::Unix { path: PathBuf::new() });
    endpoint.topology = match kind {
        UrlKind::Sentinel => {
            let (master, number) = path.split_once('/').unwrap_or((path, ""));
            if master.is_empty() {
                let help = "write redis+sentinel://host:port,host:port/master";
                return Err(bad("the name of the master is missing", help));
            }
            endpoint.database = database(number)?;
            let sentinels = addresses(hosts, SENTINEL_PORT_DEFAULT)?;
            Topology::Sentinel { master: decoded(master)?, sentinels, credentials: Credentials::default() }
        }
        UrlKind::Cluster => {
            if database(path)? != 0 {
                return Err(bad("a cluster has no numbered databases", "leave the number out"));
            }
            Topology::Cluster(addresses(hosts, PORT_DEFAULT)?)
        }
        UrlKind::Single | UrlKind::Unix => {
            endpoint.database = database(path)?;
            Topology::Single(address(hosts, PORT_DEFAULT)?)
        }
    };
    Ok(endpoint)
}

/// How envoyproxy/ratelimit reaches its Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SocketType {
    /// By a Unix socket.
    #[default]
    Unix,
    /// By TCP.
    Tcp,
}

/// envoyproxy/ratelimit's settings of one Redis, one for each variable.
#[derive(Debug, Clone, Default)]
pub struct EnvoyRedisSettings {
    /// `REDIS_SOCKET_TYPE`.
    pub socket_type: SocketType,
    /// `REDIS_TYPE`: single, cluster or sentinel, in capital letters or not.
    pub redis_type: String,
    /// `REDIS_URL`: a path, `host:port`, `redis://…`, a list of these for a
    /// cluster, or `master,host:port,…` for sentinels.
    pub url: String,
    /// `REDIS_AUTH`.
    pub auth: Option<Secret>,
    /// `REDIS_SENTINEL_AUTH`.
    pub sentinel_auth: Option<Secret>,
    /// `REDIS_TLS` and what goes with it.
    pub tls: Option<RedisTls>,
    /// `REDIS_TIMEOUT`, where it is set.
    pub timeout: Option<Duration>,
}

impl EnvoyRedisSettings {
    /// The endpoint that these settings mean.
    ///
    /// # Errors
    /// If the URL cannot be read, or is not of the type.
    pub fn endpoint(self) -> Result<Endpoint, Error> {
        let pieces: Vec<&str> =
            self.url.split(',').map(str::trim).filter(|piece| !piece.is_empty()).collect();
        let (topology, inner) = match self.redis_type.to_ascii_lowercase().as_str() {
            "" | "single" => self.single(&pieces)?,
            "cluster" => self.cluster(&pieces)?,
            "sentinel" => (self.sentinel(&pieces)?, None),
            _ => {
                let help = "write SINGLE, CLUSTER or SENTINEL";
                return Err(bad(format!("unknown type of Redis {}", self.redis_type), help));
            }
        };
        let inner = inner.unwrap_or_else(|| Endpoint::single(ServerAddress::Unix { path: PathBuf::new() }));
        let credentials = self.auth.as_ref().map(|auth| Credentials::parse(auth.expose()));
        Ok(Endpoint {
            topology,
            credentials: credentials.unwrap_or(inner.credentials),
            database: inner.database,
            tls: self.tls.or(inner.tls),
            timeout: self.timeout.unwrap_or(TIMEOUT_DEFAULT),
        })
    }

    fn single(&self, pieces: &[&str]) -> Result<(Topology, Option<Endpoint>), Error> {
        let [piece] = pieces else {
            return Err(bad("a single Redis has one address", "write host:port, or set the type to CLUSTER"));
        };
        if piece.contains("://") {
            let endpoint: Endpoint = piece.parse()?;
            return Ok((endpoint.topology.clone(), Some(endpoint)));
        }
        let address = match self.socket_type {
            SocketType::Unix => ServerAddress::Unix { path: path(piece)? },
            SocketType::Tcp => address(piece, PORT_DEFAULT)?,
        };
        Ok((Topology::Single(address), None))
    }

    fn cluster(&self, pieces: &[&str]) -> Result<(Topology, Option<Endpoint>), Error> {
        let mut first = None;
        let mut seeds = Vec::new();
        for piece in pieces {
            if !piece.contains("://") {
                seeds.push(address(piece, PORT_DEFAULT)?);
                continue;
            }
            let endpoint: Endpoint = piece.parse()?;
            let Topology::Single(seed) = endpoint.topology.clone() else {
                return Err(bad("a cluster is a list of addresses", "write host:port,host:port"));
            };
            seeds.push(seed);
            first.get_or_insert(endpoint);
        }
        if seeds.is_empty() {
            return Err(bad("a cluster needs an address", "write host:port,host:port"));
        }
        Ok((Topology::Cluster(seeds), first))
    }

    fn sentinel(&self, pieces: &[&str]) -> Result<Topology, Error> {
        let [master, sentinels @ ..] = pieces else {
            return Err(bad("the name of the master is missing", "write master,host:port,host:port"));
        };
        let sentinels = addresses(&sentinels.join(","), SENTINEL_PORT_DEFAULT)?;
        let credentials = self.sentinel_auth.as_ref().map(|auth| Credentials::parse(auth.expose()));
        let credentials = credentials.unwrap_or_default();
        Ok(Topology::Sentinel { master: (*master).to_owned(), sentinels, credentials })
    }
}

fn userinfo(text: &str) -> Result<Credentials, Error> {
    let (user, password) = text.split_once(':').unwrap_or((text, ""));
    let some = |text: String| (!text.is_empty()).then_some(text);
    Ok(Credentials { user: some(decoded(user)?), password: some(decoded(password)?).map(Secret::new) })
}

fn addresses(text: &str, port: u16) -> Result<Vec<ServerAddress>, Error> {
    text.split(',').map(|piece| address(piece.trim(), port)).collect()
}

/// `host`, `host:port` or `[v6]:port`.
fn address(text: &str, port: u16) -> Result<ServerAddress, Error> {
    let (host, behind) = match text.strip_prefix('[') {
        Some(rest) => {
            rest.split_once(']').ok_or_else(|| bad("a bracket is not closed", "write [::1]:6379"))?
        }
        None => match text.find(':') {
            Some(colon) => text.split_at(colon),
            None => (text, ""),
        },
    };
    if host.is_empty() || host.contains(['/', '[', ']']) {
        return Err(bad("a host is missing", HELP));
    }
    let port = match behind.strip_prefix(':') {
        Some(digits) => digits.parse().map_err(|_| {
            bad(format!("the port of {host} is not a number"), "write host:port, with a port up to 65535")
        })?,
        None if behind.is_empty() => port,
        None => return Err(bad(format!("{host} is followed by something that is no port"), HELP)),
    };
    Ok(ServerAddress::Tcp { host: host.to_owned(), port })
}

fn path(text: &str) -> Result<PathBuf, Error> {
    if text.starts_with('/') {
        return Ok(decoded(text)?.into());
    }
    Err(bad("a Unix socket needs its whole path", "write redis+unix:///run/redis.sock"))
}

fn database(text: &str) -> Result<u32, Error> {
    let digits = text.trim_end_matches('/');
    if digits.is_empty() {
        return Ok(0);
    }
    digits.parse().map_err(|_| bad("the database is not a number", "write redis://host:port/0"))
}

/// Decodes percent-encoding.
fn decoded(text: &str) -> Result<String, Error> {
    let wrong = || bad("a % is not followed by two hexadecimal digits", "write %25 for a %");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16));
        let (Some(high), Some(low)) = (digit(), digit()) else { return Err(wrong()) };
        bytes.push(u8::try_from(high * 16 + low).map_err(|_| wrong())?);
    }
    String::from_utf8(bytes).map_err(|_| bad("an address is not UTF-8", HELP))
}

fn bad(what: impl Into<String>, help: impl Into<String>) -> Error {
    Error::Address { what: what.into(), help: help.into() }
}
