//! Where counters live.
//!
//! A flag says it, or the variables of envoyproxy/ratelimit, or the file. What
//! belongs to any Redis, such as its password and its timeout, is taken from
//! wherever it is said.
//!
//! Invariant: no mistake repeats an address, which may hold a password, nor
//! what stands in a file of keys.

use std::time::Duration;

use tollgate_core::Secret;
use tollgate_limiter::Capacity;
use tollgate_redis::config::{
    ClientCertificate, Credentials, Endpoint, EnvoyRedisSettings, Layout, RedisConfig, RedisTls, SocketType,
    Topology,
};

use crate::row::{OptionalSetting, Setting};
use crate::rows;
use crate::settings_reader::{SettingPlace, SettingSource, SettingsReader};

/// Where counters live.
#[derive(Debug, Clone)]
pub enum StoreSettings {
    /// In the memory of this process, so many.
    Memory(Capacity),
    /// On servers that several nodes share.
    Redis(Box<RedisConfig>),
}

/// The variables of one Redis.
struct RedisRows {
    url: Setting<String>,
    socket_type: OptionalSetting<SocketType>,
    redis_type: Setting<String>,
    auth: OptionalSetting<Secret>,
    sentinel_auth: OptionalSetting<Secret>,
    timeout: Setting<Duration>,
    tls: Setting<bool>,
}

const MAIN: RedisRows = RedisRows {
    url: rows::REDIS_URL,
    socket_type: rows::REDIS_SOCKET_TYPE,
    redis_type: rows::REDIS_TYPE,
    auth: rows::REDIS_AUTH,
    sentinel_auth: rows::REDIS_SENTINEL_AUTH,
    timeout: rows::REDIS_TIMEOUT,
    tls: rows::REDIS_TLS,
};

const PER_SECOND: RedisRows = RedisRows {
    url: rows::REDIS_PERSECOND_URL,
    socket_type: rows::REDIS_PERSECOND_SOCKET_TYPE,
    redis_type: rows::REDIS_PERSECOND_TYPE,
    auth: rows::REDIS_PERSECOND_AUTH,
    sentinel_auth: rows::REDIS_PERSECOND_SENTINEL_AUTH,
    timeout: rows::REDIS_PERSECOND_TIMEOUT,
    tls: rows::REDIS_PERSECOND_TLS,
};

pub(crate) fn read(reader: &mut SettingsReader<'_>) -> StoreSettings {
    let memory =
        Capacity { keys: reader.get(&rows::MEMORY_KEYS), log_bytes: reader.get(&rows::MEMORY_LOG_BYTES) };
    if reader.get(&rows::BACKEND_TYPE).eq_ignore_ascii_case("memcache") {
        let (backend, flag, url) = (rows::BACKEND_TYPE, rows::STORE.row.flag, rows::REDIS_URL);
        reader.warn(format!("{backend} is memcache, which is not used here; set {flag}, or {url}"));
    }
    let tls = tls(reader);
    let main = main(reader, &tls);
    let per_second = per_second(reader, &tls);
    let key_prefix = reader.get(&rows::CACHE_KEY_PREFIX);
    let jitter_max_s = reader.get(&rows::EXPIRATION_JITTER_MAX_SECONDS);
    let layout = match reader.get(&rows::REDIS_LAYOUT) {
        Layout::Envoy { .. } => Layout::Envoy { jitter_max_s },
        Layout::Tollgate => Layout::Tollgate,
    };
    let denial_bytes = reader.get(&rows::LOCAL_CACHE_SIZE_IN_BYTES);
    let Some(main) = main else {
        if per_second.is_some() {
            reader.warn("a Redis for limits by the second is set, but the store is memory; set --store, too");
        }
        return StoreSettings::Memory(memory);
    };
    let config = RedisConfig { per_second, key_prefix, layout, denial_bytes, ..RedisConfig::new(main) };
    StoreSettings::Redis(Box::new(config))
}

