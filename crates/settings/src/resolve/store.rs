//! Where counters live.
//!
//! A flag says it, or the variables of envoyproxy/ratelimit, or the file. What
//! belongs to any Redis, such as its password and its timeout, is taken from
//! wherever it is said.
//!
//! Invariant: no mistake repeats an address, which may hold a password, nor
//! what stands in a file of keys.

use std::fs;

use tollgate_limiter::Capacity;
use tollgate_redis::config::{
    ClientCertificate, Credentials, Endpoint, EnvoyRedisSettings as Reference, JITTER_DEFAULT_S, Layout,
    RedisConfig, RedisSecret as Hidden, RedisTls as Tls, SocketType,
};

use crate::file::Given;
use crate::reader::{Found, Layer, Reader};
use crate::{Store, go};

/// The names of the variables of one Redis, and where it is if that is not said.
struct Names {
    url: &'static str,
    socket_type: &'static str,
    redis_type: &'static str,
    auth: &'static str,
    sentinel_auth: &'static str,
    timeout: &'static str,
    tls: &'static str,
    url_default: &'static str,
}

const MAIN: Names = Names {
    url: "REDIS_URL",
    socket_type: "REDIS_SOCKET_TYPE",
    redis_type: "REDIS_TYPE",
    auth: "REDIS_AUTH",
    sentinel_auth: "REDIS_SENTINEL_AUTH",
    timeout: "REDIS_TIMEOUT",
    tls: "REDIS_TLS",
    url_default: "/var/run/nutcracker/ratelimit.sock",
};

const PER_SECOND: Names = Names {
    url: "REDIS_PERSECOND_URL",
    socket_type: "REDIS_PERSECOND_SOCKET_TYPE",
    redis_type: "REDIS_PERSECOND_TYPE",
    auth: "REDIS_PERSECOND_AUTH",
    sentinel_auth: "REDIS_PERSECOND_SENTINEL_AUTH",
    timeout: "REDIS_PERSECOND_TIMEOUT",
    tls: "REDIS_PERSECOND_TLS",
    url_default: "/var/run/nutcracker/ratelimitpersecond.sock",
};

/// Files of certificates are no longer than this.
const PEM_MAX: u64 = 1024 * 1024;

pub(super) fn read(reader: &mut Reader<'_>) -> Store {
    let memory = memory(reader);
    let wants_memcache =
        reader.text("BACKEND_TYPE").is_some_and(|kind| kind.eq_ignore_ascii_case("memcache"));
    if wants_memcache {
        reader.warn("BACKEND_TYPE is memcache, which is not used here; set --store, or REDIS_URL");
    }
    let tls = tls(reader);
    let main = main(reader, &tls);
    let per_second = per_second(reader, &tls);
    let key_prefix = reader.text("CACHE_KEY_PREFIX").unwrap_or_default();
    let layout = layout(reader);
    let denial_bytes = reader.parsed("LOCAL_CACHE_SIZE_IN_BYTES", go::number).unwrap_or(0);
    let Some(main) = main else {
        if per_second.is_some() {
            reader.warn("a Redis for limits by the second is set, but the store is memory; set --store, too");
        }
        return Store::Memory(memory);
    };
    let config = RedisConfig { per_second, key_prefix, layout, denial_bytes, ..RedisConfig::new(main) };
    Store::Redis(Box::new(config))
}

/// How much the memory store may hold.
fn memory(reader: &mut Reader<'_>) -> Capacity {
    let default = Capacity::default();
    let above_zero = |text: &str| match go::number::<usize>(text) {
        Ok(0) => Err("0 keys would hold nothing; write 1 or more".to_owned()),
        other => other,
    };
    Capacity {
        keys: reader.parsed("memory.keys", above_zero).unwrap_or(default.keys),
        log_bytes: reader.parsed("memory.log_bytes", go::number).unwrap_or(default.log_bytes),
    }
}

/// Where counters are, unless in memory.
fn main(reader: &mut Reader<'_>, tls: &Tls) -> Option<Endpoint> {
    if let Some(found) = reader.find_in(Layer::Flag, "store") {
        return ours(reader, found, &MAIN, tls);
    }
    let names = [MAIN.url, MAIN.socket_type, MAIN.redis_type];
    if names.iter().any(|name| reader.variable(name).is_some()) {
        return reference(reader, &MAIN, tls);
    }
    let found = reader.find_in(Layer::File, "store")?;
    ours(reader, found, &MAIN, tls)
}

/// Where limits by the second are, if elsewhere.
fn per_second(reader: &mut Reader<'_>, tls: &Tls) -> Option<Endpoint> {
    if reader.is_on("REDIS_PERSECOND") {
        return reference(reader, &PER_SECOND, tls);
    }
    let found = reader.find("redis.per_second")?;
    ours(reader, found, &PER_SECOND, tls)
}

