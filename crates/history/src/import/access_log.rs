//! Lines of access logs, in the common and the combined log format.
//!
//! Before [`super`]: a line is a time and a request target. What comes after the
//! request, such as status and referrer, makes no difference.

use jiff::civil::date;
use jiff::tz::Offset;

/// What a line says.
///
/// ```
/// let line = r#"h - - [01/Aug/1995:00:00:01 -0400] "GET /a?b HTTP/1.0" 200 6245"#;
/// let line = tollgate_history::import::AccessLogLine::parse(line).unwrap();
/// assert_eq!((line.second, line.target), (807_249_601, "/a?b"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessLogLine<'a> {
    /// When, in seconds since the epoch.
    pub second: u64,
    /// What was asked for, as the client wrote it.
    pub target: &'a str,
}

impl<'a> AccessLogLine<'a> {
    /// What a line says; none if it is in neither format.
    pub fn parse(line: &'a str) -> Option<Self> {
        let (_, rest) = line.split_once(" [")?;
        let (time, rest) = rest.split_once("] \"")?;
        let request = rest.get(..end_of_quoted(rest)?)?;
        Some(Self { second: second(time)?, target: target(request)? })
    }
}

/// Where the quoted text ends. A backslash escapes a quote; old servers wrote none, so
/// a quote must also be followed by the status.
fn end_of_quoted(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' if !is_escaped && is_end(text.get(at + 1..)?) => return Some(at),
            b'\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    None
}

/// After the request come its status and its size, or the line ends.
fn is_end(rest: &str) -> bool {
    let rest = rest.trim_start_matches(' ');
    rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_digit() || c == '-')
}

/// `GET /path HTTP/1.1`, or without the last part, as HTTP/0.9 was.
fn target(request: &str) -> Option<&str> {
    let (method, rest) = request.trim().split_once(' ')?;
    if method.is_empty()
        || !method.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_' || byte == b'-')
    {
        return None;
    }
    let target = match rest.rsplit_once(' ') {
        Some((target, version)) if version.starts_with("HTTP/") => target,
        _ => rest,
    };
    let target = target.trim();
    (!target.is_empty() && !target.starts_with("HTTP/")).then_some(target)
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// `01/Aug/1995:00:00:01 -0400` as seconds since the epoch.
fn second(time: &str) -> Option<u64> {
    let (local, zone) = time.split_once(' ')?;
    let mut parts = local.splitn(6, ['/', ':']);
    let mut next = || parts.next();
    let day = next()?.parse().ok()?;
    let name = next()?;
    let month = (1_i8..).zip(MONTHS).find(|(_, month)| month.eq_ignore_ascii_case(name))?.0;
    let year = next()?.parse().ok()?;
    let (hour, minute, second) = (next()?.parse().ok()?, next()?.parse().ok()?, next()?.parse().ok()?);
    // `date` and `at` refuse what the calendar does not have by panicking.
    let day = jiff::civil::Date::new(year, month, day).ok()?;
    let clock = jiff::civil::Time::new(hour, minute, second, 0).ok()?;
    let local = day.to_datetime(clock);
    let offset = offset_s(zone)?;
    let since = local.duration_since(date(1970, 1, 1).at(0, 0, 0, 0)).as_secs();
    Offset::from_seconds(offset).ok()?;
    u64::try_from(since - i64::from(offset)).ok()
}

/// `-0400` in seconds.
fn offset_s(zone: &str) -> Option<i32> {
    let (sign, digits) = zone.split_at_checked(1)?;
    if digits.len() != 4 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: i32 = digits.parse().ok()?;
    let seconds = (number / 100) * 3_600 + (number % 100) * 60;
    match sign {
        "+" => Some(seconds),
        "-" => Some(-seconds),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target_of(request: &str) -> Option<String> {
        let line = format!("h - u [10/Oct/2000:13:55:36 -0700] {request} 200 2326");
        AccessLogLine::parse(&line).map(|line| line.target.to_owned())
    }

    #[test]
    fn both_formats_are_read() {
        let common =
            r#"127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326"#;
        let combined =
            format!(r#"{common} "http://www.example.com/start.html" "Mozilla/4.08 [en] (Win98; I ;Nav)""#);
        let expected = AccessLogLine { second: 971_211_336, target: "/apache_pb.gif" };
        assert_eq!(AccessLogLine::parse(common), Some(expected));
        assert_eq!(AccessLogLine::parse(&combined), Some(expected));
    }

    #[test]
    fn requests_are_read_as_servers_write_them() {
        assert_eq!(target_of(r#""GET /a b HTTP/1.1""#).as_deref(), Some("/a b"));
        assert_eq!(target_of(r#""GET /a""#).as_deref(), Some("/a"));
        assert_eq!(target_of(r#""GET /\"x\" HTTP/1.1""#).as_deref(), Some(r#"/\"x\""#));
        assert_eq!(target_of(r#""GET /"x" HTTP/1.1""#).as_deref(), Some(r#"/"x""#));
        assert_eq!(target_of(r#""-""#), None);
        assert_eq!(target_of(r#""\x16\x03\x01""#), None);
        assert_eq!(target_of(r#""GET HTTP/1.1""#), None);
    }

    #[test]
    fn wrong_times_are_refused_and_offsets_kept() {
        let second = |time: &str| {
            AccessLogLine::parse(&format!("h - - [{time}] \"GET / HTTP/1.0\" 200 1")).map(|line| line.second)
        };
        assert_eq!(second("01/Jan/1970:01:00:00 +0100"), Some(0));
        for time in [
            "32/Jan/2000:00:00:00 +0000",
            "01/Foo/2000:00:00:00 +0000",
            "01/Jan/2000:24:00:00 +0000",
            "01/Jan/2000:00:00:00",
            "01/Jan/2000:00:00:00 0000",
            "01/Jan/1960:00:00:00 +0000",
            "",
            "01/Jan/2000:00:00:00 +9900",
        ] {
            assert_eq!(second(time), None, "{time}");
        }
        assert_eq!(AccessLogLine::parse(""), None);
        assert_eq!(AccessLogLine::parse("2026-01-01 GET /"), None);
    }
}
