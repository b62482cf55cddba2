//! All settings together: from what was said to what holds.

use std::path::{Path, PathBuf};

use crate::address::ListenAddress;
use crate::error::{SettingsError, Warning};
use crate::file::ConfigFile;
use crate::flags::Flags;
use crate::forward_auth::{self, ForwardAuthSettings};
use crate::history::{self, HistorySettings};
use crate::ignored::{warn_of_ignored, warn_of_unknown};
use crate::listeners::{self, AdminSettings, GrpcSettings, RespSettings, ServerTls};
use crate::log::{self, LogSettings};
use crate::mapping::{self, MappingSettings};
use crate::metrics::{self, MetricsSettings};
use crate::replies::{self, ReplySettings};
use crate::rows;
use crate::rule_source::{self, RuleSettings};
use crate::settings_reader::SettingsReader;
use crate::store::{self, StoreSettings};
use crate::tracing::{self, TracingSettings};
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
        let settings = Self {
            metrics: metrics::read(r),
            admin: listeners::admin(r),
            http: listeners::http(r),
            http_tls: listeners::http_tls(r),
            grpc: listeners::grpc(r),
            resp: listeners::resp(r),
            log: log::read(r),
            rules: rule_source::read(r),
            replies: replies::read(r),
            store: store::read(r),
            snapshots: r.find(&rows::DATA),
            health_needs_store: r.get(&rows::REDIS_HEALTH_CHECK_ACTIVE_CONNECTION),
            history: history::read(r),
            tracing: tracing::read(r),
            mapping: mapping::read(r),
            forward_auth: forward_auth::read(r),
        };
        listeners::check_apart(&settings, r);
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
