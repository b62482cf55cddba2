//! Where rules come from, and what is done without them.

use std::path::PathBuf;
use std::time::Duration;

use tollgate_core::Secret;

use crate::rows;
use crate::settings_reader::{SettingSource, SettingsReader};
use crate::values::ConfigType;

/// Where rules come from, and what is done without them.
#[derive(Debug, Clone)]
pub struct RuleSettings {
    /// Where they come from.
    pub origin: RuleOrigin,
    /// The same domain in two files is one domain.
    pub merge_domains: bool,
    /// Serve before the first rules are there.
    pub force_start: bool,
    /// Healthy only with at least one domain.
    pub healthy_needs_domain: bool,
    /// A limit in the style of Envoy does not count what it or another limit rejects.
    pub stop_counting_rejected: bool,
}

/// Where rules come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleOrigin {
    /// Files and folders that were named.
    Paths(Vec<PathBuf>),
    /// The folder layout of envoyproxy/ratelimit.
    Runtime(RuntimeLayout),
    /// An xDS server.
    Xds(XdsSettings),
    /// Nothing was said: `./rules` if it exists, else the built-in example.
    Default,
}

/// The folder layout of envoyproxy/ratelimit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeLayout {
    /// `RUNTIME_ROOT`, often a symbolic link that is swapped.
    pub root: PathBuf,
    /// `RUNTIME_SUBDIRECTORY`, below the root.
    pub subdirectory: String,
    /// `RUNTIME_APPDIRECTORY`, below the subdirectory.
    pub app_directory: String,
    /// Files and folders that begin with a dot are left out.
    pub ignore_dot_files: bool,
    /// The root is read and watched as a whole, and only the app directory's files used.
    pub watch_root: bool,
}

/// How to reach an xDS server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XdsSettings {
    /// `host:port`.
    pub server: String,
    /// The name of this node.
    pub node_id: String,
    /// More about this node.
    pub node_metadata: Vec<(String, String)>,
    /// Extra gRPC headers; they may hold credentials.
    pub headers: Vec<(String, Secret)>,
    /// TLS, if asked for.
    pub tls: Option<XdsTls>,
    /// The shortest wait between two attempts to connect.
    pub retry_interval: Duration,
    /// The waits between attempts.
    pub backoff: XdsBackoff,
    /// The largest message that is accepted, in bytes.
    pub max_message_bytes: usize,
}

/// Which certificates are accepted, and which is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XdsTls {
    /// Accept what is signed by one of these; the system's roots if not set.
    pub ca: Option<PathBuf>,
    /// Certificate and key to show, if set.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The name to expect instead of the host's, if set.
    pub server_name: Option<String>,
}

/// Waits that double.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XdsBackoff {
    /// The first.
    pub initial: Duration,
    /// The longest.
    pub max: Duration,
    /// How many thousandths of a wait are random.
    pub random_permille: u32,
}

pub(crate) fn read(reader: &mut SettingsReader<'_>) -> RuleSettings {
    RuleSettings {
        origin: origin(reader),
        merge_domains: reader.get(&rows::MERGE_DOMAIN_CONFIG),
        force_start: reader.get(&rows::FORCE_START_WITHOUT_INITIAL_CONFIG),
        healthy_needs_domain: reader.get(&rows::HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED),
        stop_counting_rejected: reader.get(&rows::STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT),
    }
}

fn origin(reader: &mut SettingsReader<'_>) -> RuleOrigin {
    // All are read, so that a mistake is told even where it has no effect.
    let is_xds = reader.get(&rows::CONFIG_TYPE) == ConfigType::Xds;
    let xds = xds(reader);
    let layout = layout(reader);
    let flagged = reader.find_in(SettingSource::Flag, &rows::RULES);
    let filed = reader.find_in(SettingSource::File, &rows::RULES);
    if let Some((paths, _)) = flagged {
        if is_xds {
            reader.warn(format!(
                "{} is set to GRPC_XDS_SOTW, but {} names files, and flags win",
                rows::CONFIG_TYPE,
                rows::RULES.row.flag
            ));
        }
        return RuleOrigin::Paths(paths);
    }
    if is_xds {
        return RuleOrigin::Xds(xds);
    }
    if has_runtime(reader) {
        return RuleOrigin::Runtime(layout);
    }
    match filed {
        Some((paths, _)) if !paths.is_empty() => RuleOrigin::Paths(paths),
        _ => RuleOrigin::Default,
    }
}

