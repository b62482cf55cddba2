//! All settings together: from what was said to what holds.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tollgate_http::Mapping;

use crate::address::{GrpcAddress, ListenAddress};
use crate::deferred::{self, DeferSettings};
use crate::error::{SettingsError, Warning};
use crate::file::ConfigFile;
use crate::flags::Flags;
use crate::gateway::{self, GatewaySettings};
use crate::history::{self, HistorySettings};
use crate::ignored::{warn_of_ignored, warn_of_unknown};
use crate::in_force::{self, SettingInForce};
use crate::levels::{self, LevelSettings};
use crate::listeners::{self, AdminSettings, GrpcSettings, RespSettings, ServerTls};
use crate::mapping::{self, MappingSettings};
use crate::metrics::{self, MetricsSettings};
use crate::replies::{self, ReplySettings};
use crate::rows;
use crate::rule_source::{self, RuleSettings};
use crate::settings_reader::{SettingPlace, SettingsReader};
use crate::store::{self, StoreSettings};
use crate::tracing::{self, TracingSettings};
use crate::values::{LogFormat, LogLevel, RequestFrom};
use crate::variables::{Environment, Variables};

/// What the server is to do.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where `/json`, `/healthcheck` and the like are served.
    pub http: ListenAddress,
    /// TLS there, if asked for.
    pub http_tls: Option<ServerTls>,
    /// The gRPC listener.
    pub grpc: GrpcSettings,
    /// The RESP listener; none if not asked for.
    pub resp: Option<RespSettings>,
    /// The gateway; none if not asked for.
    pub gateway: Option<GatewaySettings>,
    /// Limits before and around the rules.
    pub levels: LevelSettings,
    /// Requests that are sent later.
    pub defer: DeferSettings,
    /// The admin listener.
    pub admin: AdminSettings,
    /// What is logged, and how.
    pub log: LogSettings,
    /// Where rules come from.
    pub rules: RuleSettings,
    /// How requests are answered.
    pub replies: ReplySettings,
    /// Where counters live.
    pub store: StoreSettings,
    /// The folder that counters in memory are saved in; none if they are not.
    pub snapshots: Option<PathBuf>,
    /// Healthy only while the store answers.
    pub health_needs_store: bool,
    /// The machine is a source of the load that elastic limits go by.
    pub host_load: bool,
    /// Where metrics go besides the admin listener.
    pub metrics: MetricsSettings,
    /// What is remembered; none if nothing is.
    pub history: Option<HistorySettings>,
    /// Traces by OTLP; none if not asked for.
    pub tracing: Option<TracingSettings>,
    /// How an HTTP request becomes descriptors; none if it is not said.
    pub mapping: Option<MappingSettings>,
    /// How proxies are answered that ask before they forward.
    pub forward_auth: ForwardAuthSettings,
    /// All of it as it was said, to look at.
    pub in_force: Vec<SettingInForce>,
    /// Where to read them again; none without a file.
    pub origin: Option<SettingsOrigin>,
}

/// Where settings come from, to read them again.
#[derive(Debug, Clone)]
pub struct SettingsOrigin {
    flags: Flags,
    /// The file.
    pub path: PathBuf,
}

impl SettingsOrigin {
    /// What flags, the environment of this process and the file say now.
    ///
    /// # Errors
    /// If anything is wrong; all that is wrong is told.
    pub fn load(&self) -> Result<(Settings, Vec<Warning>), SettingsError> {
        let file = ConfigFile::find(Some(&self.path))?;
        Settings::resolve(&self.flags, &Environment, file.as_ref())
    }
}

/// What is logged, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSettings {
    /// From which level on.
    pub level: LogLevel,
    /// In which form.
    pub format: LogFormat,
}

/// How proxies are answered that ask before they forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForwardAuthSettings {
    /// The status of a denial: 429, or 403 where the proxy passes on no other.
    pub deny_status: u16,
    /// A request that is to wait is held for at most this long.
    pub max_hold: Duration,
    /// Where the request that is asked about is described.
    pub request_from: RequestFrom,
}

