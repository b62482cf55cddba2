//! How proxies are answered that ask before they forward.

use std::time::Duration;

use crate::go_syntax::{choice, duration};
use crate::rows;
use crate::settings_reader::SettingsReader;

/// Half of what a proxy waits for an answer by default, at most, and less than
/// a server that is to stop waits for its callers.
const HOLD_MAX: Duration = Duration::from_secs(20);

/// How proxies are answered that ask before they forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForwardAuthSettings {
    /// The status of a denial: 429, or 403 where the proxy passes on no other.
    pub deny_status: u16,
    /// A request that is to wait is held for at most this long.
    pub max_hold: Duration,
    /// Where the request that is asked about is described.
    pub request_from: RequestFrom,
}

/// Where the request that a proxy asks about is described.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestFrom {
    /// Whichever of the headers below is there, or else in the question itself.
    Auto,
    /// In `X-Forwarded-Method`, `-Uri` and `-Host`, as Traefik and Caddy do.
    XForwarded,
    /// In `X-Original-Method` and `-URI` or `-URL`, as is usual with nginx.
    XOriginal,
    /// In the question itself, whose path follows `/v1/authz`, as Envoy does.
    Itself,
}

pub(crate) fn read(reader: &mut SettingsReader<'_>) -> ForwardAuthSettings {
    ForwardAuthSettings {
        deny_status: reader.get(&rows::FORWARD_AUTH_DENY_STATUS),
        max_hold: reader.get(&rows::FORWARD_AUTH_MAX_HOLD),
        request_from: reader.get(&rows::FORWARD_AUTH_REQUEST_FROM),
    }
}

pub(crate) fn deny_status(text: &str) -> Result<u16, String> {
    match text {
        "429" => Ok(429),
        "403" => Ok(403),
        _ => Err(format!("'{text}' is no status for a denial; write 429, or 403 for nginx")),
    }
}

pub(crate) fn max_hold(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        hold if hold > HOLD_MAX => Err(format!("'{text}' is too long to hold a request; write 20s or less")),
        hold => Ok(hold),
    }
}

pub(crate) fn request_from(text: &str) -> Result<RequestFrom, String> {
    let words = [
        ("auto", RequestFrom::Auto),
        ("x-forwarded", RequestFrom::XForwarded),
        ("x-original", RequestFrom::XOriginal),
        ("itself", RequestFrom::Itself),
    ];
    choice(text, "is unknown", &words)
}
