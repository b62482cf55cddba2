//! What replies say, and what callers learn about their limits.

use std::time::Duration;

use tollgate_http::{RateLimitFields, ResponseSettings};

use crate::go_syntax::{choice, duration, ratio};
use crate::rows;
use crate::settings_reader::SettingsReader;

/// Who is told to come back later than this after the time has given up.
const JITTER_MAX: Duration = Duration::from_secs(3_600);

/// How requests are answered.
#[derive(Debug, Clone)]
pub struct ReplySettings {
    /// Every request is told that it may pass.
    pub shadow: bool,
    /// Every rule is a quota.
    pub quota: bool,
    /// Replies carry dynamic metadata.
    pub dynamic_metadata: bool,
    /// Replies carry these headers; none if not asked for.
    pub headers: Option<HeaderNames>,
    /// From this part of a limit on a request counts as near it.
    pub near_limit_ratio: f32,
    /// What callers learn about their limits.
    pub responses: ResponseSettings,
    /// What of it goes through Envoy.
    pub through_envoy: EnvoyPassThrough,
}

/// What Envoy is asked to tell the caller, beyond what the reference tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnvoyPassThrough {
    /// Nothing: replies are those of envoyproxy/ratelimit.
    Off,
    /// The headers.
    Headers,
    /// The headers, and the body of a denial.
    All,
}

/// The names of the headers that replies carry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderNames {
    /// How many are allowed.
    pub limit: String,
    /// How many are left.
    pub remaining: String,
    /// In how many seconds it starts again.
    pub reset: String,
}

pub(crate) fn read(reader: &mut SettingsReader<'_>) -> ReplySettings {
    let has_headers = reader.get(&rows::LIMIT_RESPONSE_HEADERS_ENABLED);
    let names = HeaderNames {
        limit: reader.get(&rows::LIMIT_LIMIT_HEADER),
        remaining: reader.get(&rows::LIMIT_REMAINING_HEADER),
        reset: reader.get(&rows::LIMIT_RESET_HEADER),
    };
    ReplySettings {
        shadow: reader.get(&rows::SHADOW_MODE),
        quota: reader.get(&rows::QUOTA_MODE),
        dynamic_metadata: reader.get(&rows::RESPONSE_DYNAMIC_METADATA),
        headers: has_headers.then_some(names),
        near_limit_ratio: reader.get(&rows::NEAR_LIMIT_RATIO),
        responses: ResponseSettings {
            ratelimit_fields: reader.get(&rows::RATELIMIT_HEADERS),
            partition_keys: reader.get(&rows::PARTITION_KEYS),
            retry_after_jitter: reader.get(&rows::RETRY_AFTER_JITTER),
        },
        through_envoy: reader.get(&rows::TELL_THROUGH_ENVOY),
    }
}

#[expect(clippy::as_conversions, reason = "the reference compares in 32 bits, and so must we")]
pub(crate) fn near_limit_ratio(text: &str) -> Result<f32, String> {
    ratio(text).map(|ratio| ratio as f32)
}

pub(crate) fn header_name(text: &str) -> Result<String, String> {
    if is_header_name(text) {
        Ok(text.to_owned())
    } else {
        Err(format!("'{text}' is not a header name; write letters, digits and dashes"))
    }
}

/// A token in the words of HTTP.
pub(crate) fn is_header_name(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

pub(crate) fn ratelimit_fields(text: &str) -> Result<RateLimitFields, String> {
    let words = [("draft-11", RateLimitFields::Draft11), ("off", RateLimitFields::Off)];
    choice(text, "is not a form of these headers", &words)
}

pub(crate) fn envoy_pass_through(text: &str) -> Result<EnvoyPassThrough, String> {
    let words = [
        ("off", EnvoyPassThrough::Off),
        ("headers", EnvoyPassThrough::Headers),
        ("all", EnvoyPassThrough::All),
    ];
    choice(text, "is not what can go through Envoy", &words)
}

pub(crate) fn retry_after_jitter(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        span if span > JITTER_MAX => Err(format!("'{text}' is too long; write at most 1h")),
        span => Ok(span),
    }
}