/// A store as we write it.
fn ours(reader: &mut Reader<'_>, found: Found, names: &Names, tls: &Tls) -> Option<Endpoint> {
    let Found { place, given, .. } = found;
    let Given::Text(text) = given else {
        reader.mistake(place, "must be one value; write memory, or redis://host:port");
        return None;
    };
    if text.trim() == "memory" {
        return None;
    }
    let endpoint = text.trim().parse::<Endpoint>().map_err(|error| reader.mistake(place, error.to_string()));
    let mut endpoint = endpoint.ok()?;
    if endpoint.credentials == Credentials::default()
        && let Some(auth) = reader.text(names.auth)
    {
        endpoint.credentials = Credentials::parse(&auth);
    }
    if endpoint.tls.is_some() {
        endpoint.tls = Some(tls.clone());
    }
    endpoint.timeout = timeout(reader, names).unwrap_or(endpoint.timeout);
    Some(endpoint)
}

/// A store as envoyproxy/ratelimit writes it.
fn reference(reader: &mut Reader<'_>, names: &Names, tls: &Tls) -> Option<Endpoint> {
    let socket_type = reader.parsed(names.socket_type, |text| match text.to_ascii_lowercase().as_str() {
        "unix" => Ok(SocketType::Unix),
        "tcp" => Ok(SocketType::Tcp),
        _ => Err(format!("'{text}' is not a type of sockets; write tcp or unix")),
    });
    let (place, url) =
        reader.placed(names.url).unwrap_or_else(|| (names.url.to_owned(), names.url_default.to_owned()));
    let is_tls = reader.is_on(names.tls);
    let read = Reference {
        socket_type: socket_type.unwrap_or_default(),
        redis_type: reader.text(names.redis_type).unwrap_or_default(),
        url,
        auth: reader.text(names.auth).map(Hidden::new),
        sentinel_auth: reader.text(names.sentinel_auth).map(Hidden::new),
        tls: is_tls.then(|| tls.clone()),
        timeout: timeout(reader, names),
    };
    let mut endpoint = read.endpoint().map_err(|error| reader.mistake(place, error.to_string())).ok()?;
    // An address of rediss:// brings no certificates of its own.
    endpoint.tls = endpoint.tls.map(|_| tls.clone());
    Some(endpoint)
}

fn timeout(reader: &mut Reader<'_>, names: &Names) -> Option<std::time::Duration> {
    reader.parsed(names.timeout, |text| match go::duration(text) {
        Ok(span) if span.is_zero() => Err("no time at all is too short; write such as 20ms".to_owned()),
        other => other,
    })
}

fn layout(reader: &mut Reader<'_>) -> Layout {
    let jitter_max_s = reader.parsed("EXPIRATION_JITTER_MAX_SECONDS", go::number).unwrap_or(JITTER_DEFAULT_S);
    let layout = reader.parsed("TOLLGATE_REDIS_LAYOUT", |text| match text {
        "tollgate" => Ok(Layout::Tollgate),
        "envoy" => Ok(Layout::Envoy { jitter_max_s }),
        _ => Err(format!("'{text}' is not a layout; write tollgate or envoy")),
    });
    layout.unwrap_or_default()
}

fn tls(reader: &mut Reader<'_>) -> Tls {
    let ca = pem(reader, "REDIS_TLS_CACERT");
    let chain = pem(reader, "REDIS_TLS_CLIENT_CERT");
    let key = pem(reader, "REDIS_TLS_CLIENT_KEY");
    let missing = match (&chain, &key) {
        (Some(_), None) => Some("REDIS_TLS_CLIENT_KEY"),
        (None, Some(_)) => Some("REDIS_TLS_CLIENT_CERT"),
        _ => None,
    };
    if let Some(name) = missing {
        reader.mistake(name, "a certificate and its key go together; write the path of a PEM file");
    }
    let client = chain.zip(key).map(|(chain, key)| ClientCertificate { chain, key: Hidden::new(key) });
    Tls { ca, client, skip_hostname: reader.is_on("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION") }
}

fn pem(reader: &mut Reader<'_>, id: &str) -> Option<String> {
    reader.parsed(id, |path| {
        let wrong = |why: String| format!("cannot read '{path}': {why}; write the path of a PEM file");
        let length = fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len();
        if length > PEM_MAX {
            return Err(wrong(format!("its {length} bytes are too many for a certificate")));
        }
        fs::read_to_string(path).map_err(|error| wrong(error.to_string()))
    })
}
