//! `Retry-After` (RFC 9110, 10.2.3): whole seconds, or a date.
//!
//! Invariant: what is read is never shorter than what was written, up to [`TOLD_MAX`]. A date is held against
//! the server's own `Date`, so that a clock that is wrong here does no harm, and against this clock where there
//! is none.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::{DATE, RETRY_AFTER};

use crate::bounds::TOLD_MAX;

/// How long the server asks to wait; none if it does not, or not in a way that can be read.
pub(crate) fn told(headers: &HeaderMap, wall_now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More than fits is more than anybody waits.
        let seconds = Duration::from_secs(text.parse().unwrap_or(u64::MAX));
        return (!text.is_empty()).then(|| seconds.min(TOLD_MAX));
    }
    let until = httpdate::parse_http_date(text).ok()?;
    Some(until.duration_since(server_now(headers, wall_now)).unwrap_or_default().min(TOLD_MAX))
}

/// What time it is for the server.
pub(crate) fn server_now(headers: &HeaderMap, wall_now: SystemTime) -> SystemTime {
    let date = headers.get(DATE).and_then(|date| httpdate::parse_http_date(date.to_str().ok()?).ok());
    date.unwrap_or(wall_now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(retry_after: &str, date: Option<&str>) -> Option<u64> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, retry_after.parse().unwrap());
        if let Some(date) = date {
            headers.insert(DATE, date.parse().unwrap());
        }
        // Sun, 06 Nov 1994 08:49:37 GMT.
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        told(&headers, now).map(|span| span.as_secs())
    }

    #[test]
    fn years_are_a_mistake() {
        for far in ["86401", "315360000", "99999999999999999999", "Fri, 06 Nov 2054 08:49:37 GMT"] {
            assert_eq!(read(far, None), Some(TOLD_MAX.as_secs()), "{far}");
        }
    }

    #[test]
    fn seconds_and_every_form_of_a_date_are_read() {
        assert_eq!(read("120", None), Some(120));
        assert_eq!(read(" 0 ", None), Some(0));
        assert_eq!(read("86399", None), Some(86_399));
        assert_eq!(read("Sun, 06 Nov 1994 08:50:37 GMT", None), Some(60));
        assert_eq!(read("Sunday, 06-Nov-94 08:50:37 GMT", None), Some(60));
        assert_eq!(read("Sun Nov  6 08:50:37 1994", None), Some(60));
        assert_eq!(read("Sun, 06 Nov 1994 08:49:00 GMT", None), Some(0));
        // The server's clock is an hour ahead of this one.
        let date = Some("Sun, 06 Nov 1994 09:49:37 GMT");
        assert_eq!(read("Sun, 06 Nov 1994 09:50:07 GMT", date), Some(30));
        for wrong in ["", "soon", "-1", "1.5", "1 s", "+1"] {
            assert_eq!(read(wrong, None), None, "{wrong:?}");
        }
    }
}
