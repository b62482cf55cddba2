//! The levels around the rules: connections of each address, and all requests of the gateway together.
//!
//! Requests by key are the mapping's and the rules'.

use std::net::IpAddr;

use tollgate_core::Limit;
use tollgate_http::ClientAddress;

use crate::mapping::MappingSettings;
use crate::row::OptionalSetting;
use crate::rows;
use crate::settings_reader::SettingsReader;
use crate::values::LimitedListener;

/// The levels around the rules.
#[derive(Debug, Clone, Default)]
pub struct LevelSettings {
    /// Connections of each address; none if they are not limited.
    pub connections: Option<ConnectionLevels>,
    /// All requests of the gateway together; none if they are not limited.
    pub requests: Option<Limit>,
}

/// How many connections each address may have.
#[derive(Debug, Clone)]
pub struct ConnectionLevels {
    /// New ones.
    pub rate: Option<Limit>,
    /// Open ones.
    pub open: Option<u32>,
    /// Where they are counted, all listeners together.
    pub listeners: Vec<LimitedListener>,
    exempt: ClientAddress,
    proxies: ClientAddress,
}

impl ConnectionLevels {
    /// Whether connections of this address are not limited: it is exempt by name, or a trusted proxy,
    /// whose connections carry the requests of many clients.
    pub fn exempts(&self, address: IpAddr) -> bool {
        self.exempt.trusts(address) || self.proxies.trusts(address)
    }
}

pub(crate) fn read(reader: &mut SettingsReader<'_>, mapping: Option<&MappingSettings>) -> LevelSettings {
    let rate = limit(reader, &rows::LEVEL_CONNECTIONS_PER_SECOND, &rows::LEVEL_CONNECTIONS_BURST);
    let open = reader.find(&rows::LEVEL_CONNECTIONS_OPEN);
    let (listeners, exempt) =
        (reader.get(&rows::LEVEL_CONNECTIONS_LISTENERS), reader.get(&rows::LEVEL_CONNECTIONS_EXEMPT));
    let proxies = mapping.map(|mapping| mapping.mapping.proxies().clone()).unwrap_or_default();
    let connections = (rate.is_some() || open.is_some()).then_some(ConnectionLevels {
        rate,
        open,
        listeners,
        exempt,
        proxies,
    });
    LevelSettings {
        connections,
        requests: limit(reader, &rows::LEVEL_REQUESTS_PER_SECOND, &rows::LEVEL_REQUESTS_BURST),
    }
}

/// A token bucket.
fn limit(
    reader: &mut SettingsReader<'_>,
    per_second: &OptionalSetting<u32>,
    burst: &OptionalSetting<u32>,
) -> Option<Limit> {
    let (count, size) = (reader.find(per_second), reader.find(burst));
    let Some(count) = count else {
        if size.is_some() && !reader.is_set(per_second) {
            reader.warn(format!("{burst} is set, but has no effect without {per_second}"));
        }
        return None;
    };
    match Limit::per_second(count).burst(size.unwrap_or(count)).build() {
        Ok(limit) => Some(limit),
        Err(error) => {
            reader.mistake(per_second, error);
            None
        }
    }
}
