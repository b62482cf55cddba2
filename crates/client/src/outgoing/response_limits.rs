//! What a response says about limits, in every usual form.
//!
//! | field | form |
//! |---|---|
//! | `Retry-After` | seconds, or a date |
//! | `RateLimit`, `RateLimit-Policy` | `"name";r=5;t=30`, drafts 8 to 11 of the IETF |
//! | `RateLimit` | `limit=100, remaining=5, reset=30`, draft 7 |
//! | `RateLimit-Limit`, `-Remaining`, `-Reset` | drafts before that |
//! | `X-RateLimit-…`, `X-Rate-Limit-…` | many; `-Reset` is a span, or a time in seconds or milliseconds since 1970 |
//!
//! Invariants: a field that cannot be read is as good as none; of several forms the first in the table counts.
//!
//! Deliberately not here: bodies, and quotas of bytes or of concurrent requests.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::AGE;

use crate::bounds::TOLD_MAX;
use crate::retry_after;

/// What a response says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ResponseLimits {
    /// When to come again.
    pub(super) retry_after: Option<Duration>,
    pub(super) quotas: Vec<QuotaLeft>,
}

/// What is left of one quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QuotaLeft {
    pub(super) remaining: u64,
    /// For how long to make do with it.
    pub(super) reset: Duration,
    /// What there is in all, if it is known.
    pub(super) limit: Option<u64>,
}

impl ResponseLimits {
    pub(super) fn read(headers: &HeaderMap, wall_now: SystemTime) -> Self {
        let retry_after = retry_after::told(headers, wall_now);
        // A response out of a cache tells about another time.
        if text(headers, AGE.as_str()).is_some_and(|age| age.parse() != Ok(0_u64)) {
            return Self { retry_after, quotas: Vec::new() };
        }
        let server_now = retry_after::server_now(headers, wall_now);
        let quotas = ratelimit_field(headers)
            .or_else(|| triple(headers, "ratelimit-", server_now))
            .or_else(|| triple(headers, "x-ratelimit-", server_now))
            .or_else(|| triple(headers, "x-rate-limit-", server_now));
        Self { retry_after, quotas: quotas.unwrap_or_default() }
    }

    /// How long a request that was refused has to wait, as far as that is said, up to [`TOLD_MAX`].
    pub(super) fn refused_for(&self) -> Option<Duration> {
        let empty = self.quotas.iter().filter(|quota| quota.remaining == 0).map(|quota| quota.reset);
        self.retry_after.or_else(|| empty.max().map(|reset| reset.min(TOLD_MAX)))
    }
}

/// All values of a field in one, as RFC 9110 says.
fn joined(headers: &HeaderMap, name: &str) -> Option<String> {
    let values: Option<Vec<&str>> = headers.get_all(name).iter().map(|value| value.to_str().ok()).collect();
    values.filter(|values| !values.is_empty()).map(|values| values.join(","))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// The field `RateLimit`, of draft 7 or later.
fn ratelimit_field(headers: &HeaderMap) -> Option<Vec<QuotaLeft>> {
    let field = joined(headers, "ratelimit")?;
    let members = members(&field)?;
    if members.iter().all(|member| member.name.is_none()) {
        return draft_7(&members);
    }
    let policies = joined(headers, "ratelimit-policy");
    let policies = policies.as_deref().and_then(self::members).unwrap_or_default();
    // The outer none cannot be read, the inner is a quota of something else.
    let quota = |member: &Member<'_>| {
        let policy = policies.iter().find(|policy| policy.name.is_some() && policy.name == member.name);
        let unit = policy.and_then(|policy| policy.parameter("qu"));
        if unit.is_some_and(|unit| !matches!(unit, "\"requests\"" | "\"request\"")) {
            return Some(None);
        }
        let limit = policy.and_then(|policy| policy.parameter("q")?.parse().ok());
        let reset = Duration::from_secs(member.parameter("t")?.parse().ok()?);
        Some(Some(QuotaLeft { remaining: member.parameter("r")?.parse().ok()?, reset, limit }))
    };
    let quotas: Vec<Option<QuotaLeft>> = members.iter().filter_map(quota).collect();
    (!quotas.is_empty()).then(|| quotas.into_iter().flatten().collect())
}

