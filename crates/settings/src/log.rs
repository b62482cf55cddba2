//! What is logged, and how.

use crate::go_syntax::choice;
use crate::rows;
use crate::settings_reader::SettingsReader;

/// What is logged, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSettings {
    /// From which level on.
    pub level: LogLevel,
    /// In which form.
    pub format: LogFormat,
}

/// From which level on something is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// What failed.
    Error,
    /// What deserves a look.
    Warn,
    /// What happened.
    Info,
    /// What went on inside.
    Debug,
    /// Everything.
    Trace,
}

/// The form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

pub(crate) fn read(reader: &mut SettingsReader<'_>) -> LogSettings {
    LogSettings { level: reader.get(&rows::LOG_LEVEL), format: reader.get(&rows::LOG_FORMAT) }
}

pub(crate) fn level(text: &str) -> Result<LogLevel, String> {
    // The reference has levels that we do not.
    if ["panic", "fatal"].iter().any(|word| word.eq_ignore_ascii_case(text)) {
        return Ok(LogLevel::Error);
    }
    if text.eq_ignore_ascii_case("warning") {
        return Ok(LogLevel::Warn);
    }
    let words = [
        ("trace", LogLevel::Trace),
        ("debug", LogLevel::Debug),
        ("info", LogLevel::Info),
        ("warn", LogLevel::Warn),
        ("error", LogLevel::Error),
    ];
    choice(text, "is not a level", &words)
}

pub(crate) fn format(text: &str) -> Result<LogFormat, String> {
    choice(text, "is not a form of logs", &[("text", LogFormat::Text), ("json", LogFormat::Json)])
}
