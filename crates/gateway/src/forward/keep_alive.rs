//! How long an upstream keeps a connection without a request: what its `Keep-Alive: timeout=N` says.
//!
//! No RFC of HTTP/1.1 defines the field, but nginx, Apache, Node.js and others send it. A connection is given up a
//! little sooner, so that a request is not on its way when the upstream closes: what cannot be sent twice would be lost.

use std::time::Duration;

use crate::bounds::{POOL_IDLE_MARGIN, POOL_IDLE_TIME, POOL_IDLE_TIME_MAX};

/// How long a connection may be kept of which the upstream says this; none if it says nothing.
pub(crate) fn idle_time<'v>(values: impl IntoIterator<Item = &'v [u8]>) -> Duration {
    let parameters = values.into_iter().flat_map(|value| value.split(|byte| *byte == b','));
    // If it says two, nobody knows which one it means.
    parameters
        .filter_map(timeout)
        .min()
        .map_or(POOL_IDLE_TIME, |timeout| timeout.saturating_sub(POOL_IDLE_MARGIN).min(POOL_IDLE_TIME_MAX))
}

fn timeout(parameter: &[u8]) -> Option<Duration> {
    let at = parameter.iter().position(|byte| *byte == b'=')?;
    let (name, value) = (parameter.get(..at)?.trim_ascii(), parameter.get(at + 1..)?.trim_ascii());
    let seconds = std::str::from_utf8(value).ok()?.parse().ok()?;
    name.eq_ignore_ascii_case(b"timeout").then(|| Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_kept_for_less_than_the_upstream_says() {
        let seconds =
            |values: &[&'static str]| idle_time(values.iter().map(|value| value.as_bytes())).as_secs();
        for (values, expected) in [
            (&[][..], 4),
            (&["timeout=5"], 4),
            (&["timeout=15, max=100"], 14),
            (&["max=100,Timeout = 3"], 2),
            (&["timeout=1"], 0),
            (&["timeout=0"], 0),
            (&["timeout=20", "timeout=10"], 9),
            (&["timeout=100000"], 60),
            (&["timeout=99999999999999999999"], 4),
            (&["timeout=-1"], 4),
            (&["timeout=soon, 5, =7, max=3"], 4),
        ] {
            assert_eq!(seconds(values), expected, "{values:?}");
        }
    }
}