/// `limit=100, remaining=50, reset=30`.
fn draft_7(members: &[Member<'_>]) -> Option<Vec<QuotaLeft>> {
    let value = |name: &str| {
        let found = members.iter().flat_map(|member| &member.parameters).find(|(own, _)| *own == name);
        found.and_then(|(_, value)| value.parse::<u64>().ok())
    };
    let (remaining, reset) = (value("remaining")?, Duration::from_secs(value("reset")?));
    Some(vec![QuotaLeft { remaining, reset, limit: value("limit") }])
}

/// Three fields with this beginning.
fn triple(headers: &HeaderMap, prefix: &str, server_now: SystemTime) -> Option<Vec<QuotaLeft>> {
    let field = |name: &str| text(headers, &format!("{prefix}{name}"));
    let remaining = field("remaining")?.parse().ok()?;
    let reset = field("reset").or_else(|| field("retry-after"))?.parse().ok()?;
    // `10, 10;w=1` is what Envoy writes.
    let limit = field("limit").and_then(|limit| limit.split([',', ';']).next()?.trim().parse().ok());
    Some(vec![QuotaLeft { remaining, reset: span(reset, server_now), limit }])
}

/// No window is so long that its seconds could be taken for the time of day.
const EPOCH_SECONDS: u64 = 1_000_000_000;
const EPOCH_MILLIS: u64 = 1_000_000_000_000;

/// A span in seconds, or the span up to a time in seconds or milliseconds since 1970.
fn span(reset: u64, server_now: SystemTime) -> Duration {
    let since_epoch = match reset {
        EPOCH_MILLIS.. => Duration::from_millis(reset),
        EPOCH_SECONDS.. => Duration::from_secs(reset),
        _ => return Duration::from_secs(reset),
    };
    let now = server_now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since_epoch.saturating_sub(now)
}

/// One member of a list of RFC 9651: a String or Token with parameters, or only parameters.
#[derive(Debug, PartialEq, Eq)]
struct Member<'a> {
    name: Option<&'a str>,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Member<'a> {
    fn parameter(&self, name: &str) -> Option<&'a str> {
        // Of a parameter that is there twice the last counts.
        self.parameters.iter().rfind(|(own, _)| *own == name).map(|(_, value)| *value)
    }
}

/// The members of a list, none if a quote is not closed.
fn members(field: &str) -> Option<Vec<Member<'_>>> {
    split(field, ',')?.into_iter().filter(|text| !text.is_empty()).map(member).collect()
}

fn member(text: &str) -> Option<Member<'_>> {
    let mut parts = split(text, ';')?.into_iter();
    let first = parts.next()?;
    let (name, first) = match first.split_once('=') {
        Some(pair) if !first.starts_with('"') => (None, Some(pair)),
        _ => (Some(first), None),
    };
    let rest = parts.map(|part| part.split_once('=').unwrap_or((part, "")));
    Some(Member { name, parameters: first.into_iter().chain(rest).collect() })
}

