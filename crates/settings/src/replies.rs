//! What replies say, and what callers learn about their limits.

use tollgate_http::ResponseSettings;

use crate::rows;
use crate::settings_reader::SettingsReader;
use crate::values::EnvoyPassThrough;

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
