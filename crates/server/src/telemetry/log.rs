//! Lines on stderr: for people, or one JSON object each.
//!
//! Set up once, before anything is logged.
//!
//! Invariant: one event is one line, whatever is in it.

use std::fmt;
use std::io::IsTerminal as _;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;

use tollgate_settings::{LogFormat, LogLevel, LogSettings};

/// Why logs cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("logs are set up already; do it once for each process")]
#[non_exhaustive]
pub struct LogError {
    source: tracing::subscriber::SetGlobalDefaultError,
}

/// Sends everything that is logged to stderr from now on.
///
/// # Errors
/// If it has been done before.
pub fn init(log: LogSettings) -> Result<(), LogError> {
    let is_terminal = std::io::stderr().is_terminal();
    let subscriber = subscriber(log, std::io::stderr, is_terminal);
    tracing::subscriber::set_global_default(subscriber).map_err(|source| LogError { source })
}

/// What takes events and writes lines; with colours where `is_terminal`.
pub fn subscriber<W>(log: LogSettings, writer: W, is_terminal: bool) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(is_terminal);
    let registry = tracing_subscriber::registry().with(filter(log.level));
    match log.format {
        LogFormat::Text => Box::new(registry.with(lines.with_target(false))),
        LogFormat::Json => Box::new(registry.with(lines.event_format(JsonLines))),
    }
}

/// Our own events from `level` on. Those of libraries only if something is
/// wrong, unless everything is wanted: nobody who asks for `debug` means frames.
fn filter(level: LogLevel) -> Targets {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => return Targets::new().with_default(LevelFilter::TRACE),
    };
    Targets::new().with_default(level.min(LevelFilter::WARN)).with_target("tollgate", level)
}

/// The reference's JSON: `@timestamp`, `@message`, `level`, and the fields.
struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = JsonFields(Map::new());
        event.record(&mut fields);
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let JsonFields(mut fields) = fields;
        let message = fields.remove("message").unwrap_or_else(|| Value::from(""));
        fields.insert("@timestamp".to_owned(), Value::from(time));
        fields.insert("@message".to_owned(), message);
        fields.insert("level".to_owned(), Value::from(level_name(*event.metadata().level())));
        writeln!(writer, "{}", Value::Object(fields))
    }
}

/// The words of the reference's logger.
fn level_name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warning",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    }
}

struct JsonFields(Map<String, Value>);

impl JsonFields {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for JsonFields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.put(field, value.to_string());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Captured(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Captured {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(level: LogLevel, format: LogFormat, say: impl FnOnce()) -> String {
        let captured = Captured::default();
        let writer = captured.clone();
        let subscriber = subscriber(LogSettings { level, format }, move || writer.clone(), false);
        tracing::subscriber::with_default(subscriber, say);
        let bytes = captured.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn json_has_the_references_fields() {
        let line = logged(LogLevel::Info, LogFormat::Json, || {
            tracing::warn!(port = 8081, host = "a\nb", ready = true, "it is {}", "odd\n");
        });
        assert_eq!(line.lines().count(), 1);
        let object: Map<String, Value> = serde_json::from_str(&line).unwrap();
        let names: Vec<&str> = object.keys().map(String::as_str).collect();
        assert_eq!(names, ["@message", "@timestamp", "host", "level", "port", "ready"]);
        assert_eq!(object["@message"], "it is odd\n");
        assert_eq!((&object["level"], &object["port"]), (&Value::from("warning"), &Value::from(8_081)));
        let time = object["@timestamp"].as_str().unwrap();
        assert!(time.ends_with('Z') && time.as_bytes()[10] == b'T', "{time}");
    }

    #[test]
    fn levels_below_the_one_asked_for_are_left_out() {
        let say = || {
            tracing::error!("an error");
            tracing::warn!("a warning");
            tracing::info!("an info");
            tracing::debug!("a detail");
        };
        let text = logged(LogLevel::Warn, LogFormat::Text, say);
        assert!(
            text.contains("an error") && text.contains("a warning") && !text.contains("an info"),
            "{text}"
        );
        let text = logged(LogLevel::Debug, LogFormat::Text, say);
        assert_eq!(text.lines().count(), 4);
        assert!(!text.contains('\u{1b}'), "no colours without a terminal");
    }

    #[test]
    fn libraries_are_heard_when_something_is_wrong() {
        let say = || {
            tracing::debug!(target: "h2::codec", "a frame");
            tracing::warn!(target: "hyper", "a broken pipe");
        };
        let text = logged(LogLevel::Debug, LogFormat::Text, say);
        assert!(!text.contains("a frame") && text.contains("a broken pipe"), "{text}");
        assert!(logged(LogLevel::Trace, LogFormat::Text, say).contains("a frame"));
        assert!(!logged(LogLevel::Error, LogFormat::Text, say).contains("a broken pipe"));
    }
}
