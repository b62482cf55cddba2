//! From what was said to what holds.
//!
//! Every part of [`Settings`] has its own function here or below; they share a
//! reader, which collects what is wrong.

mod history;
mod listeners;
mod mapping;
mod metrics;
mod rules;
mod store;
mod telling;
mod tracing;

use super::definitions::IGNORED;
use super::reader::Reader;
use super::{
    Answers, ConfigFile, Environment, Flags, HeaderNames, Log, LogFormat, LogLevel, Settings, SettingsError,
    Strings, Warning, go,
};

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
        strings: &dyn Strings,
        file: Option<&ConfigFile>,
    ) -> Result<(Self, Vec<Warning>), SettingsError> {
        let mut reader = Reader::new(flags, strings, file);
        let r = &mut reader;
        refuse_later(flags, r);
        let metrics = metrics::read(r);
        let admin = listeners::admin(r);
        let settings = Self {
            http: listeners::http(r),
            http_tls: listeners::http_tls(r),
            grpc: listeners::grpc(r),
            resp: listeners::resp(r),
            admin,
            log: log(r),
            rules: rules::read(flags, r),
            answers: answers(r),
            store: store::read(r),
            snapshots: flags.data.clone().or_else(|| r.path("TOLLGATE_DATA")),
            health_needs_store: r.is_on("REDIS_HEALTH_CHECK_ACTIVE_CONNECTION"),
            metrics,
            history: history::read(flags, r),
            tracing: tracing::read(r),
            mapping: mapping::read(r),
            forward_auth: mapping::forward_auth(r),
        };
        listeners::check_apart(&settings, r);
        warn_of_ignored(r);
        let Reader { mistakes, warnings, .. } = reader;
        if mistakes.is_empty() { Ok((settings, warnings)) } else { Err(SettingsError { mistakes }) }
    }

    /// The same from the environment of this process and the file that the
    /// flags name, or `tollgate.yaml` in this folder.
    ///
    /// # Errors
    /// If anything is wrong; all that is wrong is told.
    pub fn load(flags: &Flags) -> Result<(Self, Vec<Warning>), SettingsError> {
        let file = ConfigFile::find(flags.config.as_deref())?;
        Self::resolve(flags, &Environment, file.as_ref())
    }
}

/// What a later version will do is refused, so that nobody believes it is done.
fn refuse_later(flags: &Flags, reader: &mut Reader<'_>) {
    let later = [
        ("--gateway", flags.gateway.is_some(), "the gateway is"),
        ("--upstream", flags.upstream.is_some(), "the gateway is"),
    ];
    for (flag, is_given, what) in later {
        if is_given {
            reader.mistake(flag, format!("{what} not in this version; leave {flag} out"));
        }
    }
}

fn log(reader: &mut Reader<'_>) -> Log {
    let level = |text: &str| match text.to_ascii_lowercase().as_str() {
        "panic" | "fatal" | "error" => Ok(LogLevel::Error),
        "warn" | "warning" => Ok(LogLevel::Warn),
        "info" => Ok(LogLevel::Info),
        "debug" => Ok(LogLevel::Debug),
        "trace" => Ok(LogLevel::Trace),
        _ => Err(format!("'{text}' is not a level; write trace, debug, info, warn or error")),
    };
    let format = |text: &str| match text.to_ascii_lowercase().as_str() {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err(format!("'{text}' is not a form of logs; write text or json")),
    };
    Log {
        level: reader.parsed("LOG_LEVEL", level).unwrap_or(LogLevel::Info),
        format: reader.parsed("LOG_FORMAT", format).unwrap_or(LogFormat::Text),
    }
}

fn answers(reader: &mut Reader<'_>) -> Answers {
    #[expect(clippy::as_conversions, reason = "the reference compares in 32 bits, and so must we")]
    let near = |text: &str| go::ratio(text).map(|ratio| ratio as f32);
    let has_headers = reader.is_on("LIMIT_RESPONSE_HEADERS_ENABLED");
    let mut name = |id: &str, default: &str| {
        let name = reader.parsed(id, |text| match is_header_name(text) {
            true => Ok(text.to_owned()),
            false => Err(format!("'{text}' is not a header name; write letters, digits and dashes")),
        });
        name.unwrap_or_else(|| default.to_owned())
    };
    let names = HeaderNames {
        limit: name("LIMIT_LIMIT_HEADER", "RateLimit-Limit"),
        remaining: name("LIMIT_REMAINING_HEADER", "RateLimit-Remaining"),
        reset: name("LIMIT_RESET_HEADER", "RateLimit-Reset"),
    };
    Answers {
        shadow: reader.is_on("SHADOW_MODE"),
        quota: reader.is_on("QUOTA_MODE"),
        dynamic_metadata: reader.is_on("RESPONSE_DYNAMIC_METADATA"),
        headers: has_headers.then_some(names),
        near_limit_ratio: reader.parsed("NEAR_LIMIT_RATIO", near).unwrap_or(0.8),
        responses: telling::read(reader),
        through_envoy: telling::through_envoy(reader),
    }
}

/// A token in the words of HTTP.
fn is_header_name(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// Says once what is set and has no effect.
fn warn_of_ignored(reader: &mut Reader<'_>) {
    for group in IGNORED {
        let is_set = |name: &&&str| reader.variable(name).is_some();
        let set: Vec<&str> = group.variables.iter().filter(is_set).copied().collect();
        let verb = match set.as_slice() {
            [] => continue,
            [_] => "is",
            _ => "are",
        };
        reader.warn(format!("{} {verb} set, but {}", set.join(", "), group.reason));
    }
}
