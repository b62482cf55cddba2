//! The gateway: where it listens, and which requests go where.
//!
//! | module | what it reads |
//! |---|---|
//! | `upstreams` | groups of upstreams |
//! | `routes` | which requests go to which group |

pub(crate) mod routes;
pub(crate) mod upstreams;

use std::sync::Arc;
use std::time::Duration;

use tollgate_gateway::{
    AccessLogConfig, GatewayConfig, GatewayTimeouts, GroupConfig, RouteConditions, RouteConfig,
};
use tollgate_http::Mapping;

use crate::address::ListenAddress;
use crate::listeners::{self, ServerTls};
use crate::mapping::MappingSettings;
use crate::rows;
use crate::settings_reader::{SettingPlace, SettingsReader};

/// The gateway listener.
#[derive(Debug, Clone)]
pub struct GatewaySettings {
    /// Where it listens.
    pub address: ListenAddress,
    /// Where it forwards to, and how.
    pub config: GatewayConfig,
    /// TLS, if asked for.
    pub tls: Option<ServerTls>,
    /// Where a line for every request goes, if anywhere.
    pub access_log: Option<AccessLogConfig>,
}

impl GatewaySettings {
    /// The mappings that routes have of their own.
    pub(crate) fn mappings(&self) -> impl Iterator<Item = &Mapping> {
        self.config.routes.iter().filter_map(|route| route.mapping.as_ref())
    }
}

/// The gateway, if it is to listen; routes that leave something out have it from `mapping`.
pub(crate) fn read(
    reader: &mut SettingsReader<'_>,
    mapping: Option<&MappingSettings>,
) -> Option<GatewaySettings> {
    let address = reader.get(&rows::GATEWAY_ADDRESS);
    let tls = listeners::gateway_tls(reader);
    let max_wait = reader.get(&rows::GATEWAY_MAX_WAIT);
    let timeouts = GatewayTimeouts {
        connect: reader.get(&rows::GATEWAY_CONNECT_TIMEOUT),
        first_byte: reader.get(&rows::GATEWAY_FIRST_BYTE_TIMEOUT),
        idle: reader.get(&rows::GATEWAY_IDLE_TIMEOUT),
        total: Some(reader.get(&rows::GATEWAY_TOTAL_TIMEOUT)).filter(|total: &Duration| !total.is_zero()),
    };
    let access_log = access_log(reader);
    let config = config(reader, mapping, timeouts, max_wait);
    let names = [rows::UPSTREAM.row.name(), "gateway.upstreams", "gateway.routes"];
    let is_set =
        [reader.is_set(&rows::UPSTREAM), reader.is_set(&rows::UPSTREAMS), reader.is_set(&rows::ROUTES)];
    match address {
        Some(address) => {
            if !is_set.contains(&true) {
                let message =
                    "the gateway needs it; write http://HOST:PORT, or gateway.routes in tollgate.yaml";
                reader.mistake(&rows::UPSTREAM, message);
            }
            Some(GatewaySettings { address, config: config?, tls, access_log })
        }
        None => {
            let (address, set) =
                (rows::GATEWAY_ADDRESS, names.iter().zip(is_set).find(|(_, is_set)| *is_set));
            if let Some((name, _)) = set {
                reader.warn(format!("{name} is set, but has no effect without {address}"));
            }
            None
        }
    }
}

/// The name that stands for standard output.
const STDOUT: &str = "stdout";

fn access_log(reader: &mut SettingsReader<'_>) -> Option<AccessLogConfig> {
    let (path, format) = (reader.find(&rows::ACCESS_LOG), reader.get(&rows::ACCESS_LOG_FORMAT));
    path.map(|path| AccessLogConfig { path: Some(path).filter(|path| path.as_os_str() != STDOUT), format })
}

/// Routes, or the one that `--upstream` or a single group is short for.
fn config(
    reader: &mut SettingsReader<'_>,
    mapping: Option<&MappingSettings>,
    timeouts: GatewayTimeouts,
    max_wait: Duration,
) -> Option<GatewayConfig> {
    let (routes, groups) = (reader.find_placed(&rows::ROUTES), reader.find_placed(&rows::UPSTREAMS));
    let only = reader.find_placed(&rows::UPSTREAM);
    let groups_at = groups.as_ref().map(|(_, place)| place.clone());
    let groups = groups.map_or_else(Vec::new, |(node, _)| upstreams::read(&node, &mut reader.problems));
    if let (Some((_, place)), true) = (&only, routes.is_some() || groups_at.is_some()) {
        let message = "gateway.routes and gateway.upstreams say where requests go; leave one of them out";
        reader.mistake(place.clone(), message);
        return None;
    }
    if let Some((url, _)) = only {
        return Some(GatewayConfig::single(url, timeouts, max_wait));
    }
    let Some((node, _)) = routes else {
        return single_group(reader, &groups, groups_at?, timeouts)
            .map(|route| GatewayConfig { routes: vec![route], max_wait });
    };
    let mapping = match (mapping, reader.is_set(&rows::MAPPING)) {
        // What is wrong with it is told already.
        (None, true) => return None,
        (mapping, _) => mapping,
    };
    let context = routes::RouteContext { groups: &groups, mapping, timeouts };
    let read = routes::read(&node, &context, &mut reader.problems);
    for group in &groups {
        if !read.iter().any(|route| route.group.name == group.name) {
            reader.warn(format!("no route of the gateway goes to {}", group.name));
        }
    }
    Some(GatewayConfig { routes: read, max_wait })
}

/// The route for all requests to the only group.
fn single_group(
    reader: &mut SettingsReader<'_>,
    groups: &[Arc<GroupConfig>],
    at: SettingPlace,
    timeouts: GatewayTimeouts,
) -> Option<RouteConfig> {
    match groups {
        [] => None,
        [group] => Some(RouteConfig {
            conditions: RouteConditions::default(),
            group: Arc::clone(group),
            mapping: None,
            timeouts,
        }),
        _ => {
            reader.mistake(
                at,
                "there are several groups of upstreams; write which requests go where in gateway.routes",
            );
            None
        }
    }
}
