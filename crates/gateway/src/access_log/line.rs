//! A record → a line.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;
use tollgate_core::Time;

use super::AccessRecord;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// What stands for what is not known.
const UNKNOWN: &str = "-";

/// A line as Apache and nginx have it.
pub(super) fn combined(record: &AccessRecord) -> Vec<u8> {
    let mut line = String::with_capacity(256);
    match record.client {
        Some(client) => put(&mut line, format_args!("{client}")),
        None => line.push_str(UNKNOWN),
    }
    let CalendarTime { year, month, day, hour, minute, second, .. } = CalendarTime::of(record.at);
    let month = usize::try_from(month).ok().and_then(|month| MONTHS.get(month - 1)).unwrap_or(&UNKNOWN);
    put(&mut line, format_args!(" - - [{day:02}/{month}/{year}:{hour:02}:{minute:02}:{second:02} +0000] \""));
    match &record.request_line {
        Some(own) => {
            escape(&mut line, &own.method);
            line.push(' ');
            escape(&mut line, &own.target);
            put(&mut line, format_args!(" {}", own.version));
        }
        None => line.push_str(UNKNOWN),
    }
    put(&mut line, format_args!("\" {} {} \"", record.status, record.bytes));
    escape(&mut line, record.referer.as_deref().unwrap_or(UNKNOWN));
    line.push_str("\" \"");
    escape(&mut line, record.agent.as_deref().unwrap_or(UNKNOWN));
    line.push_str("\"\n");
    line.into_bytes()
}

/// Nothing that a client sends ends a text or a line, or reaches a terminal.
fn escape(line: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => put(line, format_args!("\\x{byte:02X}")),
            b' '..=b'~' => line.push(char::from(byte)),
            _ => put(line, format_args!("\\x{byte:02X}")),
        }
    }
}

/// A line of JSON.
#[derive(Serialize)]
struct JsonLine<'a> {
    time: String,
    client: Option<String>,
    method: Option<&'a str>,
    target: Option<&'a str>,
    version: Option<&'a str>,
    host: Option<&'a str>,
    status: u16,
    bytes: u64,
    referer: Option<&'a str>,
    user_agent: Option<&'a str>,
    verdict: Option<&'a str>,
    outcome: Option<&'a str>,
    rule: Option<&'a str>,
    wait_ms: u64,
    upstream_ms: Option<u64>,
    total_ms: u64,
}

/// A line of JSON.
pub(super) fn json(record: &AccessRecord) -> Vec<u8> {
    let own = record.request_line.as_ref();
    let CalendarTime { year, month, day, hour, minute, second, millis } = CalendarTime::of(record.at);
    let line = JsonLine {
        time: format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z"),
        client: record.client.map(|client| client.to_string()),
        method: own.map(|own| own.method.as_str()),
        target: own.map(|own| own.target.as_str()),
        version: own.map(|own| own.version),
        host: record.host.as_deref(),
        status: record.status,
        bytes: record.bytes,
        referer: record.referer.as_deref(),
        user_agent: record.agent.as_deref(),
        verdict: record.decided.map(|(verdict, _)| verdict.word()),
        outcome: record.decided.and_then(|(_, outcome)| outcome).map(|outcome| outcome.name()),
        rule: record.rule.as_deref(),
        wait_ms: millis_of(record.waited),
        upstream_ms: record.upstream.map(millis_of),
        total_ms: millis_of(record.start.elapsed()),
    };
    let mut line = serde_json::to_vec(&line).expect("texts and numbers are always JSON");
    line.push(b'\n');
    line
}

fn millis_of(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn put(line: &mut String, text: std::fmt::Arguments<'_>) {
    line.write_fmt(text).expect("a string takes everything");
}

/// A time in UTC.
#[derive(Debug, PartialEq, Eq)]
struct CalendarTime {
    year: u64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
    millis: u64,
}

impl CalendarTime {
    /// By Howard Hinnant's `civil_from_days`, for times from 1970 on.
    fn of(time: Time) -> Self {
        let (seconds, millis) = (time.get() / 1_000_000, time.get() / 1_000 % 1_000);
        let days = seconds / 86_400 + 719_468;
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        // Counted from March.
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        Self {
            year: year_of_era + era * 400 + u64::from(month <= 2),
            month,
            day,
            hour: seconds / 3_600 % 24,
            minute: seconds / 60 % 60,
            second: seconds % 60,
            millis,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_that_of_the_calendar() {
        let shown = |seconds| {
            let CalendarTime { year, month, day, hour, minute, second, .. } =
                CalendarTime::of(Time::from_secs(seconds));
            format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
        };
        // As `date -u -d @…` says.
        assert_eq!(shown(0), "1970-01-01 00:00:00");
        assert_eq!(shown(951_782_399), "2000-02-28 23:59:59");
        assert_eq!(shown(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(shown(1_709_251_199), "2024-02-29 23:59:59");
        assert_eq!(shown(1_709_251_200), "2024-03-01 00:00:00");
        assert_eq!(shown(1_795_000_000), "2026-11-18 11:06:40");
        assert_eq!(shown(4_107_542_400), "2100-03-01 00:00:00");
    }

    #[test]
    fn nothing_ends_a_text_but_its_end() {
        let mut line = String::new();
        escape(&mut line, "a \"b\"\\ \r\n\u{1b}[31m \u{fc}");
        assert_eq!(line, r"a \x22b\x22\x5C \x0D\x0A\x1B[31m \xC3\xBC");
    }
}