impl Settings {
    /// What flags, environment and file together say.
    ///
    /// ```
    /// use std::collections::HashMap;
    /// use tollgate_settings::{Flags, Settings};
    /// let environment = HashMap::from([("HOST".to_owned(), "::".to_owned())]);
    /// let (settings, warnings) = Settings::resolve(&Flags::default(), &environment, None)?;
    /// assert_eq!(settings.http.to_string(), "[::]:8080");
    /// assert!(warnings.is_empty());
    /// # Ok::<(), tollgate_settings::SettingsError>(())
    /// ```
    ///
    /// # Errors
    /// If anything is wrong; all that is wrong is told.
    pub fn resolve(
        flags: &Flags,
        variables: &dyn Variables,
        file: Option<&ConfigFile>,
    ) -> Result<(Self, Vec<Warning>), SettingsError> {
        let mut reader = SettingsReader::new(flags, variables, file);
        let r = &mut reader;
        let mapping = mapping::read(r);
        let gateway = gateway::read(r, mapping.as_ref());
        let own = gateway.iter().flat_map(GatewaySettings::mappings);
        let mappings: Vec<&Mapping> = mapping.iter().map(|general| &general.mapping).chain(own).collect();
        let history = history::read(r).map(|history| history.hiding(&mappings));
        let needs_responses = mapping.as_ref().is_some_and(|own| own.mapping.needs_responses());
        let settings = Self {
            metrics: metrics::read(r),
            admin: listeners::admin(r),
            http: listeners::http(r),
            http_tls: listeners::http_tls(r),
            grpc: listeners::grpc(r),
            resp: listeners::resp(r),
            gateway,
            levels: levels::read(r, mapping.as_ref()),
            defer: deferred::read(r),
            log: log(r),
            rules: rule_source::read(r),
            replies: replies::read(r),
            store: store::read(r),
            snapshots: r.get(&rows::SNAPSHOTS).then(|| r.get(&rows::DATA)),
            host_load: r.get(&rows::LOAD_HOST),
            health_needs_store: r.get(&rows::REDIS_HEALTH_CHECK_ACTIVE_CONNECTION),
            history,
            tracing: tracing::read(r),
            mapping,
            forward_auth: ForwardAuthSettings {
                deny_status: r.get(&rows::FORWARD_AUTH_DENY_STATUS),
                max_hold: r.get(&rows::FORWARD_AUTH_MAX_HOLD),
                request_from: r.get(&rows::FORWARD_AUTH_REQUEST_FROM),
            },
            in_force: in_force::all(r),
            origin: file
                .and_then(ConfigFile::path)
                .map(|path| SettingsOrigin { flags: flags.clone(), path: path.to_owned() }),
        };
        check_apart(&settings, r);
        if needs_responses && settings.gateway.is_none() {
            let message = "charge, refund_on and cost of a descriptor are for the gateway, because forward-auth sees no \
                           answers; remove them, or start a gateway";
            r.mistake(&rows::MAPPING, message);
        }
        warn_of_ignored(r);
        warn_of_unknown(r);
        match reader.finish() {
            Ok(warnings) => Ok((settings, warnings)),
            Err(mistakes) => Err(SettingsError { mistakes }),
        }
    }

    /// The same from the environment of this process and the file that the
    /// flags name, or `tollgate.yaml` in this folder.
    ///
    /// # Errors
    /// If anything is wrong; all that is wrong is told.
    pub fn load(flags: &Flags) -> Result<(Self, Vec<Warning>), SettingsError> {
        let named = flags.get(&rows::CONFIG_FILE.row).and_then(<[String]>::last);
        let file = ConfigFile::find(named.map(Path::new))?;
        Self::resolve(flags, &Environment, file.as_ref())
    }
}

/// Two listeners on one port would share its connections at random, because
/// ports are opened so that several threads can listen.
fn check_apart(settings: &Settings, reader: &mut SettingsReader<'_>) {
    let mut listeners = vec![("HTTP", &settings.http), ("admin", &settings.admin.address)];
    if let GrpcAddress::Tcp(address) = &settings.grpc.address {
        listeners.push(("gRPC", address));
    }
    if let Some(resp) = &settings.resp {
        listeners.push(("RESP", &resp.address));
    }
    if let Some(gateway) = &settings.gateway {
        listeners.push(("gateway", &gateway.address));
    }
    if let Some(prometheus) = &settings.metrics.prometheus {
        listeners.push(("Prometheus", &prometheus.address));
    }
    for (index, (name, one)) in listeners.iter().enumerate() {
        for (other_name, other) in listeners.iter().skip(index + 1) {
            let is_any = |address: &ListenAddress| matches!(address.host.as_str(), "" | "::" | "0.0.0.0");
            let is_host_shared = one.host == other.host || is_any(one) || is_any(other);
            if one.port != 0 && one.port == other.port && is_host_shared {
                let message = format!("{name} on {one} and {other_name} on {other} take each other's calls");
                let place = SettingPlace::Name("listeners".to_owned());
                reader.mistake(place, format!("{message}; write different ports"));
            }
        }
    }
}

fn log(reader: &mut SettingsReader<'_>) -> LogSettings {
    let level = reader.get(&rows::LOG_LEVEL);
    let level = if reader.get(&rows::QUIET) { level.min(LogLevel::Warn) } else { level };
    LogSettings { level, format: reader.get(&rows::LOG_FORMAT) }
}