/// Splits outside of quotes, and trims; none if a quote is not closed.
fn split(text: &str, at: char) -> Option<Vec<&str>> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let parts = text
        .split(|character| {
            match character {
                _ if is_escaped => is_escaped = false,
                '\\' if is_quoted => is_escaped = true,
                '"' => is_quoted = !is_quoted,
                _ => return character == at && !is_quoted,
            }
            false
        })
        .map(str::trim)
        .collect();
    (!is_quoted).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-01-01T00:00:00Z.
    const NOW_S: u64 = 1_767_225_600;

    fn read(lines: &[(&'static str, &str)]) -> ResponseLimits {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        ResponseLimits::read(&headers, SystemTime::UNIX_EPOCH + Duration::from_secs(NOW_S))
    }

    fn quotas(lines: &[(&'static str, &str)]) -> Vec<(u64, u64, Option<u64>)> {
        let read = read(lines).quotas;
        read.iter().map(|quota| (quota.remaining, quota.reset.as_secs(), quota.limit)).collect()
    }

    #[test]
    fn every_draft_of_the_ietf_is_read() {
        let policy =
            r#""burst";q=100;w=60;pk=:dXNlcjo0Mg==:, "tokens";q=50000;w=3600;tollgate-unit="llm-tokens""#;
        let left = r#""burst";r=37;t=60;pk=:dXNlcjo0Mg==:, "tokens";r=41250;t=1804"#;
        let both = [(37, 60, Some(100)), (41_250, 1_804, Some(50_000))];
        assert_eq!(quotas(&[("ratelimit-policy", policy), ("ratelimit", left)]), both);
        // Several lines are one list.
        let lines = [("ratelimit", r#""burst";r=37;t=60"#), ("ratelimit", r#""tokens";r=1;t=2"#)];
        assert_eq!(quotas(&lines), [(37, 60, None), (1, 2, None)]);
        assert_eq!(quotas(&[("ratelimit", r#""a\",;b";t=7;r=0"#)]), [(0, 7, None)]);
        assert_eq!(quotas(&[("ratelimit", "default;r=50;t=30")]), [(50, 30, None)]);
        assert_eq!(quotas(&[("ratelimit", "limit=100, remaining=50, reset=30")]), [(50, 30, Some(100))]);
        let draft_6 = [
            ("ratelimit-limit", "100, 100;w=60"),
            ("ratelimit-remaining", "50"),
            ("ratelimit-reset", "30"),
            ("ratelimit-policy", "100;w=60"),
        ];
        assert_eq!(quotas(&draft_6), [(50, 30, Some(100))]);
    }

    #[test]
    fn the_forms_of_github_envoy_twitter_and_tollgate_are_read() {
        let of = |prefix: &str, limit: &str, reset: &str| {
            let mut headers = HeaderMap::new();
            for (name, value) in [("limit", limit), ("remaining", "5"), ("reset", reset)] {
                let name: http::HeaderName = format!("{prefix}{name}").parse().unwrap();
                headers.insert(name, value.parse().unwrap());
            }
            let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW_S);
            let quota = ResponseLimits::read(&headers, now).quotas[0];
            (quota.remaining, quota.reset.as_secs(), quota.limit)
        };
        assert_eq!(of("x-ratelimit-", "60", &(NOW_S + 90).to_string()), (5, 90, Some(60)));
        assert_eq!(of("x-ratelimit-", "60", &((NOW_S + 90) * 1_000).to_string()), (5, 90, Some(60)));
        assert_eq!(of("x-ratelimit-", "60", &(NOW_S - 90).to_string()), (5, 0, Some(60)));
        assert_eq!(of("x-ratelimit-", r#"10, 10;w=1;name="a""#, "1"), (5, 1, Some(10)));
        assert_eq!(of("x-rate-limit-", "15", &(NOW_S + 900).to_string()), (5, 900, Some(15)));
        let ours =
            [("x-ratelimit-limit", "10"), ("x-ratelimit-remaining", "0"), ("x-ratelimit-retry-after", "12")];
        assert_eq!(quotas(&ours), [(0, 12, Some(10))]);
    }

    #[test]
    fn a_refusal_waits_as_retry_after_says_or_else_for_the_empty_quotas() {
        let refused = |lines: &[(&'static str, &str)]| read(lines).refused_for().map(|span| span.as_secs());
        let left = r#""a";r=0;t=5, "b";r=0;t=9, "c";r=1;t=99"#;
        assert_eq!(refused(&[("ratelimit", left)]), Some(9));
        assert_eq!(refused(&[("ratelimit", left), ("retry-after", "12")]), Some(12));
        assert_eq!(refused(&[("ratelimit", left), ("retry-after", "3")]), Some(3));
        assert_eq!(refused(&[("ratelimit", left), ("retry-after", "soon")]), Some(9));
        assert_eq!(refused(&[]), None);
        // A quota may be of a month, but nobody is left alone for so long.
        let month = r#""a";r=0;t=2592000"#;
        assert_eq!(quotas(&[("ratelimit", month)]), [(0, 2_592_000, None)]);
        assert_eq!(refused(&[("ratelimit", month)]), Some(TOLD_MAX.as_secs()));
    }

    #[test]
    fn what_cannot_be_read_is_as_good_as_none() {
        for field in [
            "",
            "x",
            "\"a",
            "\"a\";r=-1;t=5",
            "\"a\";r=1",
            "\"a\";t=1",
            "remaining=5",
            "r=1;t=2",
            "\"a\";r=1;t=x",
        ] {
            assert_eq!(quotas(&[("ratelimit", field)]), [], "{field}");
            let both = [("ratelimit", field), ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "12")];
            assert_eq!(quotas(&both), [(0, 12, None)], "{field}");
        }
        let bytes = [("ratelimit-policy", r#""b";q=9;qu="content-bytes""#), ("ratelimit", r#""b";r=1;t=9"#)];
        assert_eq!(quotas(&bytes), []);
        // What is said about bytes can be read, so the next form does not count.
        let [policy, left] = bytes;
        let after = [policy, left, ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "12")];
        assert_eq!(quotas(&after), []);
        let cached = [("age", "5"), ("ratelimit", r#""a";r=0;t=9"#)];
        assert_eq!(quotas(&cached), []);
        assert_eq!(quotas(&[("age", "0"), ("ratelimit", r#""a";r=0;t=9"#)]), [(0, 9, None)]);
    }
}