fn has_runtime(reader: &SettingsReader<'_>) -> bool {
    reader.is_in_environment(&rows::RUNTIME_ROOT)
        || reader.is_in_environment(&rows::RUNTIME_SUBDIRECTORY)
        || reader.is_in_environment(&rows::RUNTIME_APPDIRECTORY)
        || reader.is_in_environment(&rows::RUNTIME_IGNOREDOTFILES)
        || reader.is_in_environment(&rows::RUNTIME_WATCH_ROOT)
}

fn layout(reader: &mut SettingsReader<'_>) -> RuntimeLayout {
    RuntimeLayout {
        root: reader.get(&rows::RUNTIME_ROOT),
        subdirectory: reader.get(&rows::RUNTIME_SUBDIRECTORY),
        app_directory: reader.get(&rows::RUNTIME_APPDIRECTORY),
        ignore_dot_files: reader.get(&rows::RUNTIME_IGNOREDOTFILES),
        watch_root: reader.get(&rows::RUNTIME_WATCH_ROOT),
    }
}

/// What the reference does if nothing is set.
impl Default for RuntimeLayout {
    fn default() -> Self {
        Self {
            root: rows::RUNTIME_ROOT.default_value(),
            subdirectory: rows::RUNTIME_SUBDIRECTORY.default_value(),
            app_directory: rows::RUNTIME_APPDIRECTORY.default_value(),
            ignore_dot_files: rows::RUNTIME_IGNOREDOTFILES.default_value(),
            watch_root: rows::RUNTIME_WATCH_ROOT.default_value(),
        }
    }
}

fn xds(reader: &mut SettingsReader<'_>) -> XdsSettings {
    XdsSettings {
        server: reader.get(&rows::CONFIG_GRPC_XDS_SERVER_URL),
        node_id: reader.get(&rows::CONFIG_GRPC_XDS_NODE_ID),
        node_metadata: reader.get(&rows::CONFIG_GRPC_XDS_NODE_METADATA),
        headers: reader.get(&rows::CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS),
        tls: xds_tls(reader),
        retry_interval: reader.get(&rows::CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL),
        backoff: xds_backoff(reader),
        max_message_bytes: xds_message_bytes(reader),
    }
}

fn xds_backoff(reader: &mut SettingsReader<'_>) -> XdsBackoff {
    let initial = reader.get(&rows::XDS_CLIENT_BACKOFF_INITIAL_INTERVAL);
    let max = reader.get(&rows::XDS_CLIENT_BACKOFF_MAX_INTERVAL).max(initial);
    let random = reader.get(&rows::XDS_CLIENT_BACKOFF_RANDOM_FACTOR);
    let is_random = reader.get(&rows::XDS_CLIENT_BACKOFF_JITTER);
    XdsBackoff { initial, max, random_permille: if is_random { random } else { 0 } }
}

fn xds_tls(reader: &mut SettingsReader<'_>) -> Option<XdsTls> {
    let is_on = reader.get(&rows::CONFIG_GRPC_XDS_SERVER_USE_TLS);
    let ca = reader.find(&rows::CONFIG_GRPC_XDS_SERVER_TLS_CACERT);
    let server_name = reader.find(&rows::CONFIG_GRPC_XDS_SERVER_TLS_SAN);
    let cert = reader.find(&rows::CONFIG_GRPC_XDS_CLIENT_TLS_CERT);
    let key = reader.find(&rows::CONFIG_GRPC_XDS_CLIENT_TLS_KEY);
    if !is_on {
        return None;
    }
    let missing = match (&cert, &key) {
        (Some(_), None) => Some(&rows::CONFIG_GRPC_XDS_CLIENT_TLS_KEY),
        (None, Some(_)) => Some(&rows::CONFIG_GRPC_XDS_CLIENT_TLS_CERT),
        _ => None,
    };
    if let Some(setting) = missing {
        reader.mistake(setting, "a certificate and its key go together; write the path of a PEM file");
    }
    Some(XdsTls { ca, identity: cert.zip(key), server_name })
}

/// The reference takes 0 as "not set".
fn xds_message_bytes(reader: &mut SettingsReader<'_>) -> usize {
    match reader.get(&rows::XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES) {
        0 => rows::XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES.default_value(),
        bytes => bytes,
    }
}