/// Where counters are, unless in memory.
fn main(reader: &mut SettingsReader<'_>, tls: &RedisTls) -> Option<Endpoint> {
    let flagged = reader.find_in(SettingSource::Flag, &rows::STORE);
    let is_reference = reader.is_in_environment(&MAIN.url)
        || reader.is_in_environment(&MAIN.socket_type)
        || reader.is_in_environment(&MAIN.redis_type);
    let filed = reader.find_in(SettingSource::File, &rows::STORE);
    match flagged {
        Some((endpoint, _)) => Some(ours(reader, endpoint?, &MAIN, tls)),
        None if is_reference => reference(reader, &MAIN, tls),
        None => Some(ours(reader, filed?.0?, &MAIN, tls)),
    }
}

/// Where limits by the second are, if elsewhere.
fn per_second(reader: &mut SettingsReader<'_>, tls: &RedisTls) -> Option<Endpoint> {
    let filed = reader.find(&rows::REDIS_PER_SECOND);
    if reader.get(&rows::REDIS_PERSECOND) {
        return reference(reader, &PER_SECOND, tls);
    }
    Some(ours(reader, filed??, &PER_SECOND, tls))
}

/// A store as we write it, with what is said elsewhere about any Redis.
fn ours(
    reader: &mut SettingsReader<'_>,
    mut endpoint: Endpoint,
    rows: &RedisRows,
    tls: &RedisTls,
) -> Endpoint {
    if endpoint.credentials == Credentials::default()
        && let Some(auth) = reader.find(&rows.auth)
    {
        endpoint.credentials = Credentials::parse(auth.expose());
    }
    if let Topology::Sentinel { credentials, .. } = &mut endpoint.topology
        && *credentials == Credentials::default()
        && let Some(auth) = reader.find(&rows.sentinel_auth)
    {
        *credentials = Credentials::parse(auth.expose());
    }
    if endpoint.tls.is_some() || reader.get(&rows.tls) {
        endpoint.tls = Some(tls.clone());
    }
    endpoint.timeout = reader.get(&rows.timeout);
    endpoint
}

/// A store as envoyproxy/ratelimit writes it.
fn reference(reader: &mut SettingsReader<'_>, rows: &RedisRows, tls: &RedisTls) -> Option<Endpoint> {
    let (auth, sentinel_auth) = (reader.find(&rows.auth), reader.find(&rows.sentinel_auth));
    let is_tls = reader.get(&rows.tls);
    let place = reader.find_placed(&rows.url).map(|(_, place)| place);
    let url = reader.get(&rows.url);
    let by_address = if url.trim_start().starts_with('/') { SocketType::Unix } else { SocketType::Tcp };
    let read = EnvoyRedisSettings {
        socket_type: reader.find(&rows.socket_type).unwrap_or(by_address),
        redis_type: reader.get(&rows.redis_type),
        url,
        auth,
        sentinel_auth,
        tls: is_tls.then(|| tls.clone()),
        timeout: Some(reader.get(&rows.timeout)),
    };
    match read.endpoint() {
        Ok(mut endpoint) => {
            // An address of rediss:// brings no certificates of its own.
            endpoint.tls = endpoint.tls.map(|_| tls.clone());
            Some(endpoint)
        }
        Err(error) => {
            reader.mistake(place.unwrap_or_else(|| SettingPlace::from(&rows.url)), error);
            None
        }
    }
}

fn tls(reader: &mut SettingsReader<'_>) -> RedisTls {
    let ca = reader.find(&rows::REDIS_TLS_CACERT);
    let chain = reader.find(&rows::REDIS_TLS_CLIENT_CERT);
    let key = reader.find(&rows::REDIS_TLS_CLIENT_KEY);
    let missing = match (&chain, &key) {
        (Some(_), None) => Some(&rows::REDIS_TLS_CLIENT_KEY),
        (None, Some(_)) => Some(&rows::REDIS_TLS_CLIENT_CERT),
        _ => None,
    };
    if let Some(setting) = missing {
        reader.mistake(setting, "a certificate and its key go together; write the path of a PEM file");
    }
    let client = chain.zip(key).map(|(chain, key)| ClientCertificate { chain, key: Secret::new(key) });
    RedisTls { ca, client, skip_hostname: reader.get(&rows::REDIS_TLS_SKIP_HOSTNAME_VERIFICATION) }
}
