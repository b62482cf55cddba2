//! Everything that can be set, checked: flags, environment and `tollgate.yaml`.
//!
//! The command line fills [`Flags`], the environment is a [`Variables`], a file
//! is a [`ConfigFile`]; [`Settings::resolve`] turns the three into [`Settings`],
//! which the rest of the server reads and nobody changes. In the order of the flow:
//!
//! | module | what it does |
//! |---|---|
//! | [`rows`], `row` | the table of all settings: names, type, default, help |
//! | [`help`] | the table for the guide and the terminal |
//! | `flags`, `variables`, `file` | what was said where |
//! | `settings_reader` | finds a setting by its row, and collects what is wrong |
//! | `raw_value`, `go_syntax`, `values` | a text or a piece of YAML → a value |
//! | `listeners`, `gateway`, `levels`, `deferred`, `store`, `rule_source`, `replies`, `mapping`, `history`, `metrics`, `tracing` | a part of [`Settings`] each, and what follows from several rows together |
//! | `ignored` | variables that are set and have no effect |
//! | `in_force` | every setting as it was said, to look at |
//! | `settings` | all of it together |
//!
//! Invariants: flags win over environment over file over defaults. All
//! mistakes are collected and told at once. A variable that cannot be honoured
//! is named in one warning. A secret is never shown by `Debug`.
//!
//! Deliberately not here: the rules themselves, and any use of a setting. What
//! configures another crate is that crate's type, and is only filled in here.

mod address;
mod deferred;
mod error;
mod file;
mod flags;
mod gateway;
mod go_syntax;
pub mod help;
mod history;
mod ignored;
mod in_force;
mod levels;
mod listeners;
mod mapping;
mod metrics;
mod raw_value;
mod replies;
mod row;
pub mod rows;
mod rule_source;
mod schema;
mod settings;
mod settings_reader;
mod store;
mod tracing;
mod values;
mod variables;

pub use address::{GrpcAddress, ListenAddress, ListenAddressError};
pub use deferred::DeferSettings;
pub use error::{Mistake, SettingsError, Warning};
pub use file::{ConfigFile, FILE_NAME};
pub use flags::Flags;
pub use gateway::GatewaySettings;
pub use history::{HiddenKeys, HistorySettings};
pub use ignored::{IGNORED, IgnoredVariables};
pub use in_force::{SettingInForce, needing_restart};
pub use levels::{ConnectionLevels, LevelSettings};
pub use listeners::{AdminSettings, GrpcSettings, RespSettings, ServerTls};
pub use mapping::MappingSettings;
pub use metrics::{MetricsSettings, PrometheusSettings};
pub use replies::{HeaderNames, ReplySettings};
pub use row::{OptionalSetting, Setting, SettingRow, SettingSection};
pub use rule_source::{RuleOrigin, RuleSettings, RuntimeLayout, XdsBackoff, XdsSettings, XdsTls};
pub use schema::schema;
pub use settings::{ForwardAuthSettings, LogSettings, Settings, SettingsOrigin};
pub use store::StoreSettings;
pub use tollgate_core::Secret;
pub use tracing::TracingSettings;
pub use values::{
    ConfigType, EnvoyPassThrough, KeyNames, LimitedListener, LogFormat, LogLevel, OtlpProtocol, RequestFrom,
};
pub use variables::{Environment, Variables};
