//! How people are told about their limits.

use std::time::Duration;

use crate::reader::Reader;
use crate::{RateLimitFields, ResponseSettings, ThroughEnvoy, go};

/// Who is told to come back later than this after the time has given up.
const JITTER_MAX: Duration = Duration::from_secs(3_600);

pub(super) fn read(reader: &mut Reader<'_>) -> ResponseSettings {
    let fields = |text: &str| match text {
        "draft-11" => Ok(RateLimitFields::Draft11),
        "off" => Ok(RateLimitFields::Off),
        _ => Err(format!("'{text}' is not a form of these headers; write draft-11 or off")),
    };
    let jitter = |text: &str| match go::duration(text) {
        Ok(span) if span > JITTER_MAX => Err(format!("'{text}' is too long; write at most 1h")),
        other => other,
    };
    ResponseSettings {
        ratelimit_fields: reader
            .parsed("TOLLGATE_RATELIMIT_HEADERS", fields)
            .unwrap_or(RateLimitFields::Draft11),
        partition_keys: reader.is_on("TOLLGATE_PARTITION_KEYS"),
        retry_after_jitter: reader.parsed("TOLLGATE_RETRY_AFTER_JITTER", jitter).unwrap_or_default(),
    }
}

pub(super) fn through_envoy(reader: &mut Reader<'_>) -> ThroughEnvoy {
    let envoy = |text: &str| match text {
        "off" => Ok(ThroughEnvoy::Off),
        "headers" => Ok(ThroughEnvoy::Headers),
        "all" => Ok(ThroughEnvoy::All),
        _ => Err(format!("'{text}' is not what can go through Envoy; write off, headers or all")),
    };
    reader.parsed("TOLLGATE_TELL_THROUGH_ENVOY", envoy).unwrap_or(ThroughEnvoy::Off)
}
